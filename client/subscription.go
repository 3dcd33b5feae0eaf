package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// SubscribeOptions are the choices of one Subscribe.
type SubscribeOptions struct {
	// Start is the first payload wanted. Zero is the latest: what is published from now on.
	Start wire.Start
}

// Events is one event frame.
type Events struct {
	// Payloads are valid until the following call of Next.
	Payloads [][]byte
	// BaseOffset is the stream offset of the first payload, if the frame had one.
	BaseOffset uint64
	HasOffset  bool
}

// Subscription is one event stream. One goroutine at a time may call Next; the other methods may
// be called from any.
type Subscription struct {
	c      *Client
	conn   *eventConn
	id     uint64
	scope  wire.Scope
	stream *quic.ReceiveStream
	in     *frameReader // owned by Next (PolicyBlock) or readLoop
	local  string

	queue  *frameQueue   // nil under PolicyBlock
	reader chan struct{} // closed when readLoop has returned; nil under PolicyBlock

	closed    atomic.Bool
	closeOnce sync.Once

	// Next's alone.
	decoder eventDecoder
	err     error   // why the stream ended; returned for ever
	held    *buffer // the queued frame that the last Next returned

	watchMu sync.Mutex
	watched <-chan struct{} // Done of the context that interrupts reads; nil: none
	unwatch func()

	wakeups meter // of whoever reads the stream
	mu      sync.Mutex
	counted SubscriptionStats // frames taken from the stream, and what became of them
}

// Subscribe starts a subscription on the next connection of the event pool and returns when the
// broker has confirmed it and its event stream has arrived: everything published from then on is
// delivered, subject to the policies. It blocks for a round trip (and while another subscribe is
// outstanding on that connection) until ctx is done. A refusal is a *BrokerError or *CursorError.
func (c *Client) Subscribe(ctx context.Context, scope wire.Scope, o SubscribeOptions) (*Subscription, error) {
	s, err := c.subscribe(ctx, scope, o)
	if err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", scope, err)
	}
	return s, nil
}

func (c *Client) subscribe(ctx context.Context, scope wire.Scope, o SubscribeOptions) (*Subscription, error) {
	e, err := c.events.get(ctx)
	if err != nil {
		return nil, err
	}
	m := wire.Subscribe{Scope: scope}
	if o.Start != (wire.Start{}) {
		m.Start = &o.Start
	}
	es, err := e.subscribe(ctx, m)
	if err != nil {
		return nil, err
	}
	s := &Subscription{
		c: c, conn: e, id: es.id, scope: scope,
		stream: es.stream, in: es.in, local: e.tc.LocalAddr().String(),
		decoder: eventDecoder{id: es.id, scope: scope},
	}
	s.in.measure(&s.wakeups)
	if c.cfg.SubQueuePolicy != PolicyBlock {
		s.queue = newFrameQueue(c.cfg.SubQueueCapacity, c.cfg.SubQueuePolicy == PolicyDropOld)
		s.reader = make(chan struct{})
		go s.readLoop()
	}
	if !c.events.add(s) {
		s.Close()
		return nil, errClientClosed
	}
	return s, nil
}

// ID returns the broker's id of the subscription.
func (s *Subscription) ID() uint64 { return s.id }

// Scope returns what is subscribed to.
func (s *Subscription) Scope() wire.Scope { return s.scope }

// ConnID returns the id of the subscription's connection, as in transport.ConnStats.
func (s *Subscription) ConnID() string { return s.conn.tc.ID() }

// LocalAddr returns the UDP address, as the broker sees it where no address translation is
// between.
func (s *Subscription) LocalAddr() string { return s.local }

// Next returns the next event frame, blocking until one arrives or ctx is done. Under PolicyBlock
// the caller reads the QUIC stream itself; a call that ctx interrupted loses nothing. After the
// broker finished the stream Next returns io.EOF, after it reset the stream a *ResetError, when
// the connection is lost ErrConnectionLost; these stay. After Close it returns net.ErrClosed.
func (s *Subscription) Next(ctx context.Context) (Events, error) {
	if s.closed.Load() {
		return Events{}, net.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return Events{}, err
	}
	if s.err != nil {
		return Events{}, s.err
	}
	var ev Events
	var err error
	if s.queue != nil {
		ev, err = s.nextQueued(ctx)
	} else {
		ev, err = s.nextDirect(ctx)
	}
	switch {
	case err == nil:
		return ev, nil
	case s.closed.Load():
		return Events{}, net.ErrClosed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return Events{}, err
	}
	s.err = err
	s.stopWatching()
	return Events{}, err
}

// nextDirect reads a frame from the QUIC stream.
func (s *Subscription) nextDirect(ctx context.Context) (Events, error) {
	for {
		if !s.in.ready() {
			s.watch(ctx)
		}
		h, body, err := s.in.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if err := ctx.Err(); err != nil {
				return Events{}, err
			}
			continue // an earlier context's end came late
		}
		if err != nil {
			s.stop()
			return Events{}, s.describe(err)
		}
		ev, err := s.decoder.decode(h, body)
		if err != nil {
			s.stop()
			return Events{}, err
		}
		s.traceArrival(ev)
		s.mu.Lock()
		s.counted.arrived(ev)
		s.counted.DeliveredMsgs += uint64(len(ev.Payloads))
		s.mu.Unlock()
		return ev, nil
	}
}

// watch lets ctx interrupt reads, by way of the read deadline. Callers mostly pass the same
// context again, so the watch stays for the following call.
func (s *Subscription) watch(ctx context.Context) {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	done := ctx.Done()
	if done == s.watched {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.watched = done
	if done != nil && !s.closed.Load() {
		s.unwatch = interrupt(ctx, s.stream.SetReadDeadline)
	}
}

func (s *Subscription) stopWatching() {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.watched = nil
}

// stop ends a stream that cannot be read on. The broker must hear of it: under its block policy an
// event stream that nobody reads holds up its publishers. It does nothing to one that has ended.
func (s *Subscription) stop() { s.stream.CancelRead(quic.StreamErrorCode(transport.CodeProtocol)) }

// describe turns an error of the QUIC stream into one that says what happened.
func (s *Subscription) describe(err error) error {
	var reset *quic.StreamError
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.As(err, &reset):
		if !reset.Remote {
			return net.ErrClosed
		}
		return &ResetError{SubscriptionID: s.id, Scope: s.scope, Code: uint64(reset.ErrorCode)}
	case isConnectionError(err):
		return fmt.Errorf("subscription %d of %s: %w", s.id, s.scope, &lostError{err})
	}
	return fmt.Errorf("subscription %d of %s: %w", s.id, s.scope, err)
}

// Close unsubscribes: the broker is told to stop, and what has not been delivered is discarded. A
// Next that is blocked returns net.ErrClosed. Close returns when the subscription's goroutine has
// ended; its error is always nil.
func (s *Subscription) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.stream.CancelRead(quic.StreamErrorCode(transport.CodeDone))
		s.stopWatching()
		if s.queue != nil {
			<-s.reader
			s.queue.close(&s.mu, &s.counted)
		}
		s.c.events.remove(s)
	})
	return nil
}
