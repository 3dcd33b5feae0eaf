package client

import (
	"context"
	"fmt"
	"sync"

	"felix/internal/wire"
)

// frameQueue is the bounded queue of a subscription under PolicyDropNew and PolicyDropOld. The
// subscription's lock guards it, with its counters, so that they always agree.
type frameQueue struct {
	dropOld bool
	ring    []queuedFrame
	head, n int
	end     error         // why nothing more comes; nil: more may come
	wake    chan struct{} // holds a token when something changed since Next last looked
}

type queuedFrame struct {
	head wire.Header
	body *buffer
	msgs uint64
}

func newFrameQueue(capacity int, dropOld bool) *frameQueue {
	return &frameQueue{dropOld: dropOld, ring: make([]queuedFrame, capacity), wake: make(chan struct{}, 1)}
}

// readLoop moves frames from the QUIC stream to the queue and applies the policy. It returns at
// the end of the stream, which Close forces.
func (s *Subscription) readLoop() {
	defer close(s.reader)
	decoder := eventDecoder{id: s.id, scope: s.scope}
	for {
		h, body, err := s.in.next()
		if err != nil {
			s.stop()
			s.queueEnd(s.describe(err))
			return
		}
		// Decoded once here, for the count and so that garbage is not queued, and again by Next,
		// where its payloads are wanted: that costs less than queueing a slice a frame.
		ev, err := decoder.decode(h, body)
		if err != nil {
			s.stop()
			s.queueEnd(err)
			return
		}
		s.traceArrival(ev)
		s.enqueue(h, body, ev)
	}
}

// enqueue puts a frame into the queue, or drops it or the oldest one.
func (s *Subscription) enqueue(h wire.Header, body []byte, ev Events) {
	q, msgs := s.queue, uint64(len(ev.Payloads))
	s.mu.Lock()
	s.counted.arrived(ev)
	if q.n == len(q.ring) {
		dropped := msgs
		if q.dropOld {
			old := q.take()
			putBuffer(old.body)
			dropped = old.msgs
			s.counted.QueuedMsgs -= dropped
		}
		s.counted.DroppedFrames++
		s.counted.DroppedMsgs += dropped
	}
	if q.n < len(q.ring) {
		// The copy is made under the lock: it is short, and Next takes the lock once a frame.
		b := getBuffer(len(body))
		b.b = append(b.b, body...)
		q.ring[(q.head+q.n)%len(q.ring)] = queuedFrame{h, b, msgs}
		q.n++
		s.counted.QueuedMsgs += msgs
		s.counted.QueueHighWater = max(s.counted.QueueHighWater, q.n)
	}
	s.mu.Unlock()
	q.signal()
}

func (s *Subscription) queueEnd(err error) {
	s.mu.Lock()
	s.queue.end = err
	s.mu.Unlock()
	s.queue.signal()
}

// nextQueued takes a frame from the queue, waiting for one until ctx is done.
func (s *Subscription) nextQueued(ctx context.Context) (Events, error) {
	putBuffer(s.held)
	s.held = nil
	for {
		s.mu.Lock()
		if s.queue.n > 0 {
			f := s.queue.take()
			s.counted.QueuedMsgs -= f.msgs
			s.counted.DeliveredMsgs += f.msgs
			s.mu.Unlock()
			s.held = f.body
			ev, err := s.decoder.decode(f.head, f.body.b)
			if err != nil {
				return Events{}, fmt.Errorf("queued frame: %w", err) // readLoop has decoded it before
			}
			return ev, nil
		}
		end := s.queue.end
		s.mu.Unlock()
		if end != nil {
			return Events{}, end
		}
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
			return Events{}, ctx.Err()
		}
	}
}

// take removes the oldest frame, n > 0.
func (q *frameQueue) take() queuedFrame {
	f := q.ring[q.head]
	q.ring[q.head] = queuedFrame{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return f
}

func (q *frameQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close discards what is queued and counts it.
func (q *frameQueue) close(mu *sync.Mutex, counted *SubscriptionStats) {
	mu.Lock()
	for q.n > 0 {
		f := q.take()
		putBuffer(f.body)
		counted.QueuedMsgs -= f.msgs
		counted.DiscardedMsgs += f.msgs
	}
	mu.Unlock()
	q.signal()
}
