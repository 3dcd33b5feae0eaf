package brokertest

import (
	"fmt"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/wire"
)

// TestReplyOrder: in every mode replies leave in the order of their requests, although one of the
// streams behind a publish stream is parked.
func TestReplyOrder(t *testing.T) {
	const requests = 120
	for _, mode := range []broker.Config{{}, {AckOnCommit: true, AckWait: time.Hour}, {PubIngressWait: true}, {AckOnCommit: true, PubIngressWait: true, AckWait: time.Hour}} {
		cfg := stalling(mode)
		cfg.Streams, cfg.Caches = scopes(3), []wire.Scope{primary}
		everywhere(t, fmt.Sprintf("commit %v, wait %v", mode.AckOnCommit, mode.PubIngressWait), cfg, func(t *testing.T, n *Net) {
			p := n.Control(n.Dial())
			ev, first := stall(t, n, n.Control(n.Dial()), Demo)
			var want []any
			demos, committed := 0, 0
			for i := range uint64(requests) {
				switch i % 6 {
				case 0, 1, 2:
					p.PublishAcked(i, scope(int(i%3)), "x")
					want = append(want, wire.PublishAck{RequestID: i, OK: true})
				case 3:
					if demos == 0 && mode.AckOnCommit {
						committed = len(want)
					}
					p.PublishAcked(i, Demo, "parked")
					want = append(want, wire.PublishAck{RequestID: i, OK: true})
					demos++
				case 4:
					p.Message(wire.Publish{Scope: scope(0), RequestID: &i})
					want = append(want, wire.PublishOK{RequestID: i})
				case 5:
					p.Message(wire.CachePut{Scope: primary, Key: "k", RequestID: &i})
					want = append(want, wire.CacheOK{RequestID: i})
				}
			}
			if mode.AckOnCommit {
				// Nothing overtakes the one that is parked.
				for _, w := range want[:committed] {
					p.Want(w)
				}
				p.Bidi.SetReadDeadline(time.Now().Add(time.Second))
				if h, _, err := p.Frame(); err == nil {
					t.Fatalf("a reply (flags %s) overtook one that is not known yet", h.Flags)
				}
				p.Bidi.SetReadDeadline(time.Time{})
				want = want[committed:]
			} else {
				for _, w := range want {
					p.Want(w)
				}
				want = nil
			}
			if got := count(ev, first+demos); got != first+demos {
				t.Errorf("%d arrived", got)
			}
			for _, w := range want {
				p.Want(w)
			}
			settle()
			wantIdle(t, n)
		})
	}
}

// TestCommitAck: a commit ack comes when the publish has been fanned out, or when its time is up;
// and what is owed at the client's end is sent before the broker's.
func TestCommitAck(t *testing.T) {
	cfg := stalling(broker.Config{AckOnCommit: true, AckWait: 3 * time.Second})
	everywhere(t, "timeout", cfg, func(t *testing.T, n *Net) {
		ev, first := stall(t, n, n.Control(n.Dial()), Demo)
		p := n.Control(n.Dial())
		began := time.Now()
		p.PublishAcked(1, Demo, "x")
		p.PublishAcked(2, Demo, "x")
		p.CloseSend()
		late := "ack timeout: accepted, and not fanned out within 3s"
		p.Want(wire.PublishAck{RequestID: 1, Err: late})
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("after %v", took)
		}
		p.Want(wire.PublishAck{RequestID: 2, Err: late})
		p.WantEnd()
		if got := count(ev, first+2); got != first+2 {
			t.Errorf("%d arrived: what was accepted is published all the same", got)
		}
		settle()
		wantIdle(t, n)
	})
	everywhere(t, "half-close", cfg, func(t *testing.T, n *Net) {
		ev, first := stall(t, n, n.Control(n.Dial()), Demo)
		p := n.Control(n.Dial())
		p.PublishAcked(1, Demo, "x")
		p.CloseSend()
		time.AfterFunc(time.Second, func() { count(ev, first+1) })
		began := time.Now()
		p.Want(wire.PublishAck{RequestID: 1, OK: true})
		if took := time.Since(began); took < time.Second {
			t.Errorf("acked after %v, before there was room", took)
		}
		p.WantEnd()
		settle()
		wantIdle(t, n)
	})
	everywhere(t, "subscribed behind a commit ack", cfg, func(t *testing.T, n *Net) {
		ev, first := stall(t, n, n.Control(n.Dial()), Demo)
		c := n.Dial()
		p := n.Control(c)
		p.PublishAcked(1, Demo, "x")
		p.Message(wire.Subscribe{Scope: Demo, Start: earliest})
		wait(500)
		if got := n.Broker.Stats().Streams[0].Subscriptions; got != 1 {
			t.Errorf("%d subscriptions", got)
		}
		if got := count(ev, first+1); got != first+1 {
			t.Errorf("%d arrived", got)
		}
		p.Want(wire.PublishAck{RequestID: 1, OK: true})
		if _, ok := p.Next().(wire.Subscribed); !ok {
			t.Error("no subscribed")
		}
		settle()
	})
}
