package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// Exit codes of ab and aa, besides those of a verdict.
const exitCannotJudge = 2

// abOptions are the flags of matrix ab and matrix aa as given.
type abOptions struct {
	aa               bool
	base, head       string
	baseSet, headSet []string
	bin              string
	gate             string
	grids, only      []string
	looks            []int
	pairs            int // aa: pairs in all
	canary           string
	budget           time.Duration
	timeout          time.Duration
	cooldown         time.Duration
	sentinel         time.Duration
	seed             uint64
	sessionDir       string
	results          string
	markdown         string
	noWait           bool
	dryRun           bool
	bisectExit       bool

	slowBy float64 // --canary as a share
	flags  *pflag.FlagSet
	args   []string
}

func (o *abOptions) name() string {
	if o.aa {
		return gate.KindAA
	}
	return gate.KindAB
}

func newABFlags(o *abOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet("matrix "+o.name(), pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetOutput(io.Discard)
	if o.aa {
		f.StringVar(&o.base, "base", "", "what both arms are: a commit, or a latencydemo (default: built from this checkout as it is)")
		f.IntVar(&o.pairs, "pairs", 0, "pairs to run, as many gates as fit into them (default: those of the gate's last look)")
	} else {
		f.StringVar(&o.base, "base", "", "a commit, as git names it, or a latencydemo (default: as --bin)")
		f.StringVar(&o.head, "head", "", "the same (default: built from this checkout as it is)")
		f.StringArrayVar(&o.baseSet, "base-set", nil, "settings of base, k=v,…: a factor of the case, broker.KEY, client.KEY, transport.KEY, or env.NAME; repeatable")
		f.StringArrayVar(&o.headSet, "head-set", nil, "settings of head")
	}
	f.StringVar(&o.canary, "canary", "", "slow head by this much, 20%, of one binary: a gate that works fails with 1")
	f.StringVar(&o.bin, "bin", "", "the one latencydemo whose settings are compared (default: built from this checkout as it is)")
	f.StringVar(&o.gate, "gate", "", "YAML file of the gate (default: the built-in one, presets/gate.yml)")
	f.StringArrayVar(&o.grids, "grid", nil, "grid whose cells are judged, in place of the gate's; repeatable")
	f.StringArrayVar(&o.only, "only", nil, "keep the cells with factor=level[,level…]; repeatable")
	f.IntSliceVar(&o.looks, "looks", nil, "pairs at which the gate looks, as 12,20,30 (default: as the gate's file says)")
	f.DurationVar(&o.budget, "budget", 0, "time for everything: ends at the last complete look, which is then inconclusive")
	f.DurationVar(&o.timeout, "timeout", 0, "after which a trial is killed with all its processes (default: 4 times its estimate, at least 2m)")
	f.DurationVar(&o.cooldown, "cooldown", 200*time.Millisecond, "pause before each trial")
	f.DurationVar(&o.sentinel, "sentinel", sentinelTime, "of each probe of the machine beside each trial, CPU and loopback; 0 = none")
	f.Uint64Var(&o.seed, "seed", 0, "of the order (default: a new one, which the session records)")
	f.StringVar(&o.sessionDir, "session-dir", "", "directory of the session (default: a new one in --results)")
	f.StringVar(&o.results, "results", "results", "directory in which sessions lie")
	f.StringVar(&o.markdown, "markdown", "", "file to which the verdict is appended as Markdown, such as $GITHUB_STEP_SUMMARY")
	f.BoolVar(&o.noWait, "no-wait", false, "fail when another measurement is running, instead of waiting")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan, build and run nothing")
	f.BoolVar(&o.bisectExit, "bisect-exit", false, "exit code 125, which git bisect run skips, in place of 2 and 3")
	o.flags = f
	return f
}

func abHelp(aa bool) string {
	text := `matrix ab measures two builds, or two settings of one build, in pairs and judges whether head is worse than base.

usage: matrix ab --base REF|BIN [--head REF|BIN] [flags], or matrix ab BASE [HEAD] [flags]
       matrix ab [--base-set k=v,…] --head-set k=v,… [flags]
       matrix ab --canary 20% [flags]

`
	if aa {
		text = `matrix aa measures one build against itself: how often the gate fails without a cause, and the noise of each metric.

usage: matrix aa [--base REF|BIN] [flags]
       matrix aa --canary 20% [flags]       the same, with a head that is slowed: judged as by matrix ab

`
	}
	return text + newABFlags(&abOptions{aa: aa}).FlagUsages() + `
Each pair is one trial of each arm, back to back, in balanced random order; the first pair of every cell is discarded.
exit codes: 0 pass; 1 a regression; 2 cannot judge; 3 inconclusive
`
}

// parseAB reads the flags strictly.
func parseAB(args []string, aa bool) (*abOptions, error) {
	o := &abOptions{aa: aa, args: args}
	f := newABFlags(o)
	command := "matrix " + o.name()
	if err := parseFlags(f, args, command); err != nil {
		return nil, err
	}
	help := command + " --help lists the flags"
	for i, word := range f.Args() {
		switch {
		case i == 0 && !aa && o.base == "":
			o.base = word
		case i == 1 && !aa && o.head == "":
			o.head = word
		default:
			return nil, usagef("every option starts with --; "+help, "stray word %q", word)
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
		zero bool
	}{{"timeout", o.timeout, false}, {"budget", o.budget, false}, {"cooldown", o.cooldown, true}, {"sentinel", o.sentinel, true}} {
		if f.Changed(d.name) && (d.v < 0 || d.v == 0 && !d.zero) {
			return nil, usagef("durations look like 500ms, 10s, 2h", "--%s %v: want more than 0", d.name, d.v)
		}
	}
	var empty error
	f.Visit(func(fl *pflag.Flag) {
		if fl.Value.String() == "" && empty == nil {
			empty = usagef(help, "--%s is empty", fl.Name)
		}
	})
	if empty != nil {
		return nil, empty
	}
	if f.Changed("pairs") && o.pairs < 1 {
		return nil, usagef("leave it out for the gate's last look", "--pairs %d: want at least 1", o.pairs)
	}
	if o.bin != "" && (o.base != "" || o.head != "") {
		return nil, usagef("--base and --head say what each arm is", "--bin is the one binary of both arms")
	}
	if o.canary != "" {
		share, err := parseShare(o.canary)
		if err != nil {
			return nil, usagef("--canary 20%", "--canary %w", err)
		}
		if !aa && o.base != "" || o.head != "" || len(o.baseSet)+len(o.headSet) > 0 {
			return nil, usagef("leave --base, --head and the settings out", "--canary slows one binary against itself")
		}
		if f.Changed("pairs") {
			return nil, usagef("--looks says how many pairs a gate has", "--pairs is of matrix aa without a canary")
		}
		// Equal arms no longer: it is judged as any gate is.
		o.slowBy, o.aa, o.head = share, false, o.base
	}
	if !aa && o.base == "" && o.head == "" && len(o.baseSet)+len(o.headSet) == 0 && o.slowBy == 0 {
		return nil, usagef("matrix ab --base main, or matrix ab --head-set broker.KEY=VALUE", "nothing to compare: neither --base nor settings are given")
	}
	if !aa && o.base == "" && o.head != "" {
		return nil, usagef("matrix ab --base main --head "+o.head, "--head without --base")
	}
	if !f.Changed("seed") {
		o.seed = rand.Uint64N(1 << 32)
	}
	return o, nil
}

// parseShare reads 20% or 0.2.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x > 0 && x <= 10) {
		return 0, fmt.Errorf("%q: want a share such as 20%%", text)
	}
	return x, nil
}

// experiment is one call of matrix ab or aa.
type experiment struct {
	o      *abOptions
	gate   *gate.Gate
	spec   verdict.Spec
	dir    string
	pairs  int // of the last look, the discarded one not counted
	tests  int
	arms   [2]*arm // base, head
	model  *workload.Model
	orders [][][]string // by cell and pair

	session        *runrecord.Session
	records        []*runrecord.Record
	order          int // of the trials in the session
	stop           stops
	began          time.Time
	stdout, stderr io.Writer
}

func (x *experiment) say(text string) { fmt.Fprintf(x.stderr, "matrix: %s\n", text) }

func abCommand(args []string, aa bool, stdout, stderr io.Writer) int {
	o, err := parseAB(args, aa)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, abHelp(aa))
		return exitValid
	}
	if err != nil {
		return cannot(stderr, err)
	}
	code := experimentCode(o, stdout, stderr)
	if o.bisectExit && code > exitInvalid {
		return bisectSkip
	}
	return code
}

// bisectSkip tells git bisect run that a commit cannot be tested.
const bisectSkip = 125

func experimentCode(o *abOptions, stdout, stderr io.Writer) int {
	x, err := prepareAB(o, time.Now())
	if err != nil {
		return cannot(stderr, err)
	}
	x.stdout, x.stderr = stdout, stderr
	if o.dryRun {
		x.writePlan(stdout)
		return exitValid
	}
	stop, release := watchSignals(x.say)
	defer release()
	x.stop = stop
	code, err := x.run()
	if err != nil {
		return cannot(stderr, err)
	}
	return code
}

// cannot prints why nothing can be judged. Whatever goes wrong in a gate is exit code 2: 1 means a regression.
func cannot(stderr io.Writer, err error) int {
	fail(stderr, err)
	return exitCannotJudge
}

// prepareAB decides everything that can be decided without building.
func prepareAB(o *abOptions, now time.Time) (*experiment, error) {
	g, err := gate.Load(o.gate, now)
	if err != nil {
		return nil, usagef("presets/gate.yml is an example", "%w", err)
	}
	if len(o.grids) > 0 {
		g.Grids = o.grids
	}
	g.Only = append(slices.Clone(g.Only), o.only...)
	x := &experiment{o: o, gate: g, spec: g.Spec}
	if len(o.looks) > 0 {
		x.spec.Looks = o.looks
	}
	if x.spec, err = x.spec.Resolve(); err != nil {
		return nil, usagef("--looks 12,20,30", "%w", err)
	}
	if o.sentinel == 0 {
		x.spec.SentinelOptional = true
	}
	x.pairs = x.spec.Looks[len(x.spec.Looks)-1]
	if o.pairs > 0 {
		if first := x.spec.Looks[0]; o.pairs < first {
			return nil, usagef("more pairs, or earlier looks", "--pairs %d: the first look has %d", o.pairs, first)
		}
		x.pairs = o.pairs
	}
	if err := x.setArms(); err != nil {
		return nil, err
	}
	return x, x.plan()
}

// plan checks that the gate can fail, and fixes the order of everything.
func (x *experiment) plan() error {
	cells := x.arms[0].grid.Cells
	var cases []runrecord.Case
	for i := range cells {
		cases = append(cases, runrecord.Case{Key: cells[i].Case.Key(), Case: cells[i].Case})
	}
	var err error
	if x.tests, err = x.spec.Tests(cases); err != nil {
		return usagef("give the gate cells that it has a metric for: --grid, --only, or metrics in its file", "%w", err)
	}
	if err := x.spec.FeasibleTests(x.tests); err != nil {
		return usagef("more pairs at the last look, fewer looks, or fewer cells", "%w", err)
	}
	x.model = newModel()
	for i := range cells {
		x.orders = append(x.orders, verdict.Orders([]string{verdict.Base, verdict.Head}, x.pairs+1, x.o.seed+uint64(i)))
	}
	if first := x.until(min(x.spec.Looks[0], x.pairs)); x.o.budget > 0 && first > x.o.budget {
		return usagef("a larger --budget, or fewer cells with --only", "budget %v: the first look takes about %s", x.o.budget, about(first))
	}
	if x.o.sessionDir != "" && !x.o.dryRun {
		return vacant(x.o.sessionDir)
	}
	return nil
}

// until estimates how long so many pairs of every cell take, with the discarded one.
func (x *experiment) until(pairs int) time.Duration { return time.Duration(pairs+1) * x.round() }

// round estimates one pair of every cell.
func (x *experiment) round() time.Duration {
	var d time.Duration
	for _, a := range x.arms {
		for i := range a.grid.Cells {
			d += x.o.cooldown + 2*x.o.sentinel + x.model.Trial(&a.grid.Cells[i])
		}
	}
	return d
}

// writePlan says, before anything is built, what it will cost and what it can tell.
func (x *experiment) writePlan(w io.Writer) {
	s := &x.spec
	fmt.Fprintf(w, "gate       %s: alpha %v, fails beyond %v %%, passes within %v %%, %d tests\n", x.gate.Name, s.Alpha, 100*s.FailMargin, 100*s.PassMargin, x.tests)
	for _, a := range x.arms {
		fmt.Fprintf(w, "%-10s %s\n", a.name, a.text())
	}
	cells := x.arms[0].grid.Cells
	fmt.Fprintf(w, "cells      %d\n", len(cells))
	for i := range cells {
		fmt.Fprintf(w, "  %3d  %s  %s a trial\n", i+1, cells[i].Name, about(x.model.Trial(&cells[i])))
	}
	fmt.Fprintf(w, "pairs      %d of every cell and one that is discarded, in balanced random order, seed %d\n", x.pairs, x.o.seed)
	if x.o.aa {
		fmt.Fprintf(w, "duration   about %s\n", about(x.until(x.pairs)))
		return
	}
	for i, n := range s.Looks {
		fmt.Fprintf(w, "look %-5d %d pairs: after about %s\n", i+1, n, about(x.until(n)))
	}
	if x.o.budget > 0 {
		fmt.Fprintf(w, "budget     %v: ends at the last complete look, which is then inconclusive\n", x.o.budget)
	}
	if need, err := s.MinPairs(x.tests); err == nil {
		fmt.Fprintf(w, "at least   %d valid pairs are needed to fail\n", need)
	}
}

// environ returns the environment of an arm's trials.
func (a *arm) environ() []string { return append(childEnv(), a.env...) }

func executableFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
