package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
)

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
