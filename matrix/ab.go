package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// Exit codes of ab and aa, besides those of a verdict.
const exitCannotJudge = 2

// experiment is one call of matrix ab or aa.
type experiment struct {
	o      *abOptions
	gate   *gate.Gate
	spec   verdict.Spec
	dir    string
	pairs  int // of the last look, the discarded one not counted
	tests  int
	arms   []*arm // base and head, or three and more
	model  *workload.Model
	orders [][][]string // by cell and pair

	session        *runrecord.Session
	description    *gate.Experiment
	records        []*runrecord.Record
	resumed        bool        // records of an earlier call are among them
	result         gate.Result // nil: not decided yet
	order          int         // of the trials in the session
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
	prepare := prepareAB
	if o.resume != "" {
		prepare = resumeAB
	}
	x, err := prepare(o, time.Now())
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
	if o.noiseFloor != "" {
		if len(x.spec.NoiseFloor) > 0 {
			return nil, usagef("say it once", "--noise-floor: %s has a noise_floor of its own", g.Name)
		}
		if x.spec.NoiseFloor, err = gate.LoadNoiseFloor(o.noiseFloor); err != nil {
			return nil, usagef("matrix aa writes noise-floor.yml into its session", "--noise-floor: %w", err)
		}
	}
	if x.spec, err = x.spec.Resolve(); err != nil {
		return nil, usagef("--looks 12,20,30", "%w", err)
	}
	if x.many() && len(x.spec.Waivers) > 0 {
		return nil, usagef("leave the waivers out of its file", "%s has waivers: a comparison of arms has none", g.Name)
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
	if n := len(x.arms); x.many() {
		x.tests *= n * (n - 1) // every two of them, in both directions
	}
	if err := x.spec.FeasibleTests(x.tests); err != nil {
		return usagef("more pairs at the last look, fewer looks, or fewer cells", "%w", err)
	}
	x.model = newModel()
	x.draw()
	if first := x.until(min(x.spec.Looks[0], x.pairs)); x.o.budget > 0 && first > x.o.budget {
		return usagef("a larger --budget, or fewer cells with --only", "budget %v: the first look takes about %s", x.o.budget, about(first))
	}
	if x.o.sessionDir != "" && !x.o.dryRun {
		return vacant(x.o.sessionDir)
	}
	return nil
}

// draw decides the order of the arms in every pair of every cell.
func (x *experiment) draw() {
	x.orders = nil
	for i := range x.arms[0].grid.Cells {
		x.orders = append(x.orders, verdict.Orders(x.armNames(), x.pairs+1, x.o.seed+uint64(i)))
	}
}

// many reports whether there are more arms than base and head.
func (x *experiment) many() bool { return len(x.o.arms) > 2 }

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
	if x.o.bench == gate.BenchHead {
		fmt.Fprintf(w, "bench      head: its latencydemo drives the brokerd of each arm\n")
	}
	cells := x.arms[0].grid.Cells
	fmt.Fprintf(w, "cells      %d\n", len(cells))
	for i := range cells {
		fmt.Fprintf(w, "  %3d  %s  %s a trial\n", i+1, cells[i].Name, about(x.model.Trial(&cells[i])))
	}
	if done := x.complete(); done > 0 {
		fmt.Fprintf(w, "recorded   %d of %d pairs already\n", done, len(cells)*(x.pairs+1))
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
