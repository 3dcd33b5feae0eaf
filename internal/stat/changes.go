package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	changePermutations = 999
	changeSeed         = 0xed1f
	// changeLeast is the fewest values between two changes, and before the first and after the last: one or two odd
	// sessions are outliers and no change.
	changeLeast = 3
)

// Change is a place where a series goes over to another level.
type Change struct {
	At int     // index of the first value after it
	P  float64 // permutation p-value, at least 1/1000
}

// Changes returns where the distribution of a series of independent values changes, in order, by E-divisive: the split
// with the largest energy distance between the values before it and those after it, again and again in the parts, as
// long as a permutation test finds it at level (0 to 1). Matteson and James, A Nonparametric Approach for Multiple Change
// Point Analysis of Multivariate Data, Journal of the American Statistical Association 109 (2014), with exponent 1.
//
// It permutes within the parts, 999 times from a fixed seed, and ends early where the p-value can no longer be at most
// the level (Besag and Clifford, Sequential Monte Carlo p-values, Biometrika 78, 1991). With fewer than three values
// before or after it nothing is a change; at a level of 0.01 a series of about twelve is the shortest that can show one.
// A drift, which has no such place, is cut into several. NaNs are left out of the comparison, not of the indices.
func Changes(series []float64, level float64) []Change {
	var xs []float64
	var index []int
	for i, x := range series {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			xs, index = append(xs, x), append(index, i)
		}
	}
	rng := rand.New(rand.NewPCG(changeSeed, uint64(len(xs))))
	ends := []int{0, len(xs)}
	var found []Change
	for {
		at, observed := bestSplit(xs, ends)
		if at < 0 || !(observed > 0) {
			break
		}
		p := changeP(xs, ends, observed, level, rng)
		if p > level {
			break
		}
		found = append(found, Change{At: at, P: p})
		ends = append(ends, at)
		slices.Sort(ends)
	}
	slices.SortFunc(found, func(a, b Change) int { return a.At - b.At })
	for i := range found {
		found[i].At = index[found[i].At]
	}
	return found
}

// ShortestChange is how many values a series must have before Changes can find any change in it at level: as many as the
// clearest step needs. Of a shorter one that no change was found says nothing.
func ShortestChange(level float64) int {
	const most = 64
	for n := 2 * changeLeast; n < most; n++ {
		step := make([]float64, n)
		for i := range step {
			step[i] = float64(i) * 1e-4
			if i >= n/2 {
				step[i]++
			}
		}
		if len(Changes(step, level)) > 0 {
			return n
		}
	}
	return most
}

// changeP is how often chance, in the parts between ends, splits as clearly.
func changeP(xs []float64, ends []int, observed, level float64, rng *rand.Rand) float64 {
	shuffled := slices.Clone(xs)
	most := int(level * (changePermutations + 1)) // as many may reach it, the observed one counted
	reached := 1
	for n := 1; n <= changePermutations; n++ {
		for i := 1; i < len(ends); i++ {
			part := shuffled[ends[i-1]:ends[i]]
			rng.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
		}
		if _, q := bestSplit(shuffled, ends); q >= observed*(1-1e-9) {
			reached++
		}
		if reached > most {
			return float64(reached) / float64(n+1)
		}
	}
	return float64(reached) / (changePermutations + 1)
}

// bestSplit finds the clearest split within the parts between ends; -1 where none is possible.
func bestSplit(xs []float64, ends []int) (at int, q float64) {
	at, q = -1, math.Inf(-1)
	for i := 1; i < len(ends); i++ {
		if split, value := splitOf(xs[ends[i-1]:ends[i]]); split > 0 && value > q {
			at, q = ends[i-1]+split, value
		}
	}
	return at, q
}

// splitOf maximises the scaled energy distance between xs[:split] and xs[split:end], over both, so that a part that
// rises and falls again is not missed. Sums of distances are kept up as the end grows: n^2 steps in all.
func splitOf(xs []float64) (split int, q float64) {
	n := len(xs)
	within := make([]float64, n)  // by split: distances among xs[split:end]
	total := make([]float64, n+1) // by end: distances among xs[:end]
	split, q = 0, math.Inf(-1)
	for last := range n {
		column := 0.0
		for i := last - 1; i >= 0; i-- {
			column += math.Abs(xs[i] - xs[last])
			within[i] += column
		}
		end := last + 1
		total[end] = total[last] + column
		for s := changeLeast; end-s >= changeLeast; s++ {
			left, right := float64(s), float64(end-s)
			between := total[end] - total[s] - within[s]
			energy := 2*between/(left*right) - total[s]/(left*(left-1)/2) - within[s]/(right*(right-1)/2)
			if value := left * right / (left + right) * energy; value > q {
				split, q = s, value
			}
		}
	}
	return split, q
}
