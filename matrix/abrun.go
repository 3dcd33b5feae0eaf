package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// measure runs pairs until a look decides, the last one is over, the budget is, or it is told to stop.
func (x *experiment) measure() error {
	cells := len(x.arms[0].grid.Cells)
	for pair := 0; pair <= x.pairs; pair++ {
		var missing []int
		for _, cell := range order(orderRandom, x.o.seed, pair, cells) {
			if !x.has(cell, pair) {
				missing = append(missing, cell)
			}
		}
		if cost := x.round(); pair > 0 && len(missing) > 0 && x.o.budget > 0 && time.Since(x.began)+cost > x.o.budget {
			text := fmt.Sprintf("budget %v: %s are used, and one more pair of every cell takes about %s", x.o.budget, about(time.Since(x.began)), about(cost))
			x.say(text)
			x.session.Notes = append(x.session.Notes, text)
			return nil
		}
		for _, cell := range missing {
			if err := x.pair(cell, pair); err != nil {
				return err
			}
			if x.stop.soft.Err() != nil {
				x.session.Notes = append(x.session.Notes, "interrupted")
				return nil
			}
		}
		if pair == 0 {
			if err := x.measurable(); err != nil {
				return err
			}
			continue
		}
		if x.o.aa {
			continue
		}
		if x.decide(pair); x.result != nil {
			return nil
		}
		if look := slices.Index(x.spec.Looks, pair); look >= 0 {
			x.say(fmt.Sprintf("look %d of %d, %d pairs: not decided yet", look+1, len(x.spec.Looks), pair))
		}
	}
	return nil
}

// decide looks at the pairs so far, and sets the result if they decide.
func (x *experiment) decide(pair int) {
	records := x.description.Counted(x.records)
	look := slices.Index(x.spec.Looks, pair)
	if x.many() {
		x.decideArms(records, look)
		return
	}
	all, err := verdict.Pairs(records, x.armFactors()...)
	if err != nil {
		x.result = x.description.Told(verdict.Broken(x.spec, err))
		return
	}
	if look >= 0 {
		if v := verdict.Judge(x.spec, all, look); v.Outcome != verdict.Continue {
			x.result = x.description.Told(v)
		}
	} else if v, decided := verdict.Early(x.spec, all); decided {
		x.result = x.description.Told(v)
	}
}

// decideArms is decide for several arms. Between looks only what no later pair can mend decides.
func (x *experiment) decideArms(records []*runrecord.Record, look int) {
	names := x.armNames()
	all, err := verdict.Rounds(records, names, x.armFactors()...)
	if err != nil {
		x.result = x.replay()
		return
	}
	if look >= 0 {
		if v := verdict.JudgeArms(x.spec, names, all, look); v.Outcome != verdict.Continue {
			x.result = gate.Arms{ArmsVerdict: &v}
		}
		return
	}
	for i := range names {
		for _, other := range names[:i] {
			var two []verdict.Cell
			for c := range all {
				two = append(two, all[c].Between(other, names[i]))
			}
			if v, decided := verdict.Early(x.spec, two); decided && v.Outcome == verdict.CannotJudge {
				var reasons []string
				for _, reason := range v.Reasons {
					reasons = append(reasons, fmt.Sprintf("%s against %s: %s", names[i], other, reason))
				}
				broken := verdict.BrokenArms(x.spec, names, reasons...)
				x.result = gate.Arms{ArmsVerdict: &broken}
				return
			}
		}
	}
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
			for _, r := range x.description.Counted(x.records) {
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

// replay judges all there is, look by look.
func (x *experiment) replay() gate.Result { return gate.Judge(x.description, x.spec, x.records) }

// pair runs one trial of each arm of a cell, back to back, in the order that was drawn.
func (x *experiment) pair(cell, pair int) error {
	text := fmt.Sprintf("pair %d of %d", pair, x.pairs)
	if pair == 0 {
		text = "pair 0, discarded"
	}
	text += fmt.Sprintf("  %s  ", x.arms[0].grid.Cells[cell].Name)
	for _, name := range x.orders[cell][pair] {
		a := x.arms[slices.Index(x.armNames(), name)]
		rec, err := x.trial(a, cell, pair)
		if err != nil || rec == nil {
			return err
		}
		if pair == 0 && a == x.arms[0] {
			if err := x.slowHead(cell, rec); err != nil {
				return err
			}
		}
		text += fmt.Sprintf("  %s %s", name, glance(rec))
		if x.stop.soft.Err() != nil {
			break
		}
	}
	x.say(text)
	return nil
}

// slowHead makes the canary of a cell by what base did in the discarded pair.
func (x *experiment) slowHead(cell int, base *runrecord.Record) error {
	if x.o.slowBy == 0 {
		return nil
	}
	flags, err := canaryFlags(base, x.o.slowBy)
	x.head().slow[cell] = flags
	return err
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
	e, err := x.runTrial(a, cell, &t)
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
	a.identify(rec, rec == e.rec)
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

// runTrial runs one trial, and with --bench head its broker around it. A broker that does not come up, dies or does not
// end is a failure of the trial and no error.
func (x *experiment) runTrial(a *arm, cell int, t *task) (*ending, error) {
	c := child{binary: a.binary, env: a.environ(), timeout: t.timeout}
	if a.broker == nil {
		c.args = t.args
		return c.run(x.stop)
	}
	// The kernel ties the broker's life to this thread (see dieWithParent).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := x.brokerDir()
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("clear what an unfinished trial left: %w", err)
	}
	began := time.Now()
	b, flags, err := x.drive(a, cell)
	var failed *brokerError
	if errors.As(err, &failed) {
		_ = os.RemoveAll(dir) // or the next trial does
		return &ending{startedAt: began, took: time.Since(began), exitCode: -1, broker: failed.Error(), noRecord: errors.New("nothing was run"), output: failed.said}, nil
	}
	if err != nil {
		return nil, err
	}
	t.args = append(t.args, flags...)
	c.args, c.lost = t.args, b.exited
	e, err := c.run(x.stop)
	wrong := b.stop(x.stop.hard.Done(), dir)
	if err != nil {
		return nil, err
	}
	if e.broker = wrong; wrong != "" {
		e.output = slices.Concat(e.output, []byte("\nthe broker said:\n"), b.said.Bytes())
	}
	return e, nil
}

// identify says in a record of another bench whose broker it measured. Own: the trial made the record itself.
func (a *arm) identify(r *runrecord.Record, own bool) {
	if a.broker == nil {
		return
	}
	bench := a.broker.bench
	if own {
		bench = r.Build
	}
	head := gate.BenchHead
	r.Bench, r.BenchBuild, r.Build = &head, &bench, measured(a.broker.build, bench)
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
