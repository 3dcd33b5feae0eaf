package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandomIngress lets readers with any policy at lanes that run, and park, and move on, while
// connections end; at every moment received = accepted + rejected + dropped, the bounds hold, and
// in the end nothing is held.
func TestRandomIngress(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomIngress(t, seed) })
		})
	}
}

func randomIngress(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{
		PubWorkers: 1 + rng.IntN(4), PubQueueDepth: 1 + rng.IntN(5), CoreShards: rng.IntN(3),
		PubConnInflightBytes: int64(500 + rng.IntN(5000)), PubInflightBytes: int64(1000 + rng.IntN(10_000)),
	}
	b := newBench(t, cfg)
	var moves []func()
	var executed atomic.Uint64
	for i := range 6 {
		tenant := fmt.Sprint(i % 3)
		if i%2 == 0 {
			_, move := b.stuck(tenant)
			moves = append(moves, move)
			continue
		}
		b.lane(tenant, func(bt *batch, _ *waiter) bool { executed.Add(uint64(bt.count)); return false })
	}
	const readers, each = 12, 850 // some 10,000
	var wg sync.WaitGroup
	var conns []*budget
	var given [numReasons]atomic.Uint64
	for k := range readers {
		if k%3 == 0 {
			conns = append(conns, b.conn())
		}
		conn := conns[len(conns)-1]
		rng := rand.New(rand.NewPCG(seed, uint64(100+k)))
		wg.Go(func() {
			r := b.reader(conn)
			done := make(chan struct{})
			for i := range each {
				if i == each/2 && k%4 == 0 {
					close(done) // the connection ends; what was accepted lives on
				}
				size := int64(1 + rng.IntN(1<<rng.IntN(11)))
				if rng.IntN(100) == 0 {
					size = 20_000
				}
				timeout := time.Duration(0)
				policy := enqueuePolicy(rng.IntN(4))
				if policy == enqueueWait {
					timeout = time.Duration(rng.IntN(3000)) * time.Microsecond
				}
				why := r.publish(b.lanes[rng.IntN(len(b.lanes))], r.batch(size, 1+rng.IntN(3)), policy, done, timeout)
				given[why].Add(1)
				if rng.IntN(50) == 0 {
					time.Sleep(time.Millisecond) // of the bubble's clock: lets the queues run empty now and then
				}
			}
		})
	}
	over := make(chan struct{})
	var mover sync.WaitGroup
	mover.Go(func() {
		for {
			for _, m := range moves {
				m()
			}
			b.check(t)
			select {
			case <-over:
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	})
	wg.Wait()
	for b.pendingNow() > 0 {
		time.Sleep(time.Millisecond) // of the bubble's clock: mover goes on meanwhile
	}
	close(over)
	mover.Wait()
	b.check(t)
	b.wantEmpty(t, conns...)
	for why := range given {
		if given[why].Load() == 0 {
			t.Logf("nothing ended with reason %d", why)
		}
	}
}

// check looks at what must be true at any time.
func (b *bench) check(t *testing.T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.counts
	if c.received != c.accepted+c.rejected+c.dropped {
		t.Errorf("%d received, %d accepted, %d rejected, %d dropped", c.received, c.accepted, c.rejected, c.dropped)
	}
	for _, q := range b.queues {
		slots, lent, backlog := 0, 0, 0
		for _, tn := range q.tenants {
			slots += tn.slots
			lent += max(0, tn.slots-q.depth)
			backlog += tn.backlog
			if tn.waiting.n > 0 && q.room(tn) {
				t.Errorf("tenant %s waits for a slot that is free", tn.name)
			}
		}
		if slots != q.queued || lent != q.lent || lent > q.lendable || slots > q.bound() {
			t.Errorf("%d slots, %d lent, %d queued batches: %+v", slots, lent, backlog, q)
		}
		if q.ready > q.called && q.running < q.permits {
			t.Errorf("%d lanes ready, %d of %d executors at work", q.ready, q.running, q.permits)
		}
	}
	if first := b.all.line.first(); first != nil && b.all.fits(b.all.held, first.batch.way.held) {
		t.Errorf("%d bytes held of %d, and one of %d waits", b.all.held, b.all.max, first.batch.way.held)
	}
}
