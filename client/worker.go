package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

const (
	// smallFrame is the size from which a frame is written as it is: joining costs a copy and
	// quic-go packs a large write just as well.
	smallFrame = 16 << 10
	// joinLimit ends a joined write. Each Write is a round trip to the connection's goroutine
	// (tens of microseconds when it sleeps), so under backlog fewer and larger ones win.
	joinLimit = 64 << 10
)

// worker is one publish stream: a queue, a goroutine that writes, one that reads acks. They
// share the FIFO of outstanding requests and nothing else, because the writer may be blocked in
// Write for as long as the broker pleases.
type worker struct {
	p      *Publisher
	index  int
	conn   *transport.Conn
	stream *quic.Stream
	flags  wire.Flags // what the broker advertised on this stream
	in     *frameReader

	queue  chan *Ack     // closed by Publisher.Close when the last Publish has left
	dead   chan struct{} // closed by fail
	nextID atomic.Uint64

	slab ackSlab

	join  []byte // the writer's: frames copied together
	group []*Ack // the writer's: the batches of one write

	mu   sync.Mutex
	fifo ackFIFO // written or being written, and not answered
	err  *WorkerError
	// finSent: all that was accepted is written and our half is closed; only now may the broker
	// end its half.
	finSent bool
	armed   bool
	timer   *time.Timer // runs onTimer while armed
	// wrote is the unacked traffic handed to Write, read the part of it that the broker is known
	// to have read, lost what failed without having been part of wrote.
	wrote, read, lost tally

	writes, acks meter
	written      count
	acked        count
	writeCalls   atomic.Uint64
	writeNs      atomic.Int64
	queueNs      atomic.Int64
	queueHigh    atomic.Int64 // most batches that waited
	accepted     count
	payload      atomic.Uint64 // accepted payload bytes
	wireBytes    atomic.Uint64 // frame bytes written
}

// count is a number of batches and messages that others may read while it grows.
type count struct{ batches, messages atomic.Uint64 }

func (c *count) add(a *Ack) {
	c.batches.Add(1)
	c.messages.Add(a.messages)
}

func newWorker(p *Publisher, index int, conn *transport.Conn, s *authStream) *worker {
	w := &worker{
		p: p, index: index, conn: conn,
		stream: s.stream, flags: s.flags, in: s.in,
		queue: make(chan *Ack, p.cfg.PublishQueueDepth),
		dead:  make(chan struct{}),
	}
	w.in.measure(&w.acks)
	w.timer = time.AfterFunc(time.Hour, w.onTimer)
	w.timer.Stop()
	return w
}

// writeLoop writes until the queue is closed, then half-closes the stream. After the worker has
// failed it goes on taking batches, to fail them: Publish may be putting one in at that moment.
func (w *worker) writeLoop() {
	var next *Ack // taken from the queue by gather, but not part of its write
	var items, bytes uint64
	for {
		if next == nil {
			select {
			case next = <-w.queue:
			default:
				if items > 0 {
					w.writes.record(items, bytes)
					items, bytes = 0, 0
				}
				next = <-w.queue
			}
			if next == nil { // closed
				break
			}
		}
		var frames []byte
		frames, next = w.gather(next)
		if !w.group[0].marker {
			items += uint64(len(w.group))
			bytes += uint64(len(frames))
		} else if items > 0 { // before Flush returns, or statistics taken then would lack it
			w.writes.record(items, bytes)
			items, bytes = 0, 0
		}
		w.write(frames)
	}
	if items > 0 {
		w.writes.record(items, bytes)
	}
	w.mu.Lock()
	fin := w.err == nil
	w.finSent = fin
	w.mu.Unlock()
	if fin {
		w.stream.Close() // half-closes; fails only after CancelWrite, which fail reports
	}
}

// gather fills w.group with first and the small frames queued behind it and returns their bytes
// for one write, and a batch that it took but that belongs to the next write. It never waits: a
// lone frame goes at once and uncopied.
func (w *worker) gather(first *Ack) (frames []byte, next *Ack) {
	w.group = append(w.group[:0], first)
	if first.marker {
		return nil, nil
	}
	frames = first.frame.b
	if len(frames) >= smallFrame {
		return frames, nil
	}
	for len(frames) < joinLimit {
		var a *Ack
		select {
		case a = <-w.queue:
		default:
		}
		if a == nil { // nothing there now, or closed
			break
		}
		if a.marker || len(a.frame.b) >= smallFrame {
			return frames, a
		}
		if len(w.group) == 1 {
			frames = append(w.join[:0], frames...)
		}
		frames = append(frames, a.frame.b...)
		w.join = frames
		w.group = append(w.group, a)
	}
	return frames, nil
}

// write sends w.group. Acked batches enter the FIFO first, since an ack can come before Write
// has returned.
func (w *worker) write(frames []byte) {
	w.mu.Lock()
	if w.err != nil {
		err := w.err
		for _, a := range w.group {
			if !a.marker {
				w.lost.add(a)
			}
		}
		w.mu.Unlock()
		w.failAll(w.group, err)
		return
	}
	if w.group[0].marker {
		waits := w.fifo.n > 0
		if waits {
			w.fifo.push(w.group[0])
		}
		w.mu.Unlock()
		if !waits {
			w.group[0].resolve(nil, time.Now())
		}
		return
	}
	for _, a := range w.group {
		if a.acked {
			a.before = w.wrote
			w.fifo.push(a)
		} else {
			w.wrote.add(a)
		}
	}
	w.mu.Unlock()

	start := time.Now()
	_, err := w.stream.Write(frames)
	now := time.Now()
	w.writeNs.Add(int64(now.Sub(start)))
	w.writeCalls.Add(1)
	if err != nil {
		w.failRead(fmt.Errorf("write: %w", err))
		w.mu.Lock()
		err := w.err
		w.mu.Unlock()
		// The acked ones were in the FIFO and have failed with it.
		for _, a := range w.group {
			w.release(a)
			if !a.acked {
				w.p.countFailed(a, err)
				a.resolve(err, now)
			}
		}
		return
	}
	w.wireBytes.Add(uint64(len(frames)))
	w.mu.Lock()
	for _, a := range w.group {
		a.sentAt = now
	}
	w.arm(w.p.cfg.AckTimeout)
	w.mu.Unlock()
	for _, a := range w.group {
		if a.traced {
			w.traceWrite(a, start, now)
		}
		w.written.add(a)
		putBuffer(a.frame)
		a.frame = nil
		if !a.acked {
			w.p.admission.release(a.weight)
			a.resolve(nil, now)
		}
	}
}

// release frees the frame of a batch that the writer owns and the admission of an unacked one.
func (w *worker) release(a *Ack) {
	putBuffer(a.frame)
	a.frame = nil
	if !a.acked {
		w.p.admission.release(a.weight)
	}
}

// failAll ends batches that never reached the FIFO.
func (w *worker) failAll(batches []*Ack, err *WorkerError) {
	now := time.Now()
	for _, a := range batches {
		if !a.marker {
			putBuffer(a.frame)
			a.frame = nil
			w.p.admission.release(a.weight)
			w.p.countFailed(a, err)
		}
		a.resolve(err, now)
	}
}

// fail ends the worker: what waits for acks fails now, what is queued when the writer takes it.
// Only the first call counts.
func (w *worker) fail(cause FailCause, err error) {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return
	}
	we := &WorkerError{Worker: w.index, Cause: cause, Err: err}
	w.err = we
	w.timer.Stop()
	var waiting []*Ack
	for a := w.fifo.pop(); a != nil; a = w.fifo.pop() {
		waiting = append(waiting, a)
		if !a.marker {
			w.lost.add(a)
		}
	}
	w.mu.Unlock()
	close(w.dead)

	code := quic.StreamErrorCode(transport.CodeProtocol)
	if cause == CauseClosed {
		code = quic.StreamErrorCode(transport.CodeDone)
	}
	w.stream.CancelWrite(code) // ends a blocked Write
	w.stream.CancelRead(code)  // and the ack reader
	w.p.c.cfg.Logger.Warn("publish worker ended", "worker", w.index, "cause", string(cause), "error", err, "outstanding", len(waiting))

	now := time.Now()
	for _, a := range waiting {
		if !a.marker {
			w.p.admission.release(a.weight)
			w.p.countFailed(a, we)
		}
		a.resolve(we, now)
	}
}

// failRead ends the worker with an error of its QUIC stream.
func (w *worker) failRead(err error) {
	switch {
	case isConnectionError(err):
		w.fail(CauseConnection, &lostError{err})
	case errors.As(err, new(*quic.StreamError)):
		w.fail(CauseBroker, err)
	case errors.Is(err, io.EOF):
		w.fail(CauseBroker, errors.New("the broker ended the publish stream"))
	default:
		w.fail(CauseDecode, err)
	}
}

// unconfirmed returns what this worker accepted and cannot vouch for.
func (w *worker) unconfirmed() (tally, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.err != nil {
		err = w.err
	}
	return w.wrote.sub(w.read).plus(w.lost), err
}

// failed returns why the worker ended, nil while it lives.
func (w *worker) failed() error {
	select {
	case <-w.dead:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	default:
		return nil
	}
}

// enqueue hands a batch to the writer, waiting for room until ctx is done, the publisher closes
// or the worker ends.
func (w *worker) enqueue(ctx context.Context, a *Ack) error {
	select {
	case w.queue <- a:
		raise(&w.queueHigh, int64(len(w.queue)))
		return nil
	default:
	}
	raise(&w.queueHigh, int64(cap(w.queue)))
	start := time.Now()
	defer func() { w.queueNs.Add(int64(time.Since(start))) }()
	select {
	case w.queue <- a:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.p.closing:
		return errPublisherClosed
	case <-w.dead:
		return w.failed()
	}
}
