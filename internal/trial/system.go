package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"felix/broker"
	"felix/client"
	"felix/internal/transport"
	"felix/internal/wire"
	"felix/internal/workload"
)

// What a trial measures it reaches through the interfaces below and through nothing else: our broker with our client
// implements them, and so do the probes. Generators, receivers, phases, ledger and record are the same for all.

// middle is what stands between publishers and subscribers: a broker, a relay, or with one hop nothing.
type middle interface {
	mark(ctx context.Context, at int64) error
	counters(ctx context.Context) (*broker.Stats, error) // nil without an error: they cannot be known
	stop(ctx context.Context) (*sideResult, error)
	dead() <-chan struct{} // closed when its process has ended; nil for one of this process
}

// startMiddle starts what the case has between the clients, and returns how they reach it.
func (t *trial) startMiddle(ctx context.Context) (middle, *access, error) {
	if t.Case.Probe != workload.ProbeNone {
		return t.startProbe(ctx)
	}
	return t.startBroker(ctx)
}

// publisher publishes for the generators of one process, all of them or one.
type publisher interface {
	// PublishFunc hands a batch of payloads of those sizes to the system, blocking while that pushes back, until ctx is
	// done. It calls fill, at most once, to write them where they are sent from. An error means that nothing was accepted,
	// whether fill was called or not.
	PublishFunc(ctx context.Context, stream int, sizes []int, fill func(payloads [][]byte), mode wire.AckMode) (ack, error)
}

// ack is the outcome of one PublishFunc: when the system answered or, unacked, took it.
type ack interface {
	At() time.Time // zero while it is not known
	Wait(ctx context.Context) error
}

// publishing is the publishing end of a system in one process.
type publishing interface {
	publisher(index int) publisher
	// Flush returns when everything published has been answered or written. Generators must rest.
	Flush(ctx context.Context) error
	Stats() client.PublisherStats
	// close waits until the system has read everything; what cannot be is a warning.
	close(ctx context.Context) (warnings []string)
}

// subscription is one subscriber of a system.
type subscription interface {
	// next returns the messages of the next frame, valid until the following call, blocking until one arrives or ctx is
	// done. After the end it returns net.ErrClosed or the reason.
	next(ctx context.Context) ([][]byte, error)
	ID() uint64 // of the subscription in the middle's counters
	LocalAddr() string
	Stats() client.SubscriptionStats
}

// subscribing is the receiving end of a system in one process.
type subscribing interface {
	// subscribe returns the i-th subscription of a stream; everything published from then on is due to it.
	subscribe(ctx context.Context, stream, i int) (subscription, error)
	close(ctx context.Context) error
	addr() string // where publishers reach it; "" if they reach a middle
}

// connectPublishing connects the publishers of this process. A probe has no trace.
func connectPublishing(ctx context.Context, p *Plan, a *access, monitor *transport.Monitor, trace client.Trace) (publishing, error) {
	if p.Case.Probe != workload.ProbeNone {
		return connectProbePublishing(ctx, p, a, monitor)
	}
	clients, err := dialAll(ctx, p, a, "publisher", monitor, trace)
	if err != nil {
		return nil, err
	}
	f := felixPublishing{clients: clients, scopes: a.Scopes, each: p.Case.Publishers}
	for _, c := range clients {
		pub, err := c.NewPublisher(ctx)
		if err != nil {
			return nil, errors.Join(err, closeAll(ctx, clients))
		}
		f.pools = append(f.pools, pub)
	}
	return f, nil
}

// connectSubscribing connects the subscribers of this process.
func connectSubscribing(ctx context.Context, p *Plan, a *access, monitor *transport.Monitor, trace client.Trace) (subscribing, error) {
	if p.Case.Probe != workload.ProbeNone {
		return connectProbeSubscribing(ctx, p, a, monitor)
	}
	clients, err := dialAll(ctx, p, a, "subscriber", monitor, trace)
	if err != nil {
		return nil, err
	}
	return felixSubscribing{clients, a.Scopes, p.Case.TenantOfStream}, nil
}

// dial connects one role to the broker, as one tenant.
func dial(ctx context.Context, p *Plan, a *access, tenant, role string, monitor *transport.Monitor, shared *transport.SharedSocket, trace client.Trace) (*client.Client, error) {
	tlsConf, err := transport.ClientTLS(transport.ClientTLSOptions{ServerName: a.ServerName, CAPEM: a.CAPEM, PinSHA256: a.PinSHA256})
	if err != nil {
		return nil, err
	}
	cfg, err := p.clientConfig(a.Addr, tlsConf, tenant, a.tokenOf(tenant), role, monitor, trace)
	if err != nil {
		return nil, err
	}
	if cfg.Transport.Shared != nil {
		cfg.Transport.Shared = shared
	}
	return client.Dial(ctx, cfg)
}

// felixPublishing is our client's pools, one a tenant, which all publishers of that tenant share.
type felixPublishing struct {
	clients []*client.Client
	pools   []*client.Publisher
	scopes  []wire.Scope
	each    int // publishers of a tenant
}

func (f felixPublishing) publisher(i int) publisher {
	return felixPublisher{f.pools[i/f.each], f.scopes}
}

func (f felixPublishing) Flush(ctx context.Context) error {
	for _, pool := range f.pools {
		if err := pool.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f felixPublishing) Stats() client.PublisherStats {
	sum := f.pools[0].Stats()
	for _, pool := range f.pools[1:] {
		sum = addStats(sum, pool.Stats())
	}
	return sum
}

func (f felixPublishing) close(ctx context.Context) (warnings []string) {
	for _, pool := range f.pools {
		if err := pool.Close(ctx); err != nil {
			warnings = append(warnings, fmt.Sprintf("closing the publisher: %v", err))
		}
	}
	if err := closeAll(ctx, f.clients); err != nil {
		warnings = append(warnings, fmt.Sprintf("closing the publisher's client: %v", err))
	}
	return warnings
}

type felixPublisher struct {
	pool   *client.Publisher
	scopes []wire.Scope
}

func (f felixPublisher) PublishFunc(ctx context.Context, stream int, sizes []int, fill func([][]byte), mode wire.AckMode) (ack, error) {
	a, err := f.pool.PublishFunc(ctx, f.scopes[stream], sizes, fill, mode)
	if err != nil {
		return nil, err // and no ack that is not nil
	}
	return a, nil
}

type felixSubscribing struct {
	clients  []*client.Client // one a tenant
	scopes   []wire.Scope
	tenantOf func(stream int) int
}

func (f felixSubscribing) subscribe(ctx context.Context, stream, _ int) (subscription, error) {
	s, err := f.clients[f.tenantOf(stream)].Subscribe(ctx, f.scopes[stream], client.SubscribeOptions{Start: wire.Start{}})
	if err != nil {
		return nil, err
	}
	return felixSubscription{s}, nil
}

func (f felixSubscribing) addr() string { return "" }

func (f felixSubscribing) close(ctx context.Context) error { return closeAll(ctx, f.clients) }

type felixSubscription struct{ *client.Subscription }

func (f felixSubscription) next(ctx context.Context) ([][]byte, error) {
	events, err := f.Next(ctx)
	return events.Payloads, err
}
