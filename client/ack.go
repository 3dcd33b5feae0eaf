package client

import (
	"context"
	"sync"
	"time"
)

// Ack is the outcome of one Publish. It resolves exactly once: when the broker's ack arrived
// (acked), when the batch was written to QUIC (unacked), or when its worker ended. An Ack is
// never reused, so it may be kept for as long as the caller likes; it holds no payload after
// the write. A kept one keeps the memory of its few neighbours, about 1 KiB.
type Ack struct {
	mu       sync.Mutex
	resolved bool
	done     chan struct{} // made by the first Done; most acks never need one
	err      error
	at       time.Time

	// Below: the worker's, unused after resolution.
	frame    *buffer // the encoded frame; nil after the write
	id       uint64  // request id; 0 when unacked
	weight   int64   // bytes of admission held
	messages uint64
	acked    bool
	marker   bool // of Flush: nothing to write, resolves when all before it did
	traced   bool
	trace    uint64 // its id, if traced
	// before is how much unacked traffic went ahead of this one on its stream: its ack proves
	// that the broker has read that too.
	before tally
	sentAt time.Time // when its write returned; zero before; under worker.mu
}

// slabAcks are allocated at once: an Ack lives as long as its caller wants, so it cannot be pooled,
// and one allocation a publish would be the only one that is left of it.
const slabAcks = 8

// ackSlab hands out new Acks.
type ackSlab struct {
	mu   sync.Mutex
	rest []Ack
}

func (s *ackSlab) next() *Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		s.rest = make([]Ack, slabAcks)
	}
	a := &s.rest[0]
	s.rest = s.rest[1:]
	return a
}

// tally is a number of batches and the messages in them.
type tally struct{ batches, messages uint64 }

func (t *tally) add(a *Ack)        { t.batches++; t.messages += a.messages }
func (t tally) sub(u tally) tally  { return tally{t.batches - u.batches, t.messages - u.messages} }
func (t tally) plus(u tally) tally { return tally{t.batches + u.batches, t.messages + u.messages} }

// resolve ends the Ack. Only the first call counts.
func (a *Ack) resolve(err error, at time.Time) {
	a.mu.Lock()
	if a.resolved {
		a.mu.Unlock()
		return
	}
	a.resolved, a.err, a.at = true, err, at
	done := a.done
	a.mu.Unlock()
	if done != nil {
		close(done)
	}
}

// Done returns a channel that is closed when the Ack has resolved. Asking for it costs an
// allocation that Wait saves when the Ack has resolved already.
func (a *Ack) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
		if a.resolved {
			close(a.done)
		}
	}
	return a.done
}

// Err returns the outcome: nil for success or while unresolved, a *PublishError for a negative
// ack, a *WorkerError if the worker ended first.
func (a *Ack) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// At returns when the Ack resolved, the zero time before that.
func (a *Ack) At() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// Wait blocks until the Ack has resolved and returns Err, or until ctx is done and returns
// its error.
func (a *Ack) Wait(ctx context.Context) error {
	a.mu.Lock()
	if a.resolved {
		defer a.mu.Unlock()
		return a.err
	}
	a.mu.Unlock()
	select {
	case <-a.Done():
		return a.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
