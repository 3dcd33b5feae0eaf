package transport

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eater is a connection that takes what it is told to.
type eater struct{ taken atomic.Int64 }

func (e *eater) bytesTaken() int64 { return e.taken.Load() }

func gatedPeer(t *testing.T) (*peerTable, *peer, *eater) {
	t.Helper()
	var table peerTable
	p, e := table.setSole(netip.MustParseAddrPort("192.0.2.1:1")), &eater{}
	table.attach(p, e)
	return &table, p, e
}

func TestGateAccount(t *testing.T) {
	const limit = 1000
	table, p, e := gatedPeer(t)
	hand := func(n uint64) { table.received(table.soleAddr, 1, n) }
	want := func(what string, over bool) {
		t.Helper()
		if got := p.over(limit); got != over {
			t.Errorf("%s: over = %v with account %+v, want %v", what, got, p.account, over)
		}
	}
	hand(5000)
	e.taken.Store(4000)
	want("a handshake is not held against the connection", false)
	hand(1000)
	want("at the limit", false)
	hand(1)
	want("a byte above it", true)
	e.taken.Add(1)
	want("down to it again", false)
	hand(1200)
	want("above", true)
	p.stall()
	want("nothing was taken for long: it passes", false)
	hand(9000)
	want("still nothing taken: it still passes", false)
	e.taken.Add(500)
	want("it moves again, with all that came meanwhile to be taken", true)
	e.taken.Add(20_000)
	want("more was taken than handed over since: nothing is left", false)
	hand(1001)
	want("the account begins at nothing", true)
	e.taken.Add(1)
	want("and goes on", false)

	second := &eater{}
	table.attach(p, second)
	hand(3000)
	want("another connection of the peer: a new account", false)
	hand(1001)
	want("of both", true)
	second.taken.Add(1)
	want("taken by the second", false)
	hand(1000)
	want("above", true)
	table.unregister(table.soleAddr, p, second)
	want("one connection less: a new account", false)
	table.unregister(table.soleAddr, p, e)
	hand(1 << 20)
	want("no connection left", false)
	hand(1 << 20)
	want("no connection left", false)
}

func TestGateOpensAsItIsTaken(t *testing.T) {
	table, p, e := gatedPeer(t)
	g := newGate(1000)
	g.handed(p) // the first look begins the account
	for range 50 {
		g.handed(table.received(table.soleAddr, 1, 2000))
		var wg sync.WaitGroup
		wg.Go(func() { e.taken.Add(2000); g.sent() })
		g.wait()
		if p.over(1000) {
			t.Fatal("the gate opened with more than the limit queued")
		}
		wg.Wait()
	}
	if s := g.stats(); s.Waits > 50 {
		t.Errorf("%+v, want a wait a round at most", s)
	}
}

func TestGateNeverHangs(t *testing.T) {
	table, p, e := gatedPeer(t)
	g := newGate(1000)
	g.handed(p)
	g.handed(table.received(table.soleAddr, 1, 5000))
	start := time.Now()
	g.wait() // nobody takes anything
	if s := g.stats(); s.Waits != 1 || s.Stalls != 1 || time.Since(start) < gateStall {
		t.Errorf("%+v after %v, want one stalled wait of %v", s, time.Since(start), gateStall)
	}
	// Dead as it is, it must not cost the socket's other connections another wait.
	for range 100 {
		g.handed(table.received(table.soleAddr, 1, 5000))
		g.wait()
	}
	if s := g.stats(); s.Waits != 1 {
		t.Errorf("%d waits for a connection that takes nothing, want 1", s.Waits)
	}
	// A connection that takes a little at a time holds the others up for so long and no longer.
	e.taken.Add(1)
	g.handed(table.received(table.soleAddr, 1, 1<<30))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				e.taken.Add(1)
			}
		}
	})
	before := g.stats().WaitNs
	g.wait()
	close(stop)
	wg.Wait()
	if took := time.Duration(g.stats().WaitNs - before); took < gateMax {
		t.Errorf("waited %v, want %v", took, gateMax)
	}
}

func TestNoGate(t *testing.T) {
	g := newGate(0)
	g.handed(nil)
	g.wait()
	g.sent()
	if g.stats() != nil {
		t.Error("no gate has counts")
	}
}
