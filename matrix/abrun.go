package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"felix/internal/gate"
	"felix/internal/host"
	"felix/internal/runrecord"
)

// newSession names the session; nothing is written yet.
func (x *experiment) newSession() {
	now := time.Now().UTC()
	id := runrecord.NewSessionID()
	x.dir = x.o.sessionDir
	if x.dir == "" {
		x.dir = filepath.Join(x.o.results, runrecord.SessionDirName(now, x.o.name(), id))
	}
	order, seed := orderRandom, x.o.seed
	x.session = &runrecord.Session{
		SessionID: id, Kind: runrecord.SessionKindAB, StartedAt: now, Dir: x.dir, Order: &order, Seed: &seed, Bench: x.benchOf(),
		Command: append([]string{"matrix", x.o.name()}, x.o.args...),
	}
}

// run does everything from the locks to the verdict.
func (x *experiment) run() (code int, err error) {
	if !x.resumed {
		x.newSession()
	}
	holder := &sitting{Session: x.session, again: x.again()}
	release, err := holder.hold(x.stop.soft)
	if err != nil {
		return 0, err
	}
	defer release()
	unlock, err := host.Lock(x.stop.soft, !x.o.noWait, x.say)
	if err != nil {
		x.abandon()
		if errors.Is(err, host.ErrLocked) {
			return 0, usagef("leave --no-wait out to wait for it", "%w", err)
		}
		return 0, err
	}
	defer unlock()
	begin := x.open
	if x.resumed {
		begin = x.takeUp
	} else {
		x.writePlan(x.stderr)
	}
	if err := begin(); err != nil {
		x.abandon()
		if x.stop.soft.Err() != nil {
			return 0, errors.New("interrupted before anything was measured")
		}
		return 0, err
	}
	x.began = time.Now()
	fmt.Fprintf(x.stderr, "session    %s\n", x.dir)
	err = x.measure()
	ended := time.Now().UTC()
	x.session.EndedAt = &ended
	if err = errors.Join(err, runrecord.WriteSession(x.dir, x.session)); err != nil {
		return 0, holder.noSpace(err)
	}
	if x.stop.soft.Err() != nil {
		x.say(holder.resumeHint())
	}
	if x.o.aa {
		return x.tellAA()
	}
	if x.result == nil {
		x.result = x.replay()
	}
	return x.tell(x.result)
}

// again is the command that goes on with the session.
func (x *experiment) again() string { return "matrix " + x.o.name() + " --resume " + x.dir }

// tell prints the verdict and keeps it.
func (x *experiment) tell(v gate.Result) (int, error) {
	if err := x.keep("verdict.json", v); err != nil {
		return 0, err
	}
	if err := v.WriteText(x.stdout); err != nil {
		return 0, err
	}
	if x.o.markdown != "" {
		if err := appendMarkdown(x.o.markdown, v); err != nil {
			return 0, err
		}
	}
	if x.o.slowBy > 0 {
		fmt.Fprintf(x.stdout, "canary     head was slowed by %.3g %%: a gate that works fails\n", 100*x.o.slowBy)
	}
	x.say(fmt.Sprintf("judge it again with: analysis gate %s", x.dir))
	return v.ExitCode(), nil
}

func appendMarkdown(file string, v gate.Result) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--markdown: %w", err)
	}
	return errors.Join(v.WriteMarkdown(f), f.Close())
}

func (x *experiment) keep(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the verdict: %w", err)
	}
	return os.WriteFile(filepath.Join(x.dir, name), append(text, '\n'), 0o644)
}

// abandon takes back what a session has left that never came to exist.
func (x *experiment) abandon() {
	if _, err := os.Stat(filepath.Join(x.dir, runrecord.SessionFile)); x.resumed || err == nil {
		return
	}
	names := []string{binaryFile, brokerFile}
	for _, arm := range x.armNames() {
		names = append(names, filepath.Join(arm, binaryFile), filepath.Join(arm, brokerFile), arm)
	}
	for _, name := range append(names, gate.ExperimentFile, lockFile, runrecord.RunsDir) {
		_ = os.Remove(filepath.Join(x.dir, name)) // may not be there
	}
	_ = os.Remove(x.dir) // unless it holds something else
}

// open makes binaries and session.
func (x *experiment) open() error {
	ctx := x.stop.soft
	if err := vacant(x.dir); err != nil {
		return err
	}
	if err := x.provide(ctx); err != nil {
		return err
	}
	facts, err := hostFacts()
	if err != nil {
		return err
	}
	x.session.Host, x.session.Build, x.session.BinarySHA256 = facts, x.head().build, x.head().build.BinarySHA256
	x.session.Grid = &runrecord.SessionGrid{Name: "gate", Digest: x.arms[0].grid.Digest, Why: x.gate.Why}
	seen := map[string]bool{}
	x.description = &gate.Experiment{
		Kind: x.o.name(), ArmFactors: x.armFactors(), Canary: x.o.slowBy, Bench: x.o.bench, Gate: x.gate.Name, Spec: x.spec, Seed: x.o.seed,
		Plan: &gate.Plan{Pairs: x.pairs, CooldownNs: int64(x.o.cooldown), SentinelNs: int64(x.o.sentinel), Why: x.gate.Why},
	}
	for _, a := range x.arms {
		if err := x.ready(ctx, a); err != nil {
			return err
		}
		for i := range a.grid.Cells {
			c := &a.grid.Cells[i]
			if key := c.Case.Key(); !seen[key] {
				seen[key] = true
				x.session.Grid.Cells = append(x.session.Grid.Cells, runrecord.SessionCell{Name: c.Name, Key: key})
			}
		}
		x.description.Arms = append(x.description.Arms, x.describe(a))
	}
	if err := x.description.Write(x.dir); err != nil {
		return err
	}
	return runrecord.WriteSession(x.dir, x.session)
}

// ready asks an arm's binaries whether they run its cells, and prepares what makes its records.
func (x *experiment) ready(ctx context.Context, a *arm) error {
	var known []knownCell
	var err error
	if a.broker != nil {
		known, err = x.readyBroker(ctx, a)
	} else {
		known, err = preflight(ctx, a.binary, a.grid)
		if err == nil && len(a.env) > 0 {
			_, err = dryRunOutput(ctx, a, &a.grid.Cells[0])
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	// Each arm makes its records as a matrix of its own, in one session.
	own := *x.session
	own.Build = a.build
	a.side = &sitting{Session: &own, grid: a.grid, ledger: newLedger(a.grid, 0), known: known, again: x.again()}
	a.slow = make([][]string, len(a.grid.Cells))
	return nil
}

// describe is the arm as ab.json has it.
func (x *experiment) describe(a *arm) gate.Arm {
	relative := func(file string) string {
		if rel, err := filepath.Rel(x.abs(), file); err == nil {
			file = rel
		}
		return filepath.ToSlash(file)
	}
	out := gate.Arm{Name: a.name, From: a.origin.text(), Set: slices.Clone(a.set), Build: a.build, Binary: relative(a.binary), Grid: a.own}
	for _, e := range a.env {
		out.Set = append(out.Set, "env."+e)
	}
	if a.broker != nil {
		out.Broker, out.BenchBuild, out.Without = relative(a.broker.binary), &a.broker.bench, a.broker.without
	}
	return out
}

func (x *experiment) abs() string {
	if abs, err := filepath.Abs(x.dir); err == nil {
		return abs
	}
	return x.dir
}
