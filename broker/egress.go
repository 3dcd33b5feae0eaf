package broker

import "sync/atomic"

// egressBudget divides a connection's egress bytes among its live subscriptions in equal shares.
// It holds no bytes itself: each subscription compares what it holds with the share. So a
// subscription whose client does not read stops at its own share and leaves the others theirs,
// which a common pool would not.
type egressBudget struct {
	max   int64
	live  atomic.Int64 // subscriptions
	share atomic.Int64
}

// add counts live subscriptions in or out and recomputes the share; the connection's lock is held.
// A share that shrinks takes nothing back: it delays the next hold.
func (e *egressBudget) add(n int64) {
	e.share.Store(e.max / max(1, e.live.Add(n)))
}

// fits reports whether a subscription that holds so much may hold size more. What is larger than
// the share goes when nothing else is held.
func (e *egressBudget) fits(held, size int64) bool {
	return held == 0 || held+size <= e.share.Load()
}
