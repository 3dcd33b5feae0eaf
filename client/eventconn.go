package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// eventConn is one connection of the event pool: a control stream on which at most one subscribe
// is outstanding, and the event streams that the broker opens.
//
// An event stream can arrive before or after `subscribed` names its id, so whichever comes first
// waits in a table for the other.
type eventConn struct {
	c     *Client
	tc    *transport.Conn
	loops sync.WaitGroup // acceptLoop, its hello readers, and readers of subscribe replies
	once  sync.Once

	// turn holds one token: its owner may use control. It is the reply's reader that gives it
	// back, so a subscribe that its caller gave up does not confuse the next one.
	turn    chan struct{}
	control *authStream // nil: open one

	cacheTurn chan struct{}
	cache     *authStream // as control, for cache requests; opened when first needed
	cacheID   uint64

	mu sync.Mutex
	// request is the subscribe whose reply is awaited; early are streams that said hello during
	// it; expected are subscriptions whose stream has not come yet.
	request  *subscribeRequest
	early    map[uint64]*eventStream
	expected map[uint64]*subscribeRequest
	ended    error
}

// eventStream is a stream whose hello has been read.
type eventStream struct {
	id     uint64
	stream *quic.ReceiveStream
	in     *frameReader
}

// subscribeRequest is one Subscribe under way.
type subscribeRequest struct {
	result    chan subscribeResult // room for one
	abandoned bool                 // under eventConn.mu: the caller left, cancel what comes
}

type subscribeResult struct {
	stream *eventStream
	err    error
}

func newEventConn(c *Client, tc *transport.Conn, control *authStream) *eventConn {
	e := &eventConn{
		c: c, tc: tc, control: control,
		turn: make(chan struct{}, 1), cacheTurn: make(chan struct{}, 1),
		early: map[uint64]*eventStream{}, expected: map[uint64]*subscribeRequest{},
	}
	e.loops.Go(e.acceptLoop)
	return e
}

// close ends the connection and waits for its goroutines.
func (e *eventConn) close() {
	e.once.Do(func() { e.tc.Close(transport.CodeDone, "") })
	e.loops.Wait()
}

// subscribe does one subscribe exchange and returns the event stream.
func (e *eventConn) subscribe(ctx context.Context, m wire.Subscribe) (*eventStream, error) {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.tc.Context().Done():
		return nil, &lostError{context.Cause(e.tc.Context())}
	}
	if e.control == nil {
		s, err := e.c.openStream(ctx, e.tc)
		if err != nil {
			<-e.turn
			return nil, err
		}
		e.control = s
	}
	r := &subscribeRequest{result: make(chan subscribeResult, 1)}
	e.mu.Lock()
	if e.ended != nil {
		err := e.ended
		e.mu.Unlock()
		<-e.turn
		return nil, err
	}
	e.request = r
	// Under the lock: acceptLoop has set ended before close waits for the goroutines.
	e.loops.Go(func() { e.exchange(m) })
	e.mu.Unlock()

	select {
	case got := <-r.result:
		return got.stream, got.err
	case <-ctx.Done():
	}
	e.mu.Lock()
	r.abandoned = true
	e.mu.Unlock()
	select {
	case got := <-r.result: // it came just now
		if got.stream != nil {
			got.stream.cancel()
		}
	default:
	}
	return nil, ctx.Err()
}

// exchange writes a subscribe, reads its reply and gives the turn back.
func (e *eventConn) exchange(m wire.Subscribe) {
	defer func() { <-e.turn }()
	var reply wire.Message
	_, err := e.control.stream.Write(wire.AppendMessage(nil, m))
	if err == nil {
		reply, err = e.control.reply()
	}
	if s, ok := reply.(wire.Subscribed); ok && err == nil {
		e.subscribed(s.SubscriptionID)
		return
	}
	switch r := reply.(type) {
	case nil:
		if isConnectionError(err) {
			err = &lostError{err}
		}
	case wire.SubscribeCursorError:
		e.refuse(&CursorError{Reason: r.Reason, Requested: r.Requested, Available: r.Available})
		return
	case wire.Error:
		err = &BrokerError{r.Message}
	default:
		err = fmt.Errorf("answered with %q", r.Type())
	}
	// The broker closes the stream after some errors and not after others. A new stream is right
	// after both, and costs a round trip to a caller who has just failed.
	abandon(e.control.stream)
	e.control = nil
	e.refuse(err)
}

// subscribed joins the answered request with its event stream, or lets it wait for one.
func (e *eventConn) subscribed(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.request
	e.request = nil
	s := e.early[id]
	delete(e.early, id)
	e.cancelEarly()
	switch {
	case s != nil:
		r.give(s)
	case e.ended != nil:
		r.fail(e.ended)
	default:
		e.expected[id] = r
	}
}

// refuse ends the outstanding request without a subscription.
func (e *eventConn) refuse(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.request
	e.request = nil
	e.cancelEarly()
	r.fail(err)
}

// cancelEarly stops streams that said hello during a subscribe with an id that its reply did not
// name. Under e.mu.
func (e *eventConn) cancelEarly() {
	for id, s := range e.early {
		e.c.cfg.Logger.Warn("event stream of an unknown subscription", "subscription", id)
		s.cancel()
		delete(e.early, id)
	}
}

// acceptLoop takes the broker's streams until the connection ends. Each hello is read by its own
// goroutine: a stream whose hello is late must not hold up the others.
func (e *eventConn) acceptLoop() {
	for {
		s, err := e.tc.AcceptUniStream(context.Background())
		if err != nil {
			e.end(err)
			return
		}
		e.loops.Go(func() { e.readHello(s) })
	}
}

// end fails what waits for an event stream.
func (e *eventConn) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = &lostError{err}
	for id, r := range e.expected {
		r.fail(e.ended)
		delete(e.expected, id)
	}
}

func (e *eventConn) readHello(stream *quic.ReceiveStream) {
	s := &eventStream{stream: stream, in: newFrameReader(stream, eventBuffer, e.c.cfg.MaxFrameBytes)}
	id, err := s.hello()
	if err != nil {
		if !isConnectionError(err) {
			e.c.cfg.Logger.Warn("event stream without a hello", "error", err)
		}
		stream.CancelRead(quic.StreamErrorCode(transport.CodeProtocol))
		return
	}
	s.id = id
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, ok := e.expected[id]; ok {
		delete(e.expected, id)
		r.give(s)
		return
	}
	if _, twice := e.early[id]; e.request != nil && !twice {
		e.early[id] = s
		return
	}
	e.c.cfg.Logger.Warn("event stream of an unknown subscription", "subscription", id)
	s.cancel()
}

// hello reads the first frame of an event stream.
func (s *eventStream) hello() (uint64, error) {
	h, body, err := s.in.next()
	if err != nil {
		return 0, err
	}
	if h.Flags != 0 {
		return 0, fmt.Errorf("first frame has flags %s", h.Flags)
	}
	m, err := wire.ParseMessage(body)
	if err != nil {
		return 0, err
	}
	hello, ok := m.(wire.EventStreamHello)
	if !ok {
		return 0, fmt.Errorf("first frame is %q", m.Type())
	}
	return hello.SubscriptionID, nil
}

// cancel unsubscribes.
func (s *eventStream) cancel() { s.stream.CancelRead(quic.StreamErrorCode(transport.CodeDone)) }

// give ends a request with its stream. Under eventConn.mu, as fail.
func (r *subscribeRequest) give(s *eventStream) {
	if r.abandoned {
		s.cancel()
		return
	}
	r.result <- subscribeResult{stream: s}
}

func (r *subscribeRequest) fail(err error) {
	if !r.abandoned {
		r.result <- subscribeResult{err: err}
	}
}
