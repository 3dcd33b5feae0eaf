package transport

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// narrowPair connects two ends over a path that carries any packet until narrow is set, and then
// only small ones.
func narrowPair(t *testing.T, cfg Config) (narrow *atomic.Bool, dialled, accepted *Conn) {
	t.Helper()
	id := newIdentity(t)
	l := listen(t, id, cfg)
	narrow = new(atomic.Bool)
	addr := relayTo(t, l.Addr(), func(_ *relay, _ int, datagram []byte) bool { return !narrow.Load() || len(datagram) <= 1300 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dialled, err := Dial(ctx, addr, id.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, dialled) })
	if accepted, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	return narrow, dialled, accepted
}

// TestBlackHoleEndsTheConnection: quic-go never goes back to smaller packets. Its keep-alive kept
// such a connection up for as long as it was watched, while the writer stood still.
func TestBlackHoleEndsTheConnection(t *testing.T) {
	cfg := Config{PacketSize: 1452, KeepAlive: 200 * time.Millisecond, ProgressTimeout: time.Second}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		watch  bool
	}{
		{"packets that began large", func(*Config) {}, true},
		{"packets that grew", func(c *Config) { c.PacketSize = 0 }, true},
		{"not watched", func(c *Config) { c.ProgressTimeout = -1 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cfg
			tt.change(&cfg)
			narrow, dialled, accepted := narrowPair(t, cfg)
			for mtu := 0; mtu <= 1300; mtu = *dialled.Stats().MTUBytes {
				bulk(t, dialled, accepted, 1<<20)
			}
			narrow.Store(true)
			start := time.Now()
			s, err := dialled.OpenUniStreamSync(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			limit := 10 * time.Second
			if !tt.watch {
				limit = 2 * time.Second
			}
			_ = s.SetWriteDeadline(start.Add(limit))
			_, err = s.Write(make([]byte, 8<<20))
			if !tt.watch {
				if !errors.Is(err, os.ErrDeadlineExceeded) || context.Cause(dialled.Context()) != nil {
					t.Errorf("write: %v, connection: %v, want a write that stands still on a connection that is up", err, context.Cause(dialled.Context()))
				}
				return
			}
			if !IsNoProgress(err) || !strings.Contains(err.Error(), "packet_size 1200") || time.Since(start) < cfg.ProgressTimeout {
				t.Fatalf("write ended after %v by %v, want the black hole with the way out", time.Since(start), err)
			}
			ended(t, dialled)
			if s := dialled.Stats(); !s.NoProgress || !s.Closed {
				t.Errorf("statistics %+v do not say why it ended", s)
			}
			// The peer is told too: the closing packet is small.
			ended(t, accepted)
			if err := context.Cause(accepted.Context()); !IsNoProgress(err) {
				t.Errorf("the peer's connection ended by %v", err)
			}
		})
	}
}

// TestTheWayOut has a connection as the error says how to dial it, over a path that becomes narrow.
func TestTheWayOut(t *testing.T) {
	narrow, dialled, accepted := narrowPair(t, Config{PacketSize: 1200, DisableMTUDiscovery: true})
	narrow.Store(true)
	bulk(t, dialled, accepted, 4<<20)
}

// TestWaitingIsNoBlackHole has a peer that reads slowly and a connection with nothing to send, for
// several times the timeout.
func TestWaitingIsNoBlackHole(t *testing.T) {
	cfg := Config{KeepAlive: 50 * time.Millisecond, ProgressTimeout: 200 * time.Millisecond, StreamRecvWindow: 64 << 10, ConnRecvWindow: 64 << 10}
	dialled, accepted := pair(t, cfg, cfg)
	s, err := dialled.OpenUniStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, 1<<20))
		written <- err
	}()
	r, err := accepted.AcceptUniStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pass(5 * cfg.ProgressTimeout) // flow control holds the writer
	buf := make([]byte, 1<<20)
	for got := 0; got < 1<<20; {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	pass(5 * cfg.ProgressTimeout) // idle
	bulk(t, dialled, accepted, 1<<20)
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
