package broker

import (
	"sync/atomic"
	"time"
)

// queued is one batch on its way to a subscriber, or what is left of it behind skip payloads.
type queued struct {
	*batch
	skip int
}

func (e queued) msgs() uint64 { return uint64(e.count - e.skip) }

func (e queued) payloadBytes() int {
	if e.skip == 0 {
		return e.payload
	}
	items, count := e.behind(e.skip)
	return len(items) - 4*count
}

// itemBytes is what the entry's payloads take in a frame, their lengths included.
func (e queued) itemBytes() int {
	if e.skip == 0 {
		return len(e.tail) - 4
	}
	items, _ := e.behind(e.skip)
	return len(items)
}

// A waiter is where a publish waits for all queues that block it. It is counted from 1 while
// offers go on; whoever made it takes that 1 off last.
type waiter struct {
	pending atomic.Int32 // queues that still block, and 1 while offers go on
	// ready is called once, by whoever takes the last queue off, with that queue's lock held: it
	// must not block and must take no queue's lock.
	ready func()
}

// done takes one queue off; it is called with that queue's lock held.
func (w *waiter) done() {
	if w.pending.Add(-1) == 0 {
		w.ready()
	}
}

// A queue is checkpoint 5 of one subscription: what was published and its feeder has not taken
// yet. Its subscription's lock guards it. A stream's publishes come one after the other, so at
// most one batch is blocked, and order is the order of offer.
type queue struct {
	// Fixed.
	capacity int   // batches
	maxBytes int64 // of event frames
	policy   Policy

	// replay goes first. It is no part of the bounded queue: it cannot grow, and what it keeps
	// alive is at most a replay ring.
	replay []queued
	items  fifo[*batch]
	bytes  int64  // of items
	msgs   uint64 // of replay, items and blocked

	blocked      *batch // under PolicyBlock: the batch whose publish waits for room
	blockedOn    *waiter
	blockedSince time.Time

	published, replayed, dropped uint64 // messages
	admitted                     uint64 // messages let in, ever
	blockedFor                   time.Duration
	highItems                    int
	highBytes                    int64
}

// room reports whether the queue's own bounds let a frame of so many bytes in. One larger than
// the whole budget passes alone, when nothing else waits.
func (q *queue) room(size int64) bool {
	return q.items.n < q.capacity && (q.bytes+size <= q.maxBytes || q.bytes == 0)
}

// push queues a batch for which the broker-wide bytes have been taken.
func (q *queue) push(b *batch) {
	b.retain()
	q.items.push(b)
	q.bytes += b.frameBytes()
	q.msgs += uint64(b.count)
	q.admitted += uint64(b.count)
	q.highItems = max(q.highItems, q.items.n)
	q.highBytes = max(q.highBytes, q.bytes)
}

// pop takes the oldest batch off, with its hold.
func (q *queue) pop() *batch {
	b := q.items.pop()
	q.bytes -= b.frameBytes()
	q.msgs -= uint64(b.count)
	return b
}

// front is what the feeder takes next, and whether that is a replay; ok is false if there is
// nothing.
func (q *queue) front() (e queued, replay, ok bool) {
	switch {
	case len(q.replay) > 0:
		return q.replay[0], true, true
	case q.items.n > 0:
		return queued{*q.items.front(), 0}, false, true
	}
	return queued{}, false, false
}

// takeFront removes what front has shown; its hold is the caller's.
func (q *queue) takeFront(replay bool) {
	if !replay {
		q.pop()
		return
	}
	q.msgs -= q.replay[0].msgs()
	q.replay[0] = queued{}
	q.replay = q.replay[1:]
}

// empty reports whether nothing waits here, a blocked publish included.
func (q *queue) empty() bool { return q.items.n == 0 && len(q.replay) == 0 && q.blocked == nil }

// block makes the batch the one that waits for room, and counts it in w.
func (q *queue) block(b *batch, w *waiter) {
	b.retain()
	q.blocked, q.blockedOn, q.blockedSince = b, w, time.Now()
	q.msgs += uint64(b.count)
	w.pending.Add(1)
}

// unblock ends that wait.
func (q *queue) unblock() {
	q.msgs -= uint64(q.blocked.count)
	q.blocked.release()
	q.blockedOn.done()
	q.blockedFor += time.Since(q.blockedSince)
	q.blocked, q.blockedOn = nil, nil
}

// offer lets the batch into the subscriber's queue, or does what the policy says, and then runs the
// feeder's step: it is called where the stream's steps run. It never blocks. Under PolicyBlock a
// batch that finds no room is counted in w, whose done is called when it has been let in or the
// subscription has ended. The caller keeps its hold on the batch.
func (s *subscription) offer(b *batch, w *waiter) {
	s.mu.Lock()
	defer s.unlock()
	if s.ended || s.draining {
		return
	}
	q := &s.queue
	q.published += uint64(b.count)
	switch size := b.frameBytes(); {
	case q.room(size) && s.total.take(size):
		q.push(b)
	case q.policy == PolicyBlock:
		q.block(b, w)
	case q.policy == PolicyDropOld && s.evictFor(size):
		q.push(b)
	default:
		q.dropped += uint64(b.count)
		return // nothing has come in, so the feeder can do no more than before
	}
	s.feed()
}

// admit lets the blocked batch in if there is room for it now.
func (s *subscription) admit() {
	q := &s.queue
	b := q.blocked
	if b == nil {
		return
	}
	if size := b.frameBytes(); q.room(size) && s.total.takeOrWait(s, size) {
		q.push(b)
		q.unblock()
		s.freed = true // those who waited behind it may go on
	}
}

// evictFor drops from the oldest until the queue has room for a frame of so many bytes, and takes
// the broker-wide bytes for it. If others hold so many of those that even an empty queue would not
// help, nothing is dropped and the answer is false.
func (s *subscription) evictFor(size int64) bool {
	q := &s.queue
	if !s.total.wouldTake(size, q.bytes) {
		return false
	}
	for {
		if q.room(size) && s.total.take(size) {
			return true
		}
		if q.items.n == 0 {
			return false
		}
		old := q.pop()
		q.dropped += uint64(old.count)
		s.giveTotal(old.frameBytes())
		old.release()
	}
}

// startReplay puts what the ring holds in front of all else. It is called once, before the first
// offer, and takes over the holds.
func (s *subscription) startReplay(entries []queued) {
	s.mu.Lock()
	defer s.unlock()
	q := &s.queue
	q.replay = entries
	for _, e := range entries {
		q.msgs += e.msgs()
		q.published += e.msgs()
		q.replayed += e.msgs()
		q.admitted += e.msgs()
	}
}
