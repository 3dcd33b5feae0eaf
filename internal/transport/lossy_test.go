package transport

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// relay stands between one client and a server and drops what pass refuses, in both directions.
type relay struct {
	front, back *net.UDPConn
	client      atomic.Pointer[netip.AddrPort]
	pass        func(r *relay, n int, datagram []byte) bool // n counts from 1, in each direction
	wg          sync.WaitGroup
}

// relayTo starts a relay and returns the address to dial instead of the server's.
func relayTo(t *testing.T, server *net.UDPAddr, pass func(r *relay, n int, datagram []byte) bool) string {
	t.Helper()
	r := &relay{pass: pass}
	var err error
	if r.front, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	if r.back, err = net.DialUDP("udp4", nil, server); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*net.UDPConn{r.front, r.back} {
		_ = c.SetReadBuffer(4 << 20) // the loss is to be the one that is injected
	}
	r.wg.Go(func() {
		r.forward(r.front, func(b []byte, from netip.AddrPort) {
			r.client.Store(&from)
			_, _ = r.back.Write(b)
		})
	})
	r.wg.Go(func() {
		r.forward(r.back, func(b []byte, _ netip.AddrPort) {
			if to := r.client.Load(); to != nil {
				_, _ = r.front.WriteToUDPAddrPort(b, *to)
			}
		})
	})
	t.Cleanup(func() {
		_ = r.front.Close()
		_ = r.back.Close()
		r.wg.Wait()
	})
	return r.front.LocalAddr().String()
}

func (r *relay) forward(c *net.UDPConn, send func([]byte, netip.AddrPort)) {
	buf := make([]byte, 2048)
	for n := 1; ; n++ {
		size, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if r.pass(r, n, buf[:size]) {
			send(buf[:size], from)
		}
	}
}
