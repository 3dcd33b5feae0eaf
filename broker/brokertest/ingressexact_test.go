package brokertest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// TestIngressExactness publishes at random, in every mode and with bounds that are too small, to
// subscribers that stall and leave, from connections that break. In every snapshot
// received = accepted + rejected + dropped; every acked request has one reply, in order; and in the
// end nothing is held.
func TestIngressExactness(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := broker.Config{
			Streams:                   scopes(4),
			PubIngressWait:            rng.IntN(3) == 0,
			AckOnCommit:               rng.IntN(2) == 0,
			AckWait:                   time.Duration(1+rng.IntN(2000)) * time.Millisecond,
			PublishQueueWait:          time.Duration(1+rng.IntN(100)) * time.Millisecond,
			PubWorkers:                1 + rng.IntN(4),
			CoreShards:                rng.IntN(3),
			PubQueueDepth:             1 + rng.IntN(4),
			PubConnInflightBytes:      int64(2000 + rng.IntN(10_000)),
			PubInflightBytes:          int64(4000 + rng.IntN(20_000)),
			SubscriberQueuePolicy:     []broker.Policy{broker.PolicyBlock, broker.PolicyBlock, broker.PolicyDropOld}[rng.IntN(3)],
			SubscriberQueueCapacity:   1 + rng.IntN(4),
			SubscriberLaneQueueDepth:  1 + rng.IntN(4),
			SubscriberLaneQueuePolicy: broker.PolicyBlock,
			RingMaxBytes:              100_000,
		}
		run(t, fmt.Sprint(seed), cfg, func(t *testing.T, n *Net) { ingressExactness(t, n, seed) })
	}
}

func ingressExactness(t *testing.T, n *Net, seed uint64) {
	var publishers, subscribers, snapshots sync.WaitGroup
	targets := append(scopes(4), Demo)
	for k := range 3 {
		c := n.DialConfig(transport.Config{StreamRecvWindow: 16 << 10, ConnRecvWindow: 64 << 10})
		control := n.Control(c)
		for j, on := range targets {
			_, ev := n.Subscribe(c, control, on, nil)
			rng := rand.New(rand.NewPCG(seed, uint64(100+10*k+j)))
			subscribers.Go(func() {
				for {
					ev.Uni.SetReadDeadline(time.Now().Add(20 * time.Second))
					if _, err := ev.Batch(); err != nil {
						return
					}
					switch rng.IntN(200) {
					case 0:
						ev.Uni.CancelRead(0)
						return
					case 1, 2, 3, 4, 5, 6:
						pass(time.Duration(rng.IntN(300)) * time.Millisecond)
					}
				}
			})
		}
	}
	for k := range 4 {
		c := n.Dial()
		for j := range 2 {
			p := n.Control(c)
			rng := rand.New(rand.NewPCG(seed, uint64(10*k+j)))
			breakAt := -1
			if k == 3 && j == 0 {
				breakAt = 75
			}
			publishers.Go(func() { randomPublisher(t, c, p, targets, rng, breakAt, k == 3) })
		}
	}
	over := make(chan struct{})
	snapshots.Go(func() {
		for {
			checkIngress(t, n.Broker.Stats())
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	publishers.Wait()
	subscribers.Wait()
	settle()
	close(over)
	snapshots.Wait()
	st := wantIdle(t, n)
	if st.Flow.PublishedMsgs != st.Flow.AcceptedMsgs {
		t.Errorf("accepted and not published: %+v", st.Flow)
	}
	if st.Flow.IngressDroppedMsgs+st.Flow.RejectedMsgs+st.Ingress.WaitedPublishes == 0 {
		t.Errorf("everything found room: the test tests nothing: %+v", st.Flow)
	}
}

// randomPublisher sends 150 publishes and checks the replies. Before publish breakAt it breaks the
// connection off; frail says that somebody does.
func randomPublisher(t *testing.T, c *transport.Conn, p *Stream, targets []wire.Scope, rng *rand.Rand, breakAt int, frail bool) {
	const sends = 150
	owed := make(chan uint64, sends)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for id := range owed {
			h, body, err := p.Frame()
			if err != nil {
				if !frail {
					t.Errorf("reply to %d: %v", id, err)
				}
				return
			}
			got := uint64(0)
			if h.Flags == wire.FlagPublishAck {
				ack, err := wire.ParsePublishAck(body)
				if err != nil {
					t.Error(err)
				}
				got = ack.RequestID
			} else {
				m, err := wire.ParseMessage(body)
				switch m := m.(type) {
				case wire.PublishOK:
					got = m.RequestID
				case wire.PublishError:
					got = m.RequestID
				default:
					t.Errorf("reply %#v, %v", m, err)
				}
			}
			if got != id {
				t.Errorf("reply to %d, want %d", got, id)
			}
		}
		if _, _, err := p.Frame(); !errors.Is(err, io.EOF) && !frail {
			t.Errorf("after all replies: %v", err)
		}
	}()
	for i := range uint64(sends) {
		if int(i) == breakAt {
			c.Close(transport.CodeDone, "")
			break
		}
		on := targets[rng.IntN(len(targets))]
		var payloads []string
		for range 1 + rng.IntN(4) {
			payloads = append(payloads, strings.Repeat("x", rng.IntN(1<<rng.IntN(14))))
		}
		var raw []byte
		switch rng.IntN(3) {
		case 0:
			raw = Batch(on, payloads...)
		case 1:
			raw = acked(i, on, payloads...)
			owed <- i
		case 2:
			raw = wire.AppendMessage(nil, wire.PublishMany{Scope: on, Payloads: Bytes(payloads), RequestID: &i})
			owed <- i
		}
		if _, err := p.Bidi.Write(raw); err != nil {
			break // the other stream of the connection has broken it off
		}
		if rng.IntN(10) == 0 {
			pass(time.Duration(rng.IntN(50)) * time.Millisecond)
		}
	}
	close(owed)
	p.Bidi.Close()
	<-read
}
