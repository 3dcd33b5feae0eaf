package broker

import (
	"math/rand/v2"
	"testing"
)

// TestRing appends random batches and compares what is offered for replay with all that was
// appended.
func TestRing(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var pool batchPool
		r := ring{capacity: 1 + rng.IntN(100), maxBytes: int64(1000 + rng.IntN(50_000))}
		next := uint64(0)
		for range 300 {
			b := testBatch(&pool, next, 1+rng.IntN(20), 100+rng.IntN(3000))
			r.append(b)
			next += uint64(b.count)
			b.release()
			if rng.IntN(10) == 0 {
				r.evict()
			}
			first := r.first()
			if r.next != next || first > next || next-first > uint64(r.capacity) || r.bytes.Load() > r.maxBytes {
				t.Fatalf("seed %d: [%d, %d) of %d, %d bytes of %d", seed, first, r.next, r.capacity, r.bytes.Load(), r.maxBytes)
			}
			offset := first + uint64(rng.Int64N(int64(next-first)+1))
			at := offset
			for _, e := range r.from(offset) {
				if e.base+uint64(e.skip) != at || e.skip >= e.count {
					t.Fatalf("seed %d: from %d: entry at %d, want %d", seed, offset, e.base+uint64(e.skip), at)
				}
				at += e.msgs()
				e.release()
			}
			if at != next {
				t.Fatalf("seed %d: from %d ends at %d, want %d", seed, offset, at, next)
			}
		}
		r.clear()
		if pool.live.Load() != 0 || r.bytes.Load() != 0 {
			t.Errorf("seed %d: %d batches, %d bytes left", seed, pool.live.Load(), r.bytes.Load())
		}
	}
}
