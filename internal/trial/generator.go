package trial

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"felix/client"
	"felix/internal/measure"
	"felix/internal/wire"
	"felix/internal/workload"
)

// generator is one publisher of the case: it makes the messages of its streams, in the shape of the case's load,
// and takes their acks. One goroutine.
type generator struct {
	plan    *workload.Case
	index   int
	pub     publisher
	clock   *measure.Clock
	sender  *measure.Sender
	streams []int // that it writes to
	turn    int
	mode    wire.AckMode
	seed    uint64
	canary  Canary

	parts   []sized // of each part of the mix
	making  unmade
	fill    func([][]byte) // writes what is to be made; the method itself would be one allocation a batch
	pending fifo           // publishes whose outcome is not known yet

	pauser *pauser // of the phase under way

	stop atomic.Bool // ends the phase after the batch in hand
}

// sized is the messages of one size.
type sized struct {
	sizes  []int // of a whole batch
	filler *measure.Filler
}

// unmade is a batch whose messages are made when there is room for them; the zero batch: they have not been.
type unmade struct {
	stream         int
	intended, sent int64
	filler         *measure.Filler
	batch          measure.Batch
}

// limit ends a phase: at total messages, or at the deadline once min messages are out.
type limit struct {
	total    int64 // of this publisher
	min      int64
	deadline int64 // on the clock; math.MaxInt64 = none
	// lasting sets the deadline when the publisher begins; 0 leaves it. What is asked for is so much of publishing: the
	// way from the mark to here is no part of it.
	lasting time.Duration
}

func (l limit) reached(n, now int64) bool {
	return n >= l.total || now >= l.deadline && n >= l.min
}

func newGenerator(c *workload.Case, index int, pub publisher, clock *measure.Clock, sender *measure.Sender, seed uint64) *generator {
	g := &generator{plan: c, index: index, pub: pub, clock: clock, sender: sender, streams: c.StreamsOf(index), seed: seed}
	switch c.Acks {
	case workload.AcksPerMessage:
		g.mode = wire.AckPerMessage
	case workload.AcksPerBatch:
		g.mode = wire.AckPerBatch
	}
	for _, size := range c.PayloadSizes() {
		g.parts = append(g.parts, sized{slices.Repeat([]int{size}, c.Batch), measure.NewFiller(seed, size)})
	}
	g.fill = g.write
	return g
}

// write makes the messages of a batch. They are made anew each time, as a program's are that has something to say.
func (g *generator) write(payloads [][]byte) {
	m := &g.making
	for _, p := range payloads {
		m.filler.Fill(p)
	}
	m.batch = g.sender.Stamp(uint16(m.stream), payloads, m.intended, m.sent)
}

// run publishes until the limit, stop or ctx, then waits until the outcome of everything it published is known.
// The error is why it ended early: a publish that the client would not take. ctx bounds the waiting too.
func (g *generator) run(ctx context.Context, phase measure.Phase, lim limit) error {
	err := g.publish(ctx, g.shapeOf(phase), lim)
	for g.pending.len() > 0 {
		g.settle(ctx)
	}
	return err
}

// shape is how a generator publishes in one phase.
type shape struct {
	load workload.Load
	mode wire.AckMode
}

// shapeOf is the load of the case. Before a burst the system must rest: its warm-up waits for every ack.
func (g *generator) shapeOf(phase measure.Phase) shape {
	if g.plan.Load == workload.LoadBurst && phase == measure.PhaseWarmup {
		return shape{workload.LoadClosed, wire.AckPerBatch}
	}
	return shape{g.plan.Load, g.mode}
}

func (g *generator) publish(ctx context.Context, as shape, lim limit) error {
	var schedule *workload.Schedule
	if as.load == workload.LoadOpen {
		schedule = g.plan.NewSchedule(g.index, g.clock.Now(), g.seed)
	}
	mix := g.plan.NewMixDraw(g.index, g.seed)
	canary := g.newBrake()
	g.pauser = newPauser()
	defer g.pauser.close()
	last := g.clock.Now() // when the last batch was sent
	if lim.lasting > 0 {
		lim.deadline = last + int64(lim.lasting)
	}
	// One batch is sent at the deadline or after it, so that what lies between the first and the last is not less.
	for n := int64(0); !g.stop.Load() && !lim.reached(n, last); {
		intended := int64(math.MinInt64)
		if schedule != nil {
			intended = schedule.Next()
			if intended >= lim.deadline && n >= lim.min {
				return nil // due after the end
			}
			if !g.sleepUntil(ctx, intended) {
				return ctx.Err()
			}
		}
		for as.load == workload.LoadClosed && g.pending.len() >= g.plan.Inflight {
			if !g.settle(ctx) {
				return ctx.Err()
			}
		}
		stream := g.streams[g.turn%len(g.streams)]
		g.turn++
		next := &g.parts[mix.Next()]
		sizes := next.sizes[:min(int64(len(next.sizes)), lim.total-n)]
		if !canary.hold(ctx, g, len(sizes)) {
			return ctx.Err()
		}
		sent := g.clock.Now()
		if schedule == nil {
			intended = sent
		}
		g.making = unmade{stream: stream, intended: intended, sent: sent, filler: next.filler}
		canary.delayAfter(g, sent)
		ack, err := g.pub.PublishFunc(ctx, stream, sizes, g.fill, as.mode)
		batch := g.making.batch
		if err != nil {
			if batch.Count == 0 { // refused before anything was made
				batch = g.sender.Unmade(uint16(stream), sizes, intended, sent)
			}
			g.sender.Unsent(batch, cause(err))
			return err
		}
		last = sent
		g.sender.Published(batch, g.clock.Now())
		g.pending.push(outstanding{ack, batch, as.mode != wire.AckNone})
		n += int64(len(sizes))
		for g.pending.len() > 0 && !g.pending.front().ack.At().IsZero() {
			g.settle(ctx)
		}
	}
	return nil
}

// settle takes the outcome of the oldest outstanding publish. It reports false if ctx ended the wait: the outcome
// is then a failure of its own.
func (g *generator) settle(ctx context.Context) bool {
	o := *g.pending.front() // a copy: pop clears the place
	err := o.ack.Wait(ctx)
	g.pending.pop()
	if err != nil {
		return g.settleError(ctx, o, err)
	}
	if o.acked {
		g.sender.Acked(o.batch, g.clock.At(o.ack.At()))
	}
	return true
}

// settleError is apart so that only here its variable goes to the heap.
func (g *generator) settleError(ctx context.Context, o outstanding, err error) bool {
	var refused *client.PublishError
	if errors.As(err, &refused) {
		g.sender.Refused(o.batch, refused.Message)
		return true
	}
	g.sender.Failed(o.batch, cause(err))
	return ctx.Err() == nil
}

// sleepUntil waits for the clock, and reports false if ctx ended it.
func (g *generator) sleepUntil(ctx context.Context, at int64) bool {
	// Far from the time a timer does, and ctx can end it; the last stretch needs more precision than timers have.
	const coarse = 5 * time.Millisecond
	for {
		left := time.Duration(at - g.clock.Now())
		switch {
		case left <= 0 || g.stop.Load():
			return ctx.Err() == nil
		case left <= coarse:
			g.pauser.pause(left)
		default:
			sleep(ctx, min(left-coarse/2, 50*time.Millisecond))
			if ctx.Err() != nil {
				return false
			}
		}
	}
}

// cause names an error for the ledger's counts.
func cause(err error) string {
	var worker *client.WorkerError
	switch {
	case errors.As(err, &worker):
		return string(worker.Cause)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	return err.Error()
}

// outstanding is a publish whose outcome is not known yet.
type outstanding struct {
	ack   ack
	batch measure.Batch
	acked bool
}

// fifo is a queue of outstanding publishes. Its array is reused, so that a steady flood does not allocate.
type fifo struct {
	items []outstanding
	head  int
}

func (f *fifo) len() int            { return len(f.items) - f.head }
func (f *fifo) front() *outstanding { return &f.items[f.head] }

func (f *fifo) push(o outstanding) {
	if f.head > 0 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, o)
}

func (f *fifo) pop() {
	f.items[f.head] = outstanding{}
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
}
