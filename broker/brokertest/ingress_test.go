package brokertest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// stalling is a configuration under which a subscriber that does not read soon blocks its stream.
func stalling(cfg broker.Config) broker.Config {
	cfg.SubscriberQueuePolicy = broker.PolicyBlock
	cfg.SubscriberQueueCapacity = 1
	cfg.SubscriberLaneQueuePolicy = broker.PolicyBlock
	cfg.SubscriberLaneQueueDepth = 1
	return cfg
}

// narrow is a subscriber's connection that takes little without being read.
var narrow = transport.Config{StreamRecvWindow: 32 << 10, ConnRecvWindow: 64 << 10}

// scope is one of the other streams of a test.
func scope(i int) wire.Scope {
	return wire.Scope{Tenant: Tenant, Namespace: "default", Stream: fmt.Sprint("s", i)}
}

func scopes(n int) (out []wire.Scope) {
	for i := range n {
		out = append(out, scope(i))
	}
	return out
}

// count reads event frames until the stream ends or there are as many payloads as wanted.
func count(ev *Stream, want int) (got int) {
	for got < want {
		b, err := ev.Batch()
		if err != nil {
			return got
		}
		got += len(b.Payloads)
	}
	return got
}

// stall makes a subscription to the stream that nobody reads, and fills it until the next publish
// parks. It returns its event stream and how many messages were published.
func stall(t *testing.T, n *Net, p *Stream, on wire.Scope) (*Stream, int) {
	t.Helper()
	c := n.DialConfig(narrow)
	id, ev := n.Subscribe(c, n.Control(c), on, nil)
	for i := 1; i < 20; i++ {
		p.Publish(on, strings.Repeat("x", 100_000))
		settle()
		if subscription(t, n, id).BlockedNs > 0 {
			return ev, i
		}
	}
	t.Fatal("the subscription takes all")
	return nil, 0
}

// wantIdle checks that ingress holds nothing and that its account adds up.
func wantIdle(t *testing.T, n *Net) broker.Stats {
	t.Helper()
	st := n.Broker.Stats()
	if in := st.Ingress; in.HeldBytes != 0 || in.QueueDepth != 0 || in.Waiting != 0 {
		t.Errorf("%d bytes held, %d queued, %d waiting; want nothing", in.HeldBytes, in.QueueDepth, in.Waiting)
	}
	checkIngress(t, st)
	return st
}

func checkIngress(t *testing.T, st broker.Stats) {
	t.Helper()
	if f := st.Flow; f.ReceivedMsgs != f.AcceptedMsgs+f.RejectedMsgs+f.IngressDroppedMsgs {
		t.Errorf("ingress does not add up: %+v", f)
	}
	var dropped, byStream uint64
	for _, c := range st.Ingress.Counts {
		dropped += c.DroppedMsgs
	}
	for _, s := range st.Streams {
		byStream += s.IngressDroppedMsgs
	}
	if dropped != st.Flow.IngressDroppedMsgs || byStream != dropped {
		t.Errorf("%d dropped: %d by reason, %d by stream", st.Flow.IngressDroppedMsgs, dropped, byStream)
	}
}

// dropped sums what was dropped for a reason.
func dropped(st broker.Stats, reason string) (n uint64) {
	for _, c := range st.Ingress.Counts {
		if c.Reason == reason {
			n += c.DroppedMsgs
		}
	}
	return n
}

// TestBurst: 400 unacked messages of 1 KiB at once. By default every one is accounted for;
// lossless, every one arrives.
func TestBurst(t *testing.T) {
	const burst = 400
	lossless := broker.Config{SubscriberQueuePolicy: broker.PolicyBlock, SubscriberLaneQueuePolicy: broker.PolicyBlock, PubIngressWait: true}
	tight := lossless
	tight.PubQueueDepth, tight.PubWorkers, tight.PubConnInflightBytes, tight.SubscriberQueueCapacity = 1, 1, 3000, 1
	for name, cfg := range map[string]broker.Config{"default": {}, "lossless": lossless, "lossless, everything tight": tight} {
		run(t, name, cfg, func(t *testing.T, n *Net) {
			c := n.Dial()
			id, ev := n.Subscribe(c, n.Control(c), Demo, nil)
			var got atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					b, err := ev.Batch()
					if err != nil {
						return
					}
					got.Add(int64(len(b.Payloads)))
				}
			}()
			// On several streams, as a client's workers would.
			pc := n.Dial()
			var all [8][]byte
			for i := range burst {
				all[i%8] = append(all[i%8], Batch(Demo, strings.Repeat("p", 1024))...)
			}
			for _, raw := range all {
				n.PublishOnly(pc, n.Token()).Raw(raw)
			}
			settle()
			st := wantIdle(t, n)
			sub := subscription(t, n, id)
			if f := st.Flow; f.ReceivedMsgs != burst || f.AcceptedMsgs != f.PublishedMsgs || sub.Published != f.AcceptedMsgs {
				t.Errorf("flow %+v, subscription %+v", f, sub)
			}
			if n := got.Load(); uint64(n) != sub.Written || cfg.PubIngressWait && n != burst {
				t.Errorf("%d of %d arrived, %d written", n, burst, sub.Written)
			}
			ev.Uni.CancelRead(0)
			<-done
		})
	}
}

// TestBurstOfLargeBatches: of batches of 64 payloads of 4 KiB checkpoint 3 is full before 4 is.
func TestBurstOfLargeBatches(t *testing.T) {
	const batches, each = 400, 64
	payloads := make([]string, each)
	for i := range payloads {
		payloads[i] = strings.Repeat("p", 4096)
	}
	send := func(n *Net) chan struct{} {
		p := n.PublishOnly(n.Dial(), n.Token())
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			raw := Batch(Demo, payloads...)
			for range batches {
				p.Raw(raw)
			}
		}()
		return sent
	}
	run(t, "production", stalling(broker.Config{}), func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		_, first := stall(t, n, p, Demo)
		<-send(n)
		settle()
		st := n.Broker.Stats()
		checkIngress(t, st)
		if f := st.Flow; f.ReceivedMsgs != uint64(first+batches*each) {
			t.Errorf("received %d, want %d", f.ReceivedMsgs, first+batches*each)
		}
		body := int64(len(Batch(Demo, payloads...)) - wire.HeaderLen)
		fit := int64(16<<20) / body
		if want := (batches - uint64(fit)) * each; dropped(st, "conn_bytes") != want || st.Flow.IngressDroppedMsgs != want {
			t.Errorf("dropped %+v, want %d for the connection's bytes", st.Ingress.Counts, want)
		}
		if high := st.Ingress.ConnHighWaterBytes; high < fit*body || high > 16<<20 {
			t.Errorf("the connection held up to %d bytes", high)
		}
		if three, four := checkpoint(n, 3), checkpoint(n, 4); three.HighWaterBytes < fit*body || three.Dropped == 0 || four.Dropped != 0 || three.Policy != "drop/fail" {
			t.Errorf("checkpoints %+v, %+v", three, four)
		}
	})
	run(t, "lossless", stalling(broker.Config{PubIngressWait: true}), func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		ev, first := stall(t, n, p, Demo)
		sent := send(n)
		settle()
		st := n.Broker.Stats()
		if st.Ingress.Waiting != 1 || st.Ingress.HeldBytes > 16<<20+1<<20 || checkpoint(n, 3).Policy != "backpressure" {
			t.Errorf("in the middle: %+v", st.Ingress)
		}
		if got := count(ev, first+batches*each); got != first+batches*each {
			t.Errorf("%d messages arrived, want %d", got, first+batches*each)
		}
		<-sent
		settle()
		st = wantIdle(t, n)
		if st.Ingress.WaitedPublishes == 0 || st.Ingress.Blocked3.Total() == 0 || st.Ingress.Blocked5.Total() == 0 || checkpoint(n, 3).BlockedNs == 0 {
			t.Errorf("nothing waited: %+v", st.Ingress)
		}
	})
}

// TestSmallPublishesFillTheQueue: of small publishes checkpoint 4 is full before 3 is. Each policy
// shows what it does.
func TestSmallPublishesFillTheQueue(t *testing.T) {
	const sent, depth = 20, 5
	full := wire.PublishAck{Err: "overloaded: publish_queue_full"}
	for _, tt := range []struct {
		name             string
		cfg              broker.Config
		acked            bool
		ok, full         int // acks at once
		dropped          uint64
		policy           string
		waits, thenTaken int
	}{
		{"drop", broker.Config{}, false, 0, 0, sent - depth, "drop/fail", 0, 0},
		{"fail", broker.Config{}, true, depth, sent - depth, 0, "drop/fail", 0, 0},
		{"backpressure, unacked", broker.Config{PubIngressWait: true}, false, 0, 0, 0, "backpressure", 1, sent},
		{"backpressure, acked", broker.Config{PubIngressWait: true}, true, depth, 0, 0, "backpressure", 1, sent},
	} {
		cfg := stalling(tt.cfg)
		cfg.PubQueueDepth, cfg.PubWorkers = depth, 1
		run(t, tt.name, cfg, func(t *testing.T, n *Net) {
			p := n.Control(n.Dial())
			ev, first := stall(t, n, p, Demo)
			for i := range sent {
				if tt.acked {
					p.PublishAcked(uint64(i), Demo, "x")
				} else {
					p.Publish(Demo, "x")
				}
			}
			for i := range tt.ok {
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true})
			}
			for i := range tt.full {
				full.RequestID = uint64(tt.ok + i)
				p.Want(full)
			}
			settle()
			st := n.Broker.Stats()
			checkIngress(t, st)
			if st.Ingress.QueueDepth != depth || st.Ingress.Waiting != tt.waits || dropped(st, "items") != tt.dropped {
				t.Errorf("%+v", st.Ingress)
			}
			if st.Flow.RejectedMsgs != uint64(tt.full) || st.Streams[0].IngressRejectedMsgs != uint64(tt.full) {
				t.Errorf("rejected: %+v", st.Flow)
			}
			if four := checkpoint(n, 4); four.Bound != depth || four.HighWater != depth || four.Policy != tt.policy || four.Dropped != tt.dropped {
				t.Errorf("checkpoint 4: %+v", four)
			}
			want := first + depth
			if tt.thenTaken > 0 {
				want = first + tt.thenTaken
			}
			if got := count(ev, want); got != want {
				t.Errorf("%d arrived, want %d", got, want)
			}
			for i := tt.ok + tt.full; tt.acked && i < sent; i++ {
				p.Want(wire.PublishAck{RequestID: uint64(i), OK: true}) // late
			}
			settle()
			wantIdle(t, n)
		})
	}
	// Wait: with commit acks; one deadline, and then as fail.
	cfg := stalling(broker.Config{AckOnCommit: true, AckWait: time.Hour, PublishQueueWait: 3 * time.Second})
	cfg.PubQueueDepth, cfg.PubWorkers = depth, 1
	run(t, "wait", cfg, func(t *testing.T, n *Net) {
		p := n.Control(n.Dial())
		ev, first := stall(t, n, p, Demo)
		began := time.Now()
		for i := range uint64(depth + 2) {
			p.PublishAcked(i, Demo, "x")
		}
		p.Publish(Demo, "unacked: dropped") // read when the second wait is over
		settle()
		if st := n.Broker.Stats(); st.Ingress.Waiting != 1 || st.Flow.RejectedMsgs != 0 || checkpoint(n, 4).Policy != "drop/wait" {
			t.Errorf("after 2 s: %+v, %+v", st.Ingress, st.Flow)
		}
		wait(1500)
		if st := n.Broker.Stats(); st.Ingress.Waiting != 1 || st.Flow.RejectedMsgs != 1 {
			t.Errorf("after 3.5 s: %+v, %+v", st.Ingress, st.Flow)
		}
		wait(3000)
		st := n.Broker.Stats()
		if st.Ingress.Waiting != 0 || st.Flow.RejectedMsgs != 2 || dropped(st, "items") != 1 || st.Ingress.WaitNs != int64(6*time.Second) {
			t.Errorf("after 6.5 s: %+v, %+v", st.Ingress, st.Flow)
		}
		if got := count(ev, first+depth); got != first+depth {
			t.Errorf("%d arrived", got)
		}
		for i := range uint64(depth) {
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		for i := range uint64(2) {
			full.RequestID = depth + i
			p.Want(full)
		}
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("took %v", waited)
		}
		wantIdle(t, n)
	})
}

// TestBytesRefused: an acked publish that checkpoint 3 has no room for says so.
func TestBytesRefused(t *testing.T) {
	for _, cfg := range []broker.Config{{PubConnInflightBytes: 150_000}, {PubInflightBytes: 150_000}} {
		run(t, fmt.Sprintf("%d of a connection, %d of all", cfg.PubConnInflightBytes, cfg.PubInflightBytes), stalling(cfg), func(t *testing.T, n *Net) {
			p := n.Control(n.Dial())
			ev, first := stall(t, n, p, Demo)
			p.PublishAcked(1, Demo, strings.Repeat("x", 60_000))
			p.Want(wire.PublishAck{RequestID: 1, Err: "overloaded: publish_bytes_full"})
			id := uint64(2)
			p.Message(wire.Publish{Scope: Demo, Payload: make([]byte, 60_000), RequestID: &id})
			p.Want(wire.PublishError{RequestID: 2, Message: "overloaded: publish_bytes_full"})
			p.PublishAcked(3, Demo, "small")
			p.Want(wire.PublishAck{RequestID: 3, OK: true})
			if got := count(ev, first+1); got != first+1 {
				t.Errorf("%d arrived", got)
			}
			// Larger than all that there is, and nothing else is there.
			p.PublishAcked(4, Demo, strings.Repeat("x", 400_000))
			p.Want(wire.PublishAck{RequestID: 4, OK: true})
			if got := count(ev, 1); got != 1 {
				t.Error("the large one did not arrive")
			}
			settle()
			if st := wantIdle(t, n); st.Flow.RejectedMsgs != 2 {
				t.Errorf("%+v", st.Flow)
			}
		})
	}
}

// everywhere runs a test with one executor, with four and with shards.
func everywhere(t *testing.T, name string, cfg broker.Config, f func(t *testing.T, n *Net)) {
	for _, tt := range []struct {
		name            string
		workers, shards int
	}{{"1 executor", 1, 0}, {"4 executors", 4, 0}, {"2 shards", 4, 2}} {
		cfg := cfg
		cfg.PubWorkers, cfg.CoreShards = tt.workers, tt.shards
		run(t, name+"/"+tt.name, cfg, f)
	}
}

// TestStalledStream: a stream whose subscriber does not read stands still, and its publishers wait;
// five others, of the same tenant, publish and deliver as if it were not there.
func TestStalledStream(t *testing.T) {
	cfg := stalling(broker.Config{PubIngressWait: true, PubQueueDepth: 4, Streams: scopes(5)})
	everywhere(t, "lossless", cfg, func(t *testing.T, n *Net) {
		sp := n.Control(n.Dial())
		ev, first := stall(t, n, sp, Demo)
		const more = 300
		flooded := make(chan struct{})
		go func() { // fills its places, and waits
			defer close(flooded)
			for range more {
				sp.Publish(Demo, strings.Repeat("y", 1000))
			}
		}()
		settle()

		c := n.Dial()
		control := n.Control(c)
		const each = 200
		done := make(chan int)
		for i := range 5 {
			_, hev := n.Subscribe(c, control, scope(i), nil)
			go func() { done <- count(hev, each) }()
		}
		pc := n.Dial()
		began := time.Now()
		for i := range 5 {
			p := n.Control(pc)
			go func() {
				for range each {
					p.Publish(scope(i), strings.Repeat("z", 500))
				}
			}()
		}
		for range 5 {
			if got := <-done; got != each {
				t.Errorf("%d of %d arrived", got, each)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the healthy streams took %v", took)
		}
		if st := n.Broker.Stats(); st.Ingress.Waiting != 1 {
			t.Errorf("the stalled stream's publisher does not wait: %+v", st.Ingress)
		}
		if got := count(ev, first+more); got != first+more {
			t.Errorf("the stalled stream: %d arrived, want %d", got, first+more)
		}
		<-flooded
		settle()
		if st := wantIdle(t, n); st.Flow.IngressDroppedMsgs != 0 {
			t.Errorf("%+v", st.Flow)
		}
	})
}
