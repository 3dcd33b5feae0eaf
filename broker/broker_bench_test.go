package broker

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkFanout publishes a batch to all subscriptions of a stream, whose writers run as
// goroutines and write to nothing: offer, step, hand-over and write, without QUIC.
func BenchmarkFanout(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 256 << 10} {
		for _, fanout := range []int{1, 10} {
			b.Run(fmt.Sprintf("size=%d/fanout=%d", size, fanout), func(b *testing.B) {
				br := testBroker(b, Config{SubscriberQueuePolicy: PolicyBlock, SubscriberLaneQueuePolicy: PolicyBlock}, 1)
				st := br.streamList[0]
				done := make(chan struct{})
				var subs []*subscription
				for range fanout {
					sub := addTestSubscription(br, st, &testSink{}, true)
					sub.conn.rtt = func() time.Duration { return 200 * time.Microsecond }
					subs = append(subs, sub)
					go func() { sub.writeLoop(); done <- struct{}{} }()
				}
				woken := make(chan struct{}, 1)
				w := waiter{ready: func() { woken <- struct{}{} }}
				batch := testBatch(&br.pool, 0, 1, size)
				b.SetBytes(int64(size * fanout))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					w.pending.Store(1)
					for _, sub := range subs {
						sub.offer(batch, &w)
					}
					if w.pending.Add(-1) != 0 {
						<-woken
					}
				}
				for _, sub := range subs {
					sub.drain()
				}
				for range subs {
					<-done
				}
				b.StopTimer()
				batch.release()
			})
		}
	}
}

// BenchmarkStep is the same without the writer's goroutine: the caller writes after each batch.
func BenchmarkStep(b *testing.B) {
	for _, size := range []int{100, 256 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			br := testBroker(b, Config{}, 1)
			sub := addTestSubscription(br, br.streamList[0], &testSink{}, true)
			w := &waiter{}
			batch := testBatch(&br.pool, 0, 1, size)
			b.ReportAllocs()
			for b.Loop() {
				sub.offer(batch, w)
				pumpTest(sub)
			}
			batch.release()
			sub.close()
			endTest(sub)
		})
	}
}
