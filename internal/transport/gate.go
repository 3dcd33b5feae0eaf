package transport

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// gateYields is how often the reader offers its processor to the connection's own goroutine
	// before it sleeps: that one has packets to process, and is often all that is wanted.
	gateYields = 8
	// gateNap bounds a sleep that no sender ends. A connection that takes packets acknowledges
	// them at least every 32, and that send ends the sleep.
	gateNap = 200 * time.Microsecond
	// gateStall is how long nothing may be taken before the account is held to be wrong: quic-go
	// drops some packets without a word, and a goroutine with packets runs sooner than that, but on
	// a machine that is far behind.
	gateStall = 20 * time.Millisecond
	// gateMax bounds a wait as a whole: other connections of the socket wait too.
	gateMax = 50 * time.Millisecond
)

// gate holds packets back in the kernel while a connection has more than limit bytes in quic-go's
// queue for it, which holds 256 packets and drops what comes on top. The account is kept by peer:
// what the socket handed over less what the peer's connections have taken.
//
// The socket has one reader, so one connection's full queue holds up the others. That is kept
// short: the wait ends when the queue has been worked down to the limit, when nothing was taken for
// gateStall (then the account is corrected, and the peer passes until it moves), and at the latest
// after gateMax. A wait therefore never hangs.
//
// All but the counts belong to the socket's reader.
type gate struct {
	limit int64
	ahead []*peer // over the limit when last looked at
	nap   *time.Timer

	waiting atomic.Bool   // the reader sleeps
	moved   chan struct{} // wakes it

	waits, waitNs, stalls atomic.Uint64
}

// GateStats count the waits of a receive gate.
type GateStats struct {
	Waits  uint64 `json:"waits"`
	WaitNs uint64 `json:"wait_ns"` // sum
	// Stalls counts the waits that ended without the queue having been worked down.
	Stalls uint64 `json:"stalls"`
}

// newGate returns a gate, nil for no limit; a nil gate is always open.
func newGate(limit int64) *gate {
	if limit <= 0 {
		return nil
	}
	g := &gate{limit: limit, nap: time.NewTimer(gateNap), moved: make(chan struct{}, 1)}
	g.nap.Stop()
	return g
}

// handed tells that the peer's count of received bytes has grown.
func (g *gate) handed(p *peer) {
	if g != nil && p.over(g.limit) && !slices.Contains(g.ahead, p) {
		g.ahead = append(g.ahead, p)
	}
}

// wait returns when the next packets may be handed over.
func (g *gate) wait() {
	if g == nil || !g.shut() {
		return
	}
	began := time.Now()
	g.await(began)
	g.waits.Add(1)
	g.waitNs.Add(uint64(time.Since(began)))
}

func (g *gate) await(began time.Time) {
	taken, since := g.taken(), began
	for i := 0; ; i++ {
		if i < gateYields {
			runtime.Gosched()
		} else {
			g.sleep()
		}
		if !g.shut() {
			return
		}
		now := time.Now()
		if t := g.taken(); t != taken {
			taken, since = t, now
		} else if now.Sub(since) >= gateStall {
			for _, p := range g.ahead {
				p.stall()
			}
			g.ahead = g.ahead[:0]
			g.stalls.Add(1)
			return
		}
		if now.Sub(began) >= gateMax {
			g.stalls.Add(1)
			return
		}
	}
}

// shut forgets the peers that are within the limit again, and reports whether any is left.
func (g *gate) shut() bool {
	g.ahead = slices.DeleteFunc(g.ahead, func(p *peer) bool { return !p.over(g.limit) })
	return len(g.ahead) > 0
}

func (g *gate) taken() (sum int64) {
	for _, p := range g.ahead {
		sum += p.account.taken
	}
	return sum
}

// sleep waits until something is sent, or for the nap.
func (g *gate) sleep() {
	g.nap.Reset(gateNap)
	g.waiting.Store(true)
	select {
	case <-g.moved:
		g.nap.Stop()
	case <-g.nap.C:
	}
	g.waiting.Store(false)
}

// sent wakes the reader: whoever sends has probably processed packets. Any goroutine may call it.
func (g *gate) sent() {
	if g == nil || !g.waiting.Load() {
		return
	}
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

func (g *gate) stats() *GateStats {
	if g == nil {
		return nil
	}
	return &GateStats{Waits: g.waits.Load(), WaitNs: g.waitNs.Load(), Stalls: g.stalls.Load()}
}

// account is what the gate knows of a peer. It belongs to the socket's reader.
type account struct {
	of      *[]taker // the connections that it is about
	taken   int64    // by them, when last asked
	missing int64    // handed over and never to be taken: dropped, or not for these connections
	stalled bool     // nothing was taken for gateStall; until something is, the peer passes
}

// taker is a connection as the gate sees it.
type taker interface{ bytesTaken() int64 }

// over reports whether the peer's connections have more than limit bytes left to take.
func (p *peer) over(limit int64) bool {
	handed, takers := int64(p.receivedBytes.Load()), p.takers.Load()
	a := &p.account
	if takers == nil || len(*takers) == 0 {
		return false // before or after its connection
	}
	if a.of != takers {
		// Whatever was handed over up to here was for a handshake or for other connections too.
		a.of, a.taken, a.stalled = takers, takenBy(takers), false
		a.missing = handed - a.taken
		return false
	}
	if !a.stalled && handed-a.taken-a.missing <= limit {
		return false // taken only grows: no need to ask
	}
	taken := takenBy(takers)
	if a.stalled {
		if taken == a.taken {
			return false
		}
		a.stalled = false
	}
	a.taken = taken
	queued := handed - taken - a.missing
	if queued < 0 { // less was missing than thought, or a packet was counted twice
		a.missing += queued
	}
	return queued > limit
}

// stall corrects the account of a peer of which nothing was taken for long: there is nothing.
func (p *peer) stall() {
	a := &p.account
	a.missing = int64(p.receivedBytes.Load()) - a.taken
	a.stalled = true
}

func takenBy(takers *[]taker) (sum int64) {
	for _, t := range *takers {
		sum += t.bytesTaken()
	}
	return sum
}
