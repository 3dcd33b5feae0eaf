package trial

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"felix/broker"
	"felix/internal/host"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/workload"
)

const (
	pollEvery    = 20 * time.Millisecond
	closeTimeout = 10 * time.Second
	startTimeout = 20 * time.Second
	// endGrace is how long publishers may take to finish the batch in hand when a run is cut short; a publisher
	// that is blocked by a dead subscriber would never finish it.
	endGrace = 1 * time.Second
	// explainEvery is how often the drain asks the broker whether its drops explain what is still missing.
	explainEvery = 200 * time.Millisecond
)

// side is one role of the trial, in this process or in another.
type side interface {
	mark(ctx context.Context, at int64) error
	progress() sideProgress
	stop(ctx context.Context) (*sideResult, error)
	dead() <-chan struct{} // closed when its process has ended; nil for a side of this process
}

type publisherSide interface {
	side
	warmup(ctx context.Context) (*published, error)
	measure(ctx context.Context) (*published, error)
	end()
}

func (s *publishers) dead() <-chan struct{}  { return nil }
func (s *subscribers) dead() <-chan struct{} { return nil }

// trial is one run under way.
type trial struct {
	*Plan
	tag    uint32
	proc   *process // this one
	noise  *host.Sampler
	access *access

	// externalConfig is what the admin page of a broker that is not ours says of its settings; nil if there is none.
	externalConfig map[string]settings.Document

	broker middle
	subs   side
	pubs   publisherSide

	started time.Time
	markAt  int64
	endAt   int64
	udpAt   host.UDP
	udp     *runrecord.UDP // since the mark

	warm     *published
	measured *published
	base     *broker.Stats // counters at the mark

	unplace     func() error // of this process; nil if it was left where it was
	reasons     []string
	warnings    []string
	interrupted bool
	aborted     bool // a side is gone: nothing to wait for
	lastSubs    []subProgress
	peakBacklog int64 // bytes, as seen while publishing, where both sides are in this process
	results     results
	journeys    []measure.Journey // of traced deliveries
}

// results is what every side ended with.
type results struct {
	broker, subs, pubs *sideResult
	counters           *broker.Stats // when everything else was closed
}

// Run runs the plan once. Cancelling ctx ends publishing, drains what is under way and still returns the record,
// marked interrupted. The error is of a trial that could not be set up: a *UsageError where the user can change
// that. A record comes with every run that got as far as its processes.
func Run(ctx context.Context, p *Plan) (*Outcome, error) {
	t := &trial{Plan: p, started: time.Now(), proc: newProcess(p.runnerName())}
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	t.tag = binary.BigEndian.Uint32(tag[:])
	t.warnings = append(t.warnings, p.Warnings...)
	if err := t.startProfiles(); err != nil {
		return nil, err
	}
	defer func() { t.dropProfiles() }()
	t.report("start", 0)
	defer func() { t.restore() }()
	err := t.setUp(ctx)
	if err == nil {
		t.phases(ctx)
	}
	t.tearDown()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		t.interrupt() // before anything ran; that too is recorded
	}
	return t.outcome(t.record())
}

// setUp starts the broker, then the subscribers, then the publishers.
func (t *trial) setUp(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	self := t.runnerName()
	if self == "all" {
		if err := t.placeSelf(self); err != nil {
			return err
		}
	}
	if t.broker, t.access, err = t.startMiddle(ctx); err != nil {
		return err
	}
	split := t.Case.Topology == workload.TopologySplit
	// Of one hop the receiving end is the other process.
	if !t.bothHere() {
		c, ready, err := startChild(ctx, t.Plan, "subscriber", t.clientDoc())
		if err != nil {
			return fmt.Errorf("subscribers: %w", err)
		}
		t.subs = remoteSubscribers{c}
		t.reach(ready.Addr)
	} else {
		// Not before the broker is started: a child inherits the processors of its parent.
		if self == "clients" {
			if err := t.placeSelf(self); err != nil {
				return err
			}
		}
		subs, err := openSubscribers(ctx, t.Plan, t.access, t.tag, t.proc.clock)
		if err != nil {
			return setUpError(err)
		}
		t.subs = subs
		t.reach(subs.system.addr())
	}
	if split {
		c, _, err := startChild(ctx, t.Plan, "publisher", t.clientDoc())
		if err != nil {
			return fmt.Errorf("publishers: %w", err)
		}
		t.pubs = remotePublishers{c}
		return nil
	}
	if self == "publisher" {
		if err := t.placeSelf(self); err != nil {
			return err
		}
	}
	pubs, err := openPublishers(ctx, t.Plan, t.access, t.tag, t.proc.clock)
	if err != nil {
		return setUpError(err)
	}
	t.pubs = pubs
	return nil
}

// reach tells the publishers where the subscribers of one hop listen, "" with a middle between.
func (t *trial) reach(addr string) {
	if addr != "" {
		t.access.Addr, t.access.Listen = addr, nil
	}
}

func (t *trial) clientDoc() roleDoc {
	doc, err := t.Settings.Marshal()
	if err != nil {
		panic(fmt.Sprintf("settings that were loaded do not encode: %v", err)) // they came from text
	}
	return roleDoc{Case: t.Case, Sizes: t.Sizes, Settings: doc, Access: t.access, Tag: t.tag}
}

// phases drives the run. What goes wrong becomes a reason, and the run ends early.
func (t *trial) phases(ctx context.Context) {
	if !t.warmupPhase(ctx) {
		return
	}
	t.barrier(ctx)
	if ctx.Err() != nil {
		t.interrupt()
		return
	}
	if !t.markAll() {
		return
	}
	t.measurePhase(ctx)
	t.drain(ctx)
	t.endAt = t.proc.clock.Now()
	t.udp = udpSince(t.udpAt)
	t.noise.Freeze()
	t.endProfiles()
	t.proc.freeze()
}

func (t *trial) interrupt() {
	if !t.interrupted {
		t.interrupted = true
		t.reasons = append(t.reasons, "interrupted")
	}
}

func (t *trial) invalid(format string, args ...any) {
	t.reasons = append(t.reasons, fmt.Sprintf(format, args...))
}

func (t *trial) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// publishing runs one publishing phase and watches it: step is called every few milliseconds and says whether to
// end it. It returns what was published, nil if that is unknown because the process is gone.
func (t *trial) publishing(ctx context.Context, run func(context.Context) (*published, error), step func() (end bool)) *published {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type outcome struct {
		p   *published
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		p, err := run(runCtx)
		done <- outcome{p, err}
	}()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	ending := false
	end := func() {
		if !ending {
			ending = true
			t.pubs.end()
			time.AfterFunc(endGrace, cancel)
		}
	}
	// abandon ends publishing because another process is gone. What else fails then follows from that.
	abandon := func() *published {
		t.aborted = true
		end()
		return (<-done).p
	}
	interrupted := ctx.Done()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				t.invalid("publishing failed: %v", o.err)
				t.aborted = true
			}
			return o.p
		case <-interrupted:
			interrupted = nil
			t.interrupt()
			end()
		case <-t.subs.dead():
			t.died(t.subs)
			return abandon()
		case <-t.broker.dead():
			t.died(t.broker)
			return abandon()
		case <-tick.C:
			if step() {
				end()
			}
		}
	}
}

func (t *trial) died(s any) {
	switch c := s.(type) {
	case remoteSubscribers:
		t.invalid("%v", c.ended())
	case remoteBroker:
		t.invalid("%v", c.ended())
	}
}

// sideGone reports whether a process has ended that should not have.
func (t *trial) sideGone() bool { return t.sideGoneBut(nil) }

// sideGoneBut is sideGone for all processes but one.
func (t *trial) sideGoneBut(but any) bool {
	for _, s := range []interface{ dead() <-chan struct{} }{t.subs, t.pubs, t.broker} {
		if s == but {
			continue
		}
		select {
		case <-s.dead():
			return true
		default:
		}
	}
	return false
}

// tearDown closes publishers, subscribers and the broker, in this order, and keeps what they end with.
func (t *trial) tearDown() {
	t.proc.freeze()
	stop := func(what string, s interface {
		stop(context.Context) (*sideResult, error)
	}) *sideResult {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if t.aborted {
			ctx, cancel = context.WithTimeout(ctx, endGrace)
			defer cancel()
		}
		r, err := s.stop(ctx)
		if err != nil && !t.aborted {
			t.warn("stopping the %s: %v", what, err)
		}
		return r
	}
	if t.pubs != nil {
		t.results.pubs = stop("publishers", t.pubs)
	}
	if t.subs != nil {
		t.results.subs = stop("subscribers", t.subs)
	}
	if t.broker != nil {
		t.results.broker = stop("broker", t.broker)
		if r := t.results.broker; r != nil {
			t.results.counters = r.Broker
		}
	}
}

// idle notices that a count has not moved for the idle timeout.
type idle struct {
	timeout time.Duration
	last    int64
	since   time.Time
}

func (t *trial) idleWatch() *idle {
	return &idle{timeout: t.Sizes.IdleTimeout + t.longestPause(), last: -1, since: time.Now()}
}

func (i *idle) stalled(n int64) bool {
	if n != i.last {
		i.last, i.since = n, time.Now()
		return false
	}
	return time.Since(i.since) > i.timeout
}

func (t *trial) report(phase string, publishedMsgs int64) {
	if t.Progress == nil {
		return
	}
	p := Progress{Phase: phase, Elapsed: time.Since(t.started), Published: publishedMsgs, Total: t.Sizes.Total}
	if n := len(t.lastSubs); n > 0 {
		p.Delivered = t.lastSubs[0].Measured
		for _, s := range t.lastSubs {
			p.Delivered = min(p.Delivered, s.Measured)
		}
	}
	t.Progress(p)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// setUpError tells errors that the user can change from those of the trial.
func setUpError(err error) error {
	if hint := hintFor(err); hint != "" {
		return &UsageError{Err: err, Hint: hint}
	}
	return err
}
