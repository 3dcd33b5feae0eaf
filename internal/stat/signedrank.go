package stat

import (
	"math"
	"slices"
)

// SignedRank is Wilcoxon's signed-rank test of paired differences: does their centre lie at shift? The statistic is
// the sum of the ranks of |d - shift| over the differences above shift; Greater is small when they tend to lie above
// it. Wilcoxon, Individual Comparisons by Ranking Methods, Biometrics Bulletin 1 (1945).
//
// Up to 50 differences the p-values are exact, with ties too: then they are of the permutation distribution of the
// mean ranks, every sign as likely as the other. Beyond, they are of the normal approximation with the corrections for
// ties and continuity (Hollander and Wolfe, Nonparametric Statistical Methods, section 3.1). Differences equal to
// shift say nothing about its side and are left out, as Wilcoxon did; NaNs are too. An infinite difference is the
// largest there is.
func SignedRank(ds []float64, shift float64) Test {
	var sizes []float64
	var above []bool
	for _, d := range ds {
		if x := d - shift; !math.IsNaN(x) && x != 0 {
			sizes = append(sizes, math.Abs(x))
			above = append(above, x > 0)
		}
	}
	ranks := midranks(sizes)
	n := len(ranks)
	w := 0.0
	for i, r := range ranks {
		if above[i] {
			w += r
		}
	}
	if n > exactLimit {
		return signedRankNormal(ranks, w)
	}
	// Mean ranks are halves: doubled, sums of them are whole.
	doubled := make([]int, n)
	for i, r := range ranks {
		doubled[i] = int(2 * r)
	}
	counts := subsetSums(doubled)
	less, greater := 0.0, 0.0
	for sum, count := range counts {
		if sum <= int(2*w) {
			less += count
		}
		if sum >= int(2*w) {
			greater += count
		}
	}
	all := math.Ldexp(1, n)
	return newTest(w, n, less/all, greater/all, true)
}

func signedRankNormal(ranks []float64, w float64) Test {
	n := float64(len(ranks))
	return normalTest(w, n*(n+1)/4, n*(n+1)*(2*n+1)/24-tieTerm(ranks)/48, len(ranks))
}

// subsetSums returns how many of the 2^n subsets of the weights have each sum. The counts are whole and below 2^53 for
// n <= 50, so that they are exact.
func subsetSums(weights []int) []float64 {
	total := 0
	for _, w := range weights {
		total += w
	}
	counts := make([]float64, total+1)
	counts[0] = 1
	reached := 0
	for _, w := range weights {
		reached += w
		for sum := reached; sum >= w; sum-- {
			counts[sum] += counts[sum-w]
		}
	}
	return counts
}

// HodgesLehmann returns the estimate of the centre of paired differences, the median of the averages of all pairs of
// them (each with itself too), and the interval of all shifts that SignedRank does not reject, two-sided, at level (0
// to 1). Hodges and Lehmann, Estimates of Location Based on Rank Tests, Annals of Mathematical Statistics 34 (1963);
// the interval is Tukey's, in Hollander and Wolfe, section 3.3.
//
// The rank that the interval is cut at is exact up to n = 50, and of the normal approximation beyond. The interval
// holds for differences of one symmetric distribution; with ties its coverage is at least what it says. When n is too
// small for the level (n < 6 at 0.95), it is the range, its coverage is what that has, and ok is false. Without
// values everything is NaN. NaNs are left out; the average of opposite infinities is 0.
func HodgesLehmann(ds []float64, level float64) (estimate float64, iv Interval, ok bool) {
	xs := sorted(ds)
	n := len(xs)
	if n == 0 {
		nan := math.NaN()
		return nan, Interval{nan, nan, nan}, false
	}
	walsh := make([]float64, 0, n*(n+1)/2)
	for i, a := range xs {
		for _, b := range xs[i:] {
			average := a/2 + b/2 // a+b can overflow
			if math.IsNaN(average) {
				average = 0
			}
			walsh = append(walsh, average)
		}
	}
	slices.Sort(walsh)
	k, coverage := walshRank(n, level)
	iv = Interval{Low: walsh[k-1], High: walsh[len(walsh)-k], Coverage: coverage}
	return quantileSorted(walsh, 50), iv, coverage >= level
}

// walshRank returns the largest k for which the k-th smallest and k-th largest average hold the centre with a
// probability of at least level, 1 if there is none, and that probability: 1 - 2 P(W < k).
func walshRank(n int, level float64) (k int, coverage float64) {
	if n > exactLimit {
		return walshRankNormal(n, level)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	counts := subsetSums(ranks)
	all := math.Ldexp(1, n)
	below := counts[0] // subsets with W < k
	for k = 1; 2*(k+1) <= len(counts) && 1-2*(below+counts[k])/all >= level; k++ {
		below += counts[k]
	}
	return k, max(0, 1-2*below/all)
}

func walshRankNormal(n int, level float64) (k int, coverage float64) {
	mean := float64(n) * float64(n+1) / 4
	sd := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
	covers := func(k int) float64 { return 1 - 2*normalCDF((float64(k)-0.5-mean)/sd) }
	k = max(1, int(min(mean, mean+0.5+sd*normalQuantile((1-level)/2)))+1)
	for k > 1 && covers(k) < level {
		k--
	}
	return k, max(0, covers(k))
}
