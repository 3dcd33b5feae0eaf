package broker

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A totalBudget bounds the bytes that all subscriptions together hold, from their queues
// (checkpoint 5) until the bytes are written, dropped or their subscription is gone. A hold larger
// than the whole budget is granted alone, when nothing else is held.
//
// Only blocked batches wait for it. Whoever gives bytes back calls wake, with no lock held, and
// wake asks the subscriptions that could go on now to run their step. They wait in order, but a
// batch that finds room may pass one that does not, so that one large batch behind a subscriber
// that reads nothing stops nobody else; after a whole budget has passed the first, nobody passes
// it any more.
type totalBudget struct {
	max  int64
	held atomic.Int64

	waiters atomic.Int32 // len(waiting), so that nobody takes the lock while none waits
	mu      sync.Mutex   // the innermost lock
	waiting []totalWait  // oldest first; a subscription at most once
	passed  int64        // bytes granted while the first has been waiting
	waking  bool         // somebody is in wake
	again   bool         // who shall look once more
}

type totalWait struct {
	sub  *subscription
	size int64
}

// take takes size bytes if there is room for them now.
func (t *totalBudget) take(size int64) bool {
	if t.waiters.Load() == 0 {
		return t.grab(size)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if (len(t.waiting) > 0 && t.passed >= t.max) || !t.grab(size) {
		return false
	}
	t.passed += size
	return true
}

// grab takes size bytes if they fit.
func (t *totalBudget) grab(size int64) bool {
	for {
		held := t.held.Load()
		if held != 0 && held+size > t.max {
			return false
		}
		if t.held.CompareAndSwap(held, held+size) {
			return true
		}
	}
}

// takeOrWait is take for a blocked batch. If there is no room, the subscription's step will be
// asked for when there is; false means that it waits. A subscription that waits already keeps
// its place.
func (t *totalBudget) takeOrWait(sub *subscription, size int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.index(sub)
	if i < 0 {
		i = len(t.waiting)
		t.waiting = append(t.waiting, totalWait{sub, size})
		// Before the attempt: who gives bytes back after it sees that somebody waits.
		t.waiters.Store(int32(len(t.waiting)))
	}
	if (i > 0 && t.passed >= t.max) || !t.grab(size) {
		return false
	}
	t.remove(i)
	if i > 0 {
		t.passed += size
	}
	return true
}

// cancel ends a subscription's wait, if it waits. The caller calls wake afterwards: others may
// have been waiting behind it.
func (t *totalBudget) cancel(sub *subscription) {
	if t.waiters.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.index(sub); i >= 0 {
		t.remove(i)
	}
}

func (t *totalBudget) index(sub *subscription) int {
	return slices.IndexFunc(t.waiting, func(w totalWait) bool { return w.sub == sub })
}

func (t *totalBudget) remove(i int) {
	if i == 0 {
		t.passed = 0
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	t.waiters.Store(int32(len(t.waiting)))
}

// wouldTake reports whether size bytes would fit if own were given back first.
func (t *totalBudget) wouldTake(size, own int64) bool {
	held := t.held.Load() - own
	return held <= 0 || held+size <= t.max
}

// give gives bytes back. The caller calls wake when it holds no lock.
func (t *totalBudget) give(size int64) { t.held.Add(-size) }

// wake asks those that wait and would find room for their steps. A step may give bytes back in
// turn, and so come here again: then the one that is here already looks once more.
func (t *totalBudget) wake() {
	if t.waiters.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waking {
		t.again = true
		return
	}
	t.waking = true
	for t.again = true; t.again; {
		t.again = false
		next := t.runnable()
		t.mu.Unlock()
		for _, sub := range next {
			sub.stream.post(sub)
		}
		t.mu.Lock()
	}
	t.waking = false
}

// runnable lists those that would find room now, if the ones before them take theirs.
func (t *totalBudget) runnable() []*subscription {
	var out []*subscription
	held := t.held.Load()
	for _, w := range t.waiting {
		if held == 0 || held+w.size <= t.max {
			held += w.size
			out = append(out, w.sub)
		}
		if t.passed >= t.max {
			break // nobody passes the first
		}
	}
	return out
}
