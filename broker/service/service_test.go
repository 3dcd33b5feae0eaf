package service_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/broker/service"
	"felix/client"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var latency = wire.Scope{Tenant: "t1", Namespace: "default", Stream: "latency"}

// newOptions is a broker on free ports with one stream and a token of its tenant. The sets
// are further settings.
func newOptions(t *testing.T, sets ...string) (service.Options, string) {
	t.Helper()
	var b settings.Broker
	var tr settings.Transport
	r, err := settings.LoadAll(settings.Layers{Sets: append([]string{
		"quic_bind=127.0.0.1:0", "metrics_bind=127.0.0.1:0", "streams=" + latency.String()}, sets...)}, &b, &tr)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := service.NewDevCredentials(time.Now(), time.Hour, latency)
	if err != nil {
		t.Fatal(err)
	}
	return service.Options{Broker: &b, Transport: &tr, Config: r.Sections, JWKS: creds.JWKS}, creds.Tokens["t1"]
}

func start(t *testing.T, o service.Options) (*service.Service, service.Ready) {
	t.Helper()
	s, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Stop(ended()); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

// ended is a context that is done: a Stop with it discards what is left.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func dial(t *testing.T, s *service.Service, r service.Ready, token string, change func(*client.Config)) *client.Client {
	t.Helper()
	tlsConf, err := transport.ClientTLS(transport.ClientTLSOptions{CAPEM: s.CertPEM()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := client.Config{Addr: r.Addr, TLS: tlsConf, Tenant: "t1", Token: token,
		PublishConnPool: 1, PublishStreamsPerConn: 1, EventConnPool: 1, SubQueuePolicy: client.PolicyBlock}
	if change != nil {
		change(&cfg)
	}
	c, err := client.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ended()) })
	return c
}

// publish sends batches of payloads of 1 KiB and waits until the broker has accepted them.
func publish(t *testing.T, c *client.Client, batches, size int) {
	t.Helper()
	p, err := c.NewPublisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	payloads := make([][]byte, size)
	for i := range payloads {
		payloads[i] = make([]byte, 1024)
	}
	for range batches {
		if _, err := p.Publish(t.Context(), latency, payloads, wire.AckPerBatch); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stuck returns a broker with 64 batches queued for a subscriber that does not read.
func stuck(t *testing.T, sets ...string) (*service.Service, service.Ready) {
	o, token := newOptions(t, sets...)
	s, r := start(t, o)
	c := dial(t, s, r, token, func(cfg *client.Config) {
		// What QUIC takes off the broker's queue is small against what is published.
		cfg.Transport.StreamRecvWindow, cfg.Transport.ConnRecvWindow = 64<<10, 128<<10
	})
	if _, err := c.Subscribe(t.Context(), latency, client.SubscribeOptions{}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, 64, 64)
	return s, r
}

func TestStopDeliversWhatIsQueued(t *testing.T) {
	const batches, size = 20, 16
	o, token := newOptions(t)
	s, r := start(t, o)
	c := dial(t, s, r, token, nil)
	sub, err := c.Subscribe(t.Context(), latency, client.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, batches, size)

	stopped := make(chan service.Report, 1)
	go func() {
		report, err := s.Stop(context.Background())
		if err != nil {
			t.Error(err)
		}
		stopped <- report
	}()
	got := 0
	for {
		events, err := sub.Next(t.Context())
		if err != nil {
			break // io.EOF: the broker finished the stream
		}
		got += len(events.Payloads)
	}
	c.Close(t.Context()) // the broker waits a moment for its peers to have read
	report := <-stopped
	if got != batches*size {
		t.Errorf("%d messages delivered, want %d", got, batches*size)
	}
	if !report.Drained || report.DiscardedOnClose != 0 || report.Broker.Flow.SentMsgs != batches*size {
		t.Errorf("report %+v, want all sent and nothing discarded", report)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if s.Err() != nil {
		t.Errorf("Err is %v after Stop", s.Err())
	}
	if _, err := s.Start(t.Context()); err == nil {
		t.Error("a stopped broker was started")
	}
}

func TestStopSaysWhatItDiscards(t *testing.T) {
	for _, tt := range []struct {
		name, drainMs string
		stop          func(*service.Service) (service.Report, error)
	}{
		{"the setting ends the drain", "50", func(s *service.Service) (service.Report, error) { return s.Stop(context.Background()) }},
		{"no drain at all", "0", func(s *service.Service) (service.Report, error) { return s.Stop(context.Background()) }},
		{"the caller's context ends it", "3600000", func(s *service.Service) (service.Report, error) { return s.Stop(ended()) }},
		{"a second stop ends it", "3600000", func(s *service.Service) (service.Report, error) {
			first := make(chan error, 1)
			go func() {
				_, err := s.Stop(context.Background())
				first <- err
			}()
			report, err := s.Stop(ended())
			return report, errors.Join(err, <-first)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := stuck(t, "shutdown_drain_timeout_ms="+tt.drainMs)
			report, err := tt.stop(s)
			if err != nil {
				t.Fatal(err)
			}
			if report.Drained || report.DiscardedOnClose == 0 {
				t.Errorf("drained %v, discarded %d: want an incomplete drain that says so", report.Drained, report.DiscardedOnClose)
			}
			var discarded uint64
			for _, sub := range report.Broker.Subscriptions {
				discarded += sub.DiscardedClosed
			}
			if discarded != report.DiscardedOnClose {
				t.Errorf("report says %d discarded, the subscriptions say %d", report.DiscardedOnClose, discarded)
			}
			if want := uint64(64*64) - report.Broker.Flow.SentMsgs; discarded != want {
				t.Errorf("%d discarded, want %d: published less written", discarded, want)
			}
		})
	}
}

func TestRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	missing := filepath.Join(dir, "missing")
	junk := write("junk", "no PEM, no JSON")
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()

	for _, tt := range []struct {
		name   string
		change func(*service.Options)
		want   string
	}{
		{"certificate file missing", func(o *service.Options) { o.Broker.TLSCert, o.Broker.TLSKey = missing, junk }, "tls_cert: open"},
		{"key file missing", func(o *service.Options) { o.Broker.TLSCert, o.Broker.TLSKey = junk, missing }, "tls_key: open"},
		{"certificate is none", func(o *service.Options) { o.Broker.TLSCert, o.Broker.TLSKey = junk, junk }, "server certificate"},
		{"certificate given twice", func(o *service.Options) {
			o.CertPEM, o.KeyPEM = []byte("x"), []byte("x")
			o.Broker.TLSCert, o.Broker.TLSKey = junk, junk
		}, "tls_cert is set"},
		{"keys missing", func(o *service.Options) { o.Broker.AuthJWKS = map[string]string{"t2": missing} }, "auth_jwks: open"},
		{"keys are none", func(o *service.Options) { o.Broker.AuthJWKS = map[string]string{"t2": junk} }, `keys of tenant "t2"`},
		{"keys given twice", func(o *service.Options) { o.Broker.AuthJWKS = map[string]string{"t1": junk} }, "given already"},
		{"port is taken", func(o *service.Options) { o.Broker.QUICBind = udp.LocalAddr().String() }, "listen on 127.0.0.1"},
		{"address is another machine's", func(o *service.Options) { o.Broker.QUICBind = "192.0.2.1:0" }, "listen on 192.0.2.1"},
		{"admin port is taken", func(o *service.Options) { o.Broker.MetricsBind = tcp.Addr().String() }, "admin http"},
		{"admin is not on loopback", func(o *service.Options) { o.Broker.MetricsBind = "0.0.0.0:0" }, "not a loopback address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, _ := newOptions(t)
			tt.change(&o)
			s, err := service.New(o)
			if err == nil {
				if _, err = s.Start(t.Context()); err == nil {
					_, _ = s.Stop(ended()) // the test has failed already
				}
			}
			if err == nil {
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q: want one line that says %q", err, tt.want)
			}
			if service.Hint(err) == "" {
				t.Errorf("error %q has no hint", err)
			}
		})
	}
}

// A broker with files: its certificate is the one it shows, its keys decide who gets in.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o, token := newOptions(t)
	files := map[string][]byte{"c.pem": certPEM, "k.pem": keyPEM, "j.json": o.JWKS["t1"]}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Broker.TLSCert, o.Broker.TLSKey = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	o.Broker.AuthJWKS, o.JWKS = map[string]string{"t1": filepath.Join(dir, "j.json")}, nil
	s, r := start(t, o)
	if got, want := string(s.CertPEM()), string(certPEM); got != want {
		t.Error("the broker shows another certificate than the file's")
	}
	dial(t, s, r, token, nil)

	tlsConf, err := transport.ClientTLS(transport.ClientTLSOptions{CAPEM: s.CertPEM()})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := service.NewDevCredentials(time.Now(), time.Hour, latency)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Dial(t.Context(), client.Config{Addr: r.Addr, TLS: tlsConf, Tenant: "t1", Token: stranger.Tokens["t1"]})
	if !errors.Is(err, client.ErrAuth) {
		t.Errorf("token of another key: %v, want ErrAuth", err)
	}
}

func TestWarnings(t *testing.T) {
	o, _ := newOptions(t)
	o.Broker.Streams, o.JWKS = nil, nil
	_, r := start(t, o)
	all := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"no public keys", "no stream and no cache"} {
		if !strings.Contains(all, want) {
			t.Errorf("warnings %q do not say %q", r.Warnings, want)
		}
	}
}

func TestRunReportsAndEndsWithItsContext(t *testing.T) {
	o, token := newOptions(t)
	ctx, cancel := context.WithCancel(t.Context())
	var addr string
	report, err := service.Run(ctx, o, func(s *service.Service, r service.Ready) {
		addr = r.Addr
		dial(t, s, r, token, nil).Close(t.Context())
		cancel()
	}, nil)
	if err != nil || !report.Drained {
		t.Errorf("report %+v, error %v: want a complete drain", report, err)
	}
	// The port is free again.
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestMemoryLimitFollowsTheBounds(t *testing.T) {
	if os.Getenv("GOMEMLIMIT") != "" {
		t.Skip("GOMEMLIMIT is set")
	}
	before := debug.SetMemoryLimit(-1)
	o, _ := newOptions(t, "ring_max_bytes=32MiB")
	o.LimitMemory = true
	s, _ := start(t, o)
	if got, want := debug.SetMemoryLimit(-1), int64((32+96)<<20); got != want || s.Memory().Sum() != want {
		t.Errorf("limit %d, sum %d, want %d: one ring and the base", got, s.Memory().Sum(), want)
	}
	if _, err := s.Stop(ended()); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("limit %d after Stop, want %d as before", got, before)
	}
}
