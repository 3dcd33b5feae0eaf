package stat

import "math"

// MannWhitney is the test of whether values of a tend to be greater than those of b, for samples that are not paired.
// The statistic is U: how many of the pairs (one of a, one of b) have a above b, equal ones counting half; Greater is
// small when a tends to lie above b. Mann and Whitney, On a Test of Whether One of Two Random Variables is
// Stochastically Larger than the Other, Annals of Mathematical Statistics 18 (1947).
//
// Up to 50 values on each side the p-values are exact, with ties too: then they are of the permutation distribution of
// the mean ranks. Beyond, they are of the normal approximation with the corrections for ties and continuity
// (Hollander and Wolfe, section 4.1). NaNs are left out; infinities are the largest and smallest there are.
func MannWhitney(a, b []float64) Test {
	a, b = sorted(a), sorted(b)
	na, nb := len(a), len(b)
	ranks := midranks(append(append(make([]float64, 0, na+nb), a...), b...))
	u := -float64(na) * float64(na+1) / 2
	for _, r := range ranks[:na] {
		u += r
	}
	if na == 0 || nb == 0 {
		return newTest(u, na+nb, 1, 1, true)
	}
	if na > exactLimit || nb > exactLimit {
		return mannWhitneyNormal(ranks, na, nb, u)
	}
	if nb < na { // the smaller side is cheaper; its U is the rest of the pairs
		t := mannWhitneyExact(ranks, nb, float64(na*nb)-u)
		return newTest(u, na+nb, t.Greater, t.Less, true)
	}
	return mannWhitneyExact(ranks, na, u)
}

// mannWhitneyExact looks at every way to choose n of the ranks, all as likely.
func mannWhitneyExact(ranks []float64, n int, u float64) Test {
	// Mean ranks are halves: doubled, sums of them are whole.
	at := int(2 * (u + float64(n)*float64(n+1)/2))
	most := 0
	doubled := make([]int, len(ranks))
	for i, r := range ranks {
		doubled[i] = int(2 * r)
		most += doubled[i]
	}
	// ways[k][sum]: choices of k ranks with that sum.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, most+1)
	}
	ways[0][0] = 1
	reached := 0
	for i, w := range doubled {
		reached += w
		for k := min(n, i+1); k >= 1; k-- {
			from, to := ways[k-1], ways[k]
			for sum := reached; sum >= w; sum-- {
				to[sum] += from[sum-w]
			}
		}
	}
	less, greater, all := 0.0, 0.0, 0.0
	for sum, count := range ways[n] {
		all += count
		if sum <= at {
			less += count
		}
		if sum >= at {
			greater += count
		}
	}
	return newTest(u, len(ranks), less/all, greater/all, true)
}

func mannWhitneyNormal(ranks []float64, na, nb int, u float64) Test {
	n := float64(na + nb)
	pairs := float64(na) * float64(nb)
	return normalTest(u, pairs/2, pairs/12*(n+1-tieTerm(ranks)/(n*math.Max(1, n-1))), na+nb)
}
