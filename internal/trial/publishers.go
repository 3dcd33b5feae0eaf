package trial

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"felix/client"
	"felix/internal/measure"
	"felix/internal/transport"
	"felix/internal/workload"
)

// publishers are all publishers of the case as one process has them, a generator each.
type publishers struct {
	plan    *Plan
	clock   *measure.Clock
	pub     publishing
	monitor *transport.Monitor
	gens    []*generator
	tracer  *measure.Tracer // nil: nothing is traced
	atMark  client.PublisherStats
}

// openPublishers connects and authenticates every publish stream.
func openPublishers(ctx context.Context, p *Plan, a *access, tag uint32, clock *measure.Clock) (*publishers, error) {
	s := &publishers{plan: p, clock: clock, monitor: transport.NewMonitor(p.Sizes.ConnStats)}
	var err error
	if s.tracer, err = p.newTracer(tag); err != nil {
		return nil, err
	}
	if s.pub, err = connectPublishing(ctx, p, a, s.monitor, publisherTrace(s.tracer, clock)); err != nil {
		return nil, err
	}
	for i := range p.Case.AllPublishers() {
		sender, err := measure.NewSender(measure.SenderConfig{Tag: tag, Publisher: uint16(i), Streams: p.Case.AllStreams(), PayloadLen: p.Case.MessageBytes()})
		if err != nil {
			s.pub.close(ctx)
			return nil, err
		}
		g := newGenerator(&p.Case, i, s.pub.publisher(i), clock, sender, p.Sizes.Seed)
		g.canary = p.Sizes.Canary
		s.gens = append(s.gens, g)
	}
	return s, nil
}

// Warm-up by default: long enough that MTU discovery and the congestion window settle.
const (
	warmupMinTime         = 500 * time.Millisecond
	warmupMaxTime         = 5 * time.Second
	warmupLatency         = 500 // messages
	warmupThroughputBytes = 16 << 20
)

// warmup publishes as many messages as were asked for; by default a count and a minimum time, which both have to pass.
func (s *publishers) warmup(ctx context.Context) (*published, error) {
	if want := s.plan.Sizes.Warmup; want >= 0 {
		return s.run(ctx, measure.PhaseWarmup, func(i int) limit {
			return limit{total: int64(s.plan.Case.Share(int(want), i)), deadline: math.MaxInt64}
		})
	}
	want := warmupLatency
	if s.plan.Case.Throughput() {
		want = warmupThroughputBytes / s.plan.Case.MessageBytes()
	}
	defer time.AfterFunc(warmupMaxTime, s.end).Stop()
	deadline := s.clock.Now() + int64(warmupMinTime)
	return s.run(ctx, measure.PhaseWarmup, func(i int) limit {
		return limit{total: math.MaxInt64, min: int64(s.plan.Case.Share(want, i)), deadline: deadline}
	})
}

func (s *publishers) mark(_ context.Context, at int64) error {
	for _, g := range s.gens {
		g.sender.Mark(at)
	}
	s.atMark = s.pub.Stats()
	s.monitor.Mark()
	return nil
}

func (s *publishers) measure(ctx context.Context) (*published, error) {
	z, c := s.plan.Sizes, s.plan.Case
	total, least, lasting := z.Total, int64(0), z.Duration
	if c.Burst > 0 {
		total = int64(c.Burst)
	}
	switch {
	case total > 0:
	case z.Duration > 0 || c.Throughput():
		total = math.MaxInt64 / 2 // ends by time, or when the trial has seen enough
	default:
		total, least = workload.AutoLatencyMessages, workload.MinLatencyMessages
		lasting = workload.AutoLatencyMeasureTime
	}
	return s.run(ctx, measure.PhaseMeasure, func(i int) limit {
		return limit{total: int64(c.Share(int(total), i)), min: int64(c.Share(int(least), i)), deadline: math.MaxInt64, lasting: lasting}
	})
}

// run lets every generator publish up to its limit and then flushes.
func (s *publishers) run(ctx context.Context, phase measure.Phase, lim func(publisher int) limit) (*published, error) {
	errs := make([]error, len(s.gens))
	var wg sync.WaitGroup
	for i, g := range s.gens {
		g.stop.Store(false)
		wg.Go(func() { errs[i] = g.run(ctx, phase, lim(i)) })
	}
	wg.Wait()
	done := &published{StreamsUse: s.streamsInUse()}
	for i, g := range s.gens {
		counts := g.sender.Expected(phase)
		done.Counts = append(done.Counts, make([]int64, len(counts)))
		for stream, n := range counts {
			done.Counts[i][stream] = int64(n)
		}
	}
	for i, err := range errs {
		if err != nil && ctx.Err() == nil {
			return done, fmt.Errorf("publisher %d: %w", i, err)
		}
	}
	if ctx.Err() != nil {
		done.Ended = cause(ctx.Err())
		return done, nil
	}
	if err := s.pub.Flush(ctx); err != nil && ctx.Err() == nil {
		return done, fmt.Errorf("flush: %w", err)
	}
	return done, nil
}

// end stops publishing after the batches in hand.
func (s *publishers) end() {
	for _, g := range s.gens {
		g.stop.Store(true)
	}
}

func (s *publishers) progress() sideProgress {
	var p sideProgress
	for _, g := range s.gens {
		sent := g.sender.Progress()
		p.Published += sent.Measured
		p.PublishedBytes += sent.Bytes
	}
	return p
}

// stop closes the pool, which waits until the broker has read everything.
func (s *publishers) stop(ctx context.Context) (*sideResult, error) {
	r := &sideResult{}
	stats := sinceMark(s.pub.Stats(), s.atMark)
	r.Publisher = &stats
	r.Conns = s.monitor.Timelines()
	r.Warn = append(r.Warn, s.pub.close(ctx)...)
	r.Traces = s.tracer.Result()
	for _, g := range s.gens {
		r.Senders = append(r.Senders, g.sender.Result())
	}
	return r, nil
}

func (s *publishers) streamsInUse() []int {
	var used []int
	for _, u := range s.pub.Stats().QUICStreamsUsed {
		if u.QUICStreams > 0 {
			used = append(used, u.QUICStreams)
		}
	}
	return used
}

// sinceMark takes the warm-up out of what the record shows of the publisher's counts. At the mark nothing is under way.
func sinceMark(now, was client.PublisherStats) client.PublisherStats {
	now.Written -= was.Written
	now.BlockedAdmissionNs -= was.BlockedAdmissionNs
	now.BlockedQueueNs -= was.BlockedQueueNs
	now.BlockedWriteNs -= was.BlockedWriteNs
	for _, w := range []struct {
		now *client.Wakeups
		was client.Wakeups
	}{{&now.WriterWakeups, was.WriterWakeups}, {&now.AckWakeups, was.AckWakeups}} {
		w.now.Count -= w.was.Count
		w.now.Items -= w.was.Items
		w.now.Bytes -= w.was.Bytes
	}
	return now
}
