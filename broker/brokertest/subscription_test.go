package brokertest

import (
	"context"
	"errors"
	"fmt"

	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// pass lets time pass for a test, on the clock of the synctest bubble that every test here runs in: it
// costs no real time, and nothing is left to chance, because the clock moves when all else waits.
func pass(d time.Duration) { time.Sleep(d) }

// wait is pass in milliseconds.
func wait(ms int) { pass(time.Duration(ms) * time.Millisecond) }

// settle waits until nothing moves any more.
func settle() {
	wait(2000)
	synctest.Wait()
}

func offsetStart(n uint64) *wire.Start { return &wire.Start{Kind: wire.StartOffset, Offset: n} }

var earliest = &wire.Start{Kind: wire.StartEarliest}

// subscription returns the account of a subscription and checks that it adds up.
func subscription(t *testing.T, n *Net, id uint64) broker.SubscriptionStats {
	t.Helper()
	for _, s := range n.Broker.Stats().Subscriptions {
		if !addsUp(s) {
			t.Errorf("subscription %d does not add up: %+v", s.ID, s)
		}
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no subscription %d", id)
	return broker.SubscriptionStats{}
}

// checkpoint returns the statistics of one, the zero value if it is not there.
func checkpoint(n *Net, number int) broker.Checkpoint {
	for _, c := range n.Broker.Stats().Checkpoints {
		if c.Number == number {
			return c
		}
	}
	return broker.Checkpoint{}
}

func addsUp(s broker.SubscriptionStats) bool {
	return s.Published == s.Written+s.DroppedQueue+s.DroppedWriter+s.DiscardedClosed+s.Queued+s.QueuedWriter
}

// shallow is a configuration whose writer's queue has one place, in which no two batches meet, and
// then makes the feeder wait: what is published to a client that does not read is one batch in
// Write, one at 6, and the rest at 5.
func shallow(cfg broker.Config) broker.Config {
	cfg.SubscriberLaneQueueDepth, cfg.SubscriberLaneQueuePolicy, cfg.EventBatchMaxEvents = 1, broker.PolicyBlock, 1
	return cfg
}

func TestSubscribe(t *testing.T) {
	run(t, "offsets only for clients that offered them", broker.Config{}, func(t *testing.T, n *Net) {
		with, without := n.Dial(), n.Dial()
		sw := n.Control(with)
		so := n.ControlAs(without, Tenant, n.Token()) // no client_flags
		_, ew := n.Subscribe(with, sw, Demo, nil)
		_, eo := n.Subscribe(without, so, Demo, nil)
		for i := range 3 {
			sw.Publish(Demo, fmt.Sprint("small", i))
			sw.Publish(Demo, strings.Repeat("L", 20_000))
			b, err := ew.Batch()
			n.must(err)
			if !b.HasOffset || b.HasSubscriptionID || b.BaseOffset != uint64(2*i) {
				t.Fatalf("with: %+v", b)
			}
			if b, err = ew.Batch(); err != nil || b.BaseOffset != uint64(2*i+1) || len(b.Payloads[0]) != 20_000 {
				t.Fatalf("with: %d, %v", b.BaseOffset, err)
			}
			b, err = eo.Batch()
			n.must(err)
			if b.HasOffset || b.HasSubscriptionID || string(b.Payloads[0]) != fmt.Sprint("small", i) {
				t.Fatalf("without: %+v", b)
			}
			if b, err = eo.Batch(); err != nil || b.HasOffset || len(b.Payloads[0]) != 20_000 {
				t.Fatalf("without: %v", err)
			}
		}
	})
	run(t, "ids", broker.Config{}, func(t *testing.T, n *Net) {
		c, other := n.Dial(), n.Dial()
		s := n.Control(c)
		s.Message(wire.Subscribe{Scope: Demo, SubscriptionID: ptr(uint64(1))})
		s.Want(wire.Subscribed{SubscriptionID: 1})
		events := n.Events(c)
		events.Want(wire.EventStreamHello{SubscriptionID: 1})
		s.Message(wire.Subscribe{Scope: Demo, SubscriptionID: ptr(uint64(1))})
		s.Want(wire.Error{Message: "subscription id 1 is in use"})
		// The broker's choice is unique in its process, also beside clients' choices.
		id, _ := n.Subscribe(other, n.Control(other), Demo, nil)
		if id == 1 {
			t.Error("the broker chose a live id")
		}
		// Once ended, the id is free at once.
		events.Uni.CancelRead(0)
		s.Message(wire.Subscribe{Scope: Demo, SubscriptionID: ptr(uint64(1))})
		s.Want(wire.Subscribed{SubscriptionID: 1})
	})
	run(t, "outlives its control stream", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		_, events := n.Subscribe(c, s, Demo, nil)
		s.CloseSend()
		s.WantEnd()
		p := n.Control(n.Dial())
		p.Publish(Demo, "x")
		events.WantEvents(nil, "x")
	})
	run(t, "limit of subscriptions", broker.Config{MaxSubscriptionsPerConn: 2}, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		n.Subscribe(c, s, Demo, nil)
		_, second := n.Subscribe(c, s, Demo, nil)
		s.Message(wire.Subscribe{Scope: Demo})
		s.Want(wire.Error{Message: "max subscriptions per connection exceeded"})
		second.Uni.CancelRead(0)
		settle()
		n.Subscribe(c, s, Demo, nil)
		st := n.Broker.Stats()
		if st.SubscribesAccepted != 3 || st.SubscribesRefused != 1 || st.Streams[0].Subscriptions != 2 {
			t.Errorf("%d accepted, %d refused, %d live; want 3, 1, 2", st.SubscribesAccepted, st.SubscribesRefused, st.Streams[0].Subscriptions)
		}
	})
	run(t, "limit of streams", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{MaxIncomingUniStreams: 1})
		s := n.Control(c)
		n.Subscribe(c, s, Demo, nil)
		s.Message(wire.Subscribe{Scope: Demo})
		s.Want(wire.Error{Message: "max subscriptions per connection exceeded"})
		s.PublishAcked(99, Demo, "x")
		s.Want(ackedOpen)
	})
}

func TestUnsubscribe(t *testing.T) {
	run(t, "at once, without a write", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		id, events := n.Subscribe(c, s, Demo, nil)
		s.Publish(Demo, "x")
		events.WantEvents(nil, "x")
		events.Uni.CancelRead(7)
		wait(5)
		synctest.Wait()
		if st := subscription(t, n, id); st.Live || st.Published != 1 || st.Written != 1 {
			t.Errorf("after STOP_SENDING: %+v", st)
		}
		if got := n.Broker.Stats().Streams[0].Subscriptions; got != 0 {
			t.Errorf("%d subscriptions left", got)
		}
		s.PublishAcked(99, Demo, "y")
		s.Want(ackedOpen)
	})
	run(t, "while a write is stuck", shallow(broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberQueueCapacity: 1}), func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		id, events := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		for i := range uint64(5) { // one in Write, one at 6, one at 5, one blocked, one not published yet
			p.PublishAcked(i, Demo, strings.Repeat("x", 100_000))
		}
		settle()
		if st := subscription(t, n, id); st.Queued != 2 || st.QueuedWriter != 2 || !st.Live || st.BlockedNs == 0 {
			t.Fatalf("before: %+v", st)
		}
		events.Uni.CancelRead(0)
		for i := range uint64(5) { // the wait ends with the subscription
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		settle()
		if st := subscription(t, n, id); st.DiscardedClosed != 4 || st.Live || st.Queued+st.QueuedWriter != 0 || st.QueuedBytes+st.EgressHeldBytes != 0 {
			t.Errorf("after: %+v", st)
		}
	})
	run(t, "end of the connection", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.Dial()
		id, _ := n.Subscribe(c, n.Control(c), Demo, nil)
		c.Close(transport.CodeDone, "")
		settle()
		if st := subscription(t, n, id); st.Live {
			t.Errorf("still live: %+v", st)
		}
		if got := n.Broker.Stats().Connections; got != 0 {
			t.Errorf("%d connections left", got)
		}
	})
}

func TestReplay(t *testing.T) {
	publish := func(n *Net, from, to int) {
		s := n.Control(n.Dial())
		for i := from; i < to; i++ {
			s.PublishAcked(uint64(i), Demo, fmt.Sprint(i))
			s.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
		}
	}
	numbers := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	run(t, "from the ring", broker.Config{LogCapacity: 10}, func(t *testing.T, n *Net) {
		publish(n, 0, 15)
		c := n.Dial()
		s := n.Control(c)
		for _, tt := range []struct {
			name  string
			start *wire.Start
			first int
		}{
			{"absent", nil, 15},
			{"latest", &wire.Start{}, 15},
			{"earliest", earliest, 5},
			{"oldest offset", offsetStart(5), 5},
			{"inside", offsetStart(9), 9},
			{"next offset", offsetStart(15), 15},
		} {
			id, ev := n.Subscribe(c, s, Demo, tt.start)
			offset := uint64(tt.first)
			ev.WantEvents(&offset, numbers(tt.first, 15)...)
			synctest.Wait()
			if st := subscription(t, n, id); st.Replayed != uint64(15-tt.first) || st.Published != st.Replayed {
				t.Errorf("%s: %+v", tt.name, st)
			}
		}
		for _, tt := range []struct {
			offset uint64
			want   wire.SubscribeCursorError
		}{
			{4, wire.SubscribeCursorError{Reason: "too_old", Requested: 4, Available: 5}},
			{0, wire.SubscribeCursorError{Reason: "too_old", Requested: 0, Available: 5}},
			{16, wire.SubscribeCursorError{Reason: "in_future", Requested: 16, Available: 15}},
		} {
			s.Message(wire.Subscribe{Scope: Demo, Start: offsetStart(tt.offset)})
			s.Want(tt.want)
		}
		if got := n.Broker.Stats().Streams[0].Subscriptions; got != 6 {
			t.Errorf("%d subscriptions, want 6: a refused one leaves none behind", got)
		}
	})
	run(t, "inside a batch", broker.Config{LogCapacity: 10}, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		p.PublishAcked(1, Demo, numbers(0, 8)...)
		p.PublishAcked(2, Demo, numbers(8, 16)...)
		p.Want(wire.PublishAck{RequestID: 1, OK: true})
		p.Want(wire.PublishAck{RequestID: 2, OK: true})
		c := n.Dial()
		for _, s := range []*Stream{n.Control(c), n.ControlAs(c, Tenant, n.Token())} {
			for first := 6; first < 16; first++ {
				_, ev := n.Subscribe(c, s, Demo, offsetStart(uint64(first)))
				ev.WantEvents(nil, numbers(first, 16)...)
			}
		}
	})
	run(t, "bytes bound the ring", broker.Config{RingMaxBytes: 100_000}, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		for i := range uint64(10) {
			p.PublishAcked(i, Demo, strings.Repeat("x", 30_000))
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		st := n.Broker.Stats().Streams[0]
		if st.RingBytes > 100_000 || st.NextOffset-st.FirstOffset != 3 {
			t.Errorf("ring: %d bytes, %d payloads; want at most 100,000 and 3", st.RingBytes, st.NextOffset-st.FirstOffset)
		}
		p.PublishAcked(10, Demo, strings.Repeat("x", 200_000))
		p.Want(wire.PublishAck{RequestID: 10, OK: true})
		if st = n.Broker.Stats().Streams[0]; st.RingBytes != 0 || st.FirstOffset != 11 {
			t.Errorf("after a batch larger than the ring: %+v", st)
		}
	})
	// A ring that others filled makes room for a stream that comes later.
	second := wire.Scope{Tenant: Tenant, Namespace: "default", Stream: "second"}
	run(t, "bytes over all rings", broker.Config{RingMaxBytesTotal: 200_000, Streams: []wire.Scope{second}}, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		id := uint64(0)
		for _, scope := range []wire.Scope{Demo, second} {
			for range 10 {
				p.PublishAcked(id, scope, strings.Repeat("x", 30_000))
				p.Want(wire.PublishAck{RequestID: id, OK: true})
				id++
			}
		}
		st := n.Broker.Stats()
		if st.RingBytes > 200_000 {
			t.Errorf("%d bytes in all rings", st.RingBytes)
		}
		for _, s := range st.Streams {
			if s.NextOffset == s.FirstOffset {
				t.Errorf("%s has no ring", s.Scope)
			}
		}
	})
}

// TestReplayJoins subscribes at random moments under a steady load: replay and live delivery join
// without a gap and without a duplicate, and nothing published after `subscribed` is missing.
func TestReplayJoins(t *testing.T) {
	run(t, "under load", broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberLaneQueuePolicy: broker.PolicyBlock, LogCapacity: 300}, func(t *testing.T, n *Net) {
		const total = 3000
		rng := rand.New(rand.NewPCG(1, 2))
		published := make(chan struct{})
		p := n.PublishOnly(n.Dial(), n.Token())
		go func() {
			defer close(published)
			for i := 0; i < total; {
				var batch []string
				for range 1 + i%7 {
					batch = append(batch, fmt.Sprint(i))
					i++
				}
				p.Publish(Demo, batch...)
				pass(time.Millisecond)
			}
		}()
		c := n.Dial()
		s := n.Control(c)
		var streams []*Stream
		for range 30 {
			wait(rng.IntN(20))
			start := earliest
			if rng.IntN(2) == 0 {
				start = nil
			}
			_, ev := n.Subscribe(c, s, Demo, start)
			streams = append(streams, ev)
		}
		<-published
		settle()
		last := n.Broker.Stats().Streams[0].NextOffset
		for i, ev := range streams {
			next := uint64(0)
			for first := true; first || next < last; first = false {
				b, err := ev.Batch()
				if err != nil {
					t.Fatalf("subscription %d at %d: %v", i, next, err)
				}
				if !first && b.BaseOffset != next {
					t.Fatalf("subscription %d: offset %d, want %d", i, b.BaseOffset, next)
				}
				for j, p := range b.Payloads {
					if want := fmt.Sprint(b.BaseOffset + uint64(j)); string(p) != want {
						t.Fatalf("subscription %d: payload %s at offset %s", i, p, want)
					}
				}
				next = b.BaseOffset + uint64(len(b.Payloads))
			}
		}
	})
}

// TestSubscribedFirst: a client that reads nothing of its event stream gets `subscribed` all the
// same, and the replay bytes do not go before it.
func TestSubscribedFirst(t *testing.T) {
	run(t, "replay", broker.Config{}, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		for i := range uint64(20) {
			p.PublishAcked(i, Demo, strings.Repeat("x", 50_000))
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		c := n.DialConfig(transport.Config{StreamRecvWindow: 32 << 10, ConnRecvWindow: 64 << 10})
		s := n.Control(c)
		s.Message(wire.Subscribe{Scope: Demo, Start: earliest})
		if _, ok := s.Next().(wire.Subscribed); !ok {
			t.Fatal("no subscribed")
		}
		ev := n.Events(c)
		if _, ok := ev.Next().(wire.EventStreamHello); !ok {
			t.Fatal("no hello")
		}
		want := make([]string, 20)
		for i := range want {
			want[i] = strings.Repeat("x", 50_000)
		}
		ev.WantEvents(nil, want...)
	})
}

func TestJoining(t *testing.T) {
	// The subscriber's stream is stuck on the first large batch while the small ones queue up.
	collect := func(t *testing.T, n *Net, small int) (frames []int) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		_, ev := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		p.Publish(Demo, strings.Repeat("L", 300_000))
		settle()
		for range small {
			p.Publish(Demo, strings.Repeat("s", 100), strings.Repeat("t", 100))
		}
		settle()
		if _, err := ev.Batch(); err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		for seen := 0; seen < 2*small; {
			b, err := ev.Batch()
			if err != nil {
				t.Fatal(err)
			}
			if b.BaseOffset != next {
				t.Fatalf("offset %d, want %d", b.BaseOffset, next)
			}
			next += uint64(len(b.Payloads))
			seen += len(b.Payloads)
			frames = append(frames, len(b.Payloads))
		}
		return frames
	}
	for _, tt := range []struct {
		name string
		cfg  broker.Config
		max  int // events a frame, none below but the last
	}{
		{"default: 64 events", broker.Config{}, 64},
		{"20 events", broker.Config{EventBatchMaxEvents: 20}, 20},
		{"bytes for 5 batches", broker.Config{EventBatchMaxBytes: 5*2*104 + 50}, 10},
		{"a batch is not split", broker.Config{EventBatchMaxEvents: 1}, 2},
		{"single event", broker.Config{SingleEvent: true}, 1},
	} {
		tt.cfg.EventBatchMaxDelay, tt.cfg.SubscriberLaneQueueDepth = time.Hour, 100
		run(t, tt.name, tt.cfg, func(t *testing.T, n *Net) {
			frames := collect(t, n, 100)
			for i, f := range frames {
				if f > tt.max {
					t.Errorf("frame %d has %d events, want at most %d", i, f, tt.max)
				}
			}
			if want := 200/tt.max + 2; len(frames) > want {
				t.Errorf("%d frames for 200 events, want about %d", len(frames), 200/tt.max)
			}
		})
	}
}

// TestPolicies stalls one subscriber and counts what each policy does to it; another subscriber
// and the publisher's acks show the others' lot.
func TestPolicies(t *testing.T) {
	const sent, capacity = 20, 5
	payload := func(i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("x", 100_000) }
	for _, tt := range []struct {
		policy                 broker.Policy
		acked                  int
		queued, dropped        uint64
		delivered              []int // to the stalled one, when it reads again
		publishedToStalled     uint64
		writtenToOtherMeanwhil uint64
	}{
		// One batch is in Write, one at 6, five wait.
		{broker.PolicyDropNew, sent, capacity, sent - 2 - capacity, []int{0, 1, 2, 3, 4, 5, 6}, sent, sent},
		{broker.PolicyDropOld, sent, capacity, sent - 2 - capacity, []int{0, 1, 15, 16, 17, 18, 19}, sent, sent},
		// The eighth is published, at the other too, and waits for room at the stalled one; the rest
		// is accepted, and acked, and waits for the eighth.
		{broker.PolicyBlock, sent, capacity + 1, 0, nil, 2 + capacity + 1, 2 + capacity + 1},
	} {
		cfg := shallow(broker.Config{SubscriberQueuePolicy: tt.policy, SubscriberQueueCapacity: capacity})
		run(t, tt.policy.String(), cfg, func(t *testing.T, n *Net) {
			c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
			stalled, ev := n.Subscribe(c, n.Control(c), Demo, nil)
			oc := n.Dial()
			other, oev := n.Subscribe(oc, n.Control(oc), Demo, nil)
			p := n.Control(n.Dial())
			sending := make(chan struct{})
			go func() {
				defer close(sending)
				for i := range sent {
					p.PublishAcked(uint64(i), Demo, payload(i))
					pass(50 * time.Millisecond)
				}
			}()
			for i := range tt.acked {
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
			}
			settle()
			st := subscription(t, n, stalled)
			if st.Published != tt.publishedToStalled || st.Queued != tt.queued || st.QueuedWriter != 2 || st.DroppedQueue != tt.dropped || st.Written != 0 {
				t.Errorf("stalled: %+v", st)
			}
			if st.HighWaterItems != capacity {
				t.Errorf("high water %d, want %d", st.HighWaterItems, capacity)
			}
			if got := subscription(t, n, other); got.Written != tt.writtenToOtherMeanwhil || got.DroppedQueue != 0 {
				t.Errorf("other: %+v", got)
			}
			if (st.BlockedNs > 0) != (tt.policy == broker.PolicyBlock) {
				t.Errorf("blocked for %d ns", st.BlockedNs)
			}
			// It reads again.
			want := tt.delivered
			if want == nil {
				for i := range sent {
					want = append(want, i)
				}
			}
			for _, i := range want {
				ev.WantEvents(nil, payload(i))
			}
			for i := range sent {
				oev.WantEvents(nil, payload(i))
			}
			for i := tt.acked; i < sent; i++ {
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
			}
			<-sending
			settle()
			st = subscription(t, n, stalled)
			if st.Queued != 0 || st.QueuedBytes != 0 || st.Written != uint64(len(want)) || st.Written+st.DroppedQueue != sent {
				t.Errorf("at the end: %+v", st)
			}
			if cp := checkpoint(n, 5); cp.Dropped != tt.dropped || cp.HighWater != capacity || cp.Policy != tt.policy.String() {
				t.Errorf("checkpoint: %+v", cp)
			}
		})
	}
}

// TestBytesBound: the same by bytes, and a batch larger than the whole bound passes alone.
func TestBytesBound(t *testing.T) {
	run(t, "drop_new", shallow(broker.Config{SubscriberQueueMaxBytes: 250_000}), func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		id, ev := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		x := strings.Repeat("x", 100_000)
		for i := range uint64(7) { // two fit, behind the one in Write and the one at 6
			p.PublishAcked(i, Demo, x)
			p.Want(wire.PublishAck{RequestID: i, OK: true})
			settle()
		}
		if st := subscription(t, n, id); st.Queued != 2 || st.QueuedWriter != 2 || st.DroppedQueue != 3 || st.QueuedBytes > 250_000 {
			t.Errorf("%+v", st)
		}
		ev.WantEvents(nil, x, x, x, x)
		settle()
		p.Publish(Demo, x)
		p.Publish(Demo, x)
		settle()
		p.Publish(Demo, strings.Repeat("y", 400_000))
		settle()
		p.Publish(Demo, "z") // nothing beside the large one
		settle()
		if st := subscription(t, n, id); st.Queued != 1 || st.DroppedQueue != 4 || st.HighWaterBytes < 400_000 {
			t.Errorf("%+v", st)
		}
		ev.WantEvents(nil, x, x, strings.Repeat("y", 400_000))
	})
}

// TestPublisherGone: what was accepted is published, although its publisher's connection ended.
func TestPublisherGone(t *testing.T) {
	run(t, "block", shallow(broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberQueueCapacity: 1}), func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		id, ev := n.Subscribe(c, n.Control(c), Demo, nil)
		pc := n.Dial()
		p, q := n.Control(pc), n.Control(pc)
		for range 4 {
			p.Publish(Demo, strings.Repeat("x", 100_000))
			wait(100)
		}
		q.Publish(Demo, "behind them")
		settle()
		pc.Close(transport.CodeDone, "")
		settle()
		if st := subscription(t, n, id); st.Queued != 2 || st.QueuedWriter != 2 || st.DroppedQueue != 0 {
			t.Errorf("%+v", st)
		}
		if f := n.Broker.Stats().Flow; f.ReceivedMsgs != 5 || f.AcceptedMsgs != 5 || f.PublishedMsgs != 4 {
			t.Errorf("flow: %+v", f)
		}
		large := strings.Repeat("x", 100_000)
		ev.WantEvents(nil, large, large, large, large, "behind them")
		np := n.Control(n.Dial())
		np.PublishAcked(99, Demo, "x")
		np.Want(ackedOpen)
		ev.WantEvents(nil, "x")
	})
}

// TestBlockedAck: an ack that is owed does not wait behind a later publish that does.
func TestBlockedAck(t *testing.T) {
	run(t, "block", shallow(broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberQueueCapacity: 1}), func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		_, _ = n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		p.Publish(Demo, strings.Repeat("x", 100_000)) // stuck in Write
		settle()
		var all []byte
		for i := range uint64(5) {
			all = append(all, acked(i, Demo, "x")...)
		}
		p.Raw(all) // read in one go
		p.Want(wire.PublishAck{RequestID: 0, OK: true})
	})
}

func TestShutdown(t *testing.T) {
	run(t, "drains", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		id, ev := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		var want []string
		for i := range uint64(20) {
			want = append(want, strings.Repeat("x", 50_000))
			p.PublishAcked(i, Demo, want[i])
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		settle()
		if st := subscription(t, n, id); st.QueuedWriter == 0 {
			t.Fatal("nothing is queued: the test tests nothing")
		}
		done := make(chan error, 1)
		var discarded uint64
		go func() {
			var err error
			discarded, err = n.Broker.Shutdown(context.Background())
			done <- err
		}()
		ev.WantEvents(nil, want...)
		ev.WantEnd() // FIN, not reset
		p.WantStopped(transport.CodeShutdown)
		if err := <-done; err != nil || discarded != 0 {
			t.Errorf("shutdown: discarded %d, %v", discarded, err)
		}
		_, _, err := p.Frame()
		var app *quic.ApplicationError
		if !errors.As(err, &app) || app.ErrorCode != transport.CodeShutdown {
			t.Errorf("connection: %v, want code 4", err)
		}
	})
	run(t, "deadline", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		id, _ := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		for i := range uint64(20) {
			p.PublishAcked(i, Demo, strings.Repeat("x", 50_000))
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		settle()
		st := subscription(t, n, id)
		queued := st.Queued + st.QueuedWriter
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		discarded, err := n.Broker.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || discarded != queued || queued == 0 {
			t.Errorf("shutdown: discarded %d, want %d; %v", discarded, queued, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
		if st := subscription(t, n, id); st.DiscardedClosed != queued || st.Queued+st.QueuedWriter != 0 {
			t.Errorf("%+v", st)
		}
	})
	run(t, "with a blocked publish", shallow(broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberQueueCapacity: 1}), func(t *testing.T, n *Net) {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 1 << 20})
		_, ev := n.Subscribe(c, n.Control(c), Demo, nil)
		p := n.Control(n.Dial())
		var all []byte
		var want []string
		for i := range 6 {
			want = append(want, fmt.Sprint(i)+strings.Repeat("x", 100))
			all = append(all, Batch(Demo, want[i])...)
		}
		p.Publish(Demo, strings.Repeat("x", 100_000))
		settle()
		p.Raw(all) // one packet, and so one Read
		settle()
		done := make(chan uint64, 1)
		go func() {
			discarded, err := n.Broker.Shutdown(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- discarded
		}()
		wait(1)
		// Publishes already read are fanned out, for which the blocked one needs the subscriber.
		ev.WantEvents(nil, strings.Repeat("x", 100_000))
		ev.WantEvents(nil, want...)
		ev.WantEnd()
		if d := <-done; d != 0 {
			t.Errorf("discarded %d", d)
		}
	})
	run(t, "nothing to do", broker.Config{}, func(t *testing.T, n *Net) {
		began := time.Now()
		if d, err := n.Broker.Shutdown(context.Background()); d != 0 || err != nil || time.Since(began) > time.Second {
			t.Errorf("discarded %d, %v, after %v", d, err, time.Since(began))
		}
	})
}
