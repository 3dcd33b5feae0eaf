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
	// mergeBytes is the most that one call takes, below what an IP packet can say of its length.
	mergeBytes = 65_000
	// mergeSegments is the most packets that kernels before 6.9 cut one call into.
	mergeSegments = 64
)

// merger joins the send calls of a burst to one peer. What a call costs the kernel, and the reader at the other
// end, is the same for 14 packets, which is all that quic-go puts into one, and for 45. Full calls
// are copied and wait for the next; a goroutine sends what has gathered once the senders rest.
// With one processor that is when the burst is over; with several it may be sooner, and less is
// joined. Nothing waits for a timer, and everything else is sent at once.
type merger struct {
	// send is one call of the kernel. segmented says whether one with several packets has
	// succeeded: the first is never held back, so that quic-go hears of it if the way has no
	// segmentation offload.
	send      func(b, oob []byte, addr *net.UDPAddr) error
	segmented func() bool

	wake chan struct{} // something has gathered
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	stopped bool
	pending []byte // whole packets of segment bytes
	segment int
	oob     []byte
	to      netip.AddrPort
	addr    *net.UDPAddr // of to
	// failed is why packets could not be sent after their call had returned. The next call is told:
	// for quic-go they were lost, and so are those that it learns it by.
	failed error
}

func newMerger(send func(b, oob []byte, addr *net.UDPAddr) error, segmented func() bool) *merger {
	m := &merger{send: send, segmented: segmented, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go m.flushLoop()
	return m
}

func (m *merger) flushLoop() {
	defer close(m.done)
	for range m.wake {
		m.mu.Lock()
		m.flush()
		m.mu.Unlock()
	}
}

// stop sends what has gathered and ends the goroutine. Writes after it are sent at once.
func (m *merger) stop() {
	m.mu.Lock()
	m.flush()
	m.stopped = true
	close(m.wake)
	m.mu.Unlock()
	<-m.done
}

// write sends b now, or takes a copy of it.
func (m *merger) write(b, oob []byte, addr *net.UDPAddr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := addrPort(addr)
	if len(m.pending) > 0 && !m.joins(b, oob, to) {
		m.flush() // first: packets stay in their order
	}
	if err := m.takeFailed(); err != nil {
		return err
	}
	segment := segmentSize(oob)
	full := segment > 0 && len(b) >= mergeFrom && len(b)%segment == 0
	if len(m.pending) == 0 {
		if !full || m.stopped || !m.segmented() {
			return m.send(b, oob, addr)
		}
		m.segment, m.to, m.addr = segment, to, addr
		m.oob = append(m.oob[:0], oob...)
	}
	m.pending = append(m.pending, b...)
	if full && m.room(len(b)) {
		select {
		case m.wake <- struct{}{}:
		default: // it is on its way
		}
		return nil
	}
	m.flush()
	return m.takeFailed()
}

// takeFailed returns, once, why packets could not be sent.
func (m *merger) takeFailed() error {
	err := m.failed
	m.failed = nil
	return err
}

// joins reports whether b can go in one call with what is pending.
func (m *merger) joins(b, oob []byte, to netip.AddrPort) bool {
	return to == m.to && bytes.Equal(oob, m.oob) && m.room(len(b))
}

// room reports whether n bytes more fit into one call.
func (m *merger) room(n int) bool {
	total := len(m.pending) + n
	return total <= mergeBytes && total <= mergeSegments*m.segment
}

// flush sends what is pending. With the lock held.
func (m *merger) flush() {
	if len(m.pending) == 0 {
		return
	}
	if err := m.send(m.pending, m.oob, m.addr); err != nil {
		m.failed = err
	}
	m.pending = m.pending[:0]
}
