package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/gate"
)

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
	arms             []string
	bench            string
	allowUnknown     []string
	noiseFloor       string
	resume           string
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
		f.StringArrayVar(&o.arms, "arm", nil, "an arm of three or more, NAME:k=v,… or NAME: alone for no settings: every two are compared, the first is what the others are held against")
	}
	f.StringVar(&o.bench, "bench", gate.BenchOwn, "own: each arm measures itself; head: head's latencydemo drives the brokerd of each arm, so that the measuring code is one")
	f.StringSliceVar(&o.allowUnknown, "allow-unknown", nil, "with --bench head: settings of the broker, by their keys, that an arm's brokerd may not know, and then runs without")
	f.StringVar(&o.canary, "canary", "", "slow head by this much, 20%, of one binary: a gate that works fails with 1")
	f.StringVar(&o.bin, "bin", "", "the one latencydemo whose settings are compared (default: built from this checkout as it is)")
	f.StringVar(&o.gate, "gate", "", "YAML file of the gate (default: the built-in one, presets/gate.yml)")
	f.StringVar(&o.noiseFloor, "noise-floor", "", "noise-floor.yml of a matrix aa on this machine, or its session's directory: the least margin of each metric")
	f.StringArrayVar(&o.grids, "grid", nil, "grid whose cells are judged, in place of the gate's; repeatable")
	f.StringArrayVar(&o.only, "only", nil, "keep the cells with factor=level[,level…]; repeatable")
	f.IntSliceVar(&o.looks, "looks", nil, "pairs at which the gate looks, as 12,20,30 (default: as the gate's file says)")
	f.DurationVar(&o.budget, "budget", 0, "time for everything: ends at the last complete look, which is then inconclusive")
	f.DurationVar(&o.timeout, "timeout", 0, "after which a trial is killed with all its processes (default: 4 times its estimate, at least 2m)")
	f.DurationVar(&o.cooldown, "cooldown", 200*time.Millisecond, "pause before each trial")
	f.DurationVar(&o.sentinel, "sentinel", sentinelTime, "of each probe of the machine beside each trial, CPU and loopback; 0 = none")
	f.Uint64Var(&o.seed, "seed", 0, "of the order (default: a new one, which the session records)")
	f.StringVar(&o.sessionDir, "session-dir", "", "directory of the session (default: a new one in --results)")
	f.StringVar(&o.resume, "resume", "", "go on with the session in this directory: its own arms, gate and order; what is recorded is not run again")
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
       matrix ab --arm before: --arm fix:k=v,… --arm reverted: [--arm …] [flags]
       matrix ab --canary 20% [flags]
       matrix ab --resume DIR [--budget 20m]

`
	if aa {
		text = `matrix aa measures one build against itself: how often the gate fails without a cause, and the noise of each metric.

usage: matrix aa [--base REF|BIN] [flags]
       matrix aa --resume DIR
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
	if o.resume != "" {
		return o, o.checkResume()
	}
	if o.bench != gate.BenchOwn && o.bench != gate.BenchHead {
		return nil, usagef("own is the default", "--bench %q: want %s or %s", o.bench, gate.BenchOwn, gate.BenchHead)
	}
	if len(o.allowUnknown) > 0 && o.bench != gate.BenchHead {
		return nil, usagef("add --bench head, or leave it out", "--allow-unknown is about the settings that --bench head gives to brokers")
	}
	if len(o.arms) > 0 {
		if err := o.checkArms(); err != nil {
			return nil, err
		}
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
	if !aa && o.base == "" && o.head == "" && len(o.baseSet)+len(o.headSet)+len(o.arms) == 0 && o.slowBy == 0 {
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

// checkArms refuses what three or more arms cannot be together with.
func (o *abOptions) checkArms() error {
	switch {
	case len(o.arms) < 3:
		return usagef("two arms are --base-set and --head-set", "--arm is given %d times: want three or more", len(o.arms))
	case o.base != "" || o.head != "" || len(o.baseSet)+len(o.headSet) > 0:
		return usagef("arms are settings of one binary: --bin names it", "--arm is not for --base, --head and their settings")
	case o.canary != "":
		return usagef("leave --canary out", "--canary slows head, and arms have none")
	}
	return nil
}

// resumeFlags are those that do not change what a session is.
var resumeFlags = []string{"resume", "budget", "timeout", "markdown", "no-wait", "dry-run", "bisect-exit"}

// checkResume refuses, with --resume, flags that the session has decided.
func (o *abOptions) checkResume() error {
	var err error
	o.flags.Visit(func(fl *pflag.Flag) {
		if err == nil && !slices.Contains(resumeFlags, fl.Name) {
			err = usagef("leave --"+fl.Name+" out", "--resume goes on with what the session is: --%s cannot change it", fl.Name)
		}
	})
	if err == nil && o.flags.NArg() > 0 {
		err = usagef("leave it out", "--resume goes on with what the session is: stray word %q", o.flags.Arg(0))
	}
	return err
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
