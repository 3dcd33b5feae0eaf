package transport

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
)

// countedConn is the UDP socket that quic-go gets. It embeds the *net.UDPConn, so that quic-go
// keeps its segmentation offload, ECN and batched reads, and stands in the two calls that every
// datagram goes through. Counting costs a few atomic additions a call, below what a measurement
// of throughput can see.
type countedConn struct {
	*net.UDPConn
	batch *ipv4.PacketConn // reads IPv6 too: its messages are of neither version
	peers peerTable
}

func newCountedConn(conn *net.UDPConn) *countedConn {
	return &countedConn{UDPConn: conn, batch: ipv4.NewPacketConn(conn)}
}

// WriteMsgUDP sends one datagram, or several of the size that oob names, in one call.
func (c *countedConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = c.UDPConn.WriteMsgUDP(b, oob, addr)
	p := c.peers.forSend(addrPort(addr))
	if err != nil {
		p.sendFailed(err)
	} else {
		p.sent(n, segmentSize(oob))
	}
	return n, oobn, err
}

// ReadBatch reads the datagrams that are there, blocking for the first.
func (c *countedConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		n, err := c.batch.ReadBatch(ms, flags)
		if err != nil && passingICMP(err) {
			continue // quic-go would take it for the end of the socket; the kernel tells it once
		}
		if err == nil {
			c.countReceived(ms[:n])
		}
		return n, err
	}
}

func (c *countedConn) countReceived(ms []ipv4.Message) {
	var (
		from             netip.AddrPort
		datagrams, bytes uint64
	)
	for i := range ms {
		addr := addrPort(ms[i].Addr)
		if addr != from && datagrams > 0 {
			c.peers.received(from, datagrams, bytes)
			datagrams, bytes = 0, 0
		}
		from = addr
		datagrams++
		bytes += uint64(ms[i].N)
	}
	if datagrams > 0 {
		c.peers.received(from, datagrams, bytes)
	}
}
