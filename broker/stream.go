package broker

import (
	"slices"
	"sync"

	"felix/internal/wire"
)

// A stream is a registered logical stream: its numbering, its replay ring and its subscriptions.
type stream struct {
	scope  wire.Scope
	broker *Broker

	// turn serialises publishes: it holds one token, and whoever put it there may publish, with
	// all its waiting. Order of publishing is order of taking turns. It is a channel so that
	// waiting for it can end with the publisher's connection. Later, a lane of the scheduler
	// takes its place.
	turn chan struct{}

	mu         sync.Mutex // short: never held while something waits
	ring       ring
	subs       []*subscription // replaced, never changed, so that a fanout can read it unlocked
	offsetSubs int             // those of them that take base offsets
	published  uint64
}

func newStream(b *Broker, scope wire.Scope) *stream {
	return &stream{
		scope:  scope,
		broker: b,
		turn:   make(chan struct{}, 1),
		ring:   ring{capacity: b.cfg.LogCapacity, maxBytes: b.cfg.RingMaxBytes},
	}
}

// publish numbers the batch, keeps it for replay and fans it out. It blocks for the stream's turn
// and, under PolicyBlock, for room at every subscription; before it waits for room it calls
// flush, so that what is owed to the publisher does not wait too. It returns false if gone was
// closed before the batch had its turn: then nothing was published. Once it has, it waits until
// every queue has let it in or ended. The caller keeps its hold.
func (s *stream) publish(b *batch, w *waiter, woken, gone <-chan struct{}, flush func()) bool {
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-gone:
			return false
		}
	}
	defer func() { <-s.turn }()

	s.mu.Lock()
	// In place stands the form that most subscribers take without a second write.
	b.seal(s.ring.next, 2*s.offsetSubs >= len(s.subs))
	before := s.ring.bytes.Load()
	s.ring.append(b)
	s.broker.ringTotal.Add(s.ring.bytes.Load() - before)
	if s.broker.ringTotal.Load() > s.broker.cfg.RingMaxBytesTotal {
		s.broker.shrinkRings(s)
	}
	s.published += uint64(b.count)
	subs := s.subs
	s.mu.Unlock()

	// Everyone with room first; then one wait for all the full ones.
	w.pending.Store(1)
	for _, sub := range subs {
		sub.offer(b, w)
	}
	if w.pending.Add(-1) == 0 {
		return true
	}
	flush()
	<-woken
	return true
}

// post asks that the subscription's step run where the stream's steps run: here, at once.
func (s *stream) post(sub *subscription) { sub.step() }

// subscribe registers the subscription at a start position: all that is published from now on is
// offered to it, and what the ring has from there on is put in front. The error is a
// *cursorError.
func (s *stream) subscribe(sub *subscription, start *wire.Start) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, err := s.position(start)
	if err != nil {
		return err
	}
	if offset < s.ring.next {
		sub.startReplay(s.ring.from(offset))
	}
	s.subs = append(slices.Clip(s.subs), sub)
	if sub.offsets {
		s.offsetSubs++
	}
	return nil
}

// checkStart is the error that subscribe would return now.
func (s *stream) checkStart(start *wire.Start) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.position(start)
	return err
}

// position resolves a start; the lock is held.
func (s *stream) position(start *wire.Start) (uint64, error) {
	first, next := s.ring.first(), s.ring.next
	if start == nil {
		return next, nil
	}
	switch start.Kind {
	case wire.StartEarliest:
		return first, nil
	case wire.StartOffset:
		if start.Offset < first {
			return 0, &cursorError{"too_old", start.Offset, first}
		}
		if start.Offset > next {
			return 0, &cursorError{"in_future", start.Offset, next}
		}
		return start.Offset, nil
	}
	return next, nil
}

// unsubscribe takes the subscription off the stream.
func (s *stream) unsubscribe(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.subs, sub)
	if i < 0 {
		return
	}
	s.subs = slices.Concat(s.subs[:i], s.subs[i+1:])
	if sub.offsets {
		s.offsetSubs--
	}
}

func (s *stream) stats() StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamStats{
		Scope:         s.scope.String(),
		PublishedMsgs: s.published,
		NextOffset:    s.ring.next,
		FirstOffset:   s.ring.first(),
		RingBytes:     s.ring.bytes.Load(),
		Subscriptions: len(s.subs),
	}
}

// cursorError says that a start position is not in the ring.
type cursorError struct {
	reason               string // "too_old" or "in_future"
	requested, available uint64
}

func (e *cursorError) Error() string { return "start position is " + e.reason }

// shrinkRings evicts until all rings together are within their bound. The caller holds s.mu. A
// ring over its fair share gives way itself; one below takes room from the largest other, so that
// streams that fell silent do not keep a later one from having a ring at all.
func (b *Broker) shrinkRings(s *stream) {
	limit := b.cfg.RingMaxBytesTotal
	for b.ringTotal.Load() > limit {
		victim := s
		if s.ring.bytes.Load()*int64(len(b.streamList)) <= limit {
			for _, o := range b.streamList {
				if o.ring.bytes.Load() > victim.ring.bytes.Load() {
					victim = o
				}
			}
		}
		// Only tried, because whoever holds the other lock may be here too and want ours.
		if victim != s && !victim.mu.TryLock() {
			victim = s
		}
		freed := victim.ring.evict()
		if victim != s {
			victim.mu.Unlock()
		}
		b.ringTotal.Add(-freed)
		if freed == 0 {
			return
		}
	}
}
