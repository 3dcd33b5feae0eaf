package trial_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"felix/broker/service"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/trial"
	"felix/internal/wire"
	"felix/internal/workload"
)

// startBroker runs a broker in this process and returns how a trial reaches it.
func startBroker(t *testing.T) *trial.External {
	t.Helper()
	scope := wire.Scope{Tenant: "t1", Namespace: "default", Stream: "latency"}
	creds, err := service.NewDevCredentials(time.Now(), time.Hour, scope)
	if err != nil {
		t.Fatal(err)
	}
	var b settings.Broker
	if err := settings.Load(&b, settings.Layers{Sets: []string{"quic_bind=127.0.0.1:0", "metrics_bind=127.0.0.1:0", "streams=" + scope.String(), "subscriber_queue_policy=block"}}); err != nil {
		t.Fatal(err)
	}
	svc, err := service.New(service.Options{Broker: &b, JWKS: creds.JWKS})
	if err != nil {
		t.Fatal(err)
	}
	ready, err := svc.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := svc.Stop(ctx); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	x := &trial.External{Addr: ready.Addr, Tenant: "t1", Namespace: "default", Stream: "latency", Token: creds.Tokens["t1"], CAPEM: svc.CertPEM()}
	x.Admin = mustURL(t, ready.AdminURL)
	return x
}

func TestExternalBroker(t *testing.T) {
	x := startBroker(t)
	s := small(workload.Case{Payload: 256, Fanout: 2, Topology: workload.TopologyExternal})
	s.External = x
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	checkConns(t, r)
	if r.Flow.Sent == nil || *r.Flow.Sent != r.Counts.Delivered {
		t.Errorf("flow %+v, want what the admin page says", r.Flow)
	}

	s.External.Admin = nil // then nobody can be asked, and the counters are null, not 0
	r = run(t, t.Context(), s)
	mustBeValid(t, r)
	if r.Flow.Sent != nil || r.Counts.Dropped.Subscriber != nil {
		t.Errorf("flow %+v, dropped %+v without an admin page", r.Flow, r.Counts.Dropped)
	}
}

// A lost message must not hang a run, and the record must name it: publisher, stream and sequence numbers. The proxy
// ends QUIC on both sides, copies everything, and leaves out one event frame.
func TestLostFrameIsNamed(t *testing.T) {
	x := startBroker(t)
	addr := startProxy(t, x, 150)
	s := small(workload.Case{Payload: 256, Topology: workload.TopologyExternal})
	s.Sizes.Total, s.Sizes.Warmup = 500, 10
	s.External = &trial.External{Addr: addr, Tenant: x.Tenant, Namespace: x.Namespace, Stream: x.Stream, Token: x.Token, CAPEM: x.CAPEM}
	began := time.Now()
	r := run(t, t.Context(), s)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	if r.Valid || r.Counts.Lost != 1 || r.Counts.Unaccounted != 1 {
		t.Errorf("valid %v: lost %d, unaccounted %d, reasons %v", r.Valid, r.Counts.Lost, r.Counts.Unaccounted, r.Reasons)
	}
	if len(r.Subscribers) != 1 || len(r.Subscribers[0].Missing) != 1 {
		t.Fatalf("subscribers %+v, want one with one missing range", r.Subscribers)
	}
	m := r.Subscribers[0].Missing[0]
	if m.Publisher != 0 || m.Stream != 0 || m.FirstSeq != m.LastSeq || m.FirstSeq == 0 {
		t.Errorf("missing %+v, want one message of publisher 0, stream 0", m)
	}
	if !strings.Contains(strings.Join(r.Reasons, " "), "unaccounted") {
		t.Errorf("reasons %v", r.Reasons)
	}
}

// startProxy accepts with the broker's own certificate replaced by one that x then trusts, and leaves out the n-th
// event frame of each event stream.
func startProxy(t *testing.T, x *trial.External, n int) (addr string) {
	t.Helper()
	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, err := transport.ServerTLS(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clientTLS, err := transport.ClientTLS(transport.ClientTLSOptions{CAPEM: x.CAPEM})
	if err != nil {
		t.Fatal(err)
	}
	l, err := transport.Listen("127.0.0.1:0", serverTLS, transport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x.CAPEM = certPEM
	p := &proxy{broker: x.Addr, tls: clientTLS, leaveOut: n}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
		if p.dropped.Load() == 0 {
			t.Error("the proxy left nothing out: the test proves nothing")
		}
	})
	return l.Addr().String()
}

type proxy struct {
	broker   string
	tls      *tls.Config
	leaveOut int
	dropped  atomic.Int64
}

func (p *proxy) serve(ctx context.Context, l *transport.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		wg.Go(func() { p.relay(ctx, c) })
	}
}

// relay joins one client connection to one of its own at the broker, until either ends.
func (p *proxy) relay(ctx context.Context, client *transport.Conn) {
	defer client.Close(transport.CodeDone, "")
	broker, err := transport.Dial(ctx, p.broker, p.tls, transport.Config{})
	if err != nil {
		return
	}
	defer broker.Close(transport.CodeDone, "")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(client.Context(), cancel)
	context.AfterFunc(broker.Context(), cancel)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			in, err := broker.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			wg.Go(func() { p.events(ctx, in, client) })
		}
	})
	for {
		in, err := client.AcceptStream(ctx)
		if err != nil {
			return
		}
		out, err := broker.OpenStreamSync(ctx)
		if err != nil {
			return
		}
		wg.Go(func() { copyStream(out, in) })
		wg.Go(func() { copyStream(in, out) })
	}
}

func copyStream(to, from *quic.Stream) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// events copies one event stream frame by frame.
func (p *proxy) events(ctx context.Context, in *quic.ReceiveStream, client *transport.Conn) {
	out, err := client.OpenUniStreamSync(ctx)
	if err != nil {
		return
	}
	defer out.Close()
	context.AfterFunc(out.Context(), func() { in.CancelRead(0) }) // the client unsubscribes
	br := bufio.NewReader(in)
	for n := 0; ; n++ {
		head, err := wire.ReadHeader(br, wire.DefaultMaxFrameBytes)
		if err != nil {
			return
		}
		body := make([]byte, head.Length)
		if _, err := io.ReadFull(br, body); err != nil {
			return
		}
		if n == p.leaveOut {
			p.dropped.Add(1)
			continue
		}
		if _, err := out.Write(append(head.Append(nil), body...)); err != nil && !errors.Is(err, context.Canceled) {
			return
		}
	}
}
