package trial

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	"felix/broker"
	"felix/client"
	"felix/internal/probe"
	"felix/internal/runrecord"
	"felix/internal/transport"
	"felix/internal/wire"
	"felix/internal/workload"
)

// joinBelow is the frame from which a flood's publisher writes itself; smaller frames are gathered, as our client does.
const joinBelow = 16 << 10

// oneHop reports whether publishers reach subscribers directly.
func (p *Plan) oneHop() bool { return p.Case.Probe != workload.ProbeNone && p.Case.Probe.Hops() == 1 }

// overQUIC reports whether QUIC carries the case.
func (p *Plan) overQUIC() bool { return p.Case.Transport == workload.TransportQUIC }

// startProbe starts the relay that the topology says. With one hop there is nothing to start: the subscribers listen.
func (t *trial) startProbe(ctx context.Context) (middle, *access, error) {
	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("make the probe's certificate: %w", err)
	}
	doc := brokerDoc{CertPEM: certPEM, KeyPEM: keyPEM}
	if t.BrokerTransport != t.Transport {
		doc.ConnRecvWindow, doc.StreamRecvWindow = t.BrokerTransport.ConnRecvWindow, t.BrokerTransport.StreamRecvWindow
	}
	a := &access{CAPEM: certPEM, Scopes: t.scopes()}
	if t.oneHop() {
		a.Listen = &doc
		return nothing{}, a, nil
	}
	if t.Case.Topology == workload.TopologyInprocess {
		r, err := openRelay(t.Plan, doc)
		if err != nil {
			return nil, nil, err
		}
		a.Addr = r.relay.Addr()
		return r, a, nil
	}
	settings, err := t.Settings.Marshal()
	if err != nil {
		return nil, nil, err
	}
	c, ready, err := startChild(ctx, t.Plan, "relay", roleDoc{Case: t.Case, Sizes: t.Sizes, Settings: settings, Broker: &doc})
	if err != nil {
		return nil, nil, fmt.Errorf("relay: %w", err)
	}
	a.Addr = ready.Addr
	return remoteBroker{c}, a, nil
}

// nothing stands between the ends of one hop.
type nothing struct{}

func (nothing) mark(context.Context, int64) error                  { return nil }
func (nothing) counters(context.Context) (*broker.Stats, error)    { return nil, nil }
func (nothing) stop(context.Context) (result *sideResult, _ error) { return nil, nil }
func (nothing) dead() <-chan struct{}                              { return nil }

// localRelay is a relay of this process.
type localRelay struct {
	relay   *probe.Relay
	monitor *transport.Monitor
	atMark  probe.Stats
}

func openRelay(p *Plan, doc brokerDoc) (*localRelay, error) {
	r := &localRelay{monitor: transport.NewMonitor(p.Sizes.ConnStats)}
	cfg, err := p.listenConfig(&doc, "relay", r.monitor)
	if err != nil {
		return nil, err
	}
	r.relay, err = probe.StartRelay(probe.RelayConfig{Config: cfg, Streams: p.Case.Streams, Fanout: p.Case.Fanout, Echo: p.Case.Probe.Echo()})
	return r, err
}

func (r *localRelay) dead() <-chan struct{} { return nil }

func (r *localRelay) mark(context.Context, int64) error {
	r.monitor.Mark()
	r.atMark = r.relay.Stats()
	return nil
}

// counters are a broker's; a relay drops nothing, and has none of them.
func (r *localRelay) counters(context.Context) (*broker.Stats, error) { return nil, nil }

func (r *localRelay) stop(context.Context) (*sideResult, error) {
	now, was := r.relay.Stats(), r.atMark
	err := r.relay.Close()
	now.ReceivedMsgs -= was.ReceivedMsgs
	now.SentMsgs -= was.SentMsgs
	now.UnheardMsgs -= was.UnheardMsgs
	now.WriteNs -= was.WriteNs
	now.Reads, now.Writes = now.Reads.Sub(was.Reads), now.Writes.Sub(was.Writes)
	res := &sideResult{Relay: &now, Conns: r.monitor.Timelines()}
	if now.UnheardMsgs > 0 {
		res.Warn = append(res.Warn, fmt.Sprintf("relay: %d deliveries had no subscriber, or one that was gone", now.UnheardMsgs))
	}
	return res, err
}

// network is that of the case.
func (p *Plan) network() probe.Network { return probe.Network(p.Case.Transport.String()) }

// listenConfig is the listening end of a probe, on a port that the system chooses.
func (p *Plan) listenConfig(doc *brokerDoc, role string, monitor *transport.Monitor) (probe.Config, error) {
	tlsConf, err := transport.ServerTLS(doc.CertPEM, doc.KeyPEM)
	if err != nil {
		return probe.Config{}, err
	}
	tr := p.Transport
	if doc.ConnRecvWindow > 0 {
		tr.ConnRecvWindow, tr.StreamRecvWindow = doc.ConnRecvWindow, doc.StreamRecvWindow
	}
	return probe.Config{Network: p.network(), Addr: "127.0.0.1:0", TLS: tlsConf, Transport: transportConfig(tr, role, monitor)}, nil
}

// dialConfig is a dialling end of a probe.
func (p *Plan) dialConfig(a *access, role string, conns int, monitor *transport.Monitor) (probe.Config, error) {
	var tlsConf *tls.Config
	if p.network() != probe.TCP {
		var err error
		if tlsConf, err = transport.ClientTLS(transport.ClientTLSOptions{CAPEM: a.CAPEM}); err != nil {
			return probe.Config{}, err
		}
	}
	return probe.Config{Network: p.network(), Addr: a.Addr, TLS: tlsConf, Transport: transportConfig(p.Transport, role, monitor), Conns: conns}, nil
}

func connectProbePublishing(ctx context.Context, p *Plan, a *access, monitor *transport.Monitor) (publishing, error) {
	c := &p.Case
	cfg, err := p.dialConfig(a, "publisher", c.PubConns, monitor)
	if err != nil {
		return nil, err
	}
	frame := c.Batch * (c.MessageBytes() + 4)
	pc := probe.PublishersConfig{Config: cfg, Echo: c.Probe.Echo(), Join: c.Load == workload.LoadFlood && frame < joinBelow}
	for i := range c.Publishers {
		pc.Streams = append(pc.Streams, c.StreamsOf(i))
	}
	pubs, err := probe.OpenPublishers(ctx, pc)
	if err != nil {
		return nil, err
	}
	return probePublishing{pubs, pc.Join}, nil
}

type probePublishing struct {
	*probe.Publishers
	joined bool
}

func (f probePublishing) publisher(i int) publisher { return probePublisher{f.Publisher(i)} }

func (f probePublishing) close(ctx context.Context) (warnings []string) {
	if err := f.Close(ctx); err != nil {
		warnings = append(warnings, fmt.Sprintf("closing the publishers: %v", err))
	}
	return warnings
}

// Stats are in the words of our client, as far as they mean something here.
func (f probePublishing) Stats() client.PublisherStats {
	now := f.Publishers.Stats()
	s := client.PublisherStats{Written: now.WrittenMsgs, BlockedWriteNs: now.WriteNs}
	s.WriterWakeups = clientWakeups(now.Writes)
	s.AckWakeups = clientWakeups(now.Echoes)
	if !f.joined { // it is the generator that is held up by a write
		s.BlockedQueueNs = now.WriteNs
	}
	for _, conn := range slices.Sorted(maps.Keys(now.Streams)) {
		s.QUICStreamsUsed = append(s.QUICStreamsUsed, client.ConnStreams{ConnID: conn, QUICStreams: now.Streams[conn]})
	}
	return s
}

func clientWakeups(w probe.Wakeups) client.Wakeups {
	return client.Wakeups{Count: w.Count, Items: w.Items, Bytes: w.Bytes}
}

type probePublisher struct{ pub *probe.Publisher }

// taken is the ack of every frame that nobody answers: the transport has it when PublishFunc returns.
type taken struct{ at time.Time }

func (t taken) At() time.Time              { return t.at }
func (t taken) Wait(context.Context) error { return nil }

// One for all: that it is there counts, and when it was is asked of answers alone.
var takenAlready ack = taken{time.Now()}

func (f probePublisher) PublishFunc(ctx context.Context, stream int, sizes []int, fill func([][]byte), _ wire.AckMode) (ack, error) {
	a, err := f.pub.PublishFunc(ctx, stream, sizes, fill)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return takenAlready, nil
	}
	return a, nil
}

func connectProbeSubscribing(ctx context.Context, p *Plan, a *access, monitor *transport.Monitor) (subscribing, error) {
	var cfg probe.Config
	var err error
	if a.Listen != nil {
		cfg, err = p.listenConfig(a.Listen, "subscriber", monitor)
	} else {
		cfg, err = p.dialConfig(a, "subscriber", p.Case.SubConns, monitor)
	}
	if err != nil {
		return nil, err
	}
	subs, err := probe.OpenSubscribers(ctx, probe.SubscribersConfig{
		Config: cfg, Listen: a.Listen != nil, Streams: p.Case.Streams, Fanout: p.Case.Fanout, Echo: p.Case.Probe.Echo(),
	})
	if err != nil {
		return nil, err
	}
	return probeSubscribing{subs}, nil
}

type probeSubscribing struct{ subs *probe.Subscribers }

func (f probeSubscribing) subscribe(_ context.Context, stream, i int) (subscription, error) {
	return probeSubscription{f.subs.Subscription(stream, i)}, nil
}

func (f probeSubscribing) addr() string                { return f.subs.Addr() }
func (f probeSubscribing) close(context.Context) error { return f.subs.Close() }

type probeSubscription struct{ *probe.Subscription }

func (f probeSubscription) next(ctx context.Context) ([][]byte, error) { return f.Next(ctx) }
func (f probeSubscription) ID() uint64                                 { return 0 } // nobody counts by it

func (f probeSubscription) Stats() client.SubscriptionStats {
	n := f.Messages()
	return client.SubscriptionStats{Local: f.LocalAddr(), Messages: n, DeliveredMsgs: n, Wakeups: clientWakeups(f.Wakeups())}
}

// probeRecord says what the record of a probe is of, and which of its fields cannot be.
func (t *trial) probeRecord(r *runrecord.Record) {
	c := &t.Case
	if c.Probe == workload.ProbeNone {
		return
	}
	p := &runrecord.Probe{Name: c.Probe.String(), Transport: c.Transport.String(), Hops: c.Probe.Hops(), RTT: c.Probe.Echo(), Unavailable: map[string]string{}}
	r.Probe = p
	p.Unavailable["config.broker"] = "a probe has no broker"
	p.Unavailable["config.client"] = "a probe has no client of the broker"
	r.Config.Broker, r.Config.Client = nil, nil
	if c.Probe.Echo() {
		// What the answering end saw is one way, and would be read as the rest of a round trip.
		for i := range r.Intervals {
			r.Intervals[i].P50Ns, r.Intervals[i].P99Ns = nil, nil
		}
		for i := range r.Subscribers {
			r.Subscribers[i].P50Ns, r.Subscribers[i].P99Ns = nil, nil
		}
		const why = "end_to_end is the round trip; latency.network is one way, as the answering end saw it"
		p.Unavailable["intervals.p50_ns"], p.Unavailable["subscribers.p50_ns"] = why, why
	}
	if !t.overQUIC() {
		r.Config.Transport = nil
		r.UDP = nil
		p.Unavailable["config.transport"] = "settings of QUIC"
		p.Unavailable["udp"] = "the probe sends no UDP"
		p.Unavailable["conns"] = "TCP: the kernel's, which tells no packets, cwnd, mtu and send calls here"
		p.Unavailable["rates.wire_bytes_sent"] = "TCP: the kernel's"
	}
}
