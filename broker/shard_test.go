package broker

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"felix/internal/wire"
)

// TestShardAgreement drives both sides of 1,000 streams, publishes and feeder steps, and compares
// where each really ran, by the thread, with what shardFor says.
func TestShardAgreement(t *testing.T) {
	const streams, shards, rounds = 1000, 3, 5
	cfg := Config{CoreShards: shards, PubIngressWait: true}
	for i := range streams {
		cfg.Streams = append(cfg.Streams, wire.Scope{Tenant: "t1", Namespace: "many", Stream: fmt.Sprint(i)})
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.startShards()
	b.mu.Unlock()

	var mu sync.Mutex
	threads := make(map[int]int) // by shard
	ran := map[stepKind]*[streams]int{stepPublish: {}, stepFeeder: {}}
	var steps sync.WaitGroup
	steps.Add(2 * rounds * streams)
	hook := stepHook(func(kind stepKind, stream uint64, shard int) {
		mu.Lock()
		defer mu.Unlock()
		if want := b.ingress.shardFor(stream); shard != want || want != int(stream)%shards {
			t.Errorf("a step of stream %d on shard %d, want %d", stream, shard, want)
		}
		id := threadID()
		if was, seen := threads[shard]; seen && was != id {
			t.Errorf("shard %d on thread %d and on %d", shard, was, id)
		}
		threads[shard] = id
		ran[kind][stream]++
		steps.Done()
	})
	b.onStep.Store(&hook)

	// A feeder's own goroutine posts steps while a publish stream's reader submits publishes. A step
	// that is still queued is not queued again, so each round waits for the last.
	c := &conn{broker: b, admission: budget{max: 1 << 20}}
	reader := &clientStream{conn: c}
	reader.admission.admitted = make(chan struct{}, 1)
	var subs []*subscription
	for i, st := range b.streamList {
		subs = append(subs, newSubscription(c, st, uint64(i), nil, true))
	}
	body := (&wire.PublishBatch{Scope: cfg.Streams[0], Payloads: [][]byte{{1}}}).Append(nil)[wire.HeaderLen:]
	head, err := wire.ParsePublishHead(wire.FlagPublish, body)
	if err != nil {
		t.Fatal(err)
	}
	for range rounds {
		var drivers sync.WaitGroup
		drivers.Go(func() {
			for _, sub := range subs {
				sub.stream.post(sub)
			}
		})
		drivers.Go(func() {
			for _, st := range b.streamList {
				bt := b.pool.get(len(body))
				end := eventHeadBytes + copy(bt.body(len(body)), body)
				bt.setTail(end-len(head.Tail), end, head.Count, head.PayloadBytes)
				if err := reader.publish(st, bt, answer{}); err != nil {
					t.Error(err)
				}
			}
		})
		drivers.Wait()
		<-b.ingress.empty()
		for _, s := range b.shards {
			for s.anySteps.Load() {
				runtime.Gosched()
			}
		}
	}
	steps.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for stream := range streams {
		if p, f := ran[stepPublish][stream], ran[stepFeeder][stream]; p != rounds || f != rounds {
			t.Errorf("stream %d: %d publishes and %d feeder steps, want %d", stream, p, f, rounds)
		}
	}
	distinct := make(map[int]bool)
	for _, id := range threads {
		distinct[id] = true
	}
	if len(threads) != shards || (threadID() != 0 && len(distinct) != shards) {
		t.Errorf("the shards ran on threads %v", threads)
	}
	if live := b.pool.live.Load(); live != 0 {
		t.Errorf("%d batches live", live)
	}
}
