package trial

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"felix/broker"
	"felix/internal/host"
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

type brokerSide interface {
	mark(ctx context.Context, at int64) error
	counters(ctx context.Context) (*broker.Stats, error) // nil without an error: they cannot be known
	stop(ctx context.Context) (*sideResult, error)
	dead() <-chan struct{}
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

	broker brokerSide
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

	reasons     []string
	warnings    []string
	interrupted bool
	aborted     bool // a side is gone: nothing to wait for
	lastSubs    []subProgress
	peakBacklog int64 // bytes, as seen while publishing, where both sides are in this process
	results     results
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
	t := &trial{Plan: p, started: time.Now(), proc: newProcess(runnerName(p.Case.Topology))}
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	t.tag = binary.BigEndian.Uint32(tag[:])
	t.warnings = append(t.warnings, p.Warnings...)
	t.report("start", 0)
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
	if t.broker, t.access, err = t.startBroker(ctx); err != nil {
		return err
	}
	split := t.Case.Topology == workload.TopologySplit
	if split {
		c, _, err := startChild(ctx, t.Plan, "subscriber", t.clientDoc())
		if err != nil {
			return fmt.Errorf("subscribers: %w", err)
		}
		t.subs = remoteSubscribers{c}
		c, _, err = startChild(ctx, t.Plan, "publisher", t.clientDoc())
		if err != nil {
			return fmt.Errorf("publishers: %w", err)
		}
		t.pubs = remotePublishers{c}
		return nil
	}
	subs, err := openSubscribers(ctx, t.Plan, t.access, t.tag, t.proc.clock)
	if err != nil {
		return setUpError(err)
	}
	t.subs = subs
	pubs, err := openPublishers(ctx, t.Plan, t.access, t.tag, t.proc.clock)
	if err != nil {
		return setUpError(err)
	}
	t.pubs = pubs
	return nil
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

func (t *trial) warmupPhase(ctx context.Context) bool {
	idle := t.idleWatch()
	t.warm = t.publishing(ctx, t.pubs.warmup, func() bool {
		t.report("warm-up", 0)
		return idle.stalled(t.warmProgress())
	})
	if t.interrupted || t.aborted || t.warm == nil {
		return false
	}
	return true
}

func (t *trial) warmProgress() int64 {
	var n int64
	for _, s := range t.subs.progress().Subs {
		n += s.Warmup
	}
	return n
}

// barrier waits until every subscription has its share of the warm-up, or the counters say why it never will, or
// nothing arrives any more.
func (t *trial) barrier(ctx context.Context) {
	want := t.warm.perStream(t.Case.Streams)
	complete := func(subs []subProgress) bool {
		for i, s := range subs {
			if s.Warmup < want[i/t.Case.Fanout] {
				return false
			}
		}
		return true
	}
	idle := t.idleWatch()
	for ctx.Err() == nil && !t.sideGone() {
		now := t.subs.progress().Subs
		if len(now) > 0 && complete(now) {
			return
		}
		if t.explained(nil, now, want, func(s subProgress) int64 { return s.Warmup }) {
			return
		}
		if idle.stalled(t.warmProgress()) {
			t.warn("warm-up: not everything arrived within the idle timeout of %v", t.Sizes.IdleTimeout)
			return
		}
		sleep(ctx, pollEvery)
	}
}

// markAll begins the measure phase: one common time for every process.
func (t *trial) markAll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	counters, err := t.broker.counters(ctx)
	if err != nil {
		t.invalid("the broker's counters at the mark: %v", err)
		return false
	}
	t.base = counters
	t.markAt = t.proc.clock.Now()
	t.noise = host.StartNoise()
	t.proc.mark()
	t.udpAt = host.ReadUDP()
	for _, s := range []interface {
		mark(context.Context, int64) error
	}{t.broker, t.subs, t.pubs} {
		if err := s.mark(ctx, t.markAt); err != nil {
			t.invalid("mark: %v", err)
			return false
		}
	}
	return true
}

func (t *trial) measurePhase(ctx context.Context) {
	idle := t.idleWatch()
	sizing := t.sizing()
	auto := t.Sizes.Total == 0 && t.Sizes.Duration == 0 && t.Case.Throughput()
	var peak int64
	t.measured = t.publishing(ctx, t.pubs.measure, func() bool {
		pub, subs := t.pubs.progress(), t.subs.progress().Subs
		peak = max(peak, (pub.Published-doneWith(subs, t.Case.Fanout))*int64(t.Case.MessageBytes()))
		t.lastSubs = subs
		t.report("measure", pub.Published)
		for i, s := range subs {
			if s.Err != "" {
				t.invalid("subscriber %d ended: %s", i, s.Err)
				t.aborted = true
				return true
			}
		}
		if idle.stalled(pub.Published) && t.Case.Load != workload.LoadOpen {
			t.invalid("stalled: nothing could be published for %v", t.Sizes.IdleTimeout)
			return true
		}
		return auto && sizing.Enough(workload.Reached{
			RunBytes: pub.PublishedBytes, PeakBacklog: peak,
			Deliveries: pub.Published * int64(t.Case.Fanout),
			Elapsed:    time.Duration(t.proc.clock.Now() - t.markAt),
		})
	})
	if t.Case.Topology != workload.TopologySplit {
		pub, subs := t.pubs.progress(), t.subs.progress().Subs
		t.peakBacklog = max(peak, (pub.Published-doneWith(subs, t.Case.Fanout))*int64(t.Case.MessageBytes()))
	}
	if t.measured == nil {
		t.aborted = true // the publishers' process is gone, or could not finish: what it knows it says when it is stopped
	}
}

// doneWith is how many messages the subscriber that is furthest behind is done with, summed over the streams: a
// subscriber gets only its own stream's messages, while what is published counts all of them. What was skipped is done
// with too: it was dropped, and a backlog that held it would never end.
func doneWith(subs []subProgress, fanout int) int64 {
	var sum int64
	for stream := range slices.Chunk(subs, fanout) {
		slowest := int64(math.MaxInt64)
		for _, s := range stream {
			var n int64
			for _, head := range s.Next {
				n += head
			}
			slowest = min(slowest, n)
		}
		sum += slowest
	}
	return sum
}

// drain waits until everything published has arrived, or the broker's drops explain what has not, or nothing arrives
// any more.
func (t *trial) drain(ctx context.Context) {
	if t.aborted || t.measured == nil {
		t.settleDown()
		t.lastSubs = t.subs.progress().Subs
		return
	}
	want := t.measured.perStream(t.Case.Streams)
	idle := t.idleWatch()
	nextAsk := time.Now()
	for {
		now := t.subs.progress().Subs
		t.lastSubs = now
		var got, missing int64
		for i, s := range now {
			got += s.Measured
			missing += max(0, want[i/t.Case.Fanout]-s.Measured)
			if s.Err != "" {
				t.invalid("subscriber %d ended: %s", i, s.Err)
				return
			}
		}
		t.report("drain", 0)
		if missing == 0 {
			return
		}
		if time.Now().After(nextAsk) {
			if t.explained(t.base, now, want, func(s subProgress) int64 { return s.Measured }) {
				return
			}
			nextAsk = time.Now().Add(explainEvery)
		}
		if idle.stalled(got) {
			t.warn("drain: %d deliveries had not arrived when nothing had for %v", missing, t.Sizes.IdleTimeout)
			return
		}
		if t.sideGone() {
			return
		}
		select {
		case <-t.subs.dead():
			t.died(t.subs)
			return
		case <-t.broker.dead():
			t.died(t.broker)
			return
		case <-time.After(pollEvery):
		}
		if ctx.Err() != nil {
			t.interrupt()
		}
	}
}

// settleDown lets a run whose publishers are gone come to rest: what the broker still holds is delivered, and not
// discarded by the end of the trial.
func (t *trial) settleDown() {
	if t.sideGoneBut(t.pubs) {
		return
	}
	last, since := int64(-1), time.Now()
	for end := time.Now().Add(t.Sizes.IdleTimeout); time.Now().Before(end) && time.Since(since) < endGrace/2; {
		var n int64
		for _, s := range t.subs.progress().Subs {
			n += s.Measured
		}
		if n != last {
			last, since = n, time.Now()
		}
		sleep(context.Background(), pollEvery)
	}
}

// explained reports whether what the broker dropped since base makes up for everything that has not arrived. With
// lossless settings nothing is dropped and the broker need not be asked.
func (t *trial) explained(base *broker.Stats, now []subProgress, want []int64, got func(subProgress) int64) bool {
	if t.Lossless == runrecord.LosslessYes {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	counters, err := t.broker.counters(ctx)
	if err != nil || counters == nil {
		return false
	}
	var missing int64
	for i, s := range now {
		missing += want[i/t.Case.Fanout] - got(s)
	}
	return missing > 0 && missing == droppedSince(counters, base)
}

// droppedSince counts deliveries that subscriptions' queues dropped.
func droppedSince(now, base *broker.Stats) int64 {
	var n int64
	for _, s := range now.Subscriptions {
		n += int64(s.DroppedQueue)
	}
	if base != nil {
		for _, s := range base.Subscriptions {
			n -= int64(s.DroppedQueue)
		}
	}
	return n
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
	return &idle{timeout: t.Sizes.IdleTimeout, last: -1, since: time.Now()}
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
