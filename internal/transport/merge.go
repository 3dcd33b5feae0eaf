package transport

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
)

const (
	// mergeFrom is the size from which a send call is held to be one of several: quic-go fills at
	// most 20 KiB for one, and has more to say when it did.
	mergeFrom = 16 << 10
	// mergeBytes is the most that one call takes, below what an IP packet can say of its length. Of
	// the smallest packets, 1,200 bytes, these are 54; the kernel cuts 64.
	mergeBytes = 65_000
)

// mergeBuffers hold what has gathered: nothing is kept for a peer that rests.
var mergeBuffers = sync.Pool{New: func() any { return new([mergeBytes]byte) }}

// merger joins the send calls of a burst to one peer. What a call costs the kernel, and the reader
// at the other end, is the same for 14 packets, which is all that quic-go puts into one, and for 45.
// Full calls are copied and wait for the next; a goroutine sends what has gathered once the senders
// rest. With one processor that is when the burst is over; with several it may be sooner, and less
// is joined. Nothing waits for a timer, and everything else is sent at once.
//
// A call that had returned cannot fail any more. What it could not send is lost, as it may be on any
// path, and from then on every call is the kernel's to answer: quic-go gives up segmentation
// offload, or the connection, by what it is told of the call that it made.
type merger struct {
	// send is one call of the kernel. segmented says whether one with several packets has
	// succeeded: the first is never held back, so that quic-go hears of it if the way has no
	// segmentation offload.
	send      func(b, oob []byte, addr *net.UDPAddr) error
	segmented func() bool

	mu      sync.Mutex
	off     bool // stopped, or a call has failed
	buf     *[mergeBytes]byte
	pending []byte // of buf: whole packets of segment bytes
	segment int
	oob     []byte
	to      netip.AddrPort
	addr    *net.UDPAddr // of to

	wake chan struct{} // something has gathered; nil before the first time
	done chan struct{} // closed when the goroutine has ended
}

// start begins the goroutine: a peer without bursts has none. With the lock held.
func (m *merger) start() {
	m.wake, m.done = make(chan struct{}, 1), make(chan struct{})
	go m.flushLoop()
}

func (m *merger) flushLoop() {
	defer close(m.done)
	for range m.wake {
		m.flush()
	}
}

// flush sends what has gathered.
func (m *merger) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.flushLocked() // whose calls they were cannot be told any more
}

// stop sends what has gathered and ends the goroutine. Writes after it are sent at once.
func (m *merger) stop() {
	m.mu.Lock()
	_ = m.flushLocked()
	m.off = true
	done := m.done
	if done != nil {
		close(m.wake)
	}
	m.mu.Unlock()
	if done != nil {
		<-done
	}
}

// write sends b now, or takes a copy of it.
func (m *merger) write(b, oob []byte, addr *net.UDPAddr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := addrPort(addr)
	if len(m.pending) > 0 && !m.joins(b, oob, to) {
		_ = m.flushLocked() // first: packets stay in their order
	}
	segment := segmentSize(oob)
	full := segment > 0 && len(b) >= mergeFrom && len(b)%segment == 0
	if len(m.pending) == 0 {
		if !full || m.off || len(b) > mergeBytes || !m.segmented() {
			return m.send(b, oob, addr)
		}
		m.segment, m.to, m.addr = segment, to, addr
		m.oob = append(m.oob[:0], oob...)
		m.buf = mergeBuffers.Get().(*[mergeBytes]byte)
		m.pending = m.buf[:0]
	}
	m.pending = append(m.pending, b...)
	if !full || !m.room(len(b)) {
		return m.flushLocked() // b is in it, and like all of it: its call is answered
	}
	if m.wake == nil {
		m.start()
	}
	select {
	case m.wake <- struct{}{}:
	default: // it is on its way
	}
	return nil
}

// joins reports whether b can go in one call with what is pending.
func (m *merger) joins(b, oob []byte, to netip.AddrPort) bool {
	return to == m.to && bytes.Equal(oob, m.oob) && m.room(len(b))
}

// room reports whether n bytes more fit into one call.
func (m *merger) room(n int) bool { return len(m.pending)+n <= mergeBytes }

// flushLocked sends what is pending.
func (m *merger) flushLocked() error {
	if len(m.pending) == 0 {
		return nil
	}
	err := m.send(m.pending, m.oob, m.addr)
	if err != nil {
		m.off = true
	}
	mergeBuffers.Put(m.buf)
	m.buf, m.pending = nil, nil
	return err
}
