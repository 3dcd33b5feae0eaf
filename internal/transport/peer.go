package transport

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A lost packet of path MTU discovery is tried this many times at one size; a size sent more often
// is one that the path carries.
const mtuProbeTries = 3

// peer counts what one socket exchanges with one remote address. The socket's reader and the
// connections' senders count; anybody reads.
type peer struct {
	// Written by the socket's reader alone.
	received      atomic.Uint64 // datagrams
	receivedBytes atomic.Uint64
	gone          atomic.Bool // taken out of the table: the reader must not count here any more
	account       account     // of the gate; the reader's own

	_ [64]byte // reader and senders run on different cores: each gets its own cache line

	sendCalls atomic.Uint64 // successful ones
	datagrams atomic.Uint64
	segment   atomic.Uint32 // newest UDP_SEGMENT size, 0 if none was seen
	plain     atomic.Uint32 // largest established size of a datagram sent alone
	tried     atomic.Uint32 // the larger size being tried, and how often it was sent
	tries     atomic.Uint32

	merge atomic.Pointer[merger] // of the connections' sends; nil: none

	mu     sync.Mutex
	errors map[string]uint64 // errno name -> failed calls; nil until the first

	takers atomic.Pointer[[]taker] // the registered connections; replaced under the table's lock

	// Under the table's lock.
	created time.Time
	refs    int  // connections registered
	partial bool // datagrams of the connection may have been missed, or foreign ones counted
	mixed   bool // two connections were registered at once
}

// sent records one successful send call of n bytes in segments of seg bytes (0: one datagram).
func (p *peer) sent(n, seg int) {
	p.sendCalls.Add(1)
	if seg <= 0 {
		p.datagrams.Add(1)
		p.sawPlain(uint32(n))
		return
	}
	p.datagrams.Add(uint64((n + seg - 1) / seg))
	if p.segment.Load() != uint32(seg) {
		p.segment.Store(uint32(seg))
	}
}

// sawPlain learns the packet size from datagrams that were sent alone. The first full one sets the
// size, because the library never goes below it; a larger one counts once it was sent more often
// than path MTU discovery tries a size that gets lost.
func (p *peer) sawPlain(n uint32) {
	established := p.plain.Load()
	switch {
	case n <= established || n < minPacketSize:
	case established == 0:
		p.plain.Store(n)
	case p.tried.Load() != n:
		p.tried.Store(n)
		p.tries.Store(1)
	case p.tries.Add(1) > mtuProbeTries:
		p.plain.Store(n)
	}
}

// segmented reports whether one send call has carried several packets.
func (p *peer) segmented() bool { return p.datagrams.Load() > p.sendCalls.Load() }

// mtu returns the size of full packets, or 0 before one was sent.
func (p *peer) mtu() int {
	if seg := p.segment.Load(); seg > 0 {
		return int(seg)
	}
	return int(p.plain.Load())
}

func (p *peer) sendFailed(err error) {
	name := errnoName(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.errors == nil {
		p.errors = make(map[string]uint64)
	}
	p.errors[name]++
}

// sendErrors returns a copy, nil if no call failed.
func (p *peer) sendErrors() map[string]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.errors)
}
