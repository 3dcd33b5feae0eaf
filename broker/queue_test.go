package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBatch makes a sealed batch of count payloads that counts size bytes in a queue.
func testBatch(p *batchPool, base uint64, count, size int) *batch {
	tail := size - 12
	b := p.get(tail)
	b.setTail(eventHeadBytes, eventHeadBytes+tail, count, max(0, tail-4-4*count))
	b.seal(base, true)
	return b
}

// TestQueueModel drives a queue with random offers, writes (that succeed or fail) and ends, one
// step at a time, against a plain model of the policies, and checks the whole account after every
// step.
func TestQueueModel(t *testing.T) {
	for _, policy := range []Policy{PolicyDropNew, PolicyDropOld, PolicyBlock} {
		for seed := range uint64(200) {
			t.Run(fmt.Sprintf("%s/%d", policy, seed), func(t *testing.T) { modelRun(t, policy, seed) })
		}
	}
}

func modelRun(t *testing.T, policy Policy, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(policy)))
	capacity, maxBytes := 1+rng.IntN(8), int64(200+rng.IntN(5000))
	q := newQueue(&Config{SubscriberQueueCapacity: capacity, SubscriberQueueMaxBytes: maxBytes, SubscriberQueuePolicy: policy})
	var pool batchPool
	w := waiter{ready: func() {}}

	type entry struct {
		base  uint64
		count int
		size  int64
	}
	// The model: what waits, what is being written, and the sums.
	var waiting, writing []entry
	var blocked *entry
	var published, written, dropped, discarded uint64
	held := func(es []entry) (n int64) {
		for _, e := range es {
			n += e.size
		}
		return
	}
	msgs := func(es []entry) (n uint64) {
		for _, e := range es {
			n += uint64(e.count)
		}
		return
	}
	fits := func(size int64) bool {
		all := held(waiting) + held(writing)
		return len(waiting) < capacity && (all == 0 || all+size <= maxBytes)
	}
	admit := func() {
		if blocked != nil && fits(blocked.size) {
			waiting, blocked = append(waiting, *blocked), nil
		}
	}
	var base, expect uint64
	var group []queued
	limit := joinLimit{each: 1000, total: 3000}
	ended := false
	for step := range 300 {
		switch k := rng.IntN(10); {
		case k < 5 && blocked == nil: // while one is blocked its stream's turn is taken
			e := entry{base, 1 + rng.IntN(5), int64(60 + rng.IntN(1500))}
			if rng.IntN(20) == 0 {
				e.size = maxBytes + 1
			}
			base += uint64(e.count)
			b := testBatch(&pool, e.base, e.count, int(e.size))
			w.pending.Store(1)
			q.offer(b, &w)
			if w.pending.Add(-1) == 0 && policy == PolicyBlock && !ended && !fits(e.size) {
				t.Fatalf("step %d: let in without room", step)
			}
			b.release()
			if ended {
				break
			}
			published += uint64(e.count)
			switch {
			case fits(e.size):
				waiting = append(waiting, e)
			case policy == PolicyBlock:
				blocked = &e
			case policy == PolicyDropOld && (len(writing) == 0 || held(writing)+e.size <= maxBytes):
				for !fits(e.size) {
					dropped += uint64(waiting[0].count)
					waiting = waiting[1:]
				}
				waiting = append(waiting, e)
			default:
				dropped += uint64(e.count)
			}
		case k < 9 && !ended: // the write ends, and the next begins if there is something
			ok := rng.IntN(60) != 0 || len(group) == 0
			if ok {
				written += msgs(writing)
			} else {
				discarded += msgs(writing) + msgs(waiting)
				if blocked != nil {
					discarded += uint64(blocked.count)
				}
				waiting, blocked, ended = nil, nil, true
			}
			writing = nil
			admit()
			if len(waiting) == 0 && !ended {
				q.mu.Lock()
				q.settle(group, ok)
				q.mu.Unlock()
				group = group[:0]
				break
			}
			group = q.next(group, ok, 0, limit)
			for _, g := range group {
				if g.base < expect {
					t.Fatalf("step %d: batch %d after %d", step, g.base, expect)
				}
				expect = g.base + uint64(g.count)
				e := waiting[0]
				if g.base != e.base {
					t.Fatalf("step %d: batch %d, want %d", step, g.base, e.base)
				}
				waiting, writing = waiting[1:], append(writing, e)
				admit()
			}
			if (len(group) == 0) != ended {
				t.Fatalf("step %d: empty group, ended %v", step, ended)
			}
		case k == 9 && blocked != nil && rng.IntN(3) == 0: // the publisher is gone
			q.withdraw(&w)
			dropped += uint64(blocked.count)
			blocked = nil
		case k == 9 && rng.IntN(40) == 0 && !ended:
			q.close()
			discarded += msgs(waiting)
			if blocked != nil {
				discarded += uint64(blocked.count)
			}
			waiting, blocked, ended = nil, nil, true
		}
		st, _ := q.snapshot()
		want := msgs(waiting) + msgs(writing)
		if blocked != nil {
			want += uint64(blocked.count)
		}
		if st.Published != published || st.Written != written || st.DroppedQueue != dropped || st.DiscardedClosed != discarded || st.Queued != want {
			t.Fatalf("step %d: got %+v, want published %d written %d dropped %d discarded %d queued %d", step, st, published, written, dropped, discarded, want)
		}
		if st.Published != st.Written+st.DroppedQueue+st.DiscardedClosed+st.Queued {
			t.Fatalf("step %d: does not add up: %+v", step, st)
		}
		if bytes := held(waiting) + held(writing); st.QueuedBytes != bytes {
			t.Fatalf("step %d: %d bytes held, want %d", step, st.QueuedBytes, bytes)
		}
		if blocked != nil && w.pending.Load() != 1 {
			t.Fatalf("step %d: blocked, but %d pending", step, w.pending.Load())
		}
	}
	q.close()
	if len(group) > 0 {
		q.next(group, false, 0, limit)
	}
	if st, _ := q.snapshot(); st.Queued != 0 || st.QueuedBytes != 0 || pool.live.Load() != 0 {
		t.Errorf("at the end: %+v, %d batches live", st, pool.live.Load())
	}
}

// TestQueueRace lets publisher, feeder, watcher and statistics at one queue at once; the account
// must add up in every snapshot.
func TestQueueRace(t *testing.T) {
	for _, policy := range []Policy{PolicyDropNew, PolicyDropOld, PolicyBlock} {
		var pool batchPool
		q := newQueue(&Config{SubscriberQueueCapacity: 4, SubscriberQueueMaxBytes: 2000, SubscriberQueuePolicy: policy})
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() { // feeder
			var group []queued
			for n := 0; ; n++ {
				group = q.next(group, n < 3000, 0, joinLimit{each: 500, total: 1500})
				if len(group) == 0 {
					return
				}
			}
		})
		wg.Go(func() { // publisher
			ready := make(chan struct{}, 1)
			w := waiter{ready: func() { ready <- struct{}{} }}
			for i := range 5000 {
				b := testBatch(&pool, uint64(i), 1, 60+i%700)
				w.pending.Store(1)
				q.offer(b, &w)
				if w.pending.Add(-1) != 0 {
					if i%50 == 0 {
						q.withdraw(&w)
					}
					<-ready
				}
				b.release()
			}
			q.drain()
			close(stop)
		})
		wg.Go(func() {
			for {
				if st, _ := q.snapshot(); st.Published != st.Written+st.DroppedQueue+st.DiscardedClosed+st.Queued {
					t.Errorf("%s: %+v", policy, st)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		wg.Wait()
		q.close()
		if live := pool.live.Load(); live != 0 {
			t.Errorf("%s: %d batches live", policy, live)
		}
	}
}
