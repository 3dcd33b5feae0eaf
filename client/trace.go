package client

import "time"

// Trace follows single batches through the client. Its methods are called by several goroutines at
// once, in the path of the messages: they must not block.
type Trace interface {
	// Sample says whether a batch is followed, and under which id. It is asked once for each
	// published batch, with its first payload. On the way out a frame can hold several batches, or
	// part of one, so there it is asked with every payload. The payload is only lent.
	Sample(payload []byte) (id uint64, ok bool)
	// Event says that a followed batch has come to a stage. The subscription is that of
	// StageArrived, and 0 before.
	Event(id uint64, stage Stage, subscription uint64, at time.Time)
}

// Stage is a point on the way of a batch through the client.
type Stage uint8

// The stages, in the order of the way. What comes before StageWrite is the wait in Publish and in
// the worker's queue; what comes behind StageArrived is the wait for Next, and whoever calls that.
const (
	StageWrite   Stage = iota + 1 // a write to QUIC that carries it begins
	StageWritten                  // that write has returned
	StageArrived                  // its event frame has been read whole and decoded
)

// traceWrite says when the write that carried a followed batch began and returned.
func (w *worker) traceWrite(a *Ack, begin, end time.Time) {
	t := w.p.cfg.Trace
	t.Event(a.trace, StageWrite, 0, begin)
	t.Event(a.trace, StageWritten, 0, end)
}

// traceArrival asks for each payload of a frame that has just been decoded.
func (s *Subscription) traceArrival(ev Events) {
	t := s.c.cfg.Trace
	if t == nil {
		return
	}
	var at time.Time // read only for those that are followed
	for _, p := range ev.Payloads {
		if id, ok := t.Sample(p); ok {
			if at.IsZero() {
				at = time.Now()
			}
			t.Event(id, StageArrived, s.id, at)
		}
	}
}
