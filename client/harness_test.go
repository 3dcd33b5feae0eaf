package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"
	"go.uber.org/goleak"

	"felix/internal/transport"
	"felix/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const brokerAddr = "1.0.0.1:5000"

var demo = wire.Scope{Tenant: "t1", Namespace: "default", Stream: "demo"}

// network is one broker address and a dozen client addresses on a simulated network.
type network struct {
	sim     *simnet.Simnet
	broker  net.PacketConn
	mu      sync.Mutex
	clients []net.PacketConn
	server  *tls.Config
	client  *tls.Config
}

// bubble runs f in a synctest bubble over a network with the given round trip.
func bubble(t *testing.T, rtt time.Duration, f func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{sim: &simnet.Simnet{Router: &simnet.PerfectRouter{}}}
		link := simnet.NodeBiDiLinkSettings{Latency: rtt / 2}
		n.broker = n.sim.NewEndpoint(&net.UDPAddr{IP: net.IPv4(1, 0, 0, 1), Port: 5000}, link)
		for i := range 12 {
			n.clients = append(n.clients, n.sim.NewEndpoint(&net.UDPAddr{IP: net.IPv4(1, 0, 1, byte(i+1)), Port: 6000}, link))
		}
		n.server, n.client = identity(t)
		if err := n.sim.Start(); err != nil {
			t.Fatal(err)
		}
		defer n.sim.Close()
		f(t, n)
	})
}

func identity(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	cert, key, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = transport.ServerTLS(cert, key); err != nil {
		t.Fatal(err)
	}
	if client, err = transport.ClientTLS(transport.ClientTLSOptions{CAPEM: cert}); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func (n *network) listen(t *testing.T, cfg transport.Config) *transport.Listener {
	t.Helper()
	cfg.ListenPacket = func(string, string) (net.PacketConn, error) { return n.broker, nil }
	l, err := transport.Listen(brokerAddr, n.server, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// config is a client's for this network; small pools keep the tests readable.
func (n *network) config() Config {
	return Config{
		Addr: brokerAddr, TLS: n.client, Tenant: "t1", Token: "secret",
		PublishConnPool: 1, PublishStreamsPerConn: 1, EventConnPool: 1,
		Transport: transport.Config{ListenPacket: func(string, string) (net.PacketConn, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if len(n.clients) == 0 {
				return nil, errors.New("the simulated network has no address left")
			}
			c := n.clients[0]
			n.clients = n.clients[1:]
			return c, nil
		}},
	}
}

func (n *network) dial(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Dial(within(t, time.Minute), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fakeBroker answers auth as told and hands every stream to a script.
type fakeBroker struct {
	l *transport.Listener
	// auth answers an auth message; nil: auth_ok with all flags.
	auth func(wire.Auth) wire.Message
	// stream is called for each authenticated stream, in its own goroutine; when it returns, the
	// stream is finished. Nil: everything is read and nothing answered.
	stream func(*fakeStream)

	loops sync.WaitGroup
	mu    sync.Mutex
	auths []wire.Auth
	conns []*transport.Conn
}

type fakeStream struct {
	t    testing.TB
	conn *transport.Conn
	s    *quic.Stream
	in   *frameReader
}

// fake starts a fake broker; stop it after the clients are closed.
func (n *network) fake(t *testing.T, b *fakeBroker, cfg transport.Config) (stop func()) {
	t.Helper()
	b.l = n.listen(t, cfg)
	b.loops.Go(func() {
		for {
			conn, err := b.l.Accept(context.Background())
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			b.loops.Go(func() { b.serve(t, conn) })
		}
	})
	return func() {
		b.l.Close()
		b.loops.Wait()
	}
}

func (b *fakeBroker) serve(t testing.TB, conn *transport.Conn) {
	for {
		s, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		b.loops.Go(func() {
			f := &fakeStream{t: t, conn: conn, s: s, in: newFrameReader(s, eventBuffer, wire.DefaultMaxFrameBytes)}
			defer s.Close()
			m, err := f.message()
			if err != nil {
				return
			}
			a := m.(wire.Auth)
			b.mu.Lock()
			b.auths = append(b.auths, a)
			b.mu.Unlock()
			reply := wire.Message(wire.AuthOK{ServerFlags: wire.KnownFlags})
			if b.auth != nil {
				reply = b.auth(a)
			}
			if reply == nil { // silence
				<-conn.Context().Done()
				return
			}
			f.send(reply)
			if _, bad := reply.(wire.Error); bad {
				return
			}
			if b.stream == nil {
				io.Copy(io.Discard, s)
				return
			}
			b.stream(f)
		})
	}
}

func (f *fakeStream) send(m wire.Message) { f.s.Write(wire.AppendMessage(nil, m)) }

func (f *fakeStream) message() (wire.Message, error) {
	h, body, err := f.in.next()
	if err != nil {
		return nil, err
	}
	if h.Flags != 0 {
		return nil, errors.New("not JSON")
	}
	return wire.ParseMessage(body)
}

// publish reads one publish in either encoding as a batch. JSON ones set json.
func (f *fakeStream) publish() (b wire.PublishBatch, json bool, err error) {
	h, body, err := f.in.next()
	if err != nil {
		return b, false, err
	}
	if h.Flags != 0 {
		b, err = wire.ParsePublishBatch(h.Flags, body)
		return b, false, err
	}
	m, err := wire.ParseMessage(body)
	if err != nil {
		return b, true, err
	}
	id := func(p *uint64, mode *wire.AckMode) {
		if mode == nil {
			f.t.Errorf("JSON publish without an ack mode")
			return
		}
		b.AckMode, b.Acked = *mode, *mode != wire.AckNone
		if b.Acked != (p != nil) {
			f.t.Errorf("JSON publish with ack %s has request id: %v", b.AckMode, p != nil)
		}
		if p != nil {
			b.RequestID = *p
		}
	}
	switch m := m.(type) {
	case wire.Publish:
		b.Scope, b.Payloads = m.Scope, [][]byte{m.Payload}
		id(m.RequestID, m.Ack)
	case wire.PublishMany:
		b.Scope, b.Payloads = m.Scope, m.Payloads
		if len(m.Payloads) == 1 {
			f.t.Errorf("publish_batch with one payload")
		}
		id(m.RequestID, m.Ack)
	default:
		f.t.Errorf("%q message on a publish stream", m.Type())
	}
	return b, true, nil
}

func (f *fakeStream) ack(id uint64, msg string) {
	f.s.Write(wire.PublishAck{RequestID: id, OK: msg == "", Err: msg}.Append(nil))
}

// wait blocks until the test closes ch, or has failed and closed the connection.
func (f *fakeStream) wait(ch <-chan struct{}) {
	select {
	case <-ch:
	case <-f.conn.Context().Done():
	}
}

// ackAll acks every acked publish until the stream ends.
func (f *fakeStream) ackAll() {
	for {
		b, json, err := f.publish()
		switch {
		case err != nil:
			return
		case b.Acked && json:
			f.send(wire.PublishOK{RequestID: b.RequestID})
		case b.Acked:
			f.ack(b.RequestID, "")
		}
	}
}

func payloads(texts ...string) [][]byte {
	var p [][]byte
	for _, s := range texts {
		p = append(p, []byte(s))
	}
	return p
}

// within is a context with a deadline; its cancel function is the test's. Tests use it wherever
// they wait: keep-alives would let a bubble's time go on for ever.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// pass lets time of the bubble pass, which costs none.
func pass(d time.Duration) { <-time.After(d) }

// subscribe reads a subscribe; ok is false at the end of the stream.
func (f *fakeStream) subscribe() (m wire.Subscribe, ok bool) {
	got, err := f.message()
	if err != nil {
		return m, false
	}
	m, ok = got.(wire.Subscribe)
	if !ok {
		f.t.Errorf("%q message on a control stream", got.Type())
	}
	return m, ok
}

// open opens an event stream and says hello.
func (f *fakeStream) open(id uint64) *quic.SendStream {
	s, err := f.conn.OpenUniStreamSync(context.Background())
	if err != nil {
		f.t.Errorf("open event stream: %v", err)
		return nil
	}
	s.Write(wire.AppendMessage(nil, wire.EventStreamHello{SubscriptionID: id}))
	return s
}

func events(offset uint64, texts ...string) []byte {
	return (&wire.EventBatch{HasOffset: true, BaseOffset: offset, Payloads: payloads(texts...)}).Append(nil)
}
