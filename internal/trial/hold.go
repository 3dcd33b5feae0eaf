package trial

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"felix/internal/workload"
)

// hold makes a subscriber read slowly, or not at all for a while: it does not call Next until its schedule allows.
// What it does not read fills the QUIC stream's window, then the broker's writer queue, and so on up the path. It
// begins at the mark, so that the warm-up is over quickly and the barrier finds nothing under way.
type hold struct {
	rate   int64            // bytes of payload a second; 0 = as fast as it can
	stalls []workload.Stall // by their beginnings

	before context.Context // of reads before the mark
	begin  context.CancelFunc
	markAt atomic.Int64
}

// paceCredit is how much lateness is made up for: a timer's own, and that of a busy machine. What was not there to be
// read is no credit, so that a slow subscriber never reads faster than its rate for longer than this.
const paceCredit = 20 * time.Millisecond

// newHold returns nil for a subscriber that reads as fast as it can. ctx is that of all its reads.
func newHold(ctx context.Context, c *workload.Case, stream, index int) *hold {
	h := &hold{rate: c.Slow.Of(stream, index)}
	for _, s := range c.Stall {
		if s.Which.Has(stream, index) {
			h.stalls = append(h.stalls, s)
		}
	}
	if h.rate == 0 && len(h.stalls) == 0 {
		return nil
	}
	slices.SortStableFunc(h.stalls, func(a, b workload.Stall) int { return int(a.At - b.At) })
	h.before, h.begin = context.WithCancel(ctx)
	return h
}

// mark lets the schedule begin at a time of the clock.
func (h *hold) mark(at int64) {
	h.markAt.Store(at)
	h.begin()
}

// run reads until ctx ends or a read fails, and returns that error. next reads once, records what came and returns its
// bytes; a read that its context ends must lose nothing. now is the clock of mark.
func (h *hold) run(ctx context.Context, now func() int64, next func(context.Context) (bytes int, err error)) error {
	defer h.begin()
	for {
		if _, err := next(h.before); err != nil {
			if h.before.Err() == nil || ctx.Err() != nil {
				return err
			}
			break // the mark
		}
	}
	mark := h.markAt.Load()
	due := mark // when the next read may be
	for _, s := range h.stalls {
		from := mark + int64(s.At)
		if err := h.read(ctx, now, next, &due, from); err != nil {
			return err
		}
		if !sleepTo(ctx, now, from+int64(s.For)) {
			return ctx.Err()
		}
	}
	return h.read(ctx, now, next, &due, math.MaxInt64)
}

// read reads by the rate until a time of the clock, when it returns nil.
func (h *hold) read(ctx context.Context, now func() int64, next func(context.Context) (int, error), due *int64, until int64) error {
	reads := ctx
	if until != math.MaxInt64 {
		var cancel context.CancelFunc
		reads, cancel = context.WithDeadline(ctx, time.Now().Add(time.Duration(until-now())))
		defer cancel()
	}
	for {
		if !sleepTo(ctx, now, min(*due, until)) {
			return ctx.Err()
		}
		if now() >= until {
			return nil
		}
		n, err := next(reads)
		switch {
		case err != nil && reads.Err() != nil && ctx.Err() == nil:
			return nil
		case err != nil:
			return err
		case h.rate > 0:
			*due = max(*due, now()-int64(paceCredit)) + int64(float64(n)/float64(h.rate)*1e9)
		}
	}
}

// longestPause is how long a subscriber is told to read nothing: it is not idle meanwhile, and neither are those whom it
// holds up.
func (p *Plan) longestPause() time.Duration {
	frame := float64(max(p.Case.Batch*p.Case.LargestMessage(), p.Broker.EventBatchMaxBytes))
	pause := p.Case.Stall.Longest()
	for _, s := range p.Case.Slow {
		pause = max(pause, time.Duration(min(frame/float64(s.BytesPerSec), time.Hour.Seconds())*1e9))
	}
	return pause
}

// sleepTo waits for a time of the clock, and reports false if ctx ended it.
func sleepTo(ctx context.Context, now func() int64, at int64) bool {
	if left := at - now(); left > 0 {
		sleep(ctx, time.Duration(left))
	}
	return ctx.Err() == nil
}
