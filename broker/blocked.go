package broker

import (
	"math/bits"
	"time"
)

// blockedBuckets is the number of buckets of a durationHist: 1 us, 4 us, ... 67 s, and above.
const blockedBuckets = 15

// DurationBounds are the upper bounds, inclusive, of all but the last bucket of a DurationHist:
// powers of four from 1 us to 67 s.
func DurationBounds() []time.Duration {
	out := make([]time.Duration, blockedBuckets-1)
	for i := range out {
		out[i] = time.Microsecond << (2 * i)
	}
	return out
}

// DurationHist is a histogram of durations: Counts[i] of them were in bucket i of DurationBounds,
// and the last count is of those above all bounds.
type DurationHist struct {
	Counts []uint64 `json:"counts"`
	SumNs  int64    `json:"sum_ns"`
}

// durationHist is the form in which durations are counted: no allocation, under its owner's lock.
type durationHist struct {
	counts [blockedBuckets]uint64
	sum    time.Duration
}

func (h *durationHist) record(d time.Duration) {
	i := 0
	if us := (d - 1) / time.Microsecond; us > 0 {
		// us is one below the bound in whole microseconds, so that a bound belongs to its bucket.
		i = min((bits.Len64(uint64(us))+1)/2, blockedBuckets-1)
	}
	h.counts[i]++
	h.sum += d
}

func (h *durationHist) add(o *durationHist) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

func (h *durationHist) snapshot() DurationHist {
	return DurationHist{Counts: append([]uint64(nil), h.counts[:]...), SumNs: int64(h.sum)}
}
