package transport

import (
	"net"

	"golang.org/x/net/ipv4"
)

const (
	// groMessages is how many merged datagrams one read may bring. A sender with segmentation
	// offload fills one with up to 20 KiB, the kernel merges up to 64 KiB.
	groMessages = 1
	// groBuffer holds the most that the kernel merges; what does not fit would be cut off.
	groBuffer = 64 << 10
	// Room for the control messages of a read: the segment size beside what quic-go asks for,
	// which is at most 120 bytes and for which it has 128.
	groControl = 256
)

// batchReader is the part of ipv4.PacketConn that reads.
type batchReader interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
}

// groReader reads datagrams of one sender that the kernel has merged (UDP_GRO), and cuts them into
// packets again. What does not fit the reader's messages stays for its next call. Not safe for
// concurrent use; a socket has one reader.
type groReader struct {
	from  batchReader
	msgs  []ipv4.Message
	left  []merged // of the last read, not handed over yet
	queue [groMessages]merged
}

// merged is one read datagram, or several of the same size and one last smaller one.
type merged struct {
	data    []byte
	segment int // size of each, at least 1
	control []byte
	flags   int
	addr    net.Addr
	room    [groControl]byte // of control
}

func newGROReader(from batchReader) *groReader {
	g := &groReader{from: from, msgs: make([]ipv4.Message, groMessages)}
	for i := range g.msgs {
		g.msgs[i].Buffers = [][]byte{make([]byte, groBuffer)}
		g.msgs[i].OOB = make([]byte, groControl)
	}
	return g
}

// read waits for datagrams and keeps them for take. It returns how many there are, and their bytes.
func (g *groReader) read(flags int) (datagrams, bytes int, err error) {
	n, err := g.from.ReadBatch(g.msgs, flags)
	if err != nil {
		return 0, 0, err
	}
	for i := range g.msgs[:n] {
		m, q := &g.msgs[i], &g.queue[i]
		q.data = m.Buffers[0][:m.N]
		q.flags, q.addr = m.Flags, m.Addr
		q.segment, q.control = splitControl(q.room[:0], m.OOB[:m.NN])
		if q.segment <= 0 || q.segment > m.N {
			q.segment = max(1, m.N) // not merged
		}
		datagrams += max(1, (m.N+q.segment-1)/q.segment)
		bytes += m.N
	}
	g.left = g.queue[:n]
	return datagrams, bytes, nil
}

// take hands over packets that were read, as many as there are messages, each with the sender and
// the control messages that it came with. It returns 0 when a read has to come first.
func (g *groReader) take(ms []ipv4.Message) int {
	n := 0
	for ; n < len(ms) && len(g.left) > 0; n++ {
		q, m := &g.left[0], &ms[n]
		size := min(q.segment, len(q.data))
		m.N = copy(m.Buffers[0], q.data[:size]) // a longer one is cut, as the kernel does
		m.NN = 0
		if len(q.control) <= len(m.OOB) {
			m.NN = copy(m.OOB, q.control)
		}
		m.Flags, m.Addr = q.flags, q.addr
		if q.data = q.data[size:]; len(q.data) == 0 {
			g.left = g.left[1:]
		}
	}
	return n
}
