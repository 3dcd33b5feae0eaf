package broker

import "sync"

// A group counts goroutines, as a sync.WaitGroup does, but can be closed: then nobody joins any
// more, so that waiting for it and joining it may race.
type group struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // made by close, closed when n is 0
}

// add joins the group; false means that it is closed.
func (g *group) add() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.closed {
		close(g.idle)
	}
}

// close lets nobody join any more and returns a channel that is closed when all have left.
func (g *group) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		g.idle = make(chan struct{})
		if g.n == 0 {
			close(g.idle)
		}
	}
	return g.idle
}
