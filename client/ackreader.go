package client

import (
	"errors"
	"fmt"
	"io"
	"time"

	"felix/internal/wire"
)

// reply is one ack in either encoding.
type reply struct {
	id      uint64
	ok      bool
	message string
}

// readLoop settles acks until the broker ends its half of the stream or the worker fails.
func (w *worker) readLoop() {
	for {
		h, body, err := w.in.next()
		if err != nil {
			w.readEnded(err)
			return
		}
		r, err := parseReply(h, body)
		if err != nil {
			var be *BrokerError
			cause := CauseDecode
			if errors.As(err, &be) {
				cause = CauseBroker
			}
			w.fail(cause, err)
			return
		}
		if !w.settle(r) {
			return
		}
	}
}

// readEnded judges the end of the broker's half: in order only when ours is closed and nothing
// is owed. It then proves that the broker has read everything.
func (w *worker) readEnded(err error) {
	if !errors.Is(err, io.EOF) {
		w.failRead(fmt.Errorf("read ack: %w", err))
		return
	}
	w.mu.Lock()
	clean := w.finSent && w.fifo.n == 0 && w.err == nil
	if clean {
		w.read = w.wrote
	}
	owed := w.fifo.n
	w.mu.Unlock()
	if !clean {
		w.fail(CauseBroker, fmt.Errorf("the broker ended the publish stream with %d acks owed", owed))
	}
}

// settle gives the reply to the oldest outstanding request and reports false if it is not its
// own, which ends the worker: from then on nobody knows which ack belongs to what.
func (w *worker) settle(r reply) bool {
	w.mu.Lock()
	a := w.fifo.front()
	if a == nil || a.id != r.id {
		w.mu.Unlock()
		if a == nil {
			w.fail(CauseOrder, fmt.Errorf("ack of request %d while none is outstanding", r.id))
		} else {
			w.fail(CauseOrder, fmt.Errorf("ack of request %d while %d is the oldest outstanding", r.id, a.id))
		}
		return false
	}
	w.fifo.pop()
	w.read = a.before // the broker reads in order
	var flushed []*Ack
	for m := w.fifo.front(); m != nil && m.marker; m = w.fifo.front() {
		flushed = append(flushed, w.fifo.pop())
	}
	w.mu.Unlock()

	w.p.admission.release(a.weight)
	now := time.Now()
	if r.ok {
		w.acked.add(a)
		a.resolve(nil, now)
	} else {
		w.p.countRefused(a, r.message)
		a.resolve(&PublishError{Message: r.message}, now)
	}
	for _, m := range flushed {
		m.resolve(nil, now)
	}
	return true
}

func parseReply(h wire.Header, body []byte) (reply, error) {
	switch h.Flags {
	case wire.FlagPublishAck:
		a, err := wire.ParsePublishAck(body)
		if err != nil {
			return reply{}, fmt.Errorf("publish ack: %w", err)
		}
		return reply{a.RequestID, a.OK, a.Err}, nil
	case 0:
		m, err := wire.ParseMessage(body)
		if err != nil {
			return reply{}, err
		}
		switch m := m.(type) {
		case wire.PublishOK:
			return reply{id: m.RequestID, ok: true}, nil
		case wire.PublishError:
			return reply{id: m.RequestID, message: m.Message}, nil
		case wire.Error:
			// It names no request, so it cannot be one publish's failure.
			return reply{}, &BrokerError{m.Message}
		}
		return reply{}, fmt.Errorf("%q message on a publish stream", m.Type())
	}
	return reply{}, fmt.Errorf("frame with flags %#04x on a publish stream", uint16(h.Flags))
}

// arm starts the ack timer if something waits and it does not run. Under w.mu.
//
// One timer a worker looks at the oldest request when it fires, instead of a read deadline moved
// by every ack: that would cost each ack two locks and a wake-up of the reader.
func (w *worker) arm(d time.Duration) {
	if w.armed || w.err != nil || w.fifo.n == 0 {
		return
	}
	w.armed = true
	w.timer.Reset(d)
}

// onTimer ends the worker if the oldest request has waited too long since it was written, and
// otherwise comes back when it would have.
func (w *worker) onTimer() {
	timeout := w.p.cfg.AckTimeout
	w.mu.Lock()
	w.armed = false
	a := w.fifo.front() // never a marker: those leave with the ack before them
	if a == nil || w.err != nil {
		w.mu.Unlock()
		return
	}
	left := timeout
	if !a.sentAt.IsZero() { // zero: still being written, which is not the ack's delay
		left = timeout - time.Since(a.sentAt)
	}
	if left > 0 {
		w.arm(left)
		w.mu.Unlock()
		return
	}
	n := w.fifo.n
	w.mu.Unlock()
	w.fail(CauseTimeout, fmt.Errorf("no ack of request %d within %v (%d outstanding)", a.id, timeout, n))
}
