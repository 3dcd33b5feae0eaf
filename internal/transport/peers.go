package transport

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// A listener's socket hears from addresses before they have a connection, and from some that
	// never get one. So many are remembered.
	maxUnregisteredPeers = 4096
	// An address without a connection after this time gets none: a handshake is over sooner.
	unregisteredLife = 30 * time.Second
)

// peerTable finds the counters of a remote address. Lookups take no lock; connecting and
// disconnecting do.
type peerTable struct {
	// sole is set on a dialled socket: the only peer, whatever address packets come from or go to
	// otherwise is counted nowhere.
	sole     *peer
	soleAddr netip.AddrPort

	// newMerger makes the merger of a peer with a connection. nil: there are none.
	newMerger func(*peer) *merger

	byAddr sync.Map // netip.AddrPort -> *peer
	stray  peer     // sends to addresses whose connection is gone

	mu           sync.Mutex
	unregistered int
	partialUntil time.Time // peers created before are partial: their elders were swept

	// Owned by the reader: bulk comes in runs from one address.
	lastAddr netip.AddrPort
	last     *peer
}

// setSole makes addr the only peer.
func (t *peerTable) setSole(addr netip.AddrPort) *peer {
	t.sole, t.soleAddr = &peer{refs: 1}, addr
	return t.sole
}

// forReceive returns the counters of a sender, making them if need be. Only the reader calls it.
func (t *peerTable) forReceive(addr netip.AddrPort) *peer {
	if t.sole != nil {
		if addr != t.soleAddr {
			return &t.stray
		}
		return t.sole
	}
	if t.last != nil && t.lastAddr == addr && !t.last.gone.Load() {
		return t.last
	}
	p := t.getOrCreate(addr)
	t.last, t.lastAddr = p, addr
	return p
}

// forSend returns the counters of a receiver.
func (t *peerTable) forSend(addr netip.AddrPort) *peer {
	if t.sole != nil {
		return t.sole
	}
	if p, ok := t.byAddr.Load(addr); ok {
		return p.(*peer)
	}
	return &t.stray
}

func (t *peerTable) getOrCreate(addr netip.AddrPort) *peer {
	if p, ok := t.byAddr.Load(addr); ok {
		return p.(*peer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.createLocked(addr)
}

func (t *peerTable) createLocked(addr netip.AddrPort) *peer {
	if p, ok := t.byAddr.Load(addr); ok {
		return p.(*peer)
	}
	now := time.Now()
	if t.unregistered >= maxUnregisteredPeers {
		t.sweepLocked(now)
	}
	p := &peer{created: now, partial: now.Before(t.partialUntil)}
	t.byAddr.Store(addr, p)
	t.unregistered++
	return p
}

// sweepLocked forgets addresses that never got a connection; if the young ones alone are too many
// (a flood), all of them, and peers of the next half minute are marked as partly counted.
func (t *peerTable) sweepLocked(now time.Time) {
	t.forgetLocked(func(p *peer) bool { return now.Sub(p.created) >= unregisteredLife })
	if t.unregistered >= maxUnregisteredPeers/2 {
		t.forgetLocked(func(*peer) bool { return true })
		t.partialUntil = now.Add(unregisteredLife)
	}
}

func (t *peerTable) forgetLocked(old func(*peer) bool) {
	t.byAddr.Range(func(addr, value any) bool {
		if p := value.(*peer); p.refs == 0 && old(p) {
			t.removeLocked(addr.(netip.AddrPort), p)
			t.unregistered--
		}
		return true
	})
}

func (t *peerTable) removeLocked(addr netip.AddrPort, p *peer) {
	p.gone.Store(true)
	t.byAddr.Delete(addr)
}

// register returns the counters for a new connection, which include its handshake.
func (t *peerTable) register(addr netip.AddrPort) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.createLocked(addr)
	if p.refs == 0 {
		t.unregistered--
		// Older than any handshake: late datagrams of a former connection from that address.
		p.partial = p.partial || time.Since(p.created) >= unregisteredLife
	} else {
		p.mixed = true
	}
	p.refs++
	return p
}

// attach makes a registered connection one of those that take what was received.
func (t *peerTable) attach(p *peer, c taker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var takers []taker
	if old := p.takers.Load(); old != nil {
		takers = slices.Clone(*old)
	}
	takers = append(takers, c)
	p.takers.Store(&takers)
	if t.newMerger != nil && p.merge.Load() == nil {
		p.merge.Store(t.newMerger(p))
	}
}

// unregister ends a connection's use of its counters; c is nil if it was not attached.
func (t *peerTable) unregister(addr netip.AddrPort, p *peer, c taker) {
	t.mu.Lock()
	if old := p.takers.Load(); old != nil && c != nil {
		left := slices.DeleteFunc(slices.Clone(*old), func(o taker) bool { return o == c })
		p.takers.Store(&left)
	}
	p.refs--
	last := p.refs == 0
	if last && p != t.sole {
		t.removeLocked(addr, p)
	}
	t.mu.Unlock()
	if m := p.merge.Load(); m != nil && last {
		m.stop()
	}
}

// isMixed reports whether the counters are of several connections.
func (t *peerTable) isMixed(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.mixed
}

// whyUncounted returns why the counters are not this one connection's, or "".
func (t *peerTable) whyUncounted(p *peer) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.mixed:
		return "several connections share the socket and the peer's address"
	case p.partial:
		return "more unknown addresses sent to the socket than it counts: the connection's first datagrams may be missing"
	}
	return ""
}

// addrPort returns the address in the one form that the table uses.
func addrPort(addr net.Addr) netip.AddrPort {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := udp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// received records datagrams of one batch; runs from one address are counted in one step.
func (t *peerTable) received(addr netip.AddrPort, datagrams, bytes uint64) *peer {
	p := t.forReceive(addr)
	p.received.Add(datagrams)
	p.receivedBytes.Add(bytes)
	return p
}
