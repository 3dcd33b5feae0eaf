package broker

import "time"

// Trace follows single batches through the broker. Its methods are called by several goroutines at
// once, in the path of the messages and some under a lock: they must not block.
type Trace interface {
	// Sample says whether a published batch is followed, and under which id. It is asked once for
	// each, with its first payload, which is only lent.
	Sample(payload []byte) (id uint64, ok bool)
	// Event says that a followed batch has come to a stage. The subscription is that of StageWrite
	// and StageWritten, and 0 before.
	Event(id uint64, stage Stage, subscription uint64, at time.Time)
}

// Stage is a point on the way of a batch through the broker.
type Stage uint8

// The stages, in the order of the way.
const (
	StageRead    Stage = iota + 1 // its frame has been read whole, and names a stream that it may go to
	StageFanout                   // it has its number: from now on it is offered to the subscriptions
	StageWrite                    // a write to the subscription's QUIC stream that carries it begins
	StageWritten                  // that write has returned
)

// sample asks whether a batch that was just read is followed. It has a payload.
func (b *Broker) sample(e *batch) {
	if b.cfg.Trace == nil {
		return
	}
	if e.trace, e.traced = b.cfg.Trace.Sample(e.first()); e.traced {
		b.cfg.Trace.Event(e.trace, StageRead, 0, time.Now())
	}
}

// traceFanout says that a followed batch is about to be offered.
func (b *Broker) traceFanout(e *batch) {
	if e.traced {
		b.cfg.Trace.Event(e.trace, StageFanout, 0, time.Now())
	}
}

// traced reports whether a batch of the group is followed. Like traceWrite it is for whoever
// writes the group, which nobody else touches meanwhile.
func (s *subscription) traced() bool {
	if s.conn.broker.cfg.Trace == nil {
		return false
	}
	for _, e := range s.group.entries {
		if e.traced {
			return true
		}
	}
	return false
}

// traceWrite says when the write of the group began and returned.
func (s *subscription) traceWrite(began, returned time.Time) {
	t := s.conn.broker.cfg.Trace
	for _, e := range s.group.entries {
		if e.traced && e.skip == 0 { // the first payload of a batch is what is followed
			t.Event(e.trace, StageWrite, s.id, began)
			t.Event(e.trace, StageWritten, s.id, returned)
		}
	}
}
