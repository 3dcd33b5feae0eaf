package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// publish numbers a batch and offers it to the stream's subscriptions, and waits until all have let
// it in.
func publishTest(st *stream, count, size int) {
	woken := make(chan struct{}, 1)
	w := waiter{ready: func() { woken <- struct{}{} }}
	st.mu.Lock()
	base := st.ring.next
	b := testBatch(&st.broker.pool, base, count, size)
	st.ring.next += uint64(count)
	subs := st.subs
	st.mu.Unlock()
	w.pending.Store(1)
	for _, sub := range subs {
		sub.offer(b, &w)
	}
	b.release()
	if w.pending.Add(-1) != 0 {
		<-woken
	}
}

// TestTotalBudget lets streams with several subscribers each fight for a broker-wide budget that is
// much too small for all, under block: nothing is lost, nothing waits for ever, batches larger than
// the whole budget pass too, and the bound is kept.
func TestTotalBudget(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const total = 6000
			b := testBroker(t, Config{
				SubscriberQueuePolicy: PolicyBlock, SubscriberLaneQueuePolicy: Policy(seed % 3),
				SubscriberQueueMaxBytesTotal: total, EventBatchMaxDelay: -1,
			}, 5)
			var writers, publishers, watch sync.WaitGroup
			var subs []*subscription
			for i, st := range b.streamList {
				for k := range 1 + i {
					rng := rand.New(rand.NewPCG(seed, uint64(10*i+k)))
					sink := &testSink{write: func(int) error {
						if rng.IntN(5) == 0 {
							time.Sleep(time.Duration(rng.IntN(20)) * time.Microsecond)
						}
						return nil
					}}
					sub := addTestSubscription(b, st, sink, true)
					subs = append(subs, sub)
					writers.Go(sub.writeLoop)
				}
			}
			over := make(chan struct{})
			for i, st := range b.streamList {
				publishers.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
					for n := range 600 {
						size := 50 + rng.IntN(2500)
						if n%100 == 50 {
							size = total + rng.IntN(total)
						}
						publishTest(st, 1, size)
					}
				})
			}
			watch.Go(func() {
				for {
					if held := b.subscriberTotal.held.Load(); held > 2*total+100 {
						t.Errorf("%d bytes held, want at most one oversize batch", held)
					}
					select {
					case <-over:
						return
					case <-time.After(50 * time.Microsecond):
					}
				}
			})
			publishers.Wait()
			close(over)
			watch.Wait()
			for _, sub := range subs {
				sub.drain()
			}
			writers.Wait()
			for _, sub := range subs {
				if st := account(sub); st.Published != 600 || st.DroppedQueue != 0 || st.Written+st.DroppedWriter != 600 {
					t.Errorf("%+v", st)
				}
			}
			if n := len(b.subscriberTotal.waiting); n != 0 {
				t.Errorf("%d still wait", n)
			}
		})
	}
}

// TestTotalOrder: what fits passes a large batch that has to wait, but no more than one whole budget
// of it.
func TestTotalOrder(t *testing.T) {
	b := testBroker(t, Config{SubscriberQueuePolicy: PolicyBlock, SubscriberQueueMaxBytesTotal: 10_000, EventBatchMaxDelay: -1}, 3)
	sub := func(i int) *subscription {
		s := addTestSubscription(b, b.streamList[i], &testSink{}, true)
		t.Cleanup(func() { s.close(); endTest(s) })
		return s
	}
	stuck, large, small := sub(0), sub(1), sub(2)
	var w [3]waiter
	var ready [3]int
	for i := range w {
		w[i].ready = func() { ready[i]++ }
	}
	offer(stuck, testBatch(&b.pool, 0, 1, 4000), &w[0])
	offer(large, testBatch(&b.pool, 0, 1, 9000), &w[1])
	if st := account(large); st.Queued != 1 || w[1].pending.Load() != 1 {
		t.Fatalf("the large batch does not wait: %+v", st)
	}
	passed := 0
	for i := range 20 {
		offer(small, testBatch(&b.pool, uint64(i), 1, 1000), &w[2])
		if w[2].pending.Load() != 0 {
			break
		}
		passed++
		pumpTest(small)
	}
	if passed != 10 {
		t.Errorf("%d small batches passed, want 10: one budget", passed)
	}
	if ready[1] != 0 {
		t.Fatal("the large one has been let in beside the others")
	}
	pumpTest(stuck)
	if ready[1] != 1 {
		t.Errorf("the large batch is still not in: %+v", account(large))
	}
	pumpTest(large)
	if ready[2] != 1 {
		t.Errorf("the small one behind it is still not in: %+v", account(small))
	}

	// An end makes room as well as a write does, and ends a wait that others wait behind.
	pumpTest(small)
	offer(stuck, testBatch(&b.pool, 1, 1, 9000), &w[0])
	offer(large, testBatch(&b.pool, 1, 1, 20_000), &w[1])
	b.subscriberTotal.passed = 10_000
	offer(small, testBatch(&b.pool, 100, 1, 500), &w[2])
	if w[1].pending.Load() != 1 || w[2].pending.Load() != 1 {
		t.Fatal("they do not wait")
	}
	large.close()
	if ready[1] != 2 || ready[2] != 2 {
		t.Errorf("after the end of the first in line: ready %v, want 2 each", ready[1:])
	}
	stuck.close()
	small.close()
	if held := b.subscriberTotal.held.Load(); held != 0 {
		t.Errorf("%d bytes held", held)
	}
}

// pumpTest does what the writer does, once, without a goroutine: it writes what is in the group and
// in the lane.
func pumpTest(sub *subscription) {
	for {
		sub.mu.Lock()
		if len(sub.group.entries) > 0 {
			sub.settle(true)
		}
		more := sub.poll() == pollGroup
		sub.unlock()
		if !more {
			return
		}
		if _, err := sub.write(); err != nil {
			panic(err)
		}
	}
}

// endTest finishes a closed subscription that has no writer.
func endTest(sub *subscription) {
	sub.mu.Lock()
	sub.poll()
	sub.unlock()
	sub.finish()
}
