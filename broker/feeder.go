package broker

import (
	"time"

	"felix/internal/wire"
)

// step is the feeder: it moves from the queue (5) to the outbox (6) what has room there, and sees to
// it that it is written. It never blocks and may be called by anyone; the places where a stream's
// steps belong call it through stream.post.
func (s *subscription) step() {
	s.mu.Lock()
	s.feed()
	s.unlock()
}

// feed is step with the lock held. A hold changes hands here without a gap: the bytes of a batch
// are held in the egress share before they are given back at 5, and the broker-wide hold goes
// along.
func (s *subscription) feed() {
	if s.ended {
		return
	}
	if !s.feeding {
		s.admit()
		return
	}
	var items, bytes uint64
	fresh := false // the open frame is of this step
	for {
		s.admit()
		e, replay, ok := s.queue.front()
		if !ok {
			s.behind = false
			s.resume()
			break
		}
		f := frame{egress: e.frameBytes()}
		if !replay {
			f.total = f.egress
		}
		where := s.place(e, f, fresh)
		if where == placeNone {
			s.stall()
			break
		}
		s.resume()
		s.queue.takeFront(replay)
		if where == placeDrop {
			s.outbox.dropped += e.msgs()
			s.giveTotal(f.total)
			e.release()
			continue
		}
		s.egress += f.egress
		s.egressHigh = max(s.egressHigh, s.egress)
		s.enter(e, f, where == placeJoin)
		fresh = fresh || where == placeNew
		items++
		bytes += uint64(f.egress)
	}
	if items > 0 {
		s.steps.record(items, bytes)
	}
	s.kick()
	if s.outbox.open && fresh {
		s.holdBack()
	}
}

// A place is where an entry goes at checkpoint 6.
type place int

const (
	placeNone place = iota // nowhere yet: it waits at 5
	placeJoin              // into the open frame
	placeNew               // into a new frame
	placeDrop              // it is dropped
)

// place finds the place of an entry with the holds of f, and makes it if the policy is to drop the
// oldest.
func (s *subscription) place(e queued, f frame, fresh bool) place {
	o := &s.outbox
	switch {
	case !s.roomInShare(f.egress):
		o.open = false
		return placeNone
	case s.joins(e, fresh):
		return placeJoin
	case o.frames.n < o.depth:
		return placeNew
	// What a replay promised is not shed for want of a place in a queue: until the feeder has
	// caught up with the publishers once, it waits.
	case s.behind || o.policy == PolicyBlock:
		return placeNone
	case o.policy == PolicyDropNew:
		return placeDrop
	}
	s.dropOldest()
	return placeNew
}

// roomInShare reports whether the subscription may hold so many bytes more in its share. If not,
// the connection will ask for a step when the share has grown.
func (s *subscription) roomInShare(size int64) bool {
	budget := &s.conn.egress
	if budget.fits(s.egress, size) {
		return true
	}
	// Said before the second look, so that a share that grows in between is not missed.
	s.wantsShare.Store(true)
	if !budget.fits(s.egress, size) {
		return false
	}
	s.wantsShare.Store(false)
	return true
}

// joins reports whether an entry goes into the open frame. fresh: that was opened in this step.
func (s *subscription) joins(e queued, fresh bool) bool {
	o := &s.outbox
	if !o.open {
		return false
	}
	items := e.itemBytes()
	if items >= joinBelow || o.openEvents+int(e.msgs()) > s.maxEvents || o.openBytes+items > s.maxBytes ||
		(s.offsets && e.base+uint64(e.skip) != o.openNext) ||
		(!fresh && s.now() >= o.openUntil) {
		o.open = false
	}
	return o.open
}

// enter puts an entry into the outbox: into the open frame, or as a new one, which is open if more
// may join it.
func (s *subscription) enter(e queued, f frame, join bool) {
	o := &s.outbox
	items, count := e.itemBytes(), int(e.msgs())
	head := wire.EventHeaderLen(s.offsets) + 4
	switch {
	case join:
		f.size = items
		o.join(e, f)
		o.openEvents += count
		o.openBytes += items
	case s.single:
		f.size = count*head + items
		o.push(e, f)
	default:
		f.size = head + items
		o.push(e, f)
		o.open = items < joinBelow && count < s.maxEvents
		o.openEvents, o.openBytes, o.openUntil = count, items, 0
	}
	o.openNext = e.base + uint64(e.count)
}

// holdBack lets the open frame collect what comes while the writer is busy; with a delay of less
// than nothing it is complete at the end of the step that made it.
func (s *subscription) holdBack() {
	if s.maxDelay <= 0 {
		s.outbox.open = false
		return
	}
	s.outbox.openUntil = s.now() + s.maxDelay
}

// dropOldest drops the oldest frame that is not being written.
func (s *subscription) dropOldest() {
	var f frame
	f, s.evicted = s.outbox.pop(s.evicted[:0])
	for i, e := range s.evicted {
		e.release()
		s.evicted[i] = queued{}
	}
	s.outbox.dropped += f.msgs
	s.egress -= f.egress
	s.giveTotal(f.total)
}

// stall notes that the feeder has stopped with work left.
func (s *subscription) stall() {
	if o := &s.outbox; !o.stalled {
		o.stalled, o.stalledSince = true, time.Now()
	}
}

// resume ends a stall.
func (s *subscription) resume() {
	if o := &s.outbox; o.stalled {
		o.stalled = false
		o.blocked.add(time.Since(o.stalledSince))
		s.wantsShare.Store(false)
	}
}
