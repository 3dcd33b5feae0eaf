package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identity is a certificate with both ends' TLS configurations.
type identity struct{ server, client *tls.Config }

func newIdentity(t testing.TB) identity {
	t.Helper()
	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var id identity
	if id.server, err = transport.ServerTLS(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	if id.client, err = transport.ClientTLS(transport.ClientTLSOptions{CAPEM: certPEM}); err != nil {
		t.Fatal(err)
	}
	return id
}

// bench is a relay with its publishers and subscribers, or one hop.
type bench struct {
	relay *Relay // nil: one hop
	pubs  *Publishers
	subs  *Subscribers
}

// shape is what a bench is made of.
type shape struct {
	network            Network
	publishers, fanout int // of one stream, or with one hop a stream each
	echo, join, oneHop bool
	// endpoint gives the transport of each party in turn: relay, subscribers, publishers. nil: real sockets.
	endpoint func() transport.Config
	addr     string
}

func open(t testing.TB, s shape) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	id := newIdentity(t)
	if s.endpoint == nil {
		s.endpoint = func() transport.Config { return transport.Config{} }
		s.addr = "127.0.0.1:0"
	}
	streams := 1
	pairs := make([][]int, s.publishers)
	for i := range pairs {
		pairs[i] = []int{0}
		if s.oneHop {
			pairs[i], streams = []int{i}, s.publishers
		}
	}
	listen := Config{Network: s.network, Addr: s.addr, TLS: id.server, Transport: s.endpoint()}
	dial := Config{Network: s.network, TLS: id.client}
	b := &bench{}
	var err error
	subs := SubscribersConfig{Config: listen, Listen: true, Streams: streams, Fanout: s.fanout, Echo: s.echo}
	if !s.oneHop {
		if b.relay, err = StartRelay(RelayConfig{Config: listen, Streams: streams, Fanout: s.fanout, Echo: s.echo}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.relay.Close(); err != nil {
				t.Errorf("Relay.Close: %v", err)
			}
		})
		dial.Addr = b.relay.Addr()
		subs.Config, subs.Listen = dial, false
		subs.Conns, subs.Transport = s.fanout, s.endpoint()
	}
	if b.subs, err = OpenSubscribers(ctx, subs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.subs.Close(); err != nil {
			t.Errorf("Subscribers.Close: %v", err)
		}
	})
	if s.oneHop {
		dial.Addr = b.subs.Addr()
	}
	dial.Transport = s.endpoint()
	if b.pubs, err = OpenPublishers(ctx, PublishersConfig{Config: dial, Streams: pairs, Echo: s.echo, Join: s.join}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond) // of one hop nobody reads any more
		defer cancel()
		_ = b.pubs.Close(ctx) // tests that want more of it close it themselves
	})
	return b
}

// publish copies payloads that are there already.
func publish(ctx context.Context, p *Publisher, stream int, payloads [][]byte) (*Ack, error) {
	sizes := make([]int, len(payloads))
	for i, payload := range payloads {
		sizes[i] = len(payload)
	}
	return p.PublishFunc(ctx, stream, sizes, func(rooms [][]byte) {
		for i, room := range rooms {
			copy(room, payloads[i])
		}
	})
}

// message is the n-th payload of a publisher, of that many bytes.
func message(publisher, n, size int) []byte {
	p := fmt.Appendf(nil, "%d/%d/", publisher, n)
	for len(p) < size {
		p = append(p, byte(len(p)))
	}
	return p
}
