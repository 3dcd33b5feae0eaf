package stat

import (
	"math"
	"slices"
)

// Holm adjusts the p-values of a family of tests, so that rejecting those at most alpha rejects a true hypothesis
// with a probability of at most alpha, however the tests depend on each other. Holm, A Simple Sequentially Rejective
// Multiple Test Procedure, Scandinavian Journal of Statistics 6 (1979). The result is in the order of ps.
//
// A NaN is a test that could not be made: it stays NaN, and counts in the family as one that does not reject.
func Holm(ps []float64) []float64 {
	order := make([]int, 0, len(ps))
	adjusted := make([]float64, len(ps))
	for i, p := range ps {
		if math.IsNaN(p) {
			adjusted[i] = p
		} else {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case ps[i] < ps[j]:
			return -1
		case ps[i] > ps[j]:
			return 1
		}
		return 0
	})
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, float64(len(ps)-rank)*ps[i]))
		adjusted[i] = largest
	}
	return adjusted
}

// FisherExact returns the one-sided p-value of k of n against base of baseN: the probability of at least k among n,
// given how many there are in all, if both sides were alike. It is small when the first side has more than its share.
// Fisher, Statistical Methods for Research Workers, section 21.02 (5th edition, 1934).
//
// It is 1 when either side is empty, and NaN for counts that cannot be.
func FisherExact(k, n, base, baseN int) float64 {
	if k < 0 || base < 0 || k > n || base > baseN {
		return math.NaN()
	}
	// The number on the first side is hypergeometric; log-gammas keep large counts from overflowing.
	choose := func(n, k int) float64 {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		return a - b - c
	}
	marked := k + base
	all := choose(n+baseN, marked)
	p := 0.0
	for i := k; i <= min(n, marked); i++ {
		if marked-i <= baseN {
			p += math.Exp(choose(n, i) + choose(baseN, marked-i) - all)
		}
	}
	if k <= max(0, marked-baseN) { // everything that can be
		return 1
	}
	return min(1, p)
}
