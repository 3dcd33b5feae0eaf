package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// A conn is one client's QUIC connection. One goroutine accepts each kind of stream, one serves
// each stream, one writes each subscription; all have ended when serve returns.
type conn struct {
	broker *Broker
	quic   *transport.Conn
	remote string
	gone   <-chan struct{} // closed when the connection has ended

	readers group // client streams
	writers group // subscriptions

	admission  budget // checkpoint 3 of this connection; the ingress's lock guards it
	readCounts readCounters

	mu       sync.Mutex
	draining bool                       // no stream reads any more
	streams  map[*clientStream]struct{} // being served
	subs     map[uint64]*subscription   // live; nil: being set up

	egress egressBudget
	rtt    func() time.Duration // the smoothed round trip, some ten atomic loads away
}

func newConn(b *Broker, q *transport.Conn) *conn {
	return &conn{
		broker: b,
		quic:   q,
		remote: q.RemoteAddr().String(),
		gone:   q.Context().Done(),

		admission: budget{max: b.cfg.PubConnInflightBytes},

		streams: make(map[*clientStream]struct{}),
		subs:    make(map[uint64]*subscription),
		egress:  egressBudget{max: b.cfg.SubscriberEgressMaxBytes},
		rtt:     func() time.Duration { return q.ConnectionStats().SmoothedRTT },
	}
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve() {
	uni := make(chan struct{})
	go func() {
		defer close(uni)
		c.acceptUni()
	}()
	c.acceptBidi()
	<-uni
	<-c.readers.close()
	<-c.writers.close()
}

func (c *conn) acceptBidi() {
	ctx := c.quic.Context()
	for {
		s, err := c.quic.AcceptStream(ctx)
		if err != nil {
			return
		}
		if !c.readers.add() {
			s.CancelRead(quic.StreamErrorCode(transport.CodeShutdown))
			s.CancelWrite(quic.StreamErrorCode(transport.CodeShutdown))
			continue
		}
		go newClientStream(c, s, s).serve()
	}
}

func (c *conn) acceptUni() {
	ctx := c.quic.Context()
	for {
		s, err := c.quic.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		if !c.readers.add() {
			s.CancelRead(quic.StreamErrorCode(transport.CodeShutdown))
			continue
		}
		go newClientStream(c, s, nil).serve()
	}
}

func (c *conn) addStream(s *clientStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = struct{}{}
	if c.draining {
		s.recv.SetReadDeadline(longAgo)
	}
}

func (c *conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

func (c *conn) removeStream(s *clientStream) {
	c.mu.Lock()
	delete(c.streams, s)
	c.mu.Unlock()
}

// longAgo is a deadline that ends a Read at once.
var longAgo = time.Unix(1, 0)

// setReadDeadline bounds a stream's reads, unless draining has already ended them.
func (c *conn) setReadDeadline(s *clientStream, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		s.recv.SetReadDeadline(t)
	}
}

// stopReading makes every stream stop at the next Read; what it has buffered is still executed.
// The channel is closed when all have.
func (c *conn) stopReading() <-chan struct{} {
	c.mu.Lock()
	c.draining = true
	for s := range c.streams {
		s.recv.SetReadDeadline(longAgo)
	}
	c.mu.Unlock()
	return c.readers.close()
}

// drainSubscriptions makes every subscription finish its queues and its stream. The channel is
// closed when all have.
func (c *conn) drainSubscriptions() <-chan struct{} {
	c.mu.Lock()
	for _, sub := range c.subs {
		if sub != nil {
			sub.drain()
		}
	}
	c.mu.Unlock()
	return c.writers.close()
}

var (
	errTooManySubscriptions = errors.New("max subscriptions per connection exceeded")
	errShuttingDown         = errors.New("shutting down")
)

// subscribe sets a subscription up: QUIC stream, hello, registration, in this order. Nothing is
// fed to it yet: see start. On error nothing is left behind. It does not block.
func (c *conn) subscribe(st *stream, id *uint64, start *wire.Start, offsets bool) (*subscription, error) {
	if err := st.checkStart(start); err != nil {
		return nil, err // before a stream is opened for nothing; subscribe below has the last word
	}
	sid, err := c.reserve(id)
	if err != nil {
		return nil, err
	}
	send, err := c.quic.OpenUniStream()
	if err != nil {
		c.release(sid)
		if errors.As(err, new(*quic.StreamLimitReachedError)) {
			return nil, errTooManySubscriptions
		}
		return nil, fmt.Errorf("open event stream: %w", err)
	}
	// A fresh stream takes less than a packet without waiting.
	if _, err := send.Write(wire.AppendMessage(nil, wire.EventStreamHello{SubscriptionID: sid})); err != nil {
		c.release(sid)
		send.CancelWrite(quic.StreamErrorCode(transport.CodeProtocol))
		return nil, fmt.Errorf("write hello: %w", err)
	}
	sub := newSubscription(c, st, sid, send, offsets)
	if err := st.subscribe(sub, start); err != nil {
		c.release(sid)
		send.CancelWrite(quic.StreamErrorCode(transport.CodeProtocol))
		return nil, err
	}
	c.mu.Lock()
	c.subs[sid] = sub
	c.egress.add(1)
	c.mu.Unlock()
	c.broker.addSubscription(sub)
	sub.watch()
	return sub, nil
}

// start sets feeder and writer of a subscription going, now that its `subscribed` has been written.
func (c *conn) start(sub *subscription) {
	if !c.writers.add() {
		// Not while a reader lives: both ends of a connection close readers first.
		sub.close()
		sub.finish()
		return
	}
	sub.startFeeding()
	go func() {
		defer c.writers.done()
		sub.writeLoop()
	}()
}

// reserve takes an id, the client's or one that no live subscription of the process has.
func (c *conn) reserve(id *uint64) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != nil {
		if old, taken := c.subs[*id]; taken {
			// One whose stream the client has stopped is not live, even if its writer is still on
			// its way out.
			if old == nil || old.send.Context().Err() == nil {
				return 0, fmt.Errorf("subscription id %d is in use", *id)
			}
			delete(c.subs, *id)
		}
	}
	if len(c.subs) >= c.broker.cfg.MaxSubscriptionsPerConn {
		return 0, errTooManySubscriptions
	}
	var sid uint64
	if id != nil {
		sid = *id
	} else {
		for sid = c.broker.nextSubscriptionID(); c.has(sid); {
			sid = c.broker.nextSubscriptionID()
		}
	}
	c.subs[sid] = nil
	return sid, nil
}

func (c *conn) has(id uint64) bool {
	_, ok := c.subs[id]
	return ok
}

// release gives up a reserved id.
func (c *conn) release(id uint64) {
	c.mu.Lock()
	delete(c.subs, id)
	c.mu.Unlock()
}

// unsubscribe forgets a subscription that has ended, and lets those go on that its share helps.
func (c *conn) unsubscribe(sub *subscription) {
	c.mu.Lock()
	if c.subs[sub.id] == sub {
		delete(c.subs, sub.id)
	}
	c.egress.add(-1)
	var helped []*subscription
	for _, other := range c.subs {
		if other != nil && other.wantsShare.Load() {
			helped = append(helped, other)
		}
	}
	c.mu.Unlock()
	for _, other := range helped {
		other.stream.post(other)
	}
}

// close ends the connection at once; serve then returns.
func (c *conn) close(code transport.ApplicationErrorCode, msg string) {
	c.quic.Close(code, msg)
}
