package brokertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// TestExactness lets publishers of random batches loose on subscribers that read, stall, come and
// go, and connections that break, and checks the account: in every snapshot of every
// subscription, and against what the subscribers really got.
func TestExactness(t *testing.T) {
	for _, policy := range []broker.Policy{broker.PolicyDropNew, broker.PolicyDropOld, broker.PolicyBlock} {
		for seed := range uint64(3) {
			lane := broker.Policy(seed)
			cfg := broker.Config{
				SubscriberQueuePolicy: policy, SubscriberQueueCapacity: 8, SubscriberQueueMaxBytes: 200_000, RingMaxBytes: 1 << 20,
				SubscriberLaneQueuePolicy: lane, SubscriberLaneQueueDepth: 4, SubscriberEgressMaxBytes: 300_000,
			}
			if (uint64(policy)+seed)%2 == 1 {
				cfg.SubscriberQueueMaxBytesTotal = 250_000
			}
			run(t, fmt.Sprintf("%s/%s/%d", policy, lane, seed), cfg, func(t *testing.T, n *Net) { exactness(t, n, policy, lane, seed) })
		}
	}
}

func exactness(t *testing.T, n *Net, policy, lane broker.Policy, seed uint64) {
	const perPublisher = 150
	var publishers, subscribers, snapshots sync.WaitGroup
	over := make(chan struct{})

	got := make(map[uint64]uint64) // messages read, of the subscriptions that read to the end
	var mu sync.Mutex
	for k := range 4 {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 32 << 10, ConnRecvWindow: 512 << 10})
		control := n.Control(c)
		rng := rand.New(rand.NewPCG(seed, uint64(100+k)))
		id, ev := n.Subscribe(c, control, Demo, nil)
		subscribers.Go(func() {
			last := make(map[string]int)
			next := uint64(0)
			for read := uint64(0); ; {
				ev.Uni.SetReadDeadline(time.Now().Add(20 * time.Second))
				b, err := ev.Batch()
				if err != nil {
					mu.Lock()
					got[id] = read
					mu.Unlock()
					return
				}
				if b.BaseOffset < next {
					t.Errorf("subscriber %d: offset %d after %d", k, b.BaseOffset, next)
				}
				next = b.BaseOffset + uint64(len(b.Payloads))
				read += uint64(len(b.Payloads))
				for _, p := range b.Payloads {
					from, rest, _ := strings.Cut(string(p), " ")
					seq, _, _ := strings.Cut(rest, " ")
					if i, err := strconv.Atoi(seq); err != nil || i < last[from] {
						t.Errorf("subscriber %d: publisher %s: %s after %d", k, from, seq, last[from])
					} else {
						last[from] = i
					}
				}
				switch {
				case k == 1 && rng.IntN(40) == 0: // leaves
					ev.Uni.CancelRead(0)
					return
				case k == 2 && rng.IntN(60) == 0: // breaks off
					c.Close(transport.CodeDone, "")
					return
				case rng.IntN(10) == 0: // stalls
					pass(time.Duration(rng.IntN(100)) * time.Millisecond)
				}
			}
		})
	}

	for p := range 3 {
		c := n.Dial()
		s := n.PublishOnly(c, n.Token())
		rng := rand.New(rand.NewPCG(seed, uint64(p)))
		publishers.Go(func() {
			for i := range perPublisher {
				if p == 2 && i == perPublisher/2 {
					c.Close(transport.CodeDone, "") // breaks off, perhaps in the middle of a wait
					return
				}
				var batch []string
				for range 1 + rng.IntN(8) {
					batch = append(batch, fmt.Sprintf("%d %d %s", p, i, strings.Repeat("x", rng.IntN(1<<rng.IntN(15)))))
				}
				s.Publish(Demo, batch...)
				if rng.IntN(4) == 0 {
					pass(time.Duration(rng.IntN(5000)) * time.Microsecond)
				}
			}
		})
	}

	check := func() {
		st := n.Broker.Stats()
		if f := st.Flow; f.ReceivedMsgs != f.AcceptedMsgs+f.RejectedMsgs+f.IngressDroppedMsgs {
			t.Errorf("ingress does not add up: %+v", f)
		}
		for _, s := range st.Subscriptions {
			if !addsUp(s) {
				t.Errorf("does not add up: %+v", s)
			}
		}
	}
	snapshots.Go(func() {
		for {
			check()
			select {
			case <-over:
				return
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	publishers.Wait()
	subscribers.Wait()
	close(over)
	snapshots.Wait()
	check()

	st := n.Broker.Stats()
	if f := st.Flow; f.ReceivedMsgs != f.AcceptedMsgs+f.RejectedMsgs+f.IngressDroppedMsgs || f.PublishedMsgs != f.AcceptedMsgs {
		t.Errorf("flow: %+v", f)
	}
	var sent uint64
	for _, s := range st.Subscriptions {
		sent += s.Written
		if s.Queued+s.QueuedWriter != 0 || s.QueuedBytes != 0 || s.EgressHeldBytes != 0 || s.LaneQueueLen != 0 {
			t.Errorf("still queued: %+v", s)
		}
		read, whole := got[s.ID]
		if whole && s.Live && (read != s.Written || s.Published != st.Flow.PublishedMsgs) {
			t.Errorf("read %d messages: %+v, of %d published", read, s, st.Flow.PublishedMsgs)
		}
		if policy == broker.PolicyBlock && s.DroppedQueue > 0 || lane == broker.PolicyBlock && s.DroppedWriter > 0 {
			t.Errorf("dropped under block: %+v", s)
		}
	}
	if st.Flow.SentMsgs != sent {
		t.Errorf("flow: sent %d, want %d", st.Flow.SentMsgs, sent)
	}
	if st.SubscriberHeld != 0 {
		t.Errorf("%d bytes are still held broker-wide", st.SubscriberHeld)
	}
}

// TestManyStreams: one client stream publishes to many logical streams, and each keeps its order.
func TestManyStreams(t *testing.T) {
	var cfg broker.Config
	for i := range 20 {
		cfg.Streams = append(cfg.Streams, wire.Scope{Tenant: Tenant, Namespace: "many", Stream: fmt.Sprint(i)})
	}
	run(t, "order", cfg, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		var events []*Stream
		for _, scope := range cfg.Streams {
			_, ev := n.Subscribe(c, s, scope, nil)
			events = append(events, ev)
		}
		var want []string
		for i := range 50 {
			for _, scope := range cfg.Streams {
				s.Publish(scope, fmt.Sprint(i))
			}
			want = append(want, fmt.Sprint(i))
		}
		for _, ev := range events {
			ev.WantEvents(nil, want...)
		}
	})
}

// TestServeEnds: Serve returns what its documentation says, and a second listener may be served.
func TestServeEnds(t *testing.T) {
	run(t, "context", broker.Config{}, func(t *testing.T, n *Net) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Broker.Serve(ctx, n.listener) }()
		wait(10)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		s := n.Control(n.Dial()) // the first Serve goes on
		s.PublishAcked(99, Demo, "x")
		s.Want(ackedOpen)
	})
}
