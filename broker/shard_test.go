package broker_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"felix/broker"
	"felix/broker/brokertest"
	"felix/internal/wire"
)

// TestShardAgreement drives both sides of 1,000 streams, publishes and feeder steps, and compares
// where each really ran, by the thread, with what shardFor says.
func TestShardAgreement(t *testing.T) {
	const streams, shards, rounds = 1000, 3, 2
	synctest.Test(t, func(t *testing.T) {
		cfg := broker.Config{CoreShards: shards, PubIngressWait: true}
		for i := range streams - 1 { // Demo is the last
			cfg.Streams = append(cfg.Streams, wire.Scope{Tenant: brokertest.Tenant, Namespace: "many", Stream: fmt.Sprint(i)})
		}
		n := brokertest.Start(t, cfg, brokertest.Options{})
		var mu sync.Mutex
		threads := make(map[int]int) // of the shards
		var published, fed [streams]int
		n.Broker.OnStep(func(publish bool, stream uint64, shard int) {
			mu.Lock()
			defer mu.Unlock()
			if want := n.Broker.ShardFor(stream); shard != want {
				t.Errorf("a step of stream %d on shard %d, want %d", stream, shard, want)
			}
			id := threadID()
			if was, seen := threads[shard]; seen && was != id {
				t.Errorf("shard %d on thread %d and %d", shard, was, id)
			}
			threads[shard] = id
			if publish {
				published[stream]++
			} else {
				fed[stream]++
			}
		})

		c := n.Dial()
		control := n.Control(c)
		scopes := append(cfg.Streams[:streams-1:streams-1], brokertest.Demo)
		for _, s := range scopes {
			n.Subscribe(c, control, s, nil)
		}
		p := n.Control(n.Dial())
		for range rounds {
			for _, s := range scopes {
				p.Publish(s, "x")
			}
			synctest.Wait()
			n.Broker.PostAll()
			synctest.Wait()
		}
		p.CloseSend()
		p.WantEnd()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i := range streams {
			if published[i] != rounds || fed[i] < rounds {
				t.Errorf("stream %d: %d publishes, %d feeder steps", i, published[i], fed[i])
			}
		}
		distinct := make(map[int]bool)
		for _, id := range threads {
			distinct[id] = true
		}
		if len(threads) != shards || (threadID() != 0 && len(distinct) != shards) {
			t.Errorf("shards ran on threads %v", threads)
		}
	})
}
