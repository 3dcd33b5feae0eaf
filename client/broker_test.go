package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// tokens lets "secret" do everything within its tenant.
type tokens struct{}

func (tokens) Verify(tenant, token string) (*broker.Grant, error) {
	if token != "secret" {
		return nil, errors.New("unknown token")
	}
	return broker.NewGrant(tenant, []string{
		"stream.publish:stream:t1/*", "stream.subscribe:stream:t1/*", "cache.read:cache:t1/*", "cache.write:cache:t1/*",
	}), nil
}

// serve runs a real broker on a listener until the test ends; stop it after the clients.
func serve(t testing.TB, l *transport.Listener, cfg broker.Config) (b *broker.Broker, stop func()) {
	t.Helper()
	cfg.Verifier = tokens{}
	cfg.Streams = append(cfg.Streams, demo)
	cfg.Caches = append(cfg.Caches, demo)
	b, err := broker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(context.Background(), l) }()
	return b, func() {
		if err := b.Close(); err != nil {
			t.Errorf("Broker.Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Broker.Serve: %v", err)
		}
		l.Close()
	}
}

// brokered runs f with a client of a real broker over a simulated link.
func brokered(t *testing.T, rtt time.Duration, cfg broker.Config, change func(*Config), f func(t *testing.T, b *broker.Broker, c *Client)) {
	t.Helper()
	bubble(t, rtt, func(t *testing.T, n *network) {
		b, stop := serve(t, n.listen(t, transport.Config{}), cfg)
		defer stop()
		cc := n.config()
		if change != nil {
			change(&cc)
		}
		c := n.dial(t, cc)
		defer c.Close(within(t, time.Minute))
		f(t, b, c)
	})
}

// Everything published, acked or not, in either encoding, arrives once, in order, with contiguous
// offsets.
func TestEndToEnd(t *testing.T) {
	for _, encoding := range []Encoding{EncodingBinary, EncodingJSON} {
		for _, policy := range []Policy{PolicyBlock, PolicyDropNew} {
			t.Run(fmt.Sprintf("%s/%s", encoding, policy), func(t *testing.T) {
				change := func(c *Config) { c.Encoding, c.SubQueuePolicy = encoding, policy }
				brokered(t, 10*time.Millisecond, broker.Config{}, change, func(t *testing.T, _ *broker.Broker, c *Client) {
					s := subscribe(t, c)
					p, err := c.NewPublisher(within(t, time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					const batches, batch = 100, 3
					go func() {
						for i := range batches {
							var ps [][]byte
							for j := range batch - i%2 { // batches of 3 and 2
								ps = append(ps, binary.BigEndian.AppendUint64(nil, uint64(i*batch+j)))
							}
							if _, err := p.Publish(within(t, time.Minute), demo, ps, wire.AckMode(i%3)); err != nil {
								t.Error(err)
							}
						}
					}()
					var offset, last uint64
					for offset < batches*batch-batches/2 {
						_, ev := next(t, s)
						if !ev.HasOffset || ev.BaseOffset != offset {
							t.Fatalf("frame at offset %d (%v), want %d", ev.BaseOffset, ev.HasOffset, offset)
						}
						for _, payload := range ev.Payloads {
							if seq := binary.BigEndian.Uint64(payload); offset > 0 && seq <= last {
								t.Fatalf("message %d after %d", seq, last)
							} else {
								last = seq
							}
							offset++
						}
					}
					if err := p.Close(within(t, time.Minute)); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestPipelinedAcksOfTheBroker(t *testing.T) {
	const rtt = 100 * time.Millisecond
	brokered(t, rtt, broker.Config{}, nil, func(t *testing.T, _ *broker.Broker, c *Client) {
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		const publishes = 1000
		start := time.Now()
		var last *Ack
		for range publishes {
			last = publish(t, p, wire.AckPerMessage, "hello")
		}
		if err := last.Wait(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if rate := publishes / (float64(time.Since(start)) / float64(rtt)); rate < 50 {
			t.Errorf("%.0f acked publishes per round trip, want at least 50", rate)
		}
	})
}

// publishAndLeave publishes 8 MiB unacked, flushes and closes at once.
func publishAndLeave(t *testing.T, c *Client, b *broker.Broker) {
	t.Helper()
	p, err := c.NewPublisher(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	const batches, size = 128, 16 << 10
	payload := make([]byte, size)
	for range batches {
		if _, err := p.Publish(within(t, time.Minute), demo, [][]byte{payload, payload, payload, payload}, wire.AckNone); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(within(t, 20*time.Second)); err != nil {
		t.Errorf("Close = %v", err)
	}
	if f := b.Stats().Flow; f.BytesIn != 8<<20 || f.PublishedMsgs != batches*4 {
		t.Errorf("the broker read %d bytes and published %d messages, want %d and %d", f.BytesIn, f.PublishedMsgs, 8<<20, batches*4)
	}
}

func TestFlushAndCloseOverALongLink(t *testing.T) {
	brokered(t, 50*time.Millisecond, broker.Config{}, nil, func(t *testing.T, b *broker.Broker, c *Client) { publishAndLeave(t, c, b) })
}

func TestFlushAndCloseOverRealSockets(t *testing.T) {
	server, client := identity(t)
	l, err := transport.Listen("127.0.0.1:0", server, transport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, stop := serve(t, l, broker.Config{})
	defer stop()
	c, err := Dial(within(t, 20*time.Second), Config{Addr: l.Addr().String(), TLS: client, Tenant: "t1", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(within(t, 20*time.Second))
	publishAndLeave(t, c, b)
}

// A real-socket smoke test of the other half, which also checks that the two ends agree on the
// client's address: the bench joins their statistics by it.
func TestSubscribeOverRealSockets(t *testing.T) {
	server, client := identity(t)
	l, err := transport.Listen("127.0.0.1:0", server, transport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, stop := serve(t, l, broker.Config{})
	defer stop()
	c, err := Dial(within(t, 20*time.Second), Config{Addr: l.Addr().String(), TLS: client, Tenant: "t1", Token: "secret", SubQueuePolicy: PolicyBlock})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(within(t, 20*time.Second))
	s := subscribe(t, c)
	if st := b.Stats().Subscriptions; len(st) != 1 || st[0].ID != s.ID() || st[0].Remote != s.LocalAddr() {
		t.Errorf("the broker has %+v, the client is %s, subscription %d", st, s.LocalAddr(), s.ID())
	}
	p, err := c.NewPublisher(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := publish(t, p, wire.AckPerBatch, fmt.Sprint(i)).Wait(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		if text, _ := next(t, s); text != fmt.Sprint(i) {
			t.Fatalf("message %q, want %d", text, i)
		}
	}
}

// What the broker refuses, by the names that a caller can tell apart.
func TestRefusalsOfTheBroker(t *testing.T) {
	brokered(t, 10*time.Millisecond, broker.Config{}, nil, func(t *testing.T, _ *broker.Broker, c *Client) {
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			scope wire.Scope
			want  string
		}{
			{wire.Scope{Tenant: "t1", Namespace: "default", Stream: "none"}, "stream not found: tenant=t1 namespace=default stream=none"},
			{wire.Scope{Tenant: "t2", Namespace: "default", Stream: "demo"}, "tenant mismatch"},
		} {
			a, err := p.Publish(within(t, time.Minute), tt.scope, payloads("x"), wire.AckPerBatch)
			if err != nil {
				t.Fatal(err)
			}
			var refused *PublishError
			if err := a.Wait(within(t, time.Minute)); !errors.As(err, &refused) || refused.Message != tt.want {
				t.Errorf("publish %s = %v, want %q", tt.scope, err, tt.want)
			}
			var no *BrokerError
			if _, err := c.Subscribe(within(t, time.Minute), tt.scope, SubscribeOptions{}); !errors.As(err, &no) || no.Message != tt.want {
				t.Errorf("Subscribe %s = %v, want %q", tt.scope, err, tt.want)
			}
		}
		// After all that the same publisher and connection work.
		s := subscribe(t, c)
		if err := publish(t, p, wire.AckPerMessage, "fine").Wait(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		if text, _ := next(t, s); text != "fine" {
			t.Errorf("got %q", text)
		}
		var cursor *CursorError
		_, err = c.Subscribe(within(t, time.Minute), demo, SubscribeOptions{Start: wire.Start{Kind: wire.StartOffset, Offset: 50}})
		if !errors.As(err, &cursor) || cursor.Reason != wire.CursorInFuture || cursor.Requested != 50 {
			t.Errorf("Subscribe at offset 50 of 1 = %v", err)
		}
	})
}

func TestWrongTokenAtTheBroker(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, n *network) {
		_, stop := serve(t, n.listen(t, transport.Config{}), broker.Config{})
		defer stop()
		cfg := n.config()
		cfg.Token = "guess"
		if _, err := Dial(within(t, time.Minute), cfg); !errors.Is(err, ErrAuth) {
			t.Errorf("Dial = %v, want ErrAuth", err)
		}
	})
}

func TestReplayAndUnsubscribe(t *testing.T) {
	brokered(t, 10*time.Millisecond, broker.Config{}, nil, func(t *testing.T, b *broker.Broker, c *Client) {
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if err := publish(t, p, wire.AckPerMessage, fmt.Sprint(i)).Wait(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		for _, start := range []wire.Start{{Kind: wire.StartEarliest}, {Kind: wire.StartOffset, Offset: 6}} {
			s, err := c.Subscribe(within(t, time.Minute), demo, SubscribeOptions{Start: start})
			if err != nil {
				t.Fatal(err)
			}
			for at := start.Offset; at < 10; {
				_, ev := next(t, s)
				if ev.BaseOffset != at || string(ev.Payloads[0]) != fmt.Sprint(at) {
					t.Fatalf("start %v: %q at offset %d, want %d", start, ev.Payloads[0], ev.BaseOffset, at)
				}
				at += uint64(len(ev.Payloads))
			}
			s.Close()
		}
		pass(time.Second)
		for _, st := range b.Stats().Subscriptions {
			if st.Live {
				t.Errorf("subscription %d lives on after Close", st.ID)
			}
		}
	})
}

// Under block at both ends nothing is lost however slow the application is: QUIC's flow control
// is the client's queue.
func TestBlockLosesNothing(t *testing.T) {
	change := func(c *Config) {
		c.SubQueuePolicy = PolicyBlock
		c.Transport.StreamRecvWindow, c.Transport.ConnRecvWindow = 32<<10, 64<<10
	}
	cfg := broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberQueueCapacity: 4}
	brokered(t, 10*time.Millisecond, cfg, change, func(t *testing.T, _ *broker.Broker, c *Client) {
		s := subscribe(t, c)
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		const batches = 200
		go func() {
			for range batches {
				if _, err := p.Publish(within(t, time.Minute), demo, [][]byte{make([]byte, 4<<10)}, wire.AckNone); err != nil {
					t.Error(err)
				}
			}
		}()
		synctest.Wait()
		for got := 0; got < batches; {
			pass(10 * time.Millisecond)
			_, ev := next(t, s)
			if ev.BaseOffset != uint64(got) {
				t.Fatalf("offset %d, want %d", ev.BaseOffset, got)
			}
			got += len(ev.Payloads)
		}
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// A broker that shuts down finishes its event streams, so the application can tell that from a
// loss.
func TestShutdownIsEOF(t *testing.T) {
	for _, policy := range []Policy{PolicyBlock, PolicyDropOld} {
		brokered(t, 10*time.Millisecond, broker.Config{}, func(c *Config) { c.SubQueuePolicy = policy }, func(t *testing.T, b *broker.Broker, c *Client) {
			s := subscribe(t, c)
			go b.Shutdown(within(t, 10*time.Second))
			if _, err := s.Next(within(t, time.Minute)); err != io.EOF {
				t.Errorf("%s: Next = %v, want io.EOF", policy, err)
			}
			if _, err := c.NewPublisher(within(t, time.Minute)); err == nil {
				t.Errorf("%s: NewPublisher on a broker that is gone succeeded", policy)
			}
		})
	}
}

func TestCacheOfTheBroker(t *testing.T) {
	brokered(t, 10*time.Millisecond, broker.Config{}, nil, func(t *testing.T, _ *broker.Broker, c *Client) {
		if err := c.CachePut(within(t, time.Minute), demo, "k", []byte("v"), time.Minute); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := c.CacheGet(within(t, time.Minute), demo, "k"); err != nil || !ok || string(v) != "v" {
			t.Errorf("CacheGet = %q, %v, %v", v, ok, err)
		}
		pass(time.Hour)
		if _, ok, err := c.CacheGet(within(t, time.Minute), demo, "k"); err != nil || ok {
			t.Errorf("CacheGet of an expired value = %v, %v", ok, err)
		}
	})
}
