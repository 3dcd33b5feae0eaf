package probe

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"felix/internal/transport"
)

// A slow subscriber holds up its publisher, by way of the relay, before memory does; when it reads on, all of it comes.
// With one subscriber the relay's reader is blocked in its write, with two by the queue of the slow one.
func TestSlowSubscriberBlocks(t *testing.T) {
	for _, fanout := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			const (
				window = 256 << 10
				frames = 400
				size   = 16 << 10
			)
			b := open(t, shape{network: QUIC, publishers: 1, fanout: fanout, endpoint: simulated(t, window), addr: relayAddr.String()})
			ctx := t.Context()
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := publishAll(ctx, b.pubs.Publisher(0), 0, 0, frames, 1, size); err != nil {
					t.Error(err)
				}
			})
			if fanout == 2 {
				wg.Go(func() {
					if err := receiveAll(ctx, b.subs.Subscription(0, 1), []int{0}, frames, size); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(10 * time.Second) // in the bubble: everything that can move has
			written := b.pubs.Stats().WrittenMsgs
			// The path holds two windows, a chunk read and one written, and the relay's queue.
			if most := uint64((2*window + (relayQueue+3)*chunkBytes) / size); written > most || written == 0 {
				t.Errorf("%d subscribers: %d messages were written to one that does not read, want at most %d", fanout, written, most)
			}
			time.Sleep(10 * time.Second)
			if now := b.pubs.Stats().WrittenMsgs; now != written {
				t.Errorf("%d subscribers: %d more messages were written", fanout, now-written)
			}
			if err := receiveAll(ctx, b.subs.Subscription(0, 0), []int{0}, frames, size); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if s := b.relay.Stats(); s.SentMsgs != uint64(frames*fanout) || s.UnheardMsgs != 0 {
				t.Errorf("relay: %+v, want %d sent", s, frames*fanout)
			}
		})
	}
}

// Two hops of 10 ms each way are what an echo through the relay takes.
func TestSimulatedEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, shape{network: QUIC, publishers: 1, fanout: 1, echo: true, endpoint: simulated(t, 1<<20), addr: relayAddr.String()})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if _, err := b.subs.Subscription(0, 0).Next(ctx); err != nil {
					return
				}
			}
		})
		for range 20 {
			start := time.Now()
			a, err := publish(ctx, b.pubs.Publisher(0), 0, [][]byte{[]byte("ping")})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if took := a.At().Sub(start); took != 4*linkLatency {
				t.Errorf("round trip %v, want %v", took, 4*linkLatency)
			}
		}
		cancel()
		wg.Wait()
	})
}

var relayAddr = net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4433}

const linkLatency = 10 * time.Millisecond

// simulated gives every party an end of a simulated network: first the relay.
func simulated(t *testing.T, window int64) func() transport.Config {
	t.Helper()
	n := &simnet.Simnet{Router: &simnet.PerfectRouter{}}
	node := func(last byte) *simnet.SimConn {
		addr := net.UDPAddr{IP: net.IPv4(10, 0, 0, last), Port: 4433}
		return n.NewEndpoint(&addr, simnet.NodeBiDiLinkSettings{Latency: linkLatency})
	}
	nodes := make([]*simnet.SimConn, 8)
	for i := range nodes {
		nodes[i] = node(byte(i + 1))
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	var mu sync.Mutex
	return func() transport.Config {
		return transport.Config{ConnRecvWindow: window, StreamRecvWindow: window, ListenPacket: func(string, string) (net.PacketConn, error) {
			mu.Lock()
			defer mu.Unlock()
			next := nodes[0]
			nodes = nodes[1:]
			return next, nil
		}}
	}
}
