//go:build !race

// Under -race sync.Pool drops what it is given at random.

package broker

import (
	"runtime"
	"sync"
	"testing"
)

// An executor is called for some batches of a flood: starting one must cost no allocation.
func TestExecutorDoesNotAllocate(t *testing.T) {
	b := newBench(t, Config{PubWorkers: 1})
	entered, pass := make(chan struct{}), make(chan struct{})
	l := b.lane("a", func(*batch, *waiter) bool {
		entered <- struct{}{}
		<-pass
		return false
	})
	conn := b.conn()
	first, second := b.reader(conn), b.reader(conn)
	submit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range submit {
			first.publish(l, first.batch(100, 1), enqueueDrop, nil, 0)
		}
	})
	step := func() {
		submit <- struct{}{} // executed in its reader's goroutine
		<-entered
		second.publish(l, second.batch(100, 1), enqueueDrop, nil, 0) // queued: an executor goes on with it
		pass <- struct{}{}
		<-entered
		pass <- struct{}{}
		for !b.rests() {
			runtime.Gosched()
		}
	}
	for range 100 {
		step()
	}
	before := b.counts.woken.count
	const runs = 1000
	allocs := testing.AllocsPerRun(runs, step)
	if called := b.counts.woken.count - before; called < runs {
		t.Errorf("an executor was started for %d of %d batches", called, runs)
	}
	if allocs > 0 {
		t.Errorf("%.1f allocations a batch, want 0", allocs)
	}
	close(submit)
	wg.Wait()
	b.wantEmpty(t, conn)
}

// rests reports whether all is executed and no executor is left.
func (b *bench) rests() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending == 0 && b.executors == 0
}
