// Package brokertest runs a broker on a simulated network and speaks raw wire frames to it, for
// tests inside a testing/synctest bubble. Everything that it starts ends with the test.
package brokertest

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// Names that every test network knows.
const (
	Tenant = "t1"
	KeyID  = "k1"
)

// Demo is registered in every test network.
var Demo = wire.Scope{Tenant: Tenant, Namespace: "default", Stream: "demo"}

// Options set a test network. The zero value has a latency of 1 ms each way.
type Options struct {
	Latency time.Duration
	// Hosts is how many connections can be dialled. If zero, 8.
	Hosts int
	// Server and Client are the transport settings; the packet connections are the network's.
	Server, Client transport.Config
}

// Net is a simulated network with one broker.
type Net struct {
	TB      testing.TB
	Broker  *broker.Broker
	Key     ed25519.PrivateKey
	Addr    string
	TLS     *tls.Config // a client's
	clients transport.Config

	sim      *simnet.Simnet
	listener *transport.Listener
	served   chan error

	mu    sync.Mutex
	hosts []net.PacketConn // not used yet
	conns []*transport.Conn
}

// Start runs a broker. Demo is registered, and a key for Tenant, whatever cfg says.
func Start(tb testing.TB, cfg broker.Config, o Options) *Net {
	tb.Helper()
	seed := sha256.Sum256([]byte("brokertest"))
	n := &Net{TB: tb, Key: ed25519.NewKeyFromSeed(seed[:]), served: make(chan error, 1)}
	jwks, err := broker.JWKS(n.Key.Public().(ed25519.PublicKey), KeyID)
	n.must(err)
	if cfg.Verifier == nil {
		cfg.Verifier, err = broker.NewKeyring(map[string][]byte{Tenant: jwks})
		n.must(err)
	}
	cfg.Streams = append(cfg.Streams, Demo)
	n.Broker, err = broker.New(cfg)
	n.must(err)

	if o.Latency == 0 {
		o.Latency = time.Millisecond
	}
	if o.Hosts == 0 {
		o.Hosts = 8
	}
	n.sim = &simnet.Simnet{Router: &simnet.PerfectRouter{}}
	// Every end point has to exist before the network runs; the clients' are made ahead.
	endpoint := func(host int) net.PacketConn {
		return n.sim.NewEndpoint(&net.UDPAddr{IP: net.IPv4(1, 0, 0, byte(host)), Port: 5000}, simnet.NodeBiDiLinkSettings{Latency: o.Latency})
	}
	for i := range o.Hosts {
		n.hosts = append(n.hosts, endpoint(2+i))
	}
	n.clients = o.Client

	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	n.must(err)
	serverTLS, err := transport.ServerTLS(certPEM, keyPEM)
	n.must(err)
	n.TLS, err = transport.ClientTLS(transport.ClientTLSOptions{CAPEM: certPEM})
	n.must(err)

	server := o.Server
	server.ListenPacket = func(string, string) (net.PacketConn, error) { return endpoint(1), nil }
	n.listener, err = transport.Listen("1.0.0.1:5000", serverTLS, server)
	n.must(err)
	n.Addr = n.listener.Addr().String()
	n.must(n.sim.Start())
	go func() { n.served <- n.Broker.Serve(context.Background(), n.listener) }()
	tb.Cleanup(n.Close)
	return n
}

// Close ends clients, broker and network, and fails the test if a pooled buffer is still held.
func (n *Net) Close() {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		c.Close(transport.CodeDone, "")
	}
	if n.listener == nil {
		return
	}
	n.must(n.Broker.Close())
	n.must(<-n.served)
	n.must(n.listener.Close())
	n.listener = nil
	n.sim.Close()
	if live := n.Broker.Stats().LiveBatches; live != 0 {
		n.TB.Errorf("%d batches are still held after Close", live)
	}
}

func (n *Net) must(err error) {
	n.TB.Helper()
	if err != nil {
		n.TB.Fatal(err)
	}
}

// AllPerms are the permissions of Token.
var AllPerms = []string{"stream.publish:stream:*", "stream.subscribe:stream:*", "cache.read:cache:*", "cache.write:cache:*"}

// Token mints a token of Tenant with all permissions.
func (n *Net) Token() string { return n.TokenFor(Tenant, AllPerms...) }

// TokenFor mints a token.
func (n *Net) TokenFor(tenant string, perms ...string) string {
	token, err := broker.MintToken(n.Key, KeyID, tenant, perms, time.Now(), time.Hour)
	n.must(err)
	return token
}

// Dial opens a connection from a host of its own.
func (n *Net) Dial() *transport.Conn { return n.DialConfig(n.clients) }

// DialConfig opens a connection with other transport settings than the network's.
func (n *Net) DialConfig(cfg transport.Config) *transport.Conn {
	n.TB.Helper()
	host := n.Host()
	cfg.ListenPacket = func(string, string) (net.PacketConn, error) { return host, nil }
	c, err := transport.Dial(context.Background(), n.Addr, n.TLS, cfg)
	n.must(err)
	n.mu.Lock()
	n.conns = append(n.conns, c)
	n.mu.Unlock()
	return c
}

// Host returns an end point of the network that nothing uses yet.
func (n *Net) Host() net.PacketConn {
	n.TB.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.hosts) == 0 {
		n.TB.Fatal("no host left: set Options.Hosts")
	}
	host := n.hosts[0]
	n.hosts = n.hosts[1:]
	return host
}

// Stream is a client's end of one QUIC stream. Its methods fail the test on what should not
// happen, so they belong on the test's goroutine.
type Stream struct {
	TB   testing.TB
	Send *quic.SendStream    // nil on an event stream
	Bidi *quic.Stream        // nil on unidirectional streams
	Recv io.Reader           // nil on a publish-only stream
	Uni  *quic.ReceiveStream // of an event stream
	max  int
}

// Open opens a bidirectional stream without authenticating.
func (n *Net) Open(c *transport.Conn) *Stream {
	n.TB.Helper()
	s, err := c.OpenStreamSync(context.Background())
	n.must(err)
	return &Stream{TB: n.TB, Bidi: s, Recv: s}
}

// Control opens a bidirectional stream and authenticates it, offering all flags.
func (n *Net) Control(c *transport.Conn) *Stream {
	n.TB.Helper()
	s := n.Open(c)
	flags := wire.KnownFlags
	s.Message(wire.Auth{TenantID: Tenant, Token: n.Token(), ClientFlags: &flags})
	if got := s.Next(); got != (wire.AuthOK{ServerFlags: wire.KnownFlags}) {
		n.TB.Fatalf("auth: got %#v, want auth_ok", got)
	}
	return s
}

// ControlAs is Control with a token of one's own and no flags.
func (n *Net) ControlAs(c *transport.Conn, tenant, token string) *Stream {
	n.TB.Helper()
	s := n.Open(c)
	s.Message(wire.Auth{TenantID: tenant, Token: token})
	if got := s.Next(); got != (wire.OK{}) {
		n.TB.Fatalf("auth: got %#v, want ok", got)
	}
	return s
}

// PublishOnly opens a unidirectional stream and sends its auth frame.
func (n *Net) PublishOnly(c *transport.Conn, token string) *Stream {
	n.TB.Helper()
	s, err := c.OpenUniStreamSync(context.Background())
	n.must(err)
	st := &Stream{TB: n.TB, Send: s}
	st.Message(wire.Auth{TenantID: Tenant, Token: token})
	return st
}

// Raw writes bytes as they are.
func (s *Stream) Raw(b []byte) {
	s.TB.Helper()
	var err error
	if s.Bidi != nil {
		_, err = s.Bidi.Write(b)
	} else {
		_, err = s.Send.Write(b)
	}
	if err != nil {
		s.TB.Fatalf("write: %v", err)
	}
}

// Message writes a JSON message.
func (s *Stream) Message(m wire.Message) {
	s.TB.Helper()
	s.Raw(wire.AppendMessage(nil, m))
}

// Publish writes an unacked binary publish batch to a stream.
func (s *Stream) Publish(scope wire.Scope, payloads ...string) {
	s.TB.Helper()
	s.Raw(Batch(scope, payloads...))
}

// PublishAcked writes an acked one.
func (s *Stream) PublishAcked(id uint64, scope wire.Scope, payloads ...string) {
	s.TB.Helper()
	b := wire.PublishBatch{Acked: true, RequestID: id, AckMode: wire.AckPerBatch, Scope: scope, Payloads: Bytes(payloads)}
	s.Raw(b.Append(nil))
}

// CloseSend half-closes the stream.
func (s *Stream) CloseSend() {
	s.TB.Helper()
	var err error
	if s.Bidi != nil {
		err = s.Bidi.Close()
	} else {
		err = s.Send.Close()
	}
	if err != nil {
		s.TB.Fatalf("close: %v", err)
	}
}

// Batch encodes an unacked publish batch.
func Batch(scope wire.Scope, payloads ...string) []byte {
	b := wire.PublishBatch{Scope: scope, Payloads: Bytes(payloads)}
	return b.Append(nil)
}

// Bytes converts payloads.
func Bytes(payloads []string) [][]byte {
	out := make([][]byte, len(payloads))
	for i, p := range payloads {
		out[i] = []byte(p)
	}
	return out
}

// Frame reads one frame.
func (s *Stream) Frame() (wire.Header, []byte, error) {
	return wire.ReadFrame(s.Recv, s.max, nil)
}

// Next reads one frame from the control stream: a JSON message, or a wire.PublishAck.
func (s *Stream) Next() any {
	s.TB.Helper()
	h, body, err := s.Frame()
	if err != nil {
		s.TB.Fatalf("read reply: %v", err)
	}
	if h.Flags == wire.FlagPublishAck {
		ack, err := wire.ParsePublishAck(body)
		if err != nil {
			s.TB.Fatalf("publish ack: %v", err)
		}
		return ack
	}
	if h.Flags != 0 {
		s.TB.Fatalf("reply with flags %s", h.Flags)
	}
	m, err := wire.ParseMessage(body)
	if err != nil {
		s.TB.Fatalf("reply: %v", err)
	}
	return m
}

// Want fails unless the next reply is want.
func (s *Stream) Want(want any) {
	s.TB.Helper()
	if got := s.Next(); got != want {
		s.TB.Fatalf("got reply %#v, want %#v", got, want)
	}
}

// WantEnd fails unless the broker finishes the stream here.
func (s *Stream) WantEnd() {
	s.TB.Helper()
	if _, _, err := s.Frame(); !errors.Is(err, io.EOF) {
		s.TB.Fatalf("got %v, want the end of the stream", err)
	}
}

// WantReset fails unless the broker has reset the stream with this code.
func (s *Stream) WantReset(code transport.ApplicationErrorCode) {
	s.TB.Helper()
	h, _, err := s.Frame()
	WantStreamError(s.TB, err, code, fmt.Sprintf("read of a stream (flags %s)", h.Flags))
}

// WantStopped fails unless the broker stops reading the stream with this code.
func (s *Stream) WantStopped(code transport.ApplicationErrorCode) {
	s.TB.Helper()
	var ctx context.Context
	if s.Bidi != nil {
		ctx = s.Bidi.Context()
	} else {
		ctx = s.Send.Context()
	}
	select {
	case <-ctx.Done():
		WantStreamError(s.TB, context.Cause(ctx), code, "stop")
	case <-time.After(time.Minute):
		s.TB.Fatalf("the stream was not stopped, want code %d", code)
	}
}

// WantStreamError checks for the peer's error with a code.
func WantStreamError(tb testing.TB, err error, code transport.ApplicationErrorCode, what string) {
	tb.Helper()
	var se *quic.StreamError
	if !errors.As(err, &se) || !se.Remote || se.ErrorCode != quic.StreamErrorCode(code) {
		tb.Fatalf("%s: got %v, want the broker's error code %d", what, err, code)
	}
}

// Subscribe subscribes to a stream and returns the id and the event stream, its hello read.
func (n *Net) Subscribe(c *transport.Conn, control *Stream, scope wire.Scope, start *wire.Start) (uint64, *Stream) {
	n.TB.Helper()
	control.Message(wire.Subscribe{Scope: scope, Start: start})
	reply := control.Next()
	ok, is := reply.(wire.Subscribed)
	if !is {
		n.TB.Fatalf("subscribe: got %#v, want subscribed", reply)
	}
	ev := n.Events(c)
	ev.Want(wire.EventStreamHello{SubscriptionID: ok.SubscriptionID})
	return ok.SubscriptionID, ev
}

// Events accepts the next event stream.
func (n *Net) Events(c *transport.Conn) *Stream {
	n.TB.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := c.AcceptUniStream(ctx)
	n.must(err)
	return &Stream{TB: n.TB, Recv: s, Uni: s}
}

// Batch reads one event frame.
func (s *Stream) Batch() (wire.EventBatch, error) {
	h, body, err := s.Frame()
	if err != nil {
		return wire.EventBatch{}, err
	}
	return wire.ParseEventBatch(h.Flags, body, nil)
}

// WantEvents reads event frames until it has as many payloads as wanted, and compares them. If
// offset is not nil, frames must carry offsets that go on from it.
func (s *Stream) WantEvents(offset *uint64, want ...string) {
	s.TB.Helper()
	for at := 0; at < len(want); {
		b, err := s.Batch()
		if err != nil {
			s.TB.Fatalf("after %d of %d events: %v", at, len(want), err)
		}
		if offset != nil {
			if !b.HasOffset || b.BaseOffset != *offset {
				s.TB.Fatalf("event %d: base offset %d (present: %v), want %d", at, b.BaseOffset, b.HasOffset, *offset)
			}
			*offset += uint64(len(b.Payloads))
		}
		for _, p := range b.Payloads {
			if at == len(want) || string(p) != want[at] {
				s.TB.Fatalf("event %d of %d: got %.40q, want %.40q", at, len(want), p, want[min(at, len(want)-1)])
			}
			at++
		}
	}
}
