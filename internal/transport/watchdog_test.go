package transport

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// narrowing is a network that from some moment on carries small packets only.
type narrowing struct {
	simnet.PerfectRouter
	narrow atomic.Bool
}

func (n *narrowing) SendPacket(p simnet.Packet) error {
	if n.narrow.Load() && len(p.Data) > 1300 {
		return nil
	}
	return n.PerfectRouter.SendPacket(p)
}

// narrowPair connects two ends over a network that carries 1,452 bytes, at first.
func narrowPair(t *testing.T, cfg Config) (n *narrowing, dialled, accepted *Conn) {
	t.Helper()
	n = &narrowing{}
	s := &simNetwork{net: &simnet.Simnet{Router: n}, id: newIdentity(t)}
	link := simnet.NodeBiDiLinkSettings{Downlink: simnet.LinkSettings{MTU: 1500}, Uplink: simnet.LinkSettings{MTU: 1500}}
	// A round trip is never the same twice, as on real networks.
	var packets atomic.Int64
	link.LatencyFunc = func(simnet.Packet) time.Duration {
		return 5*time.Millisecond + time.Duration(packets.Add(1)%977)*time.Microsecond
	}
	s.server = s.net.NewEndpoint(&simServer, link)
	s.clients = append(s.clients, s.net.NewEndpoint(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 4433}, link))
	if err := s.net.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.net.Close() })
	cfg.PacketSize, cfg.PacketSizeAnywhere = 1452, true
	dialled, accepted = s.pair(t, cfg, cfg)
	return n, dialled, accepted
}

func TestBlackHoleEndsTheConnection(t *testing.T) {
	// quic-go never goes back to smaller packets. Its keep-alive kept such a connection up for as
	// long as it was watched, while the writer stood still.
	for _, tt := range []struct {
		name string
		cfg  Config
		want time.Duration // at most; 0: it does not end
	}{
		{"the peer is heard by its keep-alive", Config{KeepAlive: 2 * time.Second}, 15 * time.Second},
		{"seldom heard", Config{KeepAlive: 12 * time.Second}, 30 * time.Second},
		{"a shorter timeout", Config{KeepAlive: 500 * time.Millisecond, ProgressTimeout: 2 * time.Second}, 4 * time.Second},
		{"not watched", Config{KeepAlive: 2 * time.Second, ProgressTimeout: -1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, dialled, accepted := narrowPair(t, tt.cfg)
				bulk(t, dialled, accepted, 1<<20)
				n.narrow.Store(true)
				start := time.Now()
				s, err := dialled.OpenUniStreamSync(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_ = s.SetWriteDeadline(start.Add(2 * time.Minute))
				_, err = s.Write(make([]byte, 8<<20))
				took := time.Since(start)
				if tt.want == 0 {
					if err == nil || context.Cause(dialled.Context()) != nil {
						t.Errorf("write: %v, connection: %v, want a write that stands still on a connection that is up", err, context.Cause(dialled.Context()))
					}
					return
				}
				if !IsNoProgress(err) || !strings.Contains(err.Error(), "packet_size 1200") || !strings.Contains(err.Error(), "1452 bytes") {
					t.Errorf("write ended by %v, want the black hole with the way out", err)
				}
				if took > tt.want {
					t.Errorf("write stood still for %v, want at most %v", took, tt.want)
				}
				// The peer is told too: the closing packet is small.
				<-accepted.Context().Done()
				if err := context.Cause(accepted.Context()); !IsNoProgress(err) {
					t.Errorf("the peer's connection ended by %v", err)
				}
			})
		})
	}
}

func TestWaitingIsNoBlackHole(t *testing.T) {
	// A peer that does not read, one that is silent and comes back, a connection with nothing to
	// send: none of them is a black hole.
	synctest.Test(t, func(t *testing.T) {
		n, dialled, accepted := narrowPair(t, Config{KeepAlive: time.Second, StreamRecvWindow: 64 << 10, ConnRecvWindow: 64 << 10})
		s, err := dialled.OpenUniStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			_, err := s.Write(make([]byte, 1<<20))
			written <- err
		}()
		pass(time.Minute) // flow control holds the writer
		r, err := accepted.AcceptUniStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<20)
		for got := 0; got < 1<<20; {
			k, err := r.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += k
			pass(500 * time.Millisecond)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute) // idle
		n.narrow.Store(true)  // with nothing to send that is large
		pass(2 * time.Minute)
		n.narrow.Store(false)
		bulk(t, dialled, accepted, 1<<20)
		if err := context.Cause(dialled.Context()); err != nil {
			t.Errorf("ended by %v", err)
		}
	})
}

func TestWatchdogSigns(t *testing.T) {
	const size = 1441
	type tick struct {
		full, acks, heard, lost int // packets: sent full, sent small, received, lost full
		acked                   bool
	}
	repeat := func(n int, k tick) (out []tick) {
		for range n {
			out = append(out, k)
		}
		return out
	}
	join := func(parts ...[]tick) (out []tick) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		ticks []tick
		want  bool
	}{
		{"bulk that arrives", repeat(60, tick{full: 1000, heard: 40, acked: true}), false},
		{"bulk with every tenth packet lost", repeat(60, tick{full: 1000, heard: 40, lost: 100, acked: true}), false},
		{"half of it lost", repeat(60, tick{full: 40, heard: 20, lost: 20, acked: true}), false},
		{"nothing acknowledged, the peer heard", join(repeat(3, tick{full: 100, heard: 9, acked: true}), repeat(14, tick{full: 1, acks: 1, heard: 1})), true},
		{"the same, not long enough", join(repeat(3, tick{full: 100, heard: 9, acked: true}), repeat(9, tick{full: 1, acks: 1, heard: 1})), false},
		{"nothing acknowledged, nothing heard", join(repeat(3, tick{full: 100, heard: 9, acked: true}), repeat(60, tick{full: 1})), false},
		{"heard before it could know", join(repeat(3, tick{acked: true}), []tick{{full: 100, heard: 3}}, repeat(60, tick{full: 1})), false},
		{"only small packets sent", join(repeat(3, tick{acks: 3, heard: 9, acked: true}), repeat(60, tick{acks: 200, heard: 400})), false},
		{"small ones acknowledged, full ones lost", repeat(30, tick{full: 4, acks: 2, heard: 40, lost: 4, acked: true}), true},
		{"a peer that was stopped and goes on", join(repeat(3, tick{full: 100, heard: 9, acked: true}), repeat(20, tick{full: 1}), []tick{{full: 1, heard: 1}}, repeat(9, tick{full: 100, heard: 9, acked: true})), false},
	} {
		w := newWatchdog(10 * time.Second)
		s := watchSample{at: time.Now()}
		got := false
		for _, k := range tt.ticks {
			s.at = s.at.Add(w.interval())
			s.packets += uint64(k.full + k.acks)
			s.bytes += uint64(k.full*size + k.acks*60)
			s.received += uint64(k.heard)
			s.lostPackets += uint64(k.lost)
			s.lostBytes += uint64(k.lost * size)
			if k.acked {
				s.rtt[0]++
			}
			got = got || w.look(s)
		}
		if got != tt.want {
			t.Errorf("%s: no progress = %v, want %v", tt.name, got, tt.want)
		}
	}
}
