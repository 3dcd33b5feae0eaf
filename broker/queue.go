package broker

import (
	"sync"
	"sync/atomic"
	"time"
)

// queued is one batch in a subscription's queue, or what is left of it behind skip payloads.
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

// A queue is checkpoint 5 of one subscription, and its whole account: under mu,
//
//	published = written + dropped + discarded + waiting + writing + blocked
//
// Its stream's publishes come one after the other (see stream.publish), so at most one batch is
// blocked, and order is the order of offer.
type queue struct {
	// Fixed.
	capacity int   // waiting batches
	maxBytes int64 // of frames, waiting and being written
	policy   Policy

	mu   sync.Mutex
	room sync.Cond // L is mu; the feeder waits here for work

	// replay goes first. It is no part of the bounded queue: it cannot grow, and what it keeps
	// alive is at most a replay ring.
	replay []queued
	items  []*batch // circular, grows to capacity
	head   int
	n      int
	bytes  int64

	blocked      *batch // under PolicyBlock: the batch whose publisher waits for room
	blockedOn    *waiter
	blockedSince time.Time

	draining bool // nothing more comes; the feeder ends when all is written
	ended    bool // nothing more is written

	published, replayed, written, dropped, discarded uint64 // messages

	waiting, writing uint64 // messages
	writingBytes     int64  // of frames of the live queue
	queuedMsgs       uint64 // that were let in, ever
	writtenBytes     uint64 // payload
	blockedFor       time.Duration
	writeFor         time.Duration
	highItems        int
	highBytes        int64
	wakes, writes    loopCount
}

func newQueue(cfg *Config) *queue {
	q := &queue{
		capacity: cfg.SubscriberQueueCapacity,
		maxBytes: cfg.SubscriberQueueMaxBytes,
		policy:   cfg.SubscriberQueuePolicy,
	}
	q.room.L = &q.mu
	return q
}

// waiter is a publish that waits for all queues that block it.
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

// offer queues the batch or does what the policy says. If the batch is blocked, it is counted in
// w, whose done is called when it has been let in, dropped or discarded.
func (q *queue) offer(b *batch, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || q.draining {
		return
	}
	msgs, size := uint64(b.count), b.frameBytes()
	q.published += msgs
	if q.fits(size) {
		q.push(b)
		return
	}
	switch q.policy {
	case PolicyBlock:
		b.retain()
		q.blocked, q.blockedOn, q.blockedSince = b, w, time.Now()
		w.pending.Add(1)
		return
	case PolicyDropOld:
		// What is being written cannot be evicted. If the batch would not fit even beside that
		// alone, dropping the others would not help it.
		if q.writingBytes+size <= q.maxBytes || q.writingBytes == 0 {
			for !q.fits(size) {
				old := q.pop()
				q.dropped += uint64(old.count)
				q.waiting -= uint64(old.count)
				q.bytes -= old.frameBytes()
				old.release()
			}
			q.push(b)
			return
		}
	}
	q.dropped += msgs
}

// fits reports whether a frame of so many bytes may be queued. One larger than the whole budget
// passes alone, when nothing is held.
func (q *queue) fits(size int64) bool {
	return q.n < q.capacity && (q.bytes+size <= q.maxBytes || q.bytes == 0)
}

func (q *queue) push(b *batch) {
	if q.n == len(q.items) {
		bigger := make([]*batch, min(q.capacity, max(16, 2*q.n)))
		for i := range q.n {
			bigger[i] = q.items[(q.head+i)%len(q.items)]
		}
		q.items, q.head = bigger, 0
	}
	b.retain()
	q.items[(q.head+q.n)%len(q.items)] = b
	q.n++
	q.bytes += b.frameBytes()
	q.waiting += uint64(b.count)
	q.queuedMsgs += uint64(b.count)
	q.highItems = max(q.highItems, q.n)
	q.highBytes = max(q.highBytes, q.bytes)
	q.room.Signal()
}

func (q *queue) pop() *batch {
	b := q.items[q.head]
	q.items[q.head] = nil
	q.head = (q.head + 1) % len(q.items)
	q.n--
	return b
}

// admit lets the blocked batch in if there is room for it now.
func (q *queue) admit() {
	if b := q.blocked; b != nil && q.fits(b.frameBytes()) {
		q.push(b)
		q.unblock()
	}
}

// unblock ends the blocked batch's wait; the caller has accounted for it.
func (q *queue) unblock() {
	q.blocked.release()
	q.blockedOn.done()
	q.blockedFor += time.Since(q.blockedSince)
	q.blocked, q.blockedOn = nil, nil
}

// withdraw gives up on the batch that blocks w, if it is still blocked: its publisher is gone.
func (q *queue) withdraw(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.blockedOn == w {
		q.dropped += uint64(q.blocked.count)
		q.unblock()
	}
}

// startReplay puts what the ring holds in front of all else. It is called once, before the first
// offer, and takes over the holds.
func (q *queue) startReplay(entries []queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replay = entries
	for _, e := range entries {
		q.waiting += e.msgs()
		q.published += e.msgs()
		q.replayed += e.msgs()
		q.queuedMsgs += e.msgs()
	}
}

// next accounts for the group that was written (all of it, if ok, else none) in the given time and
// waits for the next one, which it returns in group[:0] with the holds. It returns nothing when
// the queue has ended or is drained. A failed write ends the queue.
func (q *queue) next(group []queued, ok bool, took time.Duration, limit joinLimit) []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writeFor += took
	q.settle(group, ok)
	group = group[:0]
	for slept := false; !q.ended; slept = true {
		if len(q.replay) > 0 || q.n > 0 {
			if slept {
				q.wakes.add(loopCount{1, uint64(q.n), uint64(q.bytes)})
			}
			return q.take(group, limit)
		}
		if q.draining {
			break
		}
		q.room.Wait()
	}
	return group
}

// settle accounts for a group whose write has ended.
func (q *queue) settle(group []queued, ok bool) {
	if len(group) == 0 {
		return
	}
	if ok {
		q.written += q.writing
		var payload uint64
		for _, e := range group {
			payload += uint64(e.payloadBytes())
		}
		q.writtenBytes += payload
		q.writes.add(loopCount{1, uint64(len(group)), payload})
	} else {
		q.discarded += q.writing
	}
	q.writing = 0
	q.bytes -= q.writingBytes
	q.writingBytes = 0
	for _, e := range group {
		e.release()
	}
	if !ok {
		q.end()
		return
	}
	q.admit()
}

// take moves what goes into one write from waiting to writing.
func (q *queue) take(group []queued, limit joinLimit) []queued {
	total := 0
	for {
		var e queued
		switch {
		case len(q.replay) > 0:
			e = q.replay[0]
		case q.n > 0:
			e = queued{q.items[q.head], 0}
		default:
			return group
		}
		size := len(e.tail) + eventHeadBytes
		if len(group) > 0 && (size >= limit.each || total+size > limit.total) {
			return group
		}
		if len(q.replay) > 0 {
			q.replay = q.replay[1:]
		} else {
			q.pop()
			q.writingBytes += e.frameBytes()
		}
		q.waiting -= e.msgs()
		q.writing += e.msgs()
		group = append(group, e)
		total += size
		q.admit() // an entry has become free, if no byte yet
		if size >= limit.each {
			return group
		}
	}
}

// joinLimit bounds what goes into one write: batches of each bytes or more go alone.
type joinLimit struct{ each, total int }

// drain makes next return nothing once all that is queued was written.
func (q *queue) drain() {
	q.mu.Lock()
	q.draining = true
	q.room.Signal()
	q.mu.Unlock()
}

// close ends the queue at once and discards what waits.
func (q *queue) close() {
	q.mu.Lock()
	q.end()
	q.mu.Unlock()
}

func (q *queue) end() {
	if q.ended {
		return
	}
	q.ended = true
	q.discarded += q.waiting
	q.waiting = 0
	for _, e := range q.replay {
		e.release()
	}
	q.replay = nil
	for q.n > 0 {
		b := q.pop()
		q.bytes -= b.frameBytes()
		b.release()
	}
	if q.blocked != nil {
		q.discarded += uint64(q.blocked.count)
		q.unblock()
	}
	q.room.Signal()
}

// snapshot fills in the account; the other fields are the subscription's.
func (q *queue) snapshot() (SubscriptionStats, queueTotals) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := SubscriptionStats{
		Published: q.published, Replayed: q.replayed, Written: q.written,
		DroppedQueue: q.dropped, DiscardedClosed: q.discarded,
		Queued:      q.waiting + q.writing,
		QueuedBytes: q.bytes, HighWaterItems: q.highItems, HighWaterBytes: q.highBytes,
		BlockedNs: int64(q.blockedFor), WriteNs: int64(q.writeFor), WrittenBytes: q.writtenBytes,
	}
	if q.blocked != nil {
		st.Queued += uint64(q.blocked.count)
		st.BlockedNs += int64(time.Since(q.blockedSince))
	}
	return st, queueTotals{queuedMsgs: q.queuedMsgs, wakes: q.wakes, writes: q.writes}
}

// queueTotals are figures of a queue that only the broker's sums show.
type queueTotals struct {
	queuedMsgs    uint64
	wakes, writes loopCount
}
