package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// StandardDeviation returns the sample standard deviation, with n - 1. It is NaN for fewer than two values; NaNs are left
// out.
func StandardDeviation(xs []float64) float64 {
	s := sorted(xs)
	if len(s) < 2 {
		return math.NaN()
	}
	mean := 0.0
	for i, x := range s {
		mean += (x - mean) / float64(i+1) // a sum could overflow
	}
	squares := 0.0
	for _, x := range s {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares / float64(len(s)-1))
}

// DetectableShift returns how far the centre of n paired differences with this standard deviation has to lie above a
// shift for SignedRank's Greater to be at most alpha with the given power (both 0 to 1). For normal differences the
// signed-rank test is worth 3/pi of the t-test (Lehmann, Nonparametrics, section 4.3), whose shift is about
//
//	(t + z(power) sqrt(1 + t^2 / (2 (n-1)))) sd / sqrt(n), t = t(1-alpha; n-1)
//
// by the normal approximation of the noncentral t (Abramowitz and Stegun, 26.7.10). Within a tenth of what simulation
// gives from n = 8 on. It is +Inf where no n differences can reject, since 2^-n is above alpha, and NaN for n < 2 and for
// numbers that cannot be.
func DetectableShift(n int, sd, alpha, power float64) float64 {
	if n < 2 || !(sd >= 0) || !(alpha > 0 && alpha < 1) || !(power > 0 && power < 1) {
		return math.NaN()
	}
	if math.Ldexp(1, -n) > alpha {
		return math.Inf(1)
	}
	df := float64(n - 1)
	t := studentQuantile(1-alpha, df)
	return max(0, (t+normalQuantile(power)*math.Sqrt(1+t*t/(2*df)))*sd/math.Sqrt(3/math.Pi*float64(n)))
}

// studentQuantile is the inverse of Student's distribution function. See Abramowitz and Stegun, 26.7.1: the incomplete
// beta function is the two-sided tail.
func studentQuantile(p, df float64) float64 {
	if p < 0.5 {
		return -studentQuantile(1-p, df)
	}
	x := mathext.InvRegIncBeta(df/2, 0.5, 2*(1-p))
	return math.Sqrt(df * (1/x - 1))
}
