package client

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// The counts of a queue that overflows are exact, and what is left is what the policy says.
func TestDropPolicies(t *testing.T) {
	// Frame i has i+1 messages, so that dropping the wrong one shows in the counts.
	const frames, capacity = 10, 4
	for _, tt := range []struct {
		policy  Policy
		first   int    // of the frames delivered
		dropped uint64 // messages
	}{
		{PolicyDropNew, 0, 5 + 6 + 7 + 8 + 9 + 10},
		{PolicyDropOld, 6, 1 + 2 + 3 + 4 + 5 + 6},
	} {
		t.Run(tt.policy.String(), func(t *testing.T) {
			var done chan struct{}
			script := feed(func(f *fakeStream, _ wire.Subscribe, _ uint64, s *quic.SendStream) {
				for i := range frames {
					s.Write(events(uint64(i), make([]string, i+1)...))
				}
				f.wait(done)
				s.Write(events(100, "late"))
				s.Close()
			})
			subscribing(t, script, func(c *Config) {
				done = make(chan struct{})
				c.SubQueuePolicy, c.SubQueueCapacity = tt.policy, capacity
			}, func(t *testing.T, c *Client) {
				const messages = frames * (frames + 1) / 2
				s := subscribe(t, c)
				pass(time.Second)
				st := s.Stats()
				if st.Messages != messages || st.DroppedMsgs != tt.dropped || st.DroppedFrames != frames-capacity ||
					st.QueuedMsgs != messages-tt.dropped || st.DeliveredMsgs != 0 || st.QueueHighWater != capacity {
					t.Errorf("stats = %+v", st)
				}
				for i := tt.first; i < tt.first+capacity; i++ {
					if _, ev := next(t, s); ev.BaseOffset != uint64(i) || len(ev.Payloads) != i+1 {
						t.Errorf("frame %d of %d messages, want %d of %d", ev.BaseOffset, len(ev.Payloads), i, i+1)
					}
				}
				close(done)
				if text, ev := next(t, s); text != "late" || ev.BaseOffset != 100 {
					t.Errorf("after the overflow: %q at %d", text, ev.BaseOffset)
				}
				if _, err := s.Next(within(t, time.Minute)); err != io.EOF {
					t.Errorf("Next = %v, want io.EOF", err)
				}
				st = s.Stats()
				if st.Messages != messages+1 || st.Messages != st.DeliveredMsgs+st.DroppedMsgs || st.QueuedMsgs != 0 {
					t.Errorf("stats at the end = %+v", st)
				}
			})
		})
	}
}

// What is queued when Close comes is counted as discarded.
func TestCloseDiscardsAndUnsubscribes(t *testing.T) {
	for _, policy := range []Policy{PolicyBlock, PolicyDropNew} {
		t.Run(policy.String(), func(t *testing.T) {
			var stopped chan time.Time
			script := feed(func(f *fakeStream, _ wire.Subscribe, _ uint64, s *quic.SendStream) {
				s.Write(events(0, "a", "b"))
				s.Write(events(2, "c"))
				<-s.Context().Done()
				stopped <- time.Now()
			})
			subscribing(t, script, func(c *Config) {
				stopped = make(chan time.Time, 1)
				c.SubQueuePolicy = policy
			}, func(t *testing.T, c *Client) {
				s := subscribe(t, c)
				next(t, s)
				pass(time.Second)
				blocked := make(chan error)
				if policy == PolicyBlock {
					next(t, s)
					go func() {
						_, err := s.Next(context.Background())
						blocked <- err
					}()
					synctest.Wait()
				}
				start := time.Now()
				s.Close()
				if took := (<-stopped).Sub(start); took > 20*time.Millisecond {
					t.Errorf("the broker heard of it after %v", took)
				}
				if policy == PolicyBlock {
					if err := <-blocked; err != net.ErrClosed {
						t.Errorf("blocked Next = %v, want net.ErrClosed", err)
					}
				} else if st := s.Stats(); st.DiscardedMsgs != 1 || st.DeliveredMsgs != 2 || st.QueuedMsgs != 0 {
					t.Errorf("stats = %+v, want 1 discarded", st)
				}
			})
		})
	}
}

// How a subscription can end other than by Close, under both ways of reading.
func TestSubscriptionEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(f *fakeStream, s *quic.SendStream)
		check func(err error) bool
	}{
		{"reset", func(_ *fakeStream, s *quic.SendStream) { s.CancelWrite(quic.StreamErrorCode(transport.CodeLimit)) }, func(err error) bool {
			var r *ResetError
			return errors.As(err, &r) && r.SubscriptionID == 1 && r.Scope == demo && r.Code == uint64(transport.CodeLimit) &&
				strings.Contains(err.Error(), "limit exceeded")
		}},
		{"connection closed", func(f *fakeStream, _ *quic.SendStream) {
			f.conn.CloseWithError(transport.CodeShutdown, "bye")
		}, func(err error) bool {
			return errors.Is(err, ErrConnectionLost) && !errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "bye")
		}},
		{"cut short", func(_ *fakeStream, s *quic.SendStream) {
			frame := events(1, "x")
			s.Write(frame[:len(frame)-1])
			s.Close()
		}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"garbage", func(_ *fakeStream, s *quic.SendStream) {
			s.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
		}, func(err error) bool { return errors.Is(err, wire.ErrMagic) }},
		{"a malformed batch", func(_ *fakeStream, s *quic.SendStream) {
			s.Write(append(wire.Header{Flags: wire.FlagEventShared, Length: 3}.Append(nil), 1, 2, 3))
		}, func(err error) bool { return errors.Is(err, wire.ErrShort) }},
		{"another subscription's batch", func(_ *fakeStream, s *quic.SendStream) {
			s.Write((&wire.EventBatch{HasSubscriptionID: true, SubscriptionID: 2, Payloads: payloads("x")}).Append(nil))
		}, func(err error) bool { return strings.Contains(err.Error(), "event batch of subscription 2") }},
		{"a message that is no event", func(_ *fakeStream, s *quic.SendStream) {
			s.Write(wire.AppendMessage(nil, wire.OK{}))
		}, func(err error) bool { return strings.Contains(err.Error(), `"ok" message`) }},
	} {
		for _, policy := range []Policy{PolicyBlock, PolicyDropOld} {
			t.Run(tt.name+"/"+policy.String(), func(t *testing.T) {
				script := feed(func(f *fakeStream, _ wire.Subscribe, _ uint64, s *quic.SendStream) {
					s.Write(events(0, "first"))
					pass(time.Second)
					tt.end(f, s)
					<-s.Context().Done() // ended by the broker itself, or stopped by the client
				})
				subscribing(t, script, func(c *Config) { c.SubQueuePolicy = policy }, func(t *testing.T, c *Client) {
					s := subscribe(t, c)
					if text, _ := next(t, s); text != "first" {
						t.Errorf("first frame %q", text)
					}
					_, err := s.Next(within(t, time.Minute))
					if err == nil || !tt.check(err) {
						t.Errorf("Next = %v", err)
					}
					if _, again := s.Next(within(t, time.Minute)); again != err {
						t.Errorf("Next again = %v, want the same error", again)
					}
				})
			})
		}
	}
}
