package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNormalApproximationR: airquality's ozone in May against August has ties, so that R takes the normal approximation:
// W = 127.5, p-value = 0.0001208 (the example of wilcox.test).
func TestNormalApproximationR(t *testing.T) {
	may := []float64{41, 36, 12, 18, 28, 23, 19, 8, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32, 23, 45, 115, 37}
	august := []float64{39, 9, 16, 78, 35, 66, 122, 89, 110, 44, 28, 65, 22, 59, 23, 31, 44, 21, 9, 45, 168, 73, 76, 118, 84, 85}
	exact := MannWhitney(may, august)
	approximate := mannWhitneyNormal(midranks(append(append([]float64{}, may...), august...)), len(may), len(august), exact.Statistic)
	if exact.Statistic != 127.5 || math.Abs(approximate.TwoSided-0.0001208) > 5e-8 {
		t.Errorf("W %v, p %v; want 127.5 and 0.0001208", exact.Statistic, approximate.TwoSided)
	}
	if !exact.Exact || exact.TwoSided >= approximate.TwoSided || math.Abs(exact.TwoSided-approximate.TwoSided) > 1e-4 {
		t.Errorf("exact %v, approximate %v", exact.TwoSided, approximate.TwoSided)
	}
}

// TestNormalApproximationMeetsExact: where the exact distribution ends, the other takes over without a step.
func TestNormalApproximationMeetsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	for round := range 40 {
		ds := make([]float64, exactLimit)
		for i := range ds {
			if ds[i] = rng.NormFloat64() + 0.3; round%2 == 0 {
				ds[i] = math.Round(4*ds[i])/4 + 0.125 // ties, no zeros
			}
		}
		sizes := make([]float64, len(ds))
		for i := range ds {
			sizes[i] = math.Abs(ds[i])
		}
		exact := SignedRank(ds, 0)
		approximate := signedRankNormal(midranks(sizes), exact.Statistic)
		if math.Abs(exact.Less-approximate.Less) > 0.004 || math.Abs(exact.Greater-approximate.Greater) > 0.004 {
			t.Errorf("signed ranks: exact %+v, approximate %+v", exact, approximate)
		}
		a, b := ds[:25], ds[25:]
		exact = MannWhitney(a, b)
		approximate = mannWhitneyNormal(midranks(ds), len(a), len(b), exact.Statistic)
		if math.Abs(exact.Less-approximate.Less) > 0.004 || math.Abs(exact.Greater-approximate.Greater) > 0.004 {
			t.Errorf("rank sums: exact %+v, approximate %+v", exact, approximate)
		}
	}
	for _, n := range []int{51, 55, 62, 200} {
		k, coverage := walshRankNormal(n, 0.95)
		if coverage < 0.95 || coverage > 0.952 {
			t.Errorf("n=%d: rank %d covers %v", n, k, coverage)
		}
		// One above the critical value of the exact test: OEIS A226330 has 453, 536 and 697.
		if want, ok := map[int]int{51: 454, 55: 537, 62: 698}[n]; ok && (k < want-1 || k > want+1) {
			t.Errorf("n=%d: rank %d, the exact one is %d", n, k, want)
		}
	}
}

func TestNormalDistribution(t *testing.T) {
	for z, want := range map[float64]float64{0: 0.5, 1: 0.8413447461, 1.959963985: 0.975, -1.644853627: 0.05, 3: 0.9986501020} {
		if got := normalCDF(z); math.Abs(got-want) > 1e-9 {
			t.Errorf("normalCDF(%v) = %v, want %v", z, got, want)
		}
		if got := normalQuantile(want); math.Abs(got-z) > 1e-6 {
			t.Errorf("normalQuantile(%v) = %v, want %v", want, got, z)
		}
	}
}
