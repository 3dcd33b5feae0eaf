package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	spearmanExact        = 9      // 9! = 362,880 orders are all looked at
	spearmanPermutations = 10_000 // beyond that, random ones
	spearmanSeed         = 0x5eed
)

// SpearmanPosition says whether the position in the sequence explains the value: Spearman's rank correlation of xs
// with 1, 2, …, n (ties share their mean rank), and the two-sided p-value of the permutation test: the share of
// orders of xs whose correlation is at least as far from 0. Spearman, The Proof and Measurement of Association
// between Two Things, American Journal of Psychology 15 (1904).
//
// Up to n = 9 every order is looked at and p is exact; beyond, 10,000 random ones with a fixed seed, and p is
// (hits+1)/(10,000+1): Phipson and Smyth, Permutation P-values Should Never Be Zero (2010). NaNs are left out, their
// positions stay. Both results are NaN with fewer than two values and when all are equal.
func SpearmanPosition(xs []float64) (rho, p float64) {
	var position, value []float64
	for i, x := range xs {
		if !math.IsNaN(x) {
			position = append(position, float64(i))
			value = append(value, x)
		}
	}
	a, b := ranks(position), ranks(value)
	n := len(a)
	norm := math.Sqrt(squares(a) * squares(b))
	if n < 2 || norm == 0 {
		return math.NaN(), math.NaN()
	}
	observed := covariance(a, b)
	// Ranks are halves, so that sums are exact and only their order of summation could differ: a hair of slack.
	bar := math.Abs(observed) - 1e-9
	if n <= spearmanExact {
		hits, all := 0, 0
		permute(b, func() {
			all++
			if math.Abs(covariance(a, b)) >= bar {
				hits++
			}
		})
		return observed / norm, float64(hits) / float64(all)
	}
	rng := rand.New(rand.NewPCG(spearmanSeed, uint64(n)))
	hits := 0
	for range spearmanPermutations {
		rng.Shuffle(n, func(i, j int) { b[i], b[j] = b[j], b[i] })
		if math.Abs(covariance(a, b)) >= bar {
			hits++
		}
	}
	return observed / norm, float64(hits+1) / (spearmanPermutations + 1)
}

// ranks returns the rank of each value, from 1, ties sharing the mean of theirs, less the mean of all ranks.
func ranks(xs []float64) []float64 {
	r := midranks(xs)
	for i := range r {
		r[i] -= float64(len(xs)+1) / 2
	}
	return r
}

// midranks returns the rank of each value, from 1, ties sharing the mean of theirs. There must be no NaN.
func midranks(xs []float64) []float64 {
	order := make([]int, len(xs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case xs[i] < xs[j]:
			return -1
		case xs[i] > xs[j]:
			return 1
		}
		return 0
	})
	r := make([]float64, len(xs))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && xs[order[to]] == xs[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			r[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return r
}

func squares(xs []float64) float64 { return covariance(xs, xs) }

// covariance of centred values, times n.
func covariance(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// permute calls each with every order of xs in place, and leaves some order behind: Heap, Permutations by
// Interchanges, The Computer Journal 6 (1963).
func permute(xs []float64, each func()) {
	each()
	count := make([]int, len(xs))
	for i := 1; i < len(xs); {
		if count[i] >= i {
			count[i] = 0
			i++
			continue
		}
		if i%2 == 0 {
			xs[0], xs[i] = xs[i], xs[0]
		} else {
			xs[count[i]], xs[i] = xs[i], xs[count[i]]
		}
		each()
		count[i]++
		i = 1
	}
}
