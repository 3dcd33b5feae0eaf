package measure

import "math/bits"

// The compact histogram of one interval: log-linear, 32 buckets an octave, so that a percentile
// is known to 1.6 %. Each interval has one; HdrHistograms for them would be 270 KiB each.
const (
	binBits  = 5
	binCount = (42 - binBits + 1) << binBits // to 2^42 ns, 73 minutes
)

// binOf returns the bucket of a duration; negative and overlong ones go to the first and last.
func binOf(ns int64) int {
	if ns < 1<<binBits {
		return int(max(ns, 0))
	}
	e := bits.Len64(uint64(ns)) - binBits - 1
	return min((e+1)<<binBits+int(uint64(ns)>>e)-1<<binBits, binCount-1)
}

// binValue returns the middle of a bucket.
func binValue(bin int) int64 {
	if bin < 2<<binBits {
		return int64(bin)
	}
	e := bin>>binBits - 1
	low := int64(1<<binBits+bin&(1<<binBits-1)) << e
	return low + 1<<e/2
}

// binCountOf is how often one bucket was hit.
type binCountOf struct {
	bin   int
	count uint64
}

// latencyBins are the buckets of one interval, or of several merged.
type latencyBins map[int]uint64

func (b latencyBins) add(list []binCountOf) {
	for _, c := range list {
		b[c.bin] += c.count
	}
}

// perMille returns the value at p/1000 by the nearest rank, nil when too few lie beyond it.
func (b latencyBins) perMille(p int64) *int64 {
	var n uint64
	for _, c := range b {
		n += c
	}
	rank, ok := percentileRank(int64(n), p)
	if !ok {
		return nil
	}
	var seen uint64
	for bin := range binCount {
		if seen += b[bin]; seen >= uint64(rank) {
			v := binValue(bin)
			return &v
		}
	}
	return nil
}
