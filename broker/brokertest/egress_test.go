package brokertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// gauges sums what subscriptions hold, checks that each adds up, and says how much is dropped at 5
// and 6.
func gauges(t *testing.T, st broker.Stats) (held broker.SubscriptionStats) {
	t.Helper()
	for _, s := range st.Subscriptions {
		if !addsUp(s) {
			t.Errorf("does not add up: %+v", s)
		}
		held.Queued += s.Queued
		held.QueuedWriter += s.QueuedWriter
		held.QueuedBytes += s.QueuedBytes
		held.EgressHeldBytes += s.EgressHeldBytes
		held.LaneQueueLen += s.LaneQueueLen
		held.DroppedQueue += s.DroppedQueue
		held.DroppedWriter += s.DroppedWriter
	}
	return held
}

// wantNothingHeld fails unless every gauge is exactly 0.
func wantNothingHeld(t *testing.T, st broker.Stats) {
	t.Helper()
	h := gauges(t, st)
	if h.Queued != 0 || h.QueuedWriter != 0 || h.QueuedBytes != 0 || h.EgressHeldBytes != 0 || h.LaneQueueLen != 0 || st.SubscriberHeld != 0 {
		t.Errorf("not idle: %+v, %d bytes held broker-wide", h, st.SubscriberHeld)
	}
}

// TestWriterPolicies stalls a client: checkpoint 6 fills first, and does what its policy says.
func TestWriterPolicies(t *testing.T) {
	const sent, depth, capacity = 20, 4, 5
	payload := func(i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("x", 100_000) }
	for _, tt := range []struct {
		name           string
		policy         broker.Policy
		egress         int64
		queued, lane   uint64 // at 5; at 6 and in Write
		dropped5, six  uint64
		delivered      []int // when it reads again
		blocked, bytes bool
	}{
		// One batch is in Write.
		{"drop_new", broker.PolicyDropNew, 0, 0, 1 + depth, 0, sent - 1 - depth, []int{0, 1, 2, 3, 4}, false, false},
		{"drop_old", broker.PolicyDropOld, 0, 0, 1 + depth, 0, sent - 1 - depth, []int{0, 16, 17, 18, 19}, false, false},
		{"block", broker.PolicyBlock, 0, capacity, 1 + depth, sent - 1 - depth - capacity, 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, true, false},
		// A share that is full makes the feeder wait whatever the policy, and 5 overflows.
		{"share", broker.PolicyDropNew, 350_000, capacity, 3, sent - 3 - capacity, 0, []int{0, 1, 2, 3, 4, 5, 6, 7}, true, true},
	} {
		cfg := broker.Config{SubscriberLaneQueuePolicy: tt.policy, SubscriberLaneQueueDepth: depth, SubscriberQueueCapacity: capacity, SubscriberEgressMaxBytes: tt.egress}
		run(t, tt.name, cfg, func(t *testing.T, n *Net) {
			c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
			id, ev := n.Subscribe(c, n.Control(c), Demo, nil)
			p := n.Control(n.Dial())
			for i := range sent {
				p.PublishAcked(uint64(i), Demo, payload(i))
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
				wait(20)
			}
			settle()
			st := subscription(t, n, id)
			if st.Queued != tt.queued || st.QueuedWriter != tt.lane || st.DroppedQueue != tt.dropped5 || st.DroppedWriter != tt.six {
				t.Errorf("stalled: %+v", st)
			}
			if (st.WriterBlockedNs > 0) != tt.blocked {
				t.Errorf("the feeder waited for %d ns", st.WriterBlockedNs)
			}
			if tt.bytes && (st.EgressHeldBytes > tt.egress || st.WriterHighWaterBytes > tt.egress) {
				t.Errorf("more than the share: %+v", st)
			}
			cp := checkpoint(n, 6)
			if cp.Dropped != tt.six || cp.Policy != tt.policy.String() || (!tt.bytes && cp.HighWater != depth) {
				t.Errorf("checkpoint: %+v", cp)
			}
			for _, i := range tt.delivered {
				ev.WantEvents(nil, payload(i))
			}
			settle()
			wantNothingHeld(t, n.Broker.Stats())
			if blocked := n.Broker.Stats().WriterBlocked; (blocked.SumNs > 0) != tt.blocked {
				t.Errorf("histogram of waits: %+v", blocked)
			}
		})
	}
}

// TestReplayIsNotShed: a replay of more batches than the writer's queue has places arrives whole, and
// what is published meanwhile too, although the policies drop.
func TestReplayIsNotShed(t *testing.T) {
	run(t, "drop_new", broker.Config{SubscriberLaneQueueDepth: 2, EventBatchMaxEvents: 1}, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		var want []string
		publish := func(count int) {
			for range count {
				i := len(want)
				want = append(want, fmt.Sprint(i)+strings.Repeat("x", 5000))
				p.PublishAcked(uint64(i), Demo, want[i])
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
			}
		}
		publish(100)
		c := n.DialConfig(transport.Config{StreamRecvWindow: 32 << 10, ConnRecvWindow: 64 << 10})
		id, ev := n.Subscribe(c, n.Control(c), Demo, earliest)
		publish(100)
		settle()
		offset := uint64(0)
		ev.WantEvents(&offset, want...)
		settle()
		if st := subscription(t, n, id); st.Written != 200 || st.DroppedQueue+st.DroppedWriter != 0 {
			t.Errorf("%+v", st)
		}
		// Having caught up once, it is treated like any other.
		publish(40)
		settle()
		if st := subscription(t, n, id); st.DroppedWriter == 0 {
			t.Errorf("nothing is dropped at 6 later on: %+v", st)
		}
	})
}

// TestOneStalledOfMany: 1,000 subscriptions on one connection, one of which is not read. No other
// loses anything, and the connection's egress bytes keep within their budget.
func TestOneStalledOfMany(t *testing.T) {
	const many, sent, budget = 1000, 20, 4 << 20
	cfg := broker.Config{SubscriberEgressMaxBytes: budget, SubscriberLaneQueueDepth: 8}
	run(t, "drop_new", cfg, func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 8 << 10, ConnRecvWindow: 4 << 20})
		s := n.Control(c)
		var readers sync.WaitGroup
		var ids []uint64
		var stalled uint64
		for i := range many {
			id, ev := n.Subscribe(c, s, Demo, nil)
			if i == many/2 {
				stalled = id
				continue
			}
			ids = append(ids, id)
			readers.Go(func() {
				for next := uint64(0); next < sent; {
					b, err := ev.Batch()
					if err != nil || b.BaseOffset != next {
						t.Errorf("subscription %d: offset %d, want %d; %v", id, b.BaseOffset, next, err)
						return
					}
					next += uint64(len(b.Payloads))
				}
			})
		}
		p := n.Control(n.Dial())
		for i := range uint64(sent) {
			p.PublishAcked(i, Demo, strings.Repeat("x", 1200))
			p.Want(wire.PublishAck{RequestID: i, OK: true})
			wait(20)
			if h := gauges(t, n.Broker.Stats()); h.EgressHeldBytes > budget {
				t.Errorf("%d bytes held, budget %d", h.EgressHeldBytes, budget)
			}
		}
		readers.Wait()
		settle()
		st := n.Broker.Stats()
		live := make(map[uint64]broker.SubscriptionStats)
		for _, s := range st.Subscriptions {
			live[s.ID] = s
		}
		for _, id := range ids {
			if s := live[id]; s.Written != sent || s.DroppedQueue+s.DroppedWriter != 0 {
				t.Errorf("%+v", s)
			}
		}
		// Its share is 4,194 bytes, three batches.
		if s := live[stalled]; s.Written == sent || s.EgressHeldBytes == 0 || s.EgressHeldBytes > budget/many || s.Queued == 0 {
			t.Errorf("the stalled one: %+v", s)
		}
		if st.Subscribers != 1 {
			t.Errorf("%d connections with subscriptions, want 1", st.Subscribers)
		}
	})
}

// TestMixedSizes: frames of 16 MiB go beside small messages of another stream on the same connection,
// and between small ones of their own. The budgets hold, nothing is lost, and the small messages of
// the other stream do not wait for the large frames.
func TestMixedSizes(t *testing.T) {
	small := wire.Scope{Tenant: Tenant, Namespace: "default", Stream: "small"}
	const large, frames, count, budget = 16<<20 - 100, 2, 200, 40 << 20
	cfg := broker.Config{Streams: []wire.Scope{small}, PubIngressWait: true, SubscriberEgressMaxBytes: budget, SubscriberQueueMaxBytesTotal: 100 << 20}
	run(t, "drop_new", cfg, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		_, ev := n.Subscribe(c, s, Demo, nil)
		_, sev := n.Subscribe(c, s, small, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			p := n.PublishOnly(n.Dial(), n.Token())
			for i := range frames {
				p.Publish(Demo, fmt.Sprint(i)+strings.Repeat("s", 100))
				p.Publish(Demo, strings.Repeat("L", large))
			}
		})
		wg.Go(func() {
			p := n.PublishOnly(n.Dial(), n.Token())
			for range count {
				p.Publish(small, time.Now().Format(time.RFC3339Nano)+strings.Repeat("s", 100))
				wait(1)
			}
		})
		var worst time.Duration
		wg.Go(func() {
			for got := 0; got < count; {
				b, err := sev.Batch()
				if err != nil {
					t.Errorf("small: %v", err)
					return
				}
				got += len(b.Payloads)
				for _, p := range b.Payloads {
					at, err := time.Parse(time.RFC3339Nano, strings.TrimRight(string(p), "s"))
					if err != nil {
						t.Error(err)
					}
					worst = max(worst, time.Since(at))
				}
			}
		})
		wg.Go(func() {
			for i := range frames {
				for _, want := range []int{101, large} {
					b, err := ev.Batch()
					if err != nil || len(b.Payloads) != 1 || len(b.Payloads[0]) != want {
						t.Errorf("frame %d: %d payloads, %v; want one of %d bytes", i, len(b.Payloads), err, want)
						return
					}
				}
				if st := n.Broker.Stats(); gauges(t, st).EgressHeldBytes > budget || st.SubscriberHeld > 100<<20 {
					t.Errorf("held: %+v, %d broker-wide", gauges(t, st), st.SubscriberHeld)
				}
			}
		})
		wg.Wait()
		settle()
		wantNothingHeld(t, n.Broker.Stats())
		// The link has 1 ms each way; what is left is time in queues.
		if worst > 100*time.Millisecond {
			t.Errorf("a small message took %v", worst)
		}
	})
}

// TestChurn subscribes, stalls, unsubscribes and closes connections at random under load, 10,000
// times: afterwards every gauge is exactly 0 and nothing is left. (That no goroutine is left, the
// bubble checks, and that no buffer is, Close.)
func TestChurn(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 1000
	}
	for i, policy := range []broker.Policy{broker.PolicyDropNew, broker.PolicyDropOld, broker.PolicyBlock} {
		cfg := broker.Config{
			SubscriberQueuePolicy: policy, SubscriberQueueCapacity: 4, SubscriberQueueMaxBytes: 100_000,
			SubscriberLaneQueuePolicy: broker.Policy((i + 1) % 3), SubscriberLaneQueueDepth: 3,
			SubscriberEgressMaxBytes: 200_000, SubscriberQueueMaxBytesTotal: 400_000, RingMaxBytes: 1 << 20,
		}
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				churn(t, Start(t, cfg, Options{Hosts: 200}), total/3+1)
			})
		})
	}
}

func churn(t *testing.T, n *Net, total int) {
	const workers = 4
	over := make(chan struct{})
	var load, work sync.WaitGroup
	p := n.PublishOnly(n.Dial(), n.Token())
	load.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			p.Publish(Demo, strings.Repeat("x", rng.IntN(1<<rng.IntN(15))), "y")
			select {
			case <-over:
				return
			case <-time.After(time.Duration(rng.IntN(10)) * time.Millisecond):
			}
		}
	})
	for w := range workers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			var c *transport.Conn
			var s *Stream
			var open []*Stream
			for range total / workers {
				if c == nil {
					c = n.DialConfig(transport.Config{StreamRecvWindow: 16 << 10, ConnRecvWindow: 256 << 10})
					s, open = n.Control(c), nil
				}
				var start *wire.Start
				if rng.IntN(4) == 0 {
					start = earliest
				}
				_, ev := n.Subscribe(c, s, Demo, start)
				open = append(open, ev)
				switch k := rng.IntN(40); {
				case k == 0: // the connection breaks off with all that it has
					c.Close(transport.CodeDone, "")
					c = nil
				case k < 5: // stalls: nobody reads it any more
				case k < 20: // reads a little
					for range rng.IntN(3) {
						ev.Uni.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
						if _, err := ev.Batch(); err != nil {
							break
						}
					}
					fallthrough
				default: // leaves, perhaps one that stalled
					i := rng.IntN(len(open))
					open[i].Uni.CancelRead(0)
					open = append(open[:i], open[i+1:]...)
				}
				if len(open) > 10 {
					open[0].Uni.CancelRead(0)
					open = open[1:]
				}
			}
			if c != nil {
				c.Close(transport.CodeDone, "")
			}
		})
	}
	work.Wait()
	settle()
	close(over)
	load.Wait()
	settle()
	st := n.Broker.Stats()
	wantNothingHeld(t, st)
	if st.Streams[0].Subscriptions != 0 || st.Subscribers != 0 || st.SubscribesAccepted < uint64(total/workers*workers) {
		t.Errorf("%d subscriptions left on %d connections, of %d", st.Streams[0].Subscriptions, st.Subscribers, st.SubscribesAccepted)
	}
	for _, s := range st.Subscriptions {
		if s.Live {
			t.Errorf("still live: %+v", s)
		}
	}
}
