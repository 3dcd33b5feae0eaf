package transport

import (
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
)

// countedConn is the UDP socket that quic-go gets. It embeds the *net.UDPConn, so that quic-go
// keeps its segmentation offload, ECN and batched reads, and stands in the two calls that every
// datagram goes through. Counting costs a few atomic additions a call, below what a measurement
// of throughput can see.
type countedConn struct {
	*net.UDPConn
	batch       *ipv4.PacketConn // reads IPv6 too: its messages are of neither version
	peers       peerTable
	reads       meter      // calls of the kernel by the reader, with what they brought
	gro         *groReader // nil: datagrams are read unmerged
	gate        *gate      // nil: none
	unsegmented bool       // quic-go is not to know of segmentation offload
}

func newCountedConn(conn *net.UDPConn) *countedConn {
	return &countedConn{UDPConn: conn, batch: ipv4.NewPacketConn(conn)}
}

// SyscallConn is how quic-go sets the socket up and learns what it can do.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.UDPConn.SyscallConn()
	if err == nil && c.unsegmented {
		raw = unsegmented{raw}
	}
	return raw, err
}

// WriteMsgUDP sends one datagram, or several of the size that oob names, in one call or, merged,
// together with the following ones; a merger says what becomes of errors.
func (c *countedConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	p := c.peers.forSend(addrPort(addr))
	if m := p.merge.Load(); m != nil {
		err = m.write(b, oob, addr)
	} else {
		err = c.send(p, b, oob, addr)
	}
	if err != nil {
		return 0, 0, err
	}
	return len(b), len(oob), nil
}

func (c *countedConn) send(p *peer, b, oob []byte, addr *net.UDPAddr) error {
	n, _, err := c.UDPConn.WriteMsgUDP(b, oob, addr)
	if err != nil {
		p.sendFailed(err)
	} else {
		p.sent(n, segmentSize(oob))
	}
	c.gate.sent()
	return err
}

// newMerger returns one for a peer that has got a connection.
func (c *countedConn) newMerger(p *peer) *merger {
	send := func(b, oob []byte, addr *net.UDPAddr) error { return c.send(p, b, oob, addr) }
	return &merger{send: send, segmented: p.segmented}
}

// ReadBatch reads the datagrams that are there, blocking for the first. quic-go calls it from one
// goroutine.
func (c *countedConn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	c.gate.wait()
	n, err := c.read(ms, flags)
	if err == nil {
		c.countHandedOver(ms[:n])
	}
	return n, err
}

// read takes what is left of the last read, or reads.
func (c *countedConn) read(ms []ipv4.Message, flags int) (int, error) {
	if c.gro != nil {
		if n := c.gro.take(ms); n > 0 {
			return n, nil
		}
	}
	for {
		n, err := c.readKernel(ms, flags)
		if err != nil && passingICMP(err) {
			continue // quic-go would take it for the end of the socket; the kernel tells it once
		}
		return n, err
	}
}

func (c *countedConn) readKernel(ms []ipv4.Message, flags int) (int, error) {
	if c.gro != nil {
		datagrams, bytes, err := c.gro.read(flags)
		if err != nil {
			return 0, err
		}
		c.reads.record(uint64(datagrams), uint64(bytes))
		return c.gro.take(ms), nil
	}
	n, err := c.batch.ReadBatch(ms, flags)
	if err != nil {
		return n, err
	}
	bytes := 0
	for i := range ms[:n] {
		bytes += ms[i].N
	}
	c.reads.record(uint64(n), uint64(bytes))
	return n, nil
}

func (c *countedConn) countHandedOver(ms []ipv4.Message) {
	var (
		from             netip.AddrPort
		datagrams, bytes uint64
	)
	for i := range ms {
		addr := addrPort(ms[i].Addr)
		if addr != from && datagrams > 0 {
			c.gate.handed(c.peers.received(from, datagrams, bytes))
			datagrams, bytes = 0, 0
		}
		from = addr
		datagrams++
		bytes += uint64(ms[i].N)
	}
	if datagrams > 0 {
		c.gate.handed(c.peers.received(from, datagrams, bytes))
	}
}
