package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"felix/internal/transport"
	"felix/internal/wire"
)

var errPublisherClosed = fmt.Errorf("publisher: %w", net.ErrClosed)

// Publisher is a pool of publish streams. Its methods may be called from several goroutines;
// batches that two goroutines publish at the same time have no order between them.
//
// A worker that ends (see WorkerError) stays ended: Publish fails for the streams that
// ShardHashStream gives it, ShardRoundRobin passes it over. Open a new Publisher to recover.
type Publisher struct {
	c       *Client
	cfg     Config
	conns   []*transport.Conn
	workers []*worker // conn by conn

	admission admission // checkpoint 1, in bytes of frames
	admitNs   atomic.Int64
	turn      atomic.Uint64 // round robin

	gate    gate
	closing chan struct{}  // closed when Close begins
	loops   sync.WaitGroup // writers and ack readers

	closeOnce sync.Once
	closeErr  error

	mu              sync.Mutex // the two maps; touched on failures only
	refused, failed map[string]uint64
}

// NewPublisher opens the pool: Config.PublishConnPool connections with PublishStreamsPerConn
// authenticated streams each, all at once. It fails if any of them fails.
func (c *Client) NewPublisher(ctx context.Context) (*Publisher, error) {
	p, err := c.openPublisher(ctx)
	if err != nil {
		return nil, fmt.Errorf("open publisher: %w", err)
	}
	return p, nil
}

func (c *Client) openPublisher(ctx context.Context) (*Publisher, error) {
	if c.closed() {
		return nil, errClientClosed
	}
	perConn := c.cfg.PublishStreamsPerConn
	conns := make([]*transport.Conn, c.cfg.PublishConnPool)
	streams := make([]*authStream, len(conns)*perConn)
	g, gctx := errgroup.WithContext(ctx)
	for i := range conns {
		g.Go(func() error {
			conn, first, err := c.takeConn(gctx, "publisher")
			if err != nil {
				return err
			}
			conns[i], streams[i*perConn] = conn, first
			for j := 1; j < perConn; j++ {
				g.Go(func() error {
					s, err := c.openStream(gctx, conn)
					streams[i*perConn+j] = s
					return err
				})
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		closeConns(conns)
		return nil, err
	}
	p := &Publisher{
		c: c, cfg: c.cfg, conns: conns,
		admission: admission{budget: semaphore.NewWeighted(c.cfg.PublishInflightBytes)},
		gate:      gate{idle: make(chan struct{})},
		closing:   make(chan struct{}),
		refused:   map[string]uint64{},
		failed:    map[string]uint64{},
	}
	for i, s := range streams {
		w := newWorker(p, i, conns[i/perConn], s)
		p.workers = append(p.workers, w)
		p.loops.Go(w.writeLoop)
		p.loops.Go(w.readLoop)
	}
	if !c.addPublisher(p) { // Close came in between
		expired, cancel := context.WithCancel(ctx)
		cancel()
		return nil, errors.Join(errClientClosed, p.Close(expired))
	}
	return p, nil
}

// Publish encodes a batch and queues it on the scope's worker. It blocks while the byte budget
// (checkpoint 1) or the worker's queue (2) is full, until ctx is done. The payloads may be
// reused when it returns.
//
// The Ack resolves when the broker's ack arrived or, with wire.AckNone, when the batch was
// written to QUIC; Flush and Close say more about the latter. An error means that nothing was
// accepted: ctx's error, net.ErrClosed after Close, a *WorkerError if the worker has ended, or
// wire.ErrTooLong for a batch that no frame can carry.
func (p *Publisher) Publish(ctx context.Context, scope wire.Scope, payloads [][]byte, ack wire.AckMode) (*Ack, error) {
	return p.publish(ctx, encoding{scope: scope, payloads: payloads, mode: ack}, nil)
}

// PublishFunc is Publish for payloads that are made on the spot: it spares the copy. sizes are their
// lengths in bytes, and fill writes them, straight into the frame. fill is called at most once, before
// PublishFunc returns and when the byte budget has room. It must write every byte of every payload:
// what it leaves is what the memory held before, which may be somebody else's message. It must keep
// none of them, and not call the Publisher. One that blocks holds its part of the budget, and Close,
// which waits for it whatever its context says.
//
// The Ack and the errors are those of Publish. With an error nothing was accepted, whether fill was
// called or not.
func (p *Publisher) PublishFunc(ctx context.Context, scope wire.Scope, sizes []int, fill func(payloads [][]byte), ack wire.AckMode) (*Ack, error) {
	if sizes == nil {
		sizes = []int{}
	}
	return p.publish(ctx, encoding{scope: scope, room: sizes, mode: ack}, fill)
}

func (p *Publisher) publish(ctx context.Context, e encoding, fill func([][]byte)) (*Ack, error) {
	if !p.gate.enter() {
		return nil, errPublisherClosed
	}
	defer p.gate.leave()

	w, err := p.pick(e.scope)
	if err != nil {
		return nil, err
	}
	acked := e.mode != wire.AckNone
	e.json = w.useJSON(acked)
	if err := e.check(p.cfg.MaxFrameBytes); err != nil {
		return nil, fmt.Errorf("publish %s: %w", e.scope, err)
	}
	size, payloadBytes := e.size()
	a := w.slab.next()
	a.weight = min(int64(size), p.cfg.PublishInflightBytes)
	a.messages = uint64(e.messages())
	a.acked = acked
	if err := p.admit(ctx, a.weight); err != nil {
		return nil, err
	}
	queued := false
	defer func() { // also when fill panics
		if !queued {
			putBuffer(a.frame)
			p.admission.release(a.weight)
		}
	}()
	if a.acked {
		a.id = w.nextID.Add(1)
	}
	a.frame = getBuffer(size)
	e.append(a.frame, a.id, fill)
	if p.cfg.Trace != nil && len(e.payloads) > 0 {
		a.trace, a.traced = p.cfg.Trace.Sample(e.payloads[0])
	}
	if err := w.enqueue(ctx, a); err != nil {
		return nil, err
	}
	queued = true
	w.accepted.add(a)
	w.payload.Add(uint64(payloadBytes))
	return a, nil
}

// admit takes n bytes of the budget, at most all of it.
func (p *Publisher) admit(ctx context.Context, n int64) error {
	if p.admission.tryAcquire(n) {
		return nil
	}
	start := time.Now()
	defer func() { p.admitNs.Add(int64(time.Since(start))) }()
	// Close does not interrupt this wait: what holds the budget is being written or is answered,
	// or fails when Close's context ends, and each of these gives bytes back.
	return p.admission.acquire(ctx, n)
}

// pick returns the worker for a batch.
func (p *Publisher) pick(scope wire.Scope) (*worker, error) {
	n := len(p.workers)
	if p.cfg.PublishSharding == ShardHashStream {
		w := p.workers[WorkerFor(scope, n)]
		return w, w.failed()
	}
	var err error
	for range n {
		w := p.workers[int((p.turn.Add(1)-1)%uint64(n))]
		if err = w.failed(); err == nil {
			return w, nil
		}
	}
	return nil, err
}

// Flush blocks until everything accepted before it was called has been acked or refused or,
// unacked, written to QUIC, or until ctx is done. It returns the errors of workers that have
// ended; refusals are in the Acks. That unacked batches were read by the broker, only Close
// makes sure of.
func (p *Publisher) Flush(ctx context.Context) error {
	if !p.gate.enter() {
		return errPublisherClosed
	}
	defer p.gate.leave()
	var errs []error
	markers := make([]*Ack, 0, len(p.workers))
	for _, w := range p.workers {
		m := &Ack{marker: true}
		if err := w.enqueue(ctx, m); err != nil {
			errs = append(errs, err)
			continue
		}
		markers = append(markers, m)
	}
	for _, m := range markers {
		if err := m.Wait(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err // once, not once a worker
	}
	return errors.Join(errs...)
}

// Close writes what is queued, half-closes every publish stream, waits until the broker has
// ended its half of each, which it does when it has read to the end and sent every ack, and then
// closes the connections. When ctx ends first, what is left fails. Either way every goroutine of
// the Publisher has ended when Close returns.
//
// It returns an *UnconfirmedError if anything accepted since the beginning was not confirmed:
// neither acked nor refused or, unacked, not known to be read by the broker. A second call waits
// for the first and returns the same.
func (p *Publisher) Close(ctx context.Context) error {
	p.closeOnce.Do(func() {
		close(p.closing)
		p.gate.shut()
		select {
		case <-p.gate.idle:
		case <-ctx.Done():
			p.abort(ctx)
			<-p.gate.idle
		}
		for _, w := range p.workers {
			close(w.queue) // no Publish is left that could send
		}
		ended := make(chan struct{})
		go func() {
			p.loops.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-ctx.Done():
			p.abort(ctx)
			<-ended
		}
		closeConns(p.conns)
		p.closeErr = p.unconfirmed()
		p.c.removePublisher(p)
	})
	return p.closeErr
}

// abort fails every worker, which ends their loops and gives their bytes back.
func (p *Publisher) abort(ctx context.Context) {
	for _, w := range p.workers {
		w.fail(CauseClosed, fmt.Errorf("close: %w", context.Cause(ctx)))
	}
}

func (p *Publisher) unconfirmed() error {
	var sum tally
	var cause error
	for _, w := range p.workers {
		t, err := w.unconfirmed()
		sum = sum.plus(t)
		if cause == nil && t.batches > 0 {
			cause = err
		}
		w.timer.Stop()
	}
	if sum.batches == 0 {
		return nil
	}
	return &UnconfirmedError{Batches: sum.batches, Messages: sum.messages, Cause: cause}
}

func (p *Publisher) countRefused(a *Ack, message string) { p.count(p.refused, message, a) }

func (p *Publisher) countFailed(a *Ack, err *WorkerError) {
	p.count(p.failed, string(err.Cause), a)
}

// maxReasons bounds the keys that a broker's messages can make.
const maxReasons = 256

func (p *Publisher) count(m map[string]uint64, reason string, a *Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := m[reason]; !ok && len(m) >= maxReasons {
		reason = "other"
	}
	m[reason] += a.messages
}

// gate counts the calls inside and lets the last one out tell Close. Two atomic operations a
// Publish; a read lock would cost the same and could not be waited for with a context.
type gate struct {
	n    atomic.Int64 // calls inside, plus shutBit
	once sync.Once
	idle chan struct{} // closed when shut and empty
}

const shutBit = 1 << 62

func (g *gate) enter() bool {
	if g.n.Add(1) < shutBit {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.n.Add(-1) == shutBit {
		g.once.Do(func() { close(g.idle) })
	}
}

// shut makes enter fail. It is called once.
func (g *gate) shut() {
	if g.n.Add(shutBit) == shutBit {
		g.once.Do(func() { close(g.idle) })
	}
}
