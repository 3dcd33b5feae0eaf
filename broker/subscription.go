package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
)

// A subscription carries one stream to one QUIC stream of a client, through checkpoint 5 (queue),
// the feeder's step, checkpoint 6 (outbox) and the writer. One lock guards all of that, so that a
// batch on an idle stream costs one lock, and the account adds up at any time:
//
//	published = written + dropped at 5 and 6 + discarded + in queue, outbox and group
//
// The writer goroutine lives from the `subscribed` reply until the client stops the QUIC stream,
// the connection ends, or the broker has drained the subscription.
type subscription struct {
	// Fixed.
	id      uint64
	conn    *conn
	stream  *stream
	send    sink
	total   *totalBudget
	offsets bool // the client takes base offsets
	// Of one event frame; see Config.
	single              bool
	maxEvents, maxBytes int
	maxDelay            time.Duration

	// wantsShare says that the feeder waits for room in its egress share: the connection looks at
	// it when shares grow.
	wantsShare atomic.Bool

	mu   sync.Mutex
	work sync.Cond // L is mu; the writer sleeps here

	feeding  bool // from the `subscribed` reply on; tests stop the feeder with it
	draining bool // nothing more comes; the writer ends when all is written
	ended    bool // nothing more is written
	behind   bool // the feeder has not caught up with the publishers yet; see feed
	idle     bool // the writer sleeps, and has not been told to wake
	freed    bool // others may find broker-wide bytes, since the lock was taken; see unlock

	queue  queue
	outbox outbox
	group  writeGroup
	recent recentBytes

	egress     int64 // bytes held in the share: of outbox and group
	egressHigh int64

	written, discarded uint64 // messages
	writtenBytes       uint64 // payload
	writeFor           time.Duration

	steps, wakes, writes loopHist

	// Scratch space, of whoever holds the lock; head is the writer's.
	evicted []queued
	small   []byte
	head    [eventHeadBytes + 4]byte

	// When the QUIC stream's context ends (STOP_SENDING, end of the connection), the subscription
	// ends at once, not at the next write. unwatch is the stop function of that watch, and
	// unwatched is closed when it has run.
	unwatch   func() bool
	unwatched chan struct{}
}

func newSubscription(c *conn, st *stream, id uint64, send sink, offsets bool) *subscription {
	cfg := &c.broker.cfg
	s := &subscription{
		id: id, conn: c, stream: st, send: send, total: &c.broker.subscriberTotal, offsets: offsets,
		single: cfg.SingleEvent, maxEvents: cfg.EventBatchMaxEvents, maxBytes: cfg.joinBytes(), maxDelay: cfg.EventBatchMaxDelay,
		behind:    true,
		queue:     queue{capacity: cfg.SubscriberQueueCapacity, maxBytes: cfg.SubscriberQueueMaxBytes, policy: cfg.SubscriberQueuePolicy},
		outbox:    outbox{depth: cfg.SubscriberLaneQueueDepth, policy: cfg.SubscriberLaneQueuePolicy},
		unwatched: make(chan struct{}),
	}
	s.work.L = &s.mu
	return s
}

func (s *subscription) watch() {
	s.unwatch = context.AfterFunc(s.send.Context(), func() {
		s.close()
		close(s.unwatched)
	})
}

// unlock releases the lock, and wakes those who wait for broker-wide bytes if they may find some.
func (s *subscription) unlock() {
	freed := s.freed
	s.freed = false
	s.mu.Unlock()
	if freed {
		s.total.wake()
	}
}

// giveTotal ends a broker-wide hold.
func (s *subscription) giveTotal(size int64) {
	if size > 0 {
		s.total.give(size)
		s.freed = true
	}
}

// now is the subscription's clock: the time since the broker began, which costs half of time.Now.
func (s *subscription) now() time.Duration { return time.Since(s.conn.broker.startedAt) }

// startFeeding lets the feeder run, now that `subscribed` has been written. The writer's goroutine
// is the caller's to start.
func (s *subscription) startFeeding() {
	s.mu.Lock()
	s.feeding = true
	s.unlock()
	s.stream.post(s)
}

// drain makes the writer end once all that is queued was written.
func (s *subscription) drain() {
	s.mu.Lock()
	s.draining = true
	s.work.Signal()
	s.unlock()
}

// close ends the subscription at once and discards what waits.
func (s *subscription) close() {
	s.mu.Lock()
	s.end()
	s.unlock()
}

// end discards everything but the group, which settle accounts for when its write has ended.
func (s *subscription) end() {
	if s.ended {
		return
	}
	s.ended = true
	q, o := &s.queue, &s.outbox
	s.discarded += q.msgs + o.msgs
	if q.blocked != nil {
		s.total.cancel(s)
		s.freed = true // those behind it may go on
		q.unblock()
	}
	for _, e := range q.replay {
		e.release()
	}
	q.replay, q.msgs = nil, 0
	for q.items.n > 0 {
		b := q.items.pop()
		q.bytes -= b.frameBytes()
		s.giveTotal(b.frameBytes())
		b.release()
	}
	for o.frames.n > 0 {
		f := o.frames.pop()
		s.egress -= f.egress
		s.giveTotal(f.total)
	}
	for o.entries.n > 0 {
		o.entries.pop().release()
	}
	o.msgs, o.open = 0, false
	s.resume()
	s.wantsShare.Store(false)
	s.work.Signal()
}

// finish ends the QUIC stream, with FIN if everything was written, and leaves no trace but the
// account.
func (s *subscription) finish() {
	if !s.unwatch() {
		<-s.unwatched
	}
	s.mu.Lock()
	drained := !s.ended
	s.mu.Unlock()
	if drained {
		s.send.Close()
		s.close()
	} else {
		s.send.CancelWrite(quic.StreamErrorCode(transport.CodeDone))
	}
	s.stream.unsubscribe(s)
	s.conn.unsubscribe(s)
	s.conn.broker.archive(s)
}

// subscriptionTotals are figures of a subscription that only the broker's sums show.
type subscriptionTotals struct {
	admitted             uint64
	blocked              *WaitHistogram // at checkpoint 6
	steps, wakes, writes *loopHist
}

// read calls f with the account, under the lock.
func (s *subscription) read(f func(SubscriptionStats, subscriptionTotals)) {
	st := SubscriptionStats{ID: s.id, Remote: s.conn.remote, Scope: s.stream.scope.String()}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, o := &s.queue, &s.outbox
	st.Published, st.Replayed, st.Written = q.published, q.replayed, s.written
	st.DroppedQueue, st.DroppedWriter, st.DiscardedClosed = q.dropped, o.dropped, s.discarded
	st.Queued, st.QueuedWriter = q.msgs, o.msgs+s.group.msgs
	st.QueuedBytes, st.EgressHeldBytes, st.LaneQueueLen = q.bytes, s.egress, o.frames.n
	st.HighWaterItems, st.HighWaterBytes = q.highItems, q.highBytes
	st.WriterHighWaterFrames, st.WriterHighWaterBytes = o.highFrames, s.egressHigh
	st.BlockedNs, st.WriterBlockedNs = int64(q.blockedFor), o.blocked.SumNs
	if q.blocked != nil {
		st.BlockedNs += int64(time.Since(q.blockedSince))
	}
	if o.stalled {
		st.WriterBlockedNs += int64(time.Since(o.stalledSince))
	}
	st.WriteNs, st.WrittenBytes = int64(s.writeFor), s.writtenBytes
	f(st, subscriptionTotals{q.admitted, &o.blocked, &s.steps, &s.wakes, &s.writes})
}
