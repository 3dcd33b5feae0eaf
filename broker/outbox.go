package broker

import "time"

// A frame is one place in an outbox: batches that go out as one event frame (in single-event mode one
// batch, each event in a frame of its own).
type frame struct {
	entries int
	msgs    uint64
	size    int   // on the wire
	egress  int64 // bytes held in the subscription's share
	total   int64 // bytes held in the broker-wide budget; replays hold none there
}

// An outbox is checkpoint 6 of one subscription: the writer's queue, in frames. Its subscription's
// lock guards it. The newest frame may be open: the feeder has put it in its place, and goes on
// adding to it while the writer has earlier ones to write, for at most EventBatchMaxDelay. The
// writer takes an open frame like any other, so an idle writer is never made to wait.
type outbox struct {
	// Fixed.
	depth  int // frames
	policy Policy

	frames  fifo[frame]
	entries fifo[queued] // of all frames, in order
	msgs    uint64       // of all frames

	open       bool
	openEvents int
	openBytes  int           // of items
	openNext   uint64        // the offset that would go on
	openUntil  time.Duration // on the subscription's clock; 0: not set yet

	// stalled says that the feeder has stopped with work left: under PolicyBlock for a place here,
	// under any policy for room in its egress share. The writer asks for a step when it has made
	// room.
	stalled      bool
	stalledSince time.Time

	dropped    uint64 // messages
	blocked    WaitHistogram
	highFrames int
}

// push opens a frame for one entry.
func (o *outbox) push(e queued, f frame) {
	f.entries, f.msgs = 1, e.msgs()
	o.frames.push(f)
	o.entries.push(e)
	o.msgs += f.msgs
	o.highFrames = max(o.highFrames, o.frames.n)
}

// join adds an entry to the open frame.
func (o *outbox) join(e queued, f frame) {
	last := o.frames.back()
	last.entries++
	last.msgs += e.msgs()
	last.size += f.size
	last.egress += f.egress
	last.total += f.total
	o.entries.push(e)
	o.msgs += e.msgs()
}

// pop takes the oldest frame off and appends its entries to dst.
func (o *outbox) pop(dst []queued) (frame, []queued) {
	f := o.frames.pop()
	for range f.entries {
		dst = append(dst, o.entries.pop())
	}
	o.msgs -= f.msgs
	if o.frames.n == 0 {
		o.open = false
	}
	return f, dst
}
