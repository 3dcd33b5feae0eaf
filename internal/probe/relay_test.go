package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// publishAll publishes n frames of a batch of messages each.
func publishAll(ctx context.Context, p *Publisher, publisher, stream, n, batch, size int) error {
	for i := range n {
		payloads := make([][]byte, batch)
		for j := range payloads {
			payloads[j] = message(publisher, i*batch+j, size)
		}
		if _, err := publish(ctx, p, stream, payloads); err != nil {
			return fmt.Errorf("publisher %d, frame %d: %w", publisher, i, err)
		}
	}
	return nil
}

// receiveAll wants n messages of each publisher, each in order and whole.
func receiveAll(ctx context.Context, s *Subscription, publishers []int, n, size int) error {
	next := map[int]int{}
	for left := len(publishers) * n; left > 0; {
		payloads, err := s.Next(ctx)
		if err != nil {
			return fmt.Errorf("%d messages are missing: %w", left, err)
		}
		for _, p := range payloads {
			var from, seq int
			if _, err := fmt.Sscanf(string(p[:min(len(p), 40)]), "%d/%d/", &from, &seq); err != nil {
				return fmt.Errorf("no message: %.20q", p)
			}
			if seq != next[from] || !bytes.Equal(p, message(from, seq, size)) {
				return fmt.Errorf("publisher %d: got message %d of %d bytes, want %d of %d", from, seq, len(p), next[from], size)
			}
			next[from]++
			left--
		}
	}
	return nil
}

// Every message of every publisher reaches every subscriber once, in its publisher's order, whatever the sizes.
func TestLossless(t *testing.T) {
	for _, network := range []Network{QUIC, TLS, TCP} {
		for _, tt := range []struct {
			shape
			frames, batch, size int
		}{
			{shape{publishers: 1, fanout: 1}, 300, 1, 40},
			{shape{publishers: 1, fanout: 1, join: true}, 5000, 1, 40},
			{shape{publishers: 3, fanout: 4, join: true}, 400, 4, 100},
			{shape{publishers: 2, fanout: 1}, 20, 64, 4096},
			{shape{publishers: 1, fanout: 3}, 12, 64, 4096},
			{shape{publishers: 2, fanout: 1, oneHop: true}, 12, 64, 4096},
			{shape{publishers: 1, fanout: 1, oneHop: true, join: true}, 2000, 2, 60},
		} {
			tt.network = network
			name := fmt.Sprintf("%s/%d publishers/%d subscribers/%dx%dx%d/hop=%v/join=%v", network, tt.publishers, tt.fanout, tt.frames, tt.batch, tt.size, tt.oneHop, tt.join)
			t.Run(name, func(t *testing.T) {
				b := open(t, tt.shape)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				check := func(f func() error) {
					wg.Go(func() {
						if err := f(); err != nil {
							t.Error(err)
							cancel()
						}
					})
				}
				for i := range tt.publishers {
					stream := 0
					if tt.oneHop {
						stream = i
					}
					check(func() error {
						return publishAll(ctx, b.pubs.Publisher(i), i, stream, tt.frames, tt.batch, tt.size)
					})
				}
				messages := tt.frames * tt.batch
				for i := range max(tt.fanout, tt.publishers) {
					switch {
					case tt.oneHop && i < tt.publishers:
						check(func() error { return receiveAll(ctx, b.subs.Subscription(i, 0), []int{i}, messages, tt.size) })
					case !tt.oneHop && i < tt.fanout:
						check(func() error {
							return receiveAll(ctx, b.subs.Subscription(0, i), upTo(tt.publishers), messages, tt.size)
						})
					}
				}
				wg.Wait()
				if err := b.pubs.Flush(ctx); err != nil {
					t.Errorf("Flush: %v", err)
				}
				all := uint64(tt.publishers * messages)
				if got := b.pubs.Stats().WrittenMsgs; got != all {
					t.Errorf("publishers wrote %d messages, want %d", got, all)
				}
				if b.relay == nil {
					return
				}
				// The relay notes a read after it has delivered it, so a subscriber may be done first; Close waits for both.
				if err := b.pubs.Close(ctx); err != nil {
					t.Errorf("Close: %v", err)
				}
				s := b.relay.Stats()
				if s.ReceivedMsgs != all || s.UnheardMsgs != 0 || s.Reads.Items != uint64(tt.publishers*tt.frames) {
					t.Errorf("relay: %+v, want %d messages received, none unheard", s, all)
				}
			})
		}
	}
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// A publisher's Close comes back when the relay has read everything, and then says nothing.
func TestPublishersClose(t *testing.T) {
	for _, network := range []Network{QUIC, TLS, TCP} {
		t.Run(string(network), func(t *testing.T) {
			b := open(t, shape{network: network, publishers: 2, fanout: 2, join: true})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					if err := receiveAll(ctx, b.subs.Subscription(0, i), []int{0, 1}, 100, 50); err != nil {
						t.Error(err)
					}
				})
			}
			for i := range 2 {
				if err := publishAll(ctx, b.pubs.Publisher(i), i, 0, 100, 1, 50); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.pubs.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			wg.Wait()
			if got := b.relay.Stats().ReceivedMsgs; got != 200 {
				t.Errorf("the relay had read %d messages when Close came back, want 200", got)
			}
			if _, err := publish(ctx, b.pubs.Publisher(0), 0, [][]byte{{1}}); err == nil {
				t.Error("Publish after Close: no error")
			}
		})
	}
}

// A subscriber that leaves does not hold up the others.
func TestSubscriberGone(t *testing.T) {
	b := open(t, shape{network: QUIC, publishers: 1, fanout: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b.subs.Subscription(0, 1).stream.cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := publishAll(ctx, b.pubs.Publisher(0), 0, 0, 50, 64, 4096); err != nil {
			t.Error(err)
		}
	})
	if err := receiveAll(ctx, b.subs.Subscription(0, 0), []int{0}, 50*64, 4096); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestEcho(t *testing.T) {
	for _, network := range []Network{QUIC, TLS, TCP} {
		for _, oneHop := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/hop=%v", network, oneHop), func(t *testing.T) {
				b := open(t, shape{network: network, publishers: 1, fanout: 1, oneHop: oneHop, echo: true})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				answering, stop := context.WithCancel(ctx)
				var wg sync.WaitGroup
				wg.Go(func() {
					for {
						if _, err := b.subs.Subscription(0, 0).Next(answering); err != nil {
							if answering.Err() == nil {
								t.Errorf("the answering end: %v", err)
							}
							return
						}
					}
				})
				pub := b.pubs.Publisher(0)
				for i := range 50 {
					var acks []*Ack
					for j := range 1 + i%4 { // several under way
						a, err := publish(ctx, pub, 0, [][]byte{message(0, i, 100), message(0, j, 300)})
						if err != nil {
							t.Fatal(err)
						}
						if !a.At().IsZero() {
							t.Fatal("an echo that nobody waited for has a time")
						}
						acks = append(acks, a)
					}
					for _, a := range acks {
						if err := a.Wait(ctx); err != nil {
							t.Fatal(err)
						}
						if a.At().IsZero() {
							t.Error("an echo that came back has no time")
						}
					}
				}
				stop()
				wg.Wait()
			})
		}
	}
}

// An echo that never comes does not hold its publisher beyond its context.
func TestEchoWaitEnds(t *testing.T) {
	b := open(t, shape{network: QUIC, publishers: 1, fanout: 1, oneHop: true, echo: true})
	ctx, cancel := context.WithCancel(t.Context())
	a, err := publish(ctx, b.pubs.Publisher(0), 0, [][]byte{[]byte("ping")})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // nobody is in Next: nobody answers
	if err := a.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want canceled", err)
	}
}

// Close of any party, in any order, ends whatever is blocked; goleak watches.
func TestCloseWhileBlocked(t *testing.T) {
	for _, network := range []Network{QUIC, TLS, TCP} {
		for _, fanout := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", network, fanout), func(t *testing.T) {
				b := open(t, shape{network: network, publishers: 1, fanout: fanout})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				published := make(chan error, 1)
				go func() { published <- publishAll(ctx, b.pubs.Publisher(0), 0, 0, 1<<20, 64, 4096) }()
				sub := b.subs.Subscription(0, 0)
				if _, err := sub.Next(ctx); err != nil { // it is under way, and nobody else reads
					t.Fatal(err)
				}
				cancel()
				if err := <-published; !errors.Is(err, context.Canceled) {
					t.Errorf("Publish = %v, want canceled", err)
				}
				if err := b.relay.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("Relay.Close: %v", err)
				}
			})
		}
	}
}

func TestHelloOfStrangers(t *testing.T) {
	b := open(t, shape{network: TCP, publishers: 1, fanout: 1})
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "FPRB\x01\x00\x09", "FPRB\x03\x00\x00"} {
		c, err := net.Dial("tcp", b.relay.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var one [1]byte
		if n, err := c.Read(one[:]); n > 0 || err == nil {
			t.Errorf("%q was answered", text)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the relay keeps the stranger", text)
		}
		c.Close()
	}
}

// An echo of other bytes than were sent is no echo: it fails, and so does whatever waits behind it.
func TestEchoOfOtherBytes(t *testing.T) {
	b := open(t, shape{network: TCP, publishers: 1, fanout: 1, oneHop: true, echo: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	pub := b.pubs.Publisher(0)
	var acks []*Ack
	for _, text := range []string{"one", "two"} {
		a, err := publish(ctx, pub, 0, [][]byte{[]byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, a)
	}
	sub := b.subs.Subscription(0, 0)
	payloads, err := sub.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	payloads[0][0] ^= 1
	var wg sync.WaitGroup
	answering, stop := context.WithCancel(ctx)
	wg.Go(func() {
		for err == nil {
			_, err = sub.Next(answering)
		}
	})
	for i, a := range acks {
		if err := a.Wait(ctx); !errors.Is(err, errEcho) {
			t.Errorf("echo %d: %v, want %v", i, err, errEcho)
		}
	}
	if _, err := publish(ctx, pub, 0, [][]byte{[]byte("three")}); !errors.Is(err, errEcho) {
		t.Errorf("Publish = %v, want %v", err, errEcho)
	}
	stop()
	wg.Wait()
}
