package client

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// admission is checkpoint 1: a budget of bytes that remembers the most that was held.
type admission struct {
	budget *semaphore.Weighted
	held   atomic.Int64
	high   atomic.Int64
}

func (a *admission) tryAcquire(n int64) bool {
	ok := a.budget.TryAcquire(n)
	if ok {
		a.take(n)
	}
	return ok
}

func (a *admission) acquire(ctx context.Context, n int64) error {
	err := a.budget.Acquire(ctx, n)
	if err == nil {
		a.take(n)
	}
	return err
}

func (a *admission) take(n int64) {
	raise(&a.high, a.held.Add(n))
}

func (a *admission) release(n int64) {
	a.held.Add(-n) // first: another may have taken the room before the count knew that it was free
	a.budget.Release(n)
}

// raise makes high at least v. After the first moments it is one load.
func raise(high *atomic.Int64, v int64) {
	for old := high.Load(); v > old && !high.CompareAndSwap(old, v); old = high.Load() {
	}
}
