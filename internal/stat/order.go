package stat

import (
	"math"
	"slices"
)

// Interval is a confidence interval. With nothing to estimate from, all three are NaN.
type Interval struct {
	Low, High float64
	Coverage  float64 // how often such an interval holds the truth, 0 to 1: what it really has, not what was asked for
}

// sorted returns the numbers of xs in ascending order, without the NaNs; xs is left as it is.
func sorted(xs []float64) []float64 {
	s := make([]float64, 0, len(xs))
	for _, x := range xs {
		if !math.IsNaN(x) {
			s = append(s, x)
		}
	}
	slices.Sort(s)
	return s
}

// Median returns the middle value, or the mean of the two middle ones; NaN for none.
func Median(xs []float64) float64 { return Quantile(xs, 50) }

// Quantile returns the p-th percentile, p from 0 to 100, interpolated between the two nearest order statistics:
// definition 7 of Hyndman and Fan, Sample Quantiles in Statistical Packages, The American Statistician 50 (1996),
// which is the default of R and NumPy. It is NaN for no values and for a p outside 0 to 100.
func Quantile(xs []float64, p float64) float64 { return quantileSorted(sorted(xs), p) }

func quantileSorted(s []float64, p float64) float64 {
	if len(s) == 0 || !(p >= 0 && p <= 100) {
		return math.NaN()
	}
	at := p / 100 * float64(len(s)-1)
	i := int(at)
	if part := at - float64(i); part > 0 {
		// Between two equal values lies that value, infinite ones included.
		if s[i] == s[i+1] {
			return s[i]
		}
		return s[i]*(1-part) + s[i+1]*part
	}
	return s[i]
}

// Spread returns the 90th percentile over the 10th, 1 when all values are equal. It is NaN with fewer than two
// values, and where the 10th percentile is not above 0, since a ratio to nothing says nothing.
func Spread(xs []float64) float64 {
	s := sorted(xs)
	low := quantileSorted(s, 10)
	if len(s) < 2 || !(low > 0) {
		return math.NaN()
	}
	return quantileSorted(s, 90) / low
}

// MedianInterval returns the median and a two-sided confidence interval of the median of what was sampled, free of
// any assumption about the distribution: from the k-th smallest to the k-th largest value, with the largest k whose
// exact coverage, 1 - 2 P(Bin(n, 1/2) < k), is at least level (0 to 1). See David and Nagaraja, Order Statistics,
// 3rd edition, section 7.1; it is the inverted sign test.
//
// When n is too small for the level (n < 6 at 0.95), the interval is the range, its coverage is what the range has,
// and ok is false. Without values everything is NaN.
func MedianInterval(xs []float64, level float64) (median float64, iv Interval, ok bool) {
	s := sorted(xs)
	n := len(s)
	if n == 0 {
		nan := math.NaN()
		return nan, Interval{nan, nan, nan}, false
	}
	coverage := func(k int) float64 { return max(0, 1-2*BinomialCDF(k-1, n, 0.5)) }
	k := 1
	for 2*(k+1) <= n && coverage(k+1) >= level {
		k++
	}
	iv = Interval{Low: s[k-1], High: s[n-k], Coverage: coverage(k)}
	return quantileSorted(s, 50), iv, iv.Coverage >= level
}
