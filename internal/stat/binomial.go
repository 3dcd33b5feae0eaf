package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Share is how many of N had a property, with an exact interval of the true share.
type Share struct {
	K, N      int
	Share     float64 // K / N
	Low, High float64 // 0 to 1
}

// ClopperPearson returns k of n with the exact two-sided interval at level (0 to 1): the shares that neither
// one-sided binomial test at (1-level)/2 rejects. See Clopper and Pearson, The Use of Confidence or Fiducial Limits
// Illustrated in the Case of the Binomial, Biometrika 26 (1934). Its coverage is never below level.
//
// With n = 0 nothing is known: the share is NaN and the interval 0 to 1. A k outside 0 to n, or a level outside 0 to
// 1, gives NaN throughout.
func ClopperPearson(k, n int, level float64) Share {
	nan := math.NaN()
	if n < 0 || k < 0 || k > n || !(level >= 0 && level <= 1) {
		return Share{K: k, N: n, Share: nan, Low: nan, High: nan}
	}
	s := Share{K: k, N: n, Share: nan, Low: 0, High: 1}
	if n == 0 {
		return s
	}
	s.Share = float64(k) / float64(n)
	tail := (1 - level) / 2
	// P(Bin(n, p) >= k) is the regularised incomplete beta function I_p(k, n-k+1), here inverted.
	if k > 0 {
		s.Low = mathext.InvRegIncBeta(float64(k), float64(n-k+1), tail)
	}
	if k < n {
		s.High = mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-tail)
	}
	return s
}

// BinomialCDF returns P(X <= k) for X of n trials that each succeed with probability p. It is NaN for n < 0 and for
// a p outside 0 to 1.
func BinomialCDF(k, n int, p float64) float64 {
	if n < 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	// Abramowitz and Stegun, 26.5.24.
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// BinomialTail returns P(X >= k) for X of n trials that each succeed with probability p: the one-sided binomial
// test. It is NaN for n < 0 and for a p outside 0 to 1.
func BinomialTail(k, n int, p float64) float64 {
	if n < 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	switch {
	case k <= 0:
		return 1
	case k > n:
		return 0
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}
