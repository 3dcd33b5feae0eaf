package client

import (
	"context"
	"sync"
)

// eventPool spreads subscriptions over connections, round robin. A slot's connection opens when
// the slot's turn first comes, and again if it has died since.
type eventPool struct {
	c     *Client
	slots []eventSlot

	mu   sync.Mutex
	next int
	done bool
	subs map[*Subscription]struct{}
	all  map[*eventConn]struct{} // every connection not yet closed
}

type eventSlot struct {
	turn chan struct{} // holds one token: who has it may open the connection
	conn *eventConn
}

func newEventPool(c *Client) *eventPool {
	p := &eventPool{
		c:     c,
		slots: make([]eventSlot, c.cfg.EventConnPool),
		subs:  map[*Subscription]struct{}{},
		all:   map[*eventConn]struct{}{},
	}
	for i := range p.slots {
		p.slots[i].turn = make(chan struct{}, 1)
	}
	return p
}

// get returns the connection whose turn it is.
func (p *eventPool) get(ctx context.Context) (*eventConn, error) {
	p.mu.Lock()
	slot := &p.slots[p.next%len(p.slots)]
	p.next++
	p.mu.Unlock()
	return p.open(ctx, slot)
}

// first returns the connection of slot 0, without moving the turn: cache requests go there.
func (p *eventPool) first(ctx context.Context) (*eventConn, error) {
	return p.open(ctx, &p.slots[0])
}

func (p *eventPool) open(ctx context.Context, slot *eventSlot) (*eventConn, error) {
	select {
	case slot.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-slot.turn }()
	if p.c.closed() {
		return nil, errClientClosed
	}
	if old := slot.conn; old != nil {
		if old.tc.Context().Err() == nil {
			return old, nil
		}
		p.forget(old)
		old.close()
		slot.conn = nil
	}
	tc, control, err := p.c.takeConn(ctx, "subscriber")
	if err != nil {
		return nil, err
	}
	e := newEventConn(p.c, tc, control)
	if !p.keep(e) {
		e.close()
		return nil, errClientClosed
	}
	slot.conn = e
	return e, nil
}

// keep registers a connection to be closed with the client; false if that has begun.
func (p *eventPool) keep(e *eventConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.all[e] = struct{}{}
	}
	return !p.done
}

func (p *eventPool) forget(e *eventConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, e)
}

// add registers a subscription to be closed with the client; false if that has begun.
func (p *eventPool) add(s *Subscription) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.subs[s] = struct{}{}
	return true
}

func (p *eventPool) remove(s *Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, s)
}

// close ends every subscription and connection and waits for their goroutines.
func (p *eventPool) close() {
	p.mu.Lock()
	p.done = true
	var subs []*Subscription
	for s := range p.subs {
		subs = append(subs, s)
	}
	var conns []*eventConn
	for e := range p.all {
		conns = append(conns, e)
	}
	p.mu.Unlock()
	for _, s := range subs {
		s.Close()
	}
	var wg sync.WaitGroup
	for _, e := range conns {
		wg.Go(e.close)
	}
	wg.Wait()
}
