package broker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

func nothingBlocks(t *testing.T) *waiter {
	return &waiter{ready: func() { t.Error("ready was called, and nothing was blocked") }}
}

// TestStalledFeeder: while the feeder does not run, the queue at 5 fills and drops, and the lane at
// 6 does not.
func TestStalledFeeder(t *testing.T) {
	b := testBroker(t, Config{SubscriberQueueCapacity: 5, SubscriberLaneQueueDepth: 3, EventBatchMaxDelay: -1}, 1)
	sub := addTestSubscription(b, b.streamList[0], &testSink{}, true)
	sub.feeding = false
	for i := range uint64(20) {
		offer(sub, testBatch(&b.pool, i, 1, 100), nothingBlocks(t))
	}
	if st := account(sub); st.Queued != 5 || st.DroppedQueue != 15 || st.QueuedWriter != 0 || st.DroppedWriter != 0 {
		t.Errorf("stalled: %+v", st)
	}
	sub.feeding = true
	sub.step()
	if st := account(sub); st.Queued != 0 || st.QueuedWriter != 5 || st.LaneQueueLen != 1 {
		t.Errorf("going on: %+v", st)
	}
	sub.close()
	endTest(sub)
}

// TestStalledWriter is the opposite: the client does not read, the lane fills first, and only block
// lets the queue fill behind it.
func TestStalledWriter(t *testing.T) {
	for _, tt := range []struct {
		lane                  Policy
		queued, inLane        uint64
		droppedQueue, dropped uint64
		first                 uint64 // offset in the lane
	}{
		{PolicyDropNew, 0, 3, 0, 17, 0},
		{PolicyDropOld, 0, 3, 0, 17, 17},
		{PolicyBlock, 5, 3, 12, 0, 0},
	} {
		t.Run(tt.lane.String(), func(t *testing.T) {
			b := testBroker(t, Config{SubscriberQueueCapacity: 5, SubscriberLaneQueueDepth: 3, SubscriberLaneQueuePolicy: tt.lane, EventBatchMaxDelay: -1}, 1)
			sink := &testSink{keep: true}
			sub := addTestSubscription(b, b.streamList[0], sink, true)
			for i := range uint64(20) {
				offer(sub, testBatch(&b.pool, i, 1, 100), nothingBlocks(t))
			}
			st := account(sub)
			if st.Queued != tt.queued || st.QueuedWriter != tt.inLane || st.DroppedQueue != tt.droppedQueue || st.DroppedWriter != tt.dropped {
				t.Errorf("%+v", st)
			}
			if st.WriterHighWaterFrames != 3 || (st.WriterBlockedNs > 0) != (tt.lane == PolicyBlock) {
				t.Errorf("high water %d, blocked %d ns", st.WriterHighWaterFrames, st.WriterBlockedNs)
			}
			pumpTest(sub)
			if got, _ := sink.offsets(t); got[0] != tt.first || len(got) != int(tt.inLane+tt.queued) {
				t.Errorf("written: %d, want %d from %d on", got, tt.inLane+tt.queued, tt.first)
			}
			sub.close()
			endTest(sub)
		})
	}
}

// TestShares: a subscription stops at its share of the connection's budget, which follows the number
// of subscriptions; a shrunk share takes nothing back, and a frame larger than the share goes alone.
func TestShares(t *testing.T) {
	b := testBroker(t, Config{SubscriberEgressMaxBytes: 100_000, EventBatchMaxDelay: -1}, 1)
	c := testConn(b)
	st := b.streamList[0]
	first := subscribeTest(c, st, &testSink{}, true)
	offset := uint64(0)
	fill := func(sub *subscription, n, size int) {
		for range n {
			offer(sub, testBatch(&b.pool, offset, 1, size), nothingBlocks(t))
			offset++
		}
	}
	fill(first, 10, 20_000)
	if s := account(first); s.EgressHeldBytes != 100_000 || s.LaneQueueLen != 5 || s.Queued != 5 || s.DroppedWriter != 0 {
		t.Fatalf("alone: %+v", s)
	}
	second := subscribeTest(c, st, &testSink{}, true)
	fill(second, 10, 20_000)
	if s := account(second); s.EgressHeldBytes != 40_000 || s.Queued != 8 {
		t.Errorf("half of 100,000: %+v", s)
	}
	if s := account(first); s.EgressHeldBytes != 100_000 {
		t.Errorf("a shrunk share took something back: %+v", s)
	}
	// The next hold is late: only below the new share.
	first.mu.Lock()
	first.take() // one is being written
	first.settle(true)
	first.unlock()
	first.step()
	if s := account(first); s.EgressHeldBytes != 80_000 || s.Queued != 5 {
		t.Errorf("still above the share: %+v", s)
	}
	// It grows when another ends, without a publish or a write.
	second.close()
	endTest(second)
	if s := account(first); s.EgressHeldBytes != 100_000 || s.Queued != 4 {
		t.Errorf("alone again: %+v", s)
	}
	pumpTest(first)
	fill(first, 1, 300_000)
	fill(first, 2, 100)
	if s := account(first); s.EgressHeldBytes != 300_000 || s.Queued != 2 || s.LaneQueueLen != 1 {
		t.Errorf("a frame larger than the share: %+v", s)
	}
	pumpTest(first)
	if s := account(first); s.EgressHeldBytes != 0 || s.Queued+s.QueuedWriter != 0 || s.WriterHighWaterBytes != 300_000 {
		t.Errorf("at the end: %+v", s)
	}
	first.close()
	endTest(first)
}

// TestCoalescing: a full share ends the frame, and so does what does not go on from it.
func TestCoalescing(t *testing.T) {
	b := testBroker(t, Config{SubscriberEgressMaxBytes: 1000, EventBatchMaxDelay: time.Hour}, 1)
	sink := &testSink{keep: true}
	sub := addTestSubscription(b, b.streamList[0], sink, true)
	for i := range uint64(12) {
		offer(sub, testBatch(&b.pool, i, 1, 100), nothingBlocks(t))
	}
	if s := account(sub); s.LaneQueueLen != 1 || s.QueuedWriter != 10 || s.Queued != 2 || s.EgressHeldBytes != 1000 {
		t.Errorf("full share: %+v", s)
	}
	pumpTest(sub)
	offer(sub, testBatch(&b.pool, 12, 1, 100), nothingBlocks(t))
	offer(sub, testBatch(&b.pool, 20, 1, 100), nothingBlocks(t)) // 13 to 19 were dropped, say
	pumpTest(sub)
	got, frames := sink.offsets(t)
	if want := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20}; !slices.Equal(got, want) || frames != 4 {
		t.Errorf("%d frames of %d, want 4 of %d", frames, got, want)
	}
	sub.close()
	endTest(sub)
}

// TestHoldBack: while the writer is busy, a frame collects what comes within the delay of its first
// batch, and no longer; an idle writer gets it at once.
func TestHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 250 * time.Microsecond
		b := testBroker(t, Config{EventBatchMaxDelay: delay}, 1)
		stuck := make(chan struct{})
		sink := &testSink{keep: true, write: func(n int) error {
			if n > joinBelow {
				<-stuck
			}
			return nil
		}}
		sub := addTestSubscription(b, b.streamList[0], sink, true)
		done := make(chan struct{})
		go func() { defer close(done); sub.writeLoop() }()
		synctest.Wait()
		offer(sub, testBatch(&b.pool, 0, 1, 20_000), nothingBlocks(t))
		synctest.Wait()
		for i := range uint64(10) { // at 0, 100, 200 us; 300, 400, 500 us; ...
			offer(sub, testBatch(&b.pool, 1+i, 1, 100), nothingBlocks(t))
			time.Sleep(100 * time.Microsecond) // of the bubble's clock, as all pauses here: the flush delay is what is looked at
		}
		if s := account(sub); s.LaneQueueLen != 4 || s.QueuedWriter != 11 {
			t.Errorf("held back: %+v", s)
		}
		close(stuck)
		synctest.Wait()
		if s := account(sub); s.Written != 11 {
			t.Errorf("an idle writer did not get all: %+v", s)
		}
		if _, frames := sink.offsets(t); frames != 5 {
			t.Errorf("%d frames, want 5", frames)
		}
		time.Sleep(time.Second)
		before := time.Now()
		offer(sub, testBatch(&b.pool, 11, 1, 100), nothingBlocks(t))
		synctest.Wait()
		if s := account(sub); s.Written != 12 || time.Since(before) != 0 {
			t.Errorf("a frame for an idle writer waited: %+v", s)
		}
		sub.drain()
		<-done
	})
}

// TestInlineWrite: the step writes a small frame itself when the stream is idle and little went out
// lately; all else goes to the writer.
func TestInlineWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 3 * time.Millisecond
		b := testBroker(t, Config{EventBatchMaxDelay: -1}, 1)
		sink := &testSink{keep: true}
		sub := addTestSubscription(b, b.streamList[0], sink, true)
		sub.conn.rtt = func() time.Duration { return rtt }
		done := make(chan struct{})
		go func() { defer close(done); sub.writeLoop() }()
		synctest.Wait()
		offset := uint64(0)
		// send offers a batch and says how it went out.
		send := func(size int) string {
			t.Helper()
			tries, writes := sink.tries.Load(), sink.writes.Load()
			offer(sub, testBatch(&b.pool, offset, 1, size), nothingBlocks(t))
			offset++
			synctest.Wait()
			switch {
			case sink.writes.Load() > writes && sink.tries.Load() > tries:
				return "tried, written"
			case sink.writes.Load() > writes:
				return "written"
			case sink.tries.Load() > tries:
				return "inline"
			}
			return "nothing"
		}
		check := func(size int, want string) {
			t.Helper()
			if got := send(size); got != want {
				t.Errorf("batch %d of %d bytes: %s, want %s", offset-1, size, got, want)
			}
		}
		check(1000, "inline")
		check(1000, "inline")
		check(1000, "inline")
		check(1000, "inline")
		check(1000, "inline") // with the base offsets, 4,032 bytes had gone out
		check(1000, "written")
		time.Sleep(rtt / 2)
		check(100, "written")
		time.Sleep(2 * rtt)
		check(100, "inline")
		check(2000, "written") // larger than a packet
		check(1000, "inline")
		check(60_000, "written")
		check(100, "written")
		time.Sleep(2 * rtt)
		sink.try = func(int) error { return quic.ErrWouldBlock }
		check(100, "tried, written")
		got, _ := sink.offsets(t)
		for i := range got {
			if got[i] != uint64(i) {
				t.Fatalf("order: %d", got)
			}
		}
		if s := account(sub); s.Written != offset {
			t.Errorf("%+v", s)
		}
		sub.drain()
		<-done
	})
}

// TestLoopHist: the buckets are powers of two.
func TestLoopHist(t *testing.T) {
	var h loopHist
	h.record(0, 0)
	h.record(1, 1)
	h.record(3, 1023)
	h.record(4, 1024)
	w := h.wakeup("x")
	if !slices.Equal(w.ItemsHist, []uint64{1, 1, 1, 1}) || !slices.Equal(w.BytesHist, []uint64{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}) {
		t.Errorf("%v, %v", w.ItemsHist, w.BytesHist)
	}
	if w.Count != 4 || w.Items != 8 || w.Bytes != 2048 {
		t.Errorf("%+v", w)
	}
	h.record(1<<40, 1<<60)
	if h.itemsHist[itemBuckets-1] != 1 || h.bytesHist[byteBuckets-1] != 1 {
		t.Error("what is above the last bucket is in none")
	}
}
