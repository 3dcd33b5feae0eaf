package transport

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestBulkIsCounted(t *testing.T) {
	dialled, accepted := pair(t, Config{}, Config{})
	const n = 8 << 20
	bulk(t, dialled, accepted, n)
	// The end that receives first: a datagram sent between the two looks is then sent and not yet
	// received, never the other way round.
	to := accepted.Stats()
	from := dialled.Stats()

	if from.DatagramsSent == nil || from.SendCalls == nil || to.DatagramsReceived == nil || to.BytesHandedOver == nil {
		t.Fatalf("counters are null: %v, %v", from.Unavailable, to.Unavailable)
	}
	if runtime.GOOS == "linux" {
		// The wrapper must not cost quic-go its segmentation offload, which is half its speed.
		if !dialled.ConnectionState().GSO || !accepted.ConnectionState().GSO {
			t.Fatalf("GSO is off: dialled %v, accepted %v", dialled.ConnectionState().GSO, accepted.ConnectionState().GSO)
		}
		if gso := dialled.SocketInfo().GSO; gso == nil || !*gso {
			t.Errorf("SocketInfo.GSO = %v, want true", gso)
		}
		if *from.SendCalls*2 > *from.DatagramsSent {
			t.Errorf("%d datagrams in %d send calls, want several a call", *from.DatagramsSent, *from.SendCalls)
		}
	}
	if from.BytesSent < n || *from.DatagramsSent < n/maxPacketSize {
		t.Errorf("sent %d bytes in %d datagrams, want at least %d bytes", from.BytesSent, *from.DatagramsSent, n)
	}
	// Nothing is lost on loopback but by quic-go's own queue, which is what the two counters tell. A
	// send is counted when its call has returned: what is in one call may have arrived before.
	if *to.DatagramsReceived > *from.DatagramsSent+16 || *to.BytesHandedOver < n {
		t.Errorf("handed over %d datagrams, %d bytes, of %d datagrams sent", *to.DatagramsReceived, *to.BytesHandedOver, *from.DatagramsSent)
	}
	if held, ok := to.OwnQueueBytes(); !ok || held > int64(from.BytesLost)+512*maxPacketSize {
		t.Errorf("OwnQueueBytes = %d, %v, sender lost %d bytes", held, ok, from.BytesLost)
	}
	if from.MTUBytes == nil || *from.MTUBytes < safePacketSize || *from.MTUBytes > maxPacketSize {
		t.Errorf("mtu = %v, want %d to %d", from.MTUBytes, safePacketSize, maxPacketSize)
	}
	if to.MTUBytes == nil || *to.MTUBytes < safePacketSize {
		t.Errorf("mtu of the end that receives = %v", to.MTUBytes)
	}
	if from.CwndBytes <= 0 || from.RTTMin <= 0 || from.RTTSmoothed <= 0 {
		t.Errorf("cwnd %d, rtt min %v, smoothed %v", from.CwndBytes, from.RTTMin, from.RTTSmoothed)
	}
	if from.SharedSocket || !to.SharedSocket {
		t.Errorf("shared socket: dialled %v, accepted %v", from.SharedSocket, to.SharedSocket)
	}
	if len(from.SendErrors)+len(to.SendErrors) > 0 {
		t.Errorf("send errors %v, %v", from.SendErrors, to.SendErrors)
	}
}

func TestPacketSizeIsTheMTU(t *testing.T) {
	for _, size := range []int{1200, 1452} {
		cfg := Config{PacketSize: size, DisableMTUDiscovery: true}
		dialled, accepted := pair(t, cfg, cfg)
		bulk(t, dialled, accepted, 1<<20)
		if mtu := dialled.Stats().MTUBytes; mtu == nil || *mtu != size {
			t.Errorf("mtu = %v, want %d", mtu, size)
		}
	}
}

func TestListenerCountsByPeer(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	idle, acceptedIdle := pairOn(t, l, id, Config{})
	busy, acceptedBusy := pairOn(t, l, id, Config{})
	bulk(t, acceptedBusy, busy, 4<<20)
	a, b := acceptedIdle.Stats(), acceptedBusy.Stats()
	if *b.DatagramsSent < 4<<20/maxPacketSize || *a.DatagramsSent > 100 {
		t.Errorf("datagrams sent: idle %d, busy %d", *a.DatagramsSent, *b.DatagramsSent)
	}
	if *a.DatagramsReceived > 100 || *a.DatagramsReceived == 0 {
		t.Errorf("datagrams received: idle %d, busy %d", *a.DatagramsReceived, *b.DatagramsReceived)
	}
	closeConn(t, idle)
	ended(t, acceptedIdle)
	<-acceptedIdle.done
	// A datagram that was still on its way makes the address known again, as that of a stranger: only
	// the connection's own counters must be gone.
	if p, known := l.sock.counted.peers.byAddr.Load(acceptedIdle.remote); known && p == acceptedIdle.peer {
		t.Error("the ended connection's counters are still in the table")
	}
}

func TestSendErrorsByErrno(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := newCountedConn(conn)
	to, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		t.Fatal("no UDP address")
	}
	p := c.peers.setSole(addrPort(to))
	// A datagram above UDP's limit: quic-go would swallow the error.
	if _, _, err := c.WriteMsgUDP(make([]byte, 70_000), nil, to); !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("WriteMsgUDP = %v, want EMSGSIZE", err)
	}
	if _, _, err := c.WriteMsgUDP(make([]byte, 1300), nil, to); err != nil {
		t.Fatal(err)
	}
	got := p.sendErrors()
	if runtime.GOOS == "linux" && got["EMSGSIZE"] != 1 || len(got) != 1 {
		t.Errorf("send errors = %v, want EMSGSIZE once", got)
	}
	if p.sendCalls.Load() != 1 || p.datagrams.Load() != 1 || p.mtu() != 1300 {
		t.Errorf("calls %d, datagrams %d, mtu %d, want 1, 1, 1300", p.sendCalls.Load(), p.datagrams.Load(), p.mtu())
	}
}

func TestMTUFromSends(t *testing.T) {
	type send struct{ bytes, segment, times int }
	for _, tt := range []struct {
		name  string
		sends []send
		want  int
	}{
		{"nothing sent", nil, 0},
		{"only small datagrams", []send{{100, 0, 50}}, 0},
		{"the first full packet", []send{{1280, 0, 1}}, 1280},
		{"a probe that is lost three times is no MTU", []send{{1280, 0, 9}, {1366, 0, 3}}, 1280},
		{"a larger size that goes on", []send{{1280, 0, 9}, {1366, 0, 3}, {1280, 0, 1}, {1366, 0, 1}}, 1366},
		{"segments tell at once", []send{{1280, 0, 1}, {14 * 1441, 1441, 1}}, 1441},
		{"a single small packet with a segment size", []send{{60, 1409, 1}}, 1409},
		{"segments win over a probe", []send{{1280, 0, 1}, {2 * 1280, 1280, 1}, {1366, 0, 3}}, 1280},
		{"the newest segment size", []send{{2 * 1441, 1441, 5}, {2 * 1280, 1280, 1}}, 1280},
	} {
		var p peer
		for _, s := range tt.sends {
			for range s.times {
				p.sent(s.bytes, s.segment)
			}
		}
		if got := p.mtu(); got != tt.want {
			t.Errorf("%s: mtu = %d, want %d", tt.name, got, tt.want)
		}
	}
	var p peer
	p.sent(10*1441+20, 1441)
	if p.sendCalls.Load() != 1 || p.datagrams.Load() != 11 {
		t.Errorf("ten segments and a rest: %d datagrams in %d calls, want 11 in 1", p.datagrams.Load(), p.sendCalls.Load())
	}
}

func TestPeerTable(t *testing.T) {
	addr := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1000)
	}
	t.Run("handshake datagrams belong to the connection", func(t *testing.T) {
		var table peerTable
		table.received(addr(1), 3, 3600)
		p := table.register(addr(1))
		if p.received.Load() != 3 || p.receivedBytes.Load() != 3600 || table.whyUncounted(p) != "" {
			t.Errorf("received %d, why %q", p.received.Load(), table.whyUncounted(p))
		}
	})
	t.Run("a later connection from the address starts at zero", func(t *testing.T) {
		var table peerTable
		table.received(addr(1), 1, 1200)
		p := table.register(addr(1))
		table.received(addr(1), 5, 500)
		table.unregister(addr(1), p, nil)
		table.received(addr(1), 1, 1200)
		if next := table.register(addr(1)); next == p || next.received.Load() != 1 {
			t.Errorf("second connection begins with %d datagrams, want 1", next.received.Load())
		}
	})
	t.Run("two connections from one address", func(t *testing.T) {
		var table peerTable
		p := table.register(addr(1))
		table.register(addr(1))
		if table.whyUncounted(p) == "" {
			t.Error("counted as if it were one")
		}
	})
	t.Run("a flood of addresses is bounded and admitted", func(t *testing.T) {
		var table peerTable
		kept := table.register(addr(0))
		for i := range 3 * maxUnregisteredPeers {
			table.received(addr(i+1), 1, 1200)
		}
		n := 0
		table.byAddr.Range(func(any, any) bool { n++; return true })
		if n > maxUnregisteredPeers+1 || n != table.unregistered+1 {
			t.Errorf("%d addresses remembered, %d unregistered", n, table.unregistered)
		}
		if table.whyUncounted(kept) != "" || kept.gone.Load() {
			t.Error("the flood took a connection's counters")
		}
		if late := table.register(addr(1 << 20)); table.whyUncounted(late) == "" {
			t.Error("a connection of the flood's time is said to be counted whole")
		}
	})
	t.Run("old strays go without a trace", func(t *testing.T) {
		var table peerTable
		for i := range maxUnregisteredPeers {
			table.received(addr(i), 1, 40)
		}
		table.byAddr.Range(func(_, p any) bool {
			p.(*peer).created = time.Now().Add(-2 * unregisteredLife)
			return true
		})
		p := table.register(addr(1 << 20))
		if table.unregistered != 0 || table.whyUncounted(p) != "" {
			t.Errorf("%d unregistered, why %q", table.unregistered, table.whyUncounted(p))
		}
	})
	t.Run("late datagrams are not the next connection's", func(t *testing.T) {
		var table peerTable
		table.received(addr(1), 1, 40)
		table.getOrCreate(addr(1)).created = time.Now().Add(-2 * unregisteredLife)
		if p := table.register(addr(1)); table.whyUncounted(p) == "" {
			t.Error("counted with a stranger's datagram")
		}
	})
}
