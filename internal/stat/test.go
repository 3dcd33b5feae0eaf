package stat

import "math"

// Test is the outcome of a rank test. Without anything to compare, the p-values are 1: nothing speaks against
// anything.
type Test struct {
	Statistic     float64
	N             int     // values that took part
	Less, Greater float64 // one-sided p-values: of what would be if the truth lay lower, or higher
	TwoSided      float64
	Exact         bool // the p-values are of the exact distribution, else of the normal approximation
}

// exactLimit is the largest sample whose exact distribution is used: beyond it the normal approximation is good to
// the third digit.
const exactLimit = 50

func newTest(statistic float64, n int, less, greater float64, exact bool) Test {
	return Test{Statistic: statistic, N: n, Less: less, Greater: greater, TwoSided: min(1, 2*min(less, greater)), Exact: exact}
}

// normalTest returns the p-values of a statistic that is about normal and moves in steps, with the correction for
// continuity: half a step of 1.
func normalTest(statistic, mean, variance float64, n int) Test {
	if !(variance > 0) { // every value is the same
		return newTest(statistic, n, 1, 1, false)
	}
	sd := math.Sqrt(variance)
	return newTest(statistic, n, normalCDF((statistic-mean+0.5)/sd), normalCDF((mean-statistic+0.5)/sd), false)
}

// normalCDF is the standard normal distribution function.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// normalQuantile is its inverse.
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// tieTerm is the sum of t^3 - t over groups of t equal values, given their midranks in any order.
func tieTerm(ranks []float64) float64 {
	groups := map[float64]float64{}
	for _, r := range ranks {
		groups[r]++
	}
	sum := 0.0
	for _, t := range groups {
		sum += t*t*t - t
	}
	return sum
}
