package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"felix/internal/gate"
	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/verdict"
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
		SessionID: id, Kind: runrecord.SessionKindAB, StartedAt: now, Dir: x.dir, Order: &order, Seed: &seed,
		Command: append([]string{"matrix", x.o.name()}, x.o.args...),
	}
}

// run does everything from the locks to the verdict.
func (x *experiment) run() (code int, err error) {
	x.newSession()
	x.writePlan(x.stderr)
	holder := &sitting{Session: x.session}
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
	if err := x.open(); err != nil {
		x.abandon()
		if x.stop.soft.Err() != nil {
			return 0, errors.New("interrupted before anything was measured")
		}
		return 0, err
	}
	x.began = time.Now()
	fmt.Fprintf(x.stderr, "session    %s\n", x.dir)
	v, err := x.measure()
	ended := time.Now().UTC()
	x.session.EndedAt = &ended
	if err = errors.Join(err, runrecord.WriteSession(x.dir, x.session)); err != nil {
		return 0, holder.noSpace(err)
	}
	if x.o.aa {
		return x.tellAA()
	}
	return x.tell(&v)
}

// tell prints the verdict and keeps it.
func (x *experiment) tell(v *verdict.Verdict) (int, error) {
	if err := x.keep("verdict.json", v); err != nil {
		return 0, err
	}
	if err := gate.WriteText(x.stdout, v); err != nil {
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

func appendMarkdown(file string, v *verdict.Verdict) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--markdown: %w", err)
	}
	return errors.Join(gate.WriteMarkdown(f, v), f.Close())
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
	if _, err := os.Stat(filepath.Join(x.dir, runrecord.SessionFile)); err == nil {
		return
	}
	for _, name := range []string{
		binaryFile, filepath.Join(verdict.Base, binaryFile), filepath.Join(verdict.Head, binaryFile), verdict.Base, verdict.Head, gate.ExperimentFile, lockFile,
	} {
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
	x.session.Host, x.session.Build, x.session.BinarySHA256 = facts, x.arms[1].build, x.arms[1].build.BinarySHA256
	x.session.Grid = &runrecord.SessionGrid{Name: "gate", Digest: x.arms[0].grid.Digest, Why: x.gate.Why}
	seen := map[string]bool{}
	description := &gate.Experiment{
		Kind: x.o.name(), ArmFactors: x.armFactors(), Canary: x.o.slowBy, Gate: x.gate.Name, Spec: x.spec, Seed: x.o.seed,
	}
	for _, a := range x.arms {
		known, err := preflight(ctx, a.binary, a.grid)
		if err == nil && len(a.env) > 0 {
			err = preflightEnv(ctx, a)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		// Each arm makes its records as a matrix of its own, in one session.
		own := *x.session
		own.Build = a.build
		a.side = &sitting{Session: &own, grid: a.grid, ledger: newLedger(a.grid, 0), known: known}
		a.slow = make([][]string, len(a.grid.Cells))
		for i := range a.grid.Cells {
			c := &a.grid.Cells[i]
			if key := c.Case.Key(); !seen[key] {
				seen[key] = true
				x.session.Grid.Cells = append(x.session.Grid.Cells, runrecord.SessionCell{Name: c.Name, Key: key})
			}
		}
		set := slices.Clone(a.set)
		for _, e := range a.env {
			set = append(set, "env."+e)
		}
		binary, err := filepath.Rel(x.abs(), a.binary)
		if err != nil {
			binary = a.binary
		}
		description.Arms = append(description.Arms, gate.Arm{Name: a.name, From: a.origin.text(), Set: set, Build: a.build, Binary: filepath.ToSlash(binary)})
	}
	if err := description.Write(x.dir); err != nil {
		return err
	}
	return runrecord.WriteSession(x.dir, x.session)
}

func (x *experiment) abs() string {
	if abs, err := filepath.Abs(x.dir); err == nil {
		return abs
	}
	return x.dir
}

// preflightEnv asks the binary whether it takes the arm's variables.
func preflightEnv(ctx context.Context, a *arm) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.binary, append(trialFlags(&a.grid.Cells[0], 1), "--dry-run")...)
	cmd.Env = a.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return refused(a.grid.Cells[0].Name, err, string(out))
	}
	return nil
}

// measure runs pairs until a look decides, the last one is over, the budget is, or it is told to stop.
func (x *experiment) measure() (verdict.Verdict, error) {
	cells := len(x.arms[0].grid.Cells)
	for pair := 0; pair <= x.pairs; pair++ {
		if cost := x.round(); pair > 0 && x.o.budget > 0 && time.Since(x.began)+cost > x.o.budget {
			text := fmt.Sprintf("budget %v: %s are used, and one more pair of every cell takes about %s", x.o.budget, about(time.Since(x.began)), about(cost))
			x.say(text)
			x.session.Notes = append(x.session.Notes, text)
			break
		}
		for _, cell := range order(orderRandom, x.o.seed, pair, cells) {
			if err := x.pair(cell, pair); err != nil {
				return verdict.Verdict{}, err
			}
			if x.stop.soft.Err() != nil {
				x.session.Notes = append(x.session.Notes, "interrupted")
				return x.replay(), nil
			}
		}
		if pair == 0 {
			if err := x.measurable(); err != nil {
				return verdict.Verdict{}, err
			}
			continue
		}
		if x.o.aa {
			continue
		}
		all, err := verdict.Pairs(x.records, x.armFactors()...)
		if err != nil {
			return verdict.Broken(x.spec, err), nil
		}
		if look := slices.Index(x.spec.Looks, pair); look >= 0 {
			v := verdict.Judge(x.spec, all, look)
			if v.Outcome != verdict.Continue {
				return v, nil
			}
			x.say(fmt.Sprintf("look %d of %d, %d pairs: not decided yet", look+1, len(x.spec.Looks), pair))
		} else if v, decided := verdict.Early(x.spec, all); decided {
			return v, nil
		}
	}
	return x.replay(), nil
}

// measurable refuses, after the discarded pair, a gate over a metric that no trial has: all its pairs would tell no more.
func (x *experiment) measurable() error {
	const hint = "more messages in a trial (a percentile has 10 samples beyond it), other metrics in the gate's file, or allow_missing there"
	for i := range x.arms[0].grid.Cells {
		c := &x.arms[0].grid.Cells[i]
		key := runrecord.Case{Key: c.Case.Key(), Case: c.Case}
		for _, m := range verdict.Gated(x.spec.Metrics, &key) {
			if slices.Contains(x.spec.AllowMissing, string(m)) {
				continue
			}
			valid, has := 0, false
			for _, r := range x.records {
				if r.Kind != verdict.SentinelKind && r.Valid && verdict.CellName(r, x.armFactors()...) == verdict.CellName(&runrecord.Record{Case: key}, x.armFactors()...) {
					_, ok := m.Value(r)
					valid, has = valid+1, has || ok
				}
			}
			if valid > 0 && !has {
				return usagef(hint, "%s: no trial has a %s", c.Name, m)
			}
		}
	}
	return nil
}

func (x *experiment) replay() verdict.Verdict {
	return gate.Judge(&gate.Experiment{ArmFactors: x.armFactors()}, x.spec, x.records)
}

// pair runs one trial of each arm of a cell, back to back, in the order that was drawn.
func (x *experiment) pair(cell, pair int) error {
	text := fmt.Sprintf("pair %d of %d", pair, x.pairs)
	if pair == 0 {
		text = "pair 0, discarded"
	}
	text += fmt.Sprintf("  %s  ", x.arms[0].grid.Cells[cell].Name)
	for _, name := range x.orders[cell][pair] {
		a := x.arms[0]
		if name == verdict.Head {
			a = x.arms[1]
		}
		rec, err := x.trial(a, cell, pair)
		if err != nil || rec == nil {
			return err
		}
		if pair == 0 && x.o.slowBy > 0 && a == x.arms[0] {
			flags, err := canaryFlags(rec, x.o.slowBy)
			if err != nil {
				return err
			}
			x.arms[1].slow[cell] = flags
		}
		text += fmt.Sprintf("  %s %s", name, glance(rec))
		if x.stop.soft.Err() != nil {
			break
		}
	}
	x.say(text)
	return nil
}

// glance is a trial in a few words.
func glance(r *runrecord.Record) string {
	switch {
	case r.Interrupted:
		return "interrupted"
	case r.Error != nil:
		return "FAILED"
	case !r.Valid && len(r.Reasons) > 0:
		return "INVALID: " + r.Reasons[0]
	case !r.Valid:
		return "INVALID"
	}
	if r.Case.Throughput() {
		if v, ok := verdict.DeliveredBytesPerSec.Value(r); ok {
			return fmt.Sprintf("%.1f MB/s", v/1e6)
		}
	}
	if v, ok := verdict.P50.Value(r); ok {
		return fmt.Sprintf("p50 %.1f us", v/1e3)
	}
	return "valid"
}

// trial runs the sentinels and one trial in a fresh process, and appends both records. Without an error and without a
// record it was told to stop.
func (x *experiment) trial(a *arm, cell, pair int) (*runrecord.Record, error) {
	c := &a.grid.Cells[cell]
	s := a.side
	pause(x.stop.soft, x.o.cooldown)
	if x.stop.soft.Err() != nil {
		return nil, nil
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(s.inFlight()); err != nil {
		return nil, fmt.Errorf("clear what an unfinished trial left: %w", err)
	}
	probedAt := time.Now()
	reading := runSentinel(x.o.sentinel)
	probed := time.Since(probedAt)
	t := task{slot: slot{cell, pair + 1}, attempt: 1, timeout: x.o.timeout}
	if t.timeout == 0 {
		t.timeout = max(2*time.Minute, 4*x.model.Trial(c).Round(time.Second))
	}
	// Both trials of a pair have the same seed.
	t.args = append(trialFlags(c, pair+1), a.slow[cell]...)
	t.args = append(t.args, "--json", "-", "--out", s.inFlight())
	e, err := child{binary: a.binary, args: t.args, env: a.environ(), timeout: t.timeout}.run(x.stop)
	if err != nil {
		return nil, s.noSpace(err)
	}
	rec, err := s.finish(t, e, x.stop.soft.Err() != nil)
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x.order++
	number := x.order
	x.place(rec, a, pair)
	rec.Order = &number
	if x.o.sentinel > 0 {
		beside := reading.record(rec.Case, probedAt, probed, x.session.Host)
		x.place(beside, a, pair)
		if err := x.add(beside); err != nil {
			return nil, s.noSpace(err)
		}
	}
	if err := x.add(rec); err != nil {
		return nil, s.noSpace(err)
	}
	_ = s.ledger.add(x.session.SessionID, rec) // only to know what its records look like
	if out := outcomeOf(rec); !out.failed && !out.interrupted {
		x.model.Observe(c, e.took)
	}
	return rec, nil
}

// place says where in the session a record belongs.
func (x *experiment) place(r *runrecord.Record, a *arm, pair int) {
	name, index, trial := a.name, pair, pair+1
	r.SessionID, r.Arm, r.Pair, r.Trial = &x.session.SessionID, &name, &index, &trial
}

func (x *experiment) add(r *runrecord.Record) error {
	path := x.session.RecordsPath()
	if r.Kind == verdict.SentinelKind {
		path = filepath.Join(x.dir, gate.SentinelsFile)
	}
	if err := runrecord.Append(path, r); err != nil {
		return err
	}
	x.records = append(x.records, r)
	return nil
}

// canaryFlags are what slows head by a share of what base did in the discarded pair: in latency cases a wait after the
// stamp, in throughput cases a ceiling on the generator. A wait per publish would hide behind backpressure there.
func canaryFlags(base *runrecord.Record, share float64) ([]string, error) {
	const hint = "run it again; matrix run shows whether the case can be measured here"
	if base.Case.Throughput() {
		rate := base.Rates.DeliveredMsgsPerSec
		if !base.Valid || rate == nil || *rate <= 0 {
			return nil, usagef(hint, "canary: the discarded trial of base has no rate: %s", base.Case.Key)
		}
		perPublished := float64(max(1, base.Case.Fanout))
		return []string{"--canary-rate", fmt.Sprintf("%.1f", *rate/perPublished/(1+share))}, nil
	}
	p50, ok := verdict.P50.Value(base)
	if !base.Valid || !ok {
		return nil, usagef(hint, "canary: the discarded trial of base has no median: %s", base.Case.Key)
	}
	return []string{"--canary-delay", time.Duration(share * p50).String()}, nil
}
