package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// subscribing runs f with a client whose control streams the broker serves with the script.
func subscribing(t *testing.T, script func(*fakeStream), change func(*Config), f func(t *testing.T, c *Client)) {
	t.Helper()
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		cfg := n.config()
		cfg.SubQueuePolicy = PolicyBlock
		if change != nil {
			change(&cfg)
		}
		defer n.fake(t, &fakeBroker{stream: script}, transport.Config{})()
		c := n.dial(t, cfg)
		defer func() {
			if err := c.Close(within(t, time.Minute)); err != nil {
				t.Errorf("Client.Close = %v", err)
			}
		}()
		f(t, c)
	})
}

func subscribe(t *testing.T, c *Client) *Subscription {
	t.Helper()
	s, err := c.Subscribe(within(t, time.Minute), demo, SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// next returns a frame's payloads joined by commas.
func next(t *testing.T, s *Subscription) (string, Events) {
	t.Helper()
	ev, err := s.Next(within(t, time.Minute))
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return string(bytes.Join(ev.Payloads, []byte(","))), ev
}

// A uni stream and the control stream are two streams: the hello may come before `subscribed` or
// after it, and another stream's late hello must not hold it up.
func TestHelloBeforeAndAfterSubscribed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(f *fakeStream) *quic.SendStream
	}{
		{"hello first", func(f *fakeStream) *quic.SendStream {
			s := f.open(7)
			pass(time.Second)
			f.send(wire.Subscribed{SubscriptionID: 7})
			return s
		}},
		{"subscribed first", func(f *fakeStream) *quic.SendStream {
			f.send(wire.Subscribed{SubscriptionID: 7})
			pass(time.Second)
			return f.open(7)
		}},
		{"a stream without hello in between", func(f *fakeStream) *quic.SendStream {
			mute, err := f.conn.OpenUniStream()
			if err != nil {
				t.Error(err)
			}
			mute.Write([]byte("FLX"))
			f.send(wire.Subscribed{SubscriptionID: 7})
			return f.open(7)
		}},
		{"a stream of somebody else in between", func(f *fakeStream) *quic.SendStream {
			other := f.open(6)
			pass(time.Second)
			f.send(wire.Subscribed{SubscriptionID: 7})
			<-other.Context().Done() // nobody asked for it, so it is stopped
			return f.open(7)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := func(f *fakeStream) {
				if m, ok := f.subscribe(); ok {
					if m.Scope != demo || m.Start != nil || m.SubscriptionID != nil {
						t.Errorf("subscribe = %+v", m)
					}
					s := tt.script(f)
					s.Write(events(41, "hello", "again"))
					s.Close()
				}
				f.subscribe()
			}
			subscribing(t, script, nil, func(t *testing.T, c *Client) {
				s := subscribe(t, c)
				if s.ID() != 7 || !strings.HasPrefix(s.LocalAddr(), "1.0.1.") {
					t.Errorf("subscription %d at %s", s.ID(), s.LocalAddr())
				}
				if text, ev := next(t, s); text != "hello,again" || !ev.HasOffset || ev.BaseOffset != 41 {
					t.Errorf("Next = %q %+v", text, ev)
				}
				for range 2 {
					if _, err := s.Next(within(t, time.Minute)); err != io.EOF {
						t.Errorf("Next after the end = %v, want io.EOF", err)
					}
				}
				if st := s.Stats(); st.Frames != 1 || st.Messages != 2 || st.Bytes != 10 || st.DeliveredMsgs != 2 {
					t.Errorf("stats = %+v", st)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if _, err := s.Next(within(t, time.Minute)); err != net.ErrClosed {
					t.Errorf("Next after Close = %v, want net.ErrClosed", err)
				}
			})
		})
	}
}

// feed answers every subscribe with ids from 1 and hands each event stream to run.
func feed(run func(f *fakeStream, m wire.Subscribe, id uint64, s *quic.SendStream)) func(*fakeStream) {
	return func(f *fakeStream) {
		for id := uint64(1); ; id++ {
			m, ok := f.subscribe()
			if !ok {
				return
			}
			s := f.open(id)
			f.send(wire.Subscribed{SubscriptionID: id})
			run(f, m, id, s)
		}
	}
}

// Every form an event frame can have, and frames on both sides of the buffer's size, cut into
// pieces: the payloads come whole and in order under every policy.
func TestEventForms(t *testing.T) {
	big := strings.Repeat("b", 3*eventBuffer)
	offset := uint64(5)
	frames := []struct {
		frame  []byte
		text   string
		offset uint64
		has    bool
	}{
		{(&wire.EventBatch{Payloads: payloads("plain")}).Append(nil), "plain", 0, false},
		{events(1, "a", "", "c"), "a,,c", 1, true},
		{(&wire.EventBatch{HasSubscriptionID: true, SubscriptionID: 1, Payloads: payloads("mine")}).Append(nil), "mine", 0, false},
		{events(2, big), big, 2, true},
		{events(3, "x", big, "y"), "x," + big + ",y", 3, true},
		{events(4, strings.Repeat("m", eventBuffer-100)), strings.Repeat("m", eventBuffer-100), 4, true},
		{wire.AppendMessage(nil, wire.Event{Scope: demo, Payload: []byte("json"), Offset: &offset}), "json", 5, true},
		{wire.AppendMessage(nil, wire.EventMany{Scope: demo, Payloads: payloads("j", "k")}), "j,k", 0, false},
		{(&wire.EventBatch{}).Append(nil), "", 0, false},
	}
	for _, policy := range []Policy{PolicyBlock, PolicyDropNew, PolicyDropOld} {
		t.Run(policy.String(), func(t *testing.T) {
			script := feed(func(f *fakeStream, m wire.Subscribe, _ uint64, s *quic.SendStream) {
				var all []byte
				for _, fr := range frames {
					all = append(all, fr.frame...)
				}
				for len(all) > 0 {
					n := min(len(all), 10_007)
					s.Write(all[:n])
					all = all[n:]
					pass(time.Millisecond)
				}
				s.Close()
			})
			subscribing(t, script, func(c *Config) { c.SubQueuePolicy = policy }, func(t *testing.T, c *Client) {
				s := subscribe(t, c)
				for i, want := range frames {
					text, ev := next(t, s)
					if text != want.text || ev.HasOffset != want.has || ev.BaseOffset != want.offset {
						t.Errorf("frame %d: %d bytes %.20q, offset %d %v; want %d bytes, offset %d %v",
							i, len(text), text, ev.BaseOffset, ev.HasOffset, len(want.text), want.offset, want.has)
					}
				}
				if _, err := s.Next(within(t, time.Minute)); err != io.EOF {
					t.Errorf("Next after the end = %v, want io.EOF", err)
				}
				if w := s.Stats().Wakeups; w.Count == 0 || w.Items == 0 || w.Bytes == 0 {
					t.Errorf("wake-ups %+v", w)
				}
			})
		})
	}
}

// A Next that its context ended, even in the middle of a frame, loses nothing.
func TestInterruptedNextLosesNothing(t *testing.T) {
	for _, size := range []int{100, 3 * eventBuffer} {
		text := strings.Repeat("x", size)
		script := feed(func(f *fakeStream, _ wire.Subscribe, _ uint64, s *quic.SendStream) {
			frame, at := events(9, text), 0
			for _, cut := range []int{5, len(frame) / 2, len(frame)} {
				pass(time.Second)
				s.Write(frame[at:cut])
				at = cut
			}
		})
		subscribing(t, script, nil, func(t *testing.T, c *Client) {
			s := subscribe(t, c)
			var interrupted int
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				ev, err := s.Next(ctx)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					interrupted++
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(ev.Payloads) != 1 || string(ev.Payloads[0]) != text || ev.BaseOffset != 9 {
					t.Errorf("the frame of %d bytes came out wrong", size)
				}
				break
			}
			if interrupted < 9 {
				t.Errorf("Next was interrupted %d times, want about 10", interrupted)
			}
		})
	}
}

func TestSubscribeRefused(t *testing.T) {
	script := func(f *fakeStream) {
		m, ok := f.subscribe()
		switch {
		case !ok:
		case m.Scope.Stream == "secret":
			f.send(wire.Error{Message: "forbidden"}) // and the stream closes
		case m.Start != nil && m.Start.Kind == wire.StartOffset:
			f.send(wire.SubscribeCursorError{Reason: wire.CursorTooOld, Requested: m.Start.Offset, Available: 30})
			f.subscribe()
		default:
			f.open(1)
			f.send(wire.Subscribed{SubscriptionID: 1})
			f.subscribe()
		}
	}
	subscribing(t, script, nil, func(t *testing.T, c *Client) {
		scope := demo
		scope.Stream = "secret"
		_, err := c.Subscribe(within(t, time.Minute), scope, SubscribeOptions{})
		var refused *BrokerError
		if !errors.As(err, &refused) || refused.Message != "forbidden" {
			t.Errorf("Subscribe = %v, want the broker's words", err)
		}
		// The refusal ended the control stream; the connection goes on with another.
		_, err = c.Subscribe(within(t, time.Minute), demo, SubscribeOptions{Start: wire.Start{Kind: wire.StartOffset, Offset: 3}})
		var cursor *CursorError
		if !errors.As(err, &cursor) || *cursor != (CursorError{wire.CursorTooOld, 3, 30}) {
			t.Errorf("Subscribe = %v, want a CursorError", err)
		}
	})
}

// A subscribe that its caller gave up is still answered. The answer must not be taken for the
// next one's, and the subscription that nobody wants any more must be ended.
func TestAbandonedSubscribe(t *testing.T) {
	var first chan *quic.SendStream
	script := feed(func(f *fakeStream, _ wire.Subscribe, id uint64, s *quic.SendStream) {
		if id == 1 {
			first <- s
		}
	})
	slow := func(f *fakeStream) {
		pass(3 * time.Second) // the first subscribe waits so long
		script(f)
	}
	subscribing(t, slow, func(c *Config) { first = make(chan *quic.SendStream, 1) }, func(t *testing.T, c *Client) {
		if _, err := c.Subscribe(within(t, time.Second), demo, SubscribeOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Subscribe = %v, want the context's error", err)
		}
		s := subscribe(t, c)
		if s.ID() != 2 {
			t.Errorf("subscription %d, want 2", s.ID())
		}
		<-(<-first).Context().Done() // stopped by the client
	})
}

// Subscriptions go round the pool; the connection that Dial opened is the first.
func TestEventPool(t *testing.T) {
	script := feed(func(*fakeStream, wire.Subscribe, uint64, *quic.SendStream) {})
	subscribing(t, script, func(c *Config) { c.EventConnPool = 3 }, func(t *testing.T, c *Client) {
		conns := map[string]int{}
		for range 6 {
			conns[subscribe(t, c).LocalAddr()]++
		}
		if len(conns) != 3 || conns["1.0.1.1:6000"] != 2 {
			t.Errorf("subscriptions per connection: %v, want 2 on each of 3", conns)
		}
	})
}
