package client

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// publishing runs f with a publisher whose one stream the broker serves with the script. The
// client is closed at the end; f closes the publisher itself if it cares about the result. change
// runs inside the bubble, so it may also make what script waits for.
func publishing(t *testing.T, script func(*fakeStream), change func(*Config, *transport.Config), f func(t *testing.T, p *Publisher)) {
	t.Helper()
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		cfg := n.config()
		var broker transport.Config
		if change != nil {
			change(&cfg, &broker)
		}
		stop := n.fake(t, &fakeBroker{stream: script}, broker)
		defer stop()
		c := n.dial(t, cfg)
		defer c.Close(within(t, time.Minute))
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		f(t, p)
	})
}

func publish(t *testing.T, p *Publisher, mode wire.AckMode, texts ...string) *Ack {
	t.Helper()
	a, err := p.Publish(within(t, time.Minute), demo, payloads(texts...), mode)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// publishInPlace is publish by PublishFunc.
func publishInPlace(t *testing.T, p *Publisher, mode wire.AckMode, texts ...string) *Ack {
	t.Helper()
	a, err := p.PublishFunc(within(t, time.Minute), demo, lengths(texts), writing(texts), mode)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func lengths(texts []string) []int {
	sizes := make([]int, len(texts))
	for i, text := range texts {
		sizes[i] = len(text)
	}
	return sizes
}

func writing(texts []string) func([][]byte) {
	return func(payloads [][]byte) {
		for i, p := range payloads {
			copy(p, texts[i])
		}
	}
}

// A negative ack fails its publish and no other; the payloads may be reused at once.
func TestErrorAckFailsAlone(t *testing.T) {
	script := func(f *fakeStream) {
		for {
			b, _, err := f.publish()
			if err != nil {
				return
			}
			msg := ""
			if string(b.Payloads[0]) == "bad" {
				msg = "overloaded: publish_queue_full"
			}
			f.ack(b.RequestID, msg)
		}
	}
	publishing(t, script, nil, func(t *testing.T, p *Publisher) {
		var acks []*Ack
		buf := make([]byte, 3)
		for _, text := range []string{"one", "bad", "two"} {
			copy(buf, text)
			a, err := p.Publish(within(t, time.Minute), demo, [][]byte{buf}, wire.AckPerMessage)
			if err != nil {
				t.Fatal(err)
			}
			acks = append(acks, a)
		}
		for i, a := range acks {
			err := a.Wait(within(t, time.Minute))
			var refused *PublishError
			if want := i == 1; errors.As(err, &refused) != want {
				t.Errorf("ack %d = %v, want a PublishError: %v", i, err, want)
			}
			if a.At().IsZero() {
				t.Errorf("ack %d resolved at no time", i)
			}
		}
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Errorf("Close = %v, want nil: everything was answered", err)
		}
		s := p.Stats()
		if s.AckWakeups.Items != 3 || s.AckWakeups.Count == 0 {
			t.Errorf("ack wake-ups %+v, want 3 acks", s.AckWakeups)
		}
		if s.Messages != 3 || s.Acked != 2 || s.Refused["overloaded: publish_queue_full"] != 1 || len(s.Failed) != 0 {
			t.Errorf("stats = %+v", s)
		}
	})
}

// Without 0x0008 an acked publish must not be sent in binary; with nothing advertised the
// original flags count, which have binary batches but no acks.
func TestCapabilities(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		reply                  wire.Message
		encoding               Encoding
		jsonAcked, jsonUnacked bool
	}{
		{name: "all known", reply: wire.AuthOK{ServerFlags: wire.KnownFlags}},
		{name: "no acked batches", reply: wire.AuthOK{ServerFlags: wire.KnownFlags &^ wire.FlagAcked}, jsonAcked: true},
		{name: "plain ok", reply: wire.OK{}, jsonAcked: true},
		{name: "no binary at all", reply: wire.AuthOK{}, jsonAcked: true, jsonUnacked: true},
		{name: "JSON asked for", reply: wire.AuthOK{ServerFlags: wire.KnownFlags}, encoding: EncodingJSON, jsonAcked: true, jsonUnacked: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
				type got struct {
					json, acked bool
					text        string
				}
				seen := make(chan got, 10)
				b := &fakeBroker{
					auth: func(wire.Auth) wire.Message { return tt.reply },
					stream: func(f *fakeStream) {
						for {
							b, json, err := f.publish()
							if err != nil {
								return
							}
							seen <- got{json, b.Acked, string(bytes.Join(b.Payloads, []byte(",")))}
							if b.Scope != demo {
								t.Errorf("scope %v, want %v", b.Scope, demo)
							}
							if b.Acked && json {
								f.send(wire.PublishOK{RequestID: b.RequestID})
							} else if b.Acked {
								f.ack(b.RequestID, "")
							}
						}
					},
				}
				defer n.fake(t, b, transport.Config{})()
				cfg := n.config()
				cfg.Encoding = tt.encoding
				c := n.dial(t, cfg)
				defer c.Close(within(t, time.Minute))
				p, err := c.NewPublisher(within(t, time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []got{
					{tt.jsonAcked, true, "one"},
					{tt.jsonAcked, true, "a,b"},
					{tt.jsonAcked, true, ""},
					{tt.jsonUnacked, false, "one"},
					{tt.jsonUnacked, false, "a,b"},
				} {
					var texts []string
					switch want.text {
					case "one":
						texts = []string{"one"}
					case "a,b":
						texts = []string{"a", "b"}
					}
					mode := wire.AckNone
					if want.acked {
						mode = wire.AckPerMessage
					}
					for name, publish := range map[string]func(*testing.T, *Publisher, wire.AckMode, ...string) *Ack{
						"Publish": publish, "PublishFunc": publishInPlace,
					} {
						if err := publish(t, p, mode, texts...).Wait(within(t, time.Minute)); err != nil {
							t.Errorf("%s, %+v: %v", name, want, err)
						}
						if g := <-seen; g != want {
							t.Errorf("%s: broker got %+v, want %+v", name, g, want)
						}
					}
				}
				if err := p.Close(within(t, time.Minute)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestJSONErrorReply(t *testing.T) {
	script := func(f *fakeStream) {
		b, _, _ := f.publish()
		f.send(wire.PublishError{RequestID: b.RequestID, Message: "forbidden"})
		f.ackAll()
	}
	publishing(t, script, func(c *Config, _ *transport.Config) { c.Encoding = EncodingJSON }, func(t *testing.T, p *Publisher) {
		first, second := publish(t, p, wire.AckPerMessage, "a"), publish(t, p, wire.AckPerBatch, "b", "c")
		var refused *PublishError
		if err := first.Wait(within(t, time.Minute)); !errors.As(err, &refused) || refused.Message != "forbidden" {
			t.Errorf("first = %v, want the broker's refusal", err)
		}
		if err := second.Wait(within(t, time.Minute)); err != nil {
			t.Errorf("second = %v", err)
		}
	})
}

// Over a 100 ms round trip one stream acks at least 50 publishes a round trip: they are
// pipelined, not sent one by one.
func TestAcksArePipelined(t *testing.T) {
	bubble(t, 100*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{stream: (*fakeStream).ackAll}
		defer n.fake(t, b, transport.Config{})()
		c := n.dial(t, n.config())
		defer c.Close(within(t, time.Minute))
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		const publishes = 1000
		start := time.Now()
		for range publishes {
			publish(t, p, wire.AckPerMessage, "hello")
		}
		if err := p.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		trips := float64(time.Since(start)) / float64(100*time.Millisecond)
		if s := p.Stats(); s.Acked != publishes {
			t.Fatalf("%d acked, want %d", s.Acked, publishes)
		}
		if rate := publishes / trips; rate < 50 {
			t.Errorf("%.0f acked publishes per round trip, want at least 50", rate)
		} else {
			t.Logf("%.0f acked publishes per round trip", rate)
		}
	})
}

// Flush returns when the last ack came, not when the last byte was written.
func TestFlushWaitsForAcks(t *testing.T) {
	script := func(f *fakeStream) {
		var ids []uint64
		for range 3 {
			b, _, err := f.publish()
			if err != nil {
				return
			}
			if b.Acked {
				ids = append(ids, b.RequestID)
			}
		}
		pass(5 * time.Second) // the broker takes its time
		for _, id := range ids {
			f.ack(id, "")
		}
		f.ackAll()
	}
	publishing(t, script, nil, func(t *testing.T, p *Publisher) {
		start := time.Now()
		acks := []*Ack{publish(t, p, wire.AckPerBatch, "a"), publish(t, p, wire.AckNone, "b"), publish(t, p, wire.AckPerBatch, "c")}
		if err := p.Flush(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush before the acks = %v, want the context's error", err)
		}
		if err := p.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("Flush returned after %v, want 5 s and a round trip", took)
		}
		for i, a := range acks {
			select {
			case <-a.Done():
			default:
				t.Errorf("ack %d is unresolved after Flush", i)
			}
		}
		if err := p.Flush(within(t, time.Minute)); err != nil {
			t.Errorf("Flush of nothing = %v", err)
		}
	})
}

func TestPublishRefusesNonsense(t *testing.T) {
	publishing(t, (*fakeStream).ackAll, func(c *Config, _ *transport.Config) { c.MaxFrameBytes = 1000 }, func(t *testing.T, p *Publisher) {
		if _, err := p.Publish(within(t, time.Minute), demo, payloads(string(make([]byte, 1000))), wire.AckNone); !errors.Is(err, wire.ErrTooLong) {
			t.Errorf("batch over the frame limit: %v, want ErrTooLong", err)
		}
		if _, err := p.Publish(within(t, time.Minute), demo, payloads("x"), 7); err == nil {
			t.Error("ack mode 7 was accepted")
		}
		if s := p.Stats(); s.Batches != 0 {
			t.Errorf("%d batches accepted", s.Batches)
		}
	})
}

// What cannot be published is not made, in either encoding.
func TestPublishFuncRefusesNonsense(t *testing.T) {
	for _, encoding := range []Encoding{EncodingBinary, EncodingJSON} {
		change := func(c *Config, _ *transport.Config) { c.MaxFrameBytes, c.Encoding = 1000, encoding }
		publishing(t, (*fakeStream).ackAll, change, func(t *testing.T, p *Publisher) {
			never := func([][]byte) { t.Errorf("%v: a batch was made that cannot be sent", encoding) }
			for _, sizes := range [][]int{{1000}, {500, 500}, {-1}, {10, -10}, {math.MaxInt, math.MaxInt, 2}} {
				if _, err := p.PublishFunc(within(t, time.Minute), demo, sizes, never, wire.AckNone); err == nil {
					t.Errorf("%v: payloads of %v bytes were accepted", encoding, sizes)
				}
			}
			if err := p.Close(within(t, time.Minute)); err != nil {
				t.Error(err)
			}
			if _, err := p.PublishFunc(within(t, time.Minute), demo, []int{1}, never, wire.AckNone); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close: %v, want net.ErrClosed", err)
			}
			if s := p.Stats(); s.Batches != 0 {
				t.Errorf("%v: %d batches accepted", encoding, s.Batches)
			}
		})
	}
}

// A fill that panics gives back what it held: the budget of one batch serves the next ones.
func TestPublishFuncPanics(t *testing.T) {
	change := func(c *Config, _ *transport.Config) { c.PublishInflightBytes = 1 << 10 }
	publishing(t, (*fakeStream).ackAll, change, func(t *testing.T, p *Publisher) {
		for range 3 {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was swallowed")
					}
				}()
				_, _ = p.PublishFunc(within(t, time.Minute), demo, []int{1000}, func([][]byte) { panic("no idea what to say") }, wire.AckNone)
			}()
		}
		if err := publishInPlace(t, p, wire.AckPerBatch, string(make([]byte, 1000))).Wait(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		if s := p.Stats(); s.Batches != 1 {
			t.Errorf("%d batches accepted, want 1", s.Batches)
		}
	})
}

// Round robin uses every worker and passes over one that has ended; hash_stream keeps a stream on
// one worker and fails with it.
func TestSharding(t *testing.T) {
	for _, sharding := range []Sharding{ShardHashStream, ShardRoundRobin} {
		t.Run(sharding.String(), func(t *testing.T) {
			change := func(c *Config, _ *transport.Config) {
				c.PublishConnPool, c.PublishStreamsPerConn, c.PublishSharding = 2, 2, sharding
			}
			publishing(t, (*fakeStream).ackAll, change, func(t *testing.T, p *Publisher) {
				used := func() (streams int) {
					for _, c := range p.Stats().QUICStreamsUsed {
						streams += c.QUICStreams
					}
					return streams
				}
				for range 8 {
					if err := publish(t, p, wire.AckPerBatch, "x").Wait(within(t, time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
				own := p.workers[WorkerFor(demo, 4)]
				own.fail(CauseConnection, errors.New("gone"))
				a, err := p.Publish(within(t, time.Minute), demo, payloads("y"), wire.AckPerBatch)
				if sharding == ShardHashStream {
					var ended *WorkerError
					if !errors.As(err, &ended) || used() != 1 {
						t.Errorf("Publish = %v with %d streams used, want a WorkerError and 1", err, used())
					}
					return
				}
				for range 7 {
					if err != nil {
						t.Fatal(err)
					}
					if err := a.Wait(within(t, time.Minute)); err != nil {
						t.Fatal(err)
					}
					a, err = p.Publish(within(t, time.Minute), demo, payloads("y"), wire.AckPerBatch)
				}
				if used() != 4 || own.written.batches.Load() != 2 {
					t.Errorf("%d streams used, the ended one for %d batches; want 4 and 2", used(), own.written.batches.Load())
				}
			})
		})
	}
}

// Many publishers at once over several workers, on real goroutines rather than in a bubble's
// single file: for the race detector, and for the sums.
func TestManyPublishers(t *testing.T) {
	server, client := identity(t)
	l, err := transport.Listen("127.0.0.1:0", server, transport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := serve(t, l, broker.Config{})
	defer stop()
	c, err := Dial(within(t, 20*time.Second), Config{
		Addr: l.Addr().String(), TLS: client, Tenant: "t1", Token: "secret",
		PublishConnPool: 2, PublishSharding: ShardRoundRobin, PublishQueueDepth: 4, PublishInflightBytes: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(within(t, 20*time.Second))
	p, err := c.NewPublisher(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	const publishers, each = 8, 50
	ctx := within(t, 20*time.Second)
	var wg sync.WaitGroup
	for i := range publishers {
		wg.Go(func() {
			for j := range each {
				mode := wire.AckMode(j % 3)
				a, err := p.Publish(ctx, demo, [][]byte{make([]byte, 100*i), make([]byte, j)}, mode)
				if err != nil {
					t.Error(err)
					return
				}
				if j%10 == 0 {
					if err := a.Wait(ctx); err != nil {
						t.Error(err)
					}
				}
				if j%25 == 0 {
					if err := p.Flush(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	s := p.Stats()
	const acked = publishers * (each - (each+2)/3) * 2
	if s.Batches != publishers*each || s.Messages != 2*publishers*each || s.Written != s.Messages || s.Acked != acked {
		t.Errorf("stats = %+v, want %d batches, all written, %d messages acked", s, publishers*each, acked)
	}
	if s.WriterWakeups.Items != s.Batches || s.AckWakeups.Items != s.AckedBatches {
		t.Errorf("wake-ups %+v, %+v do not add up", s.WriterWakeups, s.AckWakeups)
	}
}
