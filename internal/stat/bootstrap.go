package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	bootstrapResamples = 10_000
	bootstrapSeed      = 0x5eed
	bootstrapLeast     = 5 // values a side: with fewer, resamples know too little of the tails
)

// RatioOfMedians returns median(head) / median(base), of samples that are not paired, with the percentile bootstrap
// interval at level (0 to 1): 10,000 resamples of each side, a fixed seed. Efron and Tibshirani, An Introduction to
// the Bootstrap, section 13.3. The interval is that of the logarithm of the ratio, so that exchanging the sides gives
// the reciprocal; the order of the values is irrelevant.
//
// The interval's coverage is nominal. Ok is false with fewer than five values on a side, where it covers much less.
// Everything is NaN where a side is empty or has a value below 0, and where the median of base is 0. NaNs are left out.
func RatioOfMedians(base, head []float64, level float64) (ratio float64, iv Interval, ok bool) {
	base, head = sorted(base), sorted(head)
	nan := math.NaN()
	none := Interval{nan, nan, nan}
	if len(base) == 0 || len(head) == 0 || base[0] < 0 || head[0] < 0 || !(level >= 0 && level <= 1) {
		return nan, none, false
	}
	ratio = quantileSorted(head, 50) / quantileSorted(base, 50)
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return nan, none, false
	}
	// Which side draws from which stream depends on the shape of the values, not on which side is called base, nor on
	// the unit.
	first, second, sign := base, head, 1.0
	if slices.Compare(perMedian(first), perMedian(second)) > 0 {
		first, second, sign = head, base, -1
	}
	rng1, rng2 := rand.New(rand.NewPCG(bootstrapSeed, 1)), rand.New(rand.NewPCG(bootstrapSeed, 2))
	logs := make([]float64, 0, bootstrapResamples)
	scratch := make([]int, max(len(base), len(head)))
	for range bootstrapResamples {
		a := math.Log(resampledMedian(rng1, first, scratch))
		b := math.Log(resampledMedian(rng2, second, scratch))
		if d := sign * (b - a); !math.IsNaN(d) { // 0 against 0 says nothing
			logs = append(logs, d)
		}
	}
	slices.Sort(logs)
	tail := 100 * (1 - level) / 2
	iv = Interval{Low: math.Exp(quantileSorted(logs, tail)), High: math.Exp(quantileSorted(logs, 100-tail)), Coverage: level}
	return ratio, iv, len(base) >= bootstrapLeast && len(head) >= bootstrapLeast
}

// resampledMedian draws as many values as there are, with replacement, and returns their median. The values are
// sorted: counting how often each was drawn costs a fraction of sorting the draws.
func resampledMedian(rng *rand.Rand, values []float64, drawn []int) float64 {
	n := len(values)
	drawn = drawn[:n]
	clear(drawn)
	for range n {
		drawn[rng.IntN(n)]++
	}
	at := func(rank int) float64 { // from 0
		for i, count := range drawn {
			if rank -= count; rank < 0 {
				return values[i]
			}
		}
		return math.NaN() // never: the counts sum to n
	}
	low, high := at((n-1)/2), at(n/2)
	if low == high { // of infinities, too
		return low
	}
	return low/2 + high/2
}

// perMedian returns the sorted values as shares of their median.
func perMedian(values []float64) []float64 {
	median := quantileSorted(values, 50)
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v / median
	}
	return out
}
