package broker

import (
	"slices"
	"sync"

	"felix/internal/wire"
)

// A stream is a registered logical stream: its numbering, its replay ring, its subscriptions, and
// its lane, which executes its publishes one at a time.
type stream struct {
	id     uint64 // index in the order of registration
	scope  wire.Scope
	broker *Broker
	lane   lane

	mu         sync.Mutex // short: never held while something waits
	ring       ring
	subs       []*subscription // replaced, never changed, so that a fanout can read it unlocked
	offsetSubs int             // those of them that take base offsets
	published  uint64
	abandoned  bool // by Close: nothing more is published
	lostTo     int  // subscriptions that there were then
}

func newStream(b *Broker, id uint64, scope wire.Scope) *stream {
	s := &stream{
		id:     id,
		scope:  scope,
		broker: b,
		ring:   ring{capacity: b.cfg.LogCapacity, maxBytes: b.cfg.RingMaxBytes},
	}
	b.ingress.addLane(&s.lane, id, scope.Tenant, s.publish)
	return s
}

// publish numbers the batch, keeps it for replay and offers it to all subscriptions. It never
// blocks. It is called by the stream's lane, one publish at a time. If it returns true, the publish
// is parked: under PolicyBlock a subscription had no room, and w.ready comes when the last of those
// has let it in, dropped or discarded it. The caller keeps its hold.
func (s *stream) publish(b *batch, w *waiter) (parked bool) {
	s.mu.Lock()
	if s.abandoned {
		deliveries := uint64(b.count * s.lostTo)
		s.mu.Unlock()
		s.broker.discard(deliveries)
		return false
	}
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

	s.broker.traceFanout(b)
	// Everyone with room gets it now; those without are waited for all at once.
	w.pending.Store(1)
	for _, sub := range subs {
		sub.offer(b, w)
	}
	return w.pending.Add(-1) != 0
}

// abandon has the publishes that are still to be executed discarded.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.abandoned {
		s.abandoned, s.lostTo = true, len(s.subs)
	}
}

// post asks for a feeder step of a subscription where the stream's steps run: on its shard, or,
// without shards, here and now.
func (s *stream) post(sub *subscription) {
	if shards := s.broker.shards; shards != nil {
		shards[s.broker.ingress.shardFor(s.id)].post(sub)
		return
	}
	sub.step()
}

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
