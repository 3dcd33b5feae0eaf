package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// simNetwork is a simulated network of a server and any number of clients, each at the end of a
// link with the latency towards it.
type simNetwork struct {
	net     *simnet.Simnet
	id      identity
	server  *simnet.SimConn
	clients []*simnet.SimConn
}

var simServer = net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4433}

func newSimNetwork(t *testing.T, latency time.Duration) *simNetwork {
	t.Helper()
	s := &simNetwork{net: &simnet.Simnet{Router: &simnet.PerfectRouter{}}, id: newIdentity(t)}
	link := simnet.NodeBiDiLinkSettings{Latency: latency}
	s.server = s.net.NewEndpoint(&simServer, link)
	for i := range 2 {
		s.clients = append(s.clients, s.net.NewEndpoint(&net.UDPAddr{IP: net.IPv4(10, 0, 0, byte(i+2)), Port: 4433}, link))
	}
	if err := s.net.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.net.Close() })
	return s
}

// pair connects the next client.
func (s *simNetwork) pair(t *testing.T, server, client Config) (dialled, accepted *Conn) {
	t.Helper()
	server.ListenPacket = func(string, string) (net.PacketConn, error) { return s.server, nil }
	l, err := Listen(simServer.String(), s.id.server, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	conn := s.clients[0]
	client.ListenPacket = func(string, string) (net.PacketConn, error) { return conn, nil }
	return pairOn(t, l, s.id, client)
}

// pass lets the bubble's time pass, which costs none.
func pass(d time.Duration) { <-time.After(d) }

func TestSimulatedLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			latency  = 10 * time.Millisecond
			messages = 200
		)
		dialled, accepted := newSimNetwork(t, latency).pair(t, Config{}, Config{})
		var wg sync.WaitGroup
		wg.Go(func() {
			s, err := accepted.AcceptUniStream(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for i := range messages {
				var sent [8]byte
				if _, err := io.ReadFull(s, sent[:]); err != nil {
					t.Errorf("message %d: %v", i, err)
					return
				}
				took := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(sent[:]))))
				if took < latency || took > latency+time.Millisecond {
					t.Errorf("message %d took %v, want %v", i, took, latency)
				}
			}
		})
		s, err := dialled.OpenUniStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			if _, err := s.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Millisecond)
		}
		wg.Wait()

		got := dialled.Stats()
		if got.RTTMin < 2*latency || got.RTTMin > 3*latency || got.PacketsLost != 0 {
			t.Errorf("rtt %v, lost %d, want %v and 0", got.RTTMin, got.PacketsLost, 2*latency)
		}
		if got.MTUBytes != nil || got.DatagramsSent != nil || got.BytesHandedOver != nil || got.Unavailable["mtu_bytes"] == "" {
			t.Errorf("a simulated socket's facts are %+v, want null with a reason", got)
		}
		info := dialled.SocketInfo()
		if info.GSO != nil || info.SendBufferGranted != -1 || info.Unavailable["gso"] == "" {
			t.Errorf("SocketInfo = %+v, want unknown with a reason", info)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Without keep-alive a quiet connection ends at the smaller timeout; with it, it lives.
		start := time.Now()
		quiet, _ := newSimNetwork(t, time.Millisecond).pair(t, Config{KeepAlive: -1}, Config{IdleTimeout: 2 * time.Second, KeepAlive: -1})
		<-quiet.Context().Done()
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("idle for %v, want 2 s", took)
		}
		kept, _ := newSimNetwork(t, time.Millisecond).pair(t, Config{IdleTimeout: 2 * time.Second}, Config{KeepAlive: 500 * time.Millisecond})
		pass(time.Minute)
		if err := context.Cause(kept.Context()); err != nil {
			t.Errorf("kept alive, but ended by %v", err)
		}
	})
}

func TestHandshakeTimeoutDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSimNetwork(t, time.Millisecond)
		start := time.Now()
		cfg := Config{ListenPacket: func(string, string) (net.PacketConn, error) { return n.clients[0], nil }}
		_, err := Dial(t.Context(), "10.9.9.9:1", n.id.client, cfg)
		if took := time.Since(start); !errors.Is(err, ErrNoAnswer) || took > 5100*time.Millisecond {
			t.Errorf("Dial = %v after %v, want ErrNoAnswer within 5 s", err, took)
		}
	})
}
