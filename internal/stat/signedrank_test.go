package stat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

// withRankSum returns differences of ranks 1 to n of which those above 0 have the sum w.
func withRankSum(n, w int) []float64 {
	ds := make([]float64, n)
	for rank := n; rank >= 1; rank-- {
		ds[rank-1] = -float64(rank)
		if rank <= w {
			ds[rank-1] = float64(rank)
			w -= rank
		}
	}
	return ds
}

// signedRank025 are the critical values at 2.5 % one-sided, n = 6 to 62: OEIS A226330, after Mitic, Critical Values for
// the Wilcoxon Signed Rank Statistic, The Mathematica Journal 6 (1996).
var signedRank025 = []int{
	0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89, 98, 107, 116, 126, 137, 147, 159, 170, 182,
	195, 208, 221, 235, 249, 264, 279, 294, 310, 327, 343, 361, 378, 396, 415, 434, 453, 473, 494, 514, 536, 557, 579, 602,
	625, 648, 672, 697,
}

func TestSignedRankTable(t *testing.T) {
	for i, critical := range signedRank025 {
		n := 6 + i
		at, over := stat.SignedRank(withRankSum(n, critical), 0), stat.SignedRank(withRankSum(n, critical+1), 0)
		if at.Statistic != float64(critical) || at.Exact != (n <= 50) {
			t.Fatalf("n=%d: %+v, want the statistic %d", n, at, critical)
		}
		if n <= 50 && (at.Less > 0.025 || over.Less <= 0.025) {
			t.Errorf("n=%d: p %v at the critical value %d, %v above it", n, at.Less, critical, over.Less)
		}
		if !same(at.Less, 0.025, 0.0045) && n > 10 {
			t.Errorf("n=%d: p %v at the critical value, want nearly 0.025", n, at.Less)
		}
	}
	// Critical values at 5 % one-sided: the tables of the University of York.
	for n, critical := range map[int]int{6: 2, 7: 3, 8: 5, 9: 8, 10: 10, 11: 13, 12: 17, 13: 21, 14: 25, 15: 30, 16: 35, 18: 47, 20: 60, 25: 100} {
		at, over := stat.SignedRank(withRankSum(n, critical), 0), stat.SignedRank(withRankSum(n, critical+1), 0)
		if at.Less > 0.05 || over.Less <= 0.05 {
			t.Errorf("n=%d: p %v at %d, %v above it: 5 %% lies elsewhere", n, at.Less, critical, over.Less)
		}
	}
}

// depression: Hollander and Wolfe, Nonparametric Statistical Methods (1973), page 29; R's example for wilcox.test.
var (
	depressionX = []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	depressionY = []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
)

func differences(a, b []float64) []float64 {
	ds := make([]float64, len(a))
	for i := range a {
		ds[i] = a[i] - b[i]
	}
	return ds
}

// TestSignedRankR: what R prints.
func TestSignedRankR(t *testing.T) {
	got := stat.SignedRank(differences(depressionX, depressionY), 0)
	if got.Statistic != 40 || !same(got.Greater, 0.01953, 5e-6) || !same(got.TwoSided, 0.03906, 5e-6) || !got.Exact || got.N != 9 {
		t.Errorf("depression: %+v, want V = 40, p = 0.01953", got)
	}
	if got := stat.SignedRank(depressionX, 1.6); got.Statistic != 29 || !same(got.TwoSided, 0.4961, 5e-5) {
		t.Errorf("x at 1.6: %+v, want V = 29, p = 0.4961", got)
	}
	if got := stat.SignedRank(depressionX, 3); got.Statistic != 1 || !same(got.Greater, 0.998, 5e-4) {
		t.Errorf("x at 3: %+v, want V = 1, p = 0.998", got)
	}
}

// TestSignedRankEnumerated: every sign of a few differences, by hand, with ties.
func TestSignedRankEnumerated(t *testing.T) {
	for _, sizes := range [][]float64{{1}, {1, 2, 3}, {1, 1, 1}, {1, 2, 2, 5}, {3, 3, 4, 4, 4, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12}} {
		var sums []float64
		for signs := range 1 << len(sizes) {
			sums = append(sums, stat.SignedRank(signed(sizes, signs), 0).Statistic)
		}
		for signs := range 1 << len(sizes) {
			got := stat.SignedRank(signed(sizes, signs), 0)
			less, greater := 0, 0
			for _, s := range sums {
				if s <= got.Statistic {
					less++
				}
				if s >= got.Statistic {
					greater++
				}
			}
			all := float64(len(sums))
			if got.Less != float64(less)/all || got.Greater != float64(greater)/all || !got.Exact {
				t.Fatalf("%v, signs %b: %+v, want %d and %d of %v", sizes, signs, got, less, greater, all)
			}
		}
	}
}

func signed(sizes []float64, signs int) []float64 {
	ds := slices.Clone(sizes)
	for i := range ds {
		if signs>>i&1 == 0 {
			ds[i] = -ds[i]
		}
	}
	return ds
}

func TestSignedRankDegenerate(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name          string
		ds            []float64
		n             int
		less, greater float64
	}{
		{"none", nil, 0, 1, 1},
		{"only zeros", []float64{0, 0, 0}, 0, 1, 1},
		{"only NaN", []float64{nan}, 0, 1, 1},
		{"one", []float64{5}, 1, 1, 0.5},
		{"zeros and NaN take no part", []float64{0, nan, 5}, 1, 1, 0.5},
		{"five the same: the smallest p there is, 2^-5", []float64{5, 5, 5, 5, 5}, 5, 1, 1.0 / 32},
		{"an infinite one is the largest", []float64{-inf, 1, 2}, 3, 5.0 / 8, 5.0 / 8},
	} {
		got := stat.SignedRank(tt.ds, 0)
		if got.N != tt.n || !same(got.Less, tt.less, 1e-12) || !same(got.Greater, tt.greater, 1e-12) || !got.Exact {
			t.Errorf("%s: %+v, want n %d, less %v, greater %v", tt.name, got, tt.n, tt.less, tt.greater)
		}
	}
	many := make([]float64, 60)
	for i := range many {
		many[i] = 2
	}
	if got := stat.SignedRank(many, 0); got.Exact || got.Greater > 1e-10 || got.Less < 0.999 {
		t.Errorf("sixty the same: %+v", got)
	}
}

func TestSignedRankProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		ds := make([]float64, 1+rng.IntN(70))
		for i := range ds {
			ds[i] = float64(rng.IntN(21)-8) / 4 // ties and zeros
		}
		got := stat.SignedRank(ds, 0.25)
		negative, scaled, shuffled, shifted := make([]float64, len(ds)), make([]float64, len(ds)), slices.Clone(ds), make([]float64, len(ds))
		for i, d := range ds {
			negative[i], scaled[i], shifted[i] = -d, 8*d, d+16
		}
		rng.Shuffle(len(ds), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if back := stat.SignedRank(negative, -0.25); !same(back.Less, got.Greater, 1e-12) || !same(back.Greater, got.Less, 1e-12) || !same(back.TwoSided, got.TwoSided, 1e-12) {
			t.Fatalf("%v: %+v, with the arms exchanged %+v", ds, got, back)
		}
		for what, other := range map[string]stat.Test{
			"in another unit": stat.SignedRank(scaled, 2), "in another order": stat.SignedRank(shuffled, 0.25), "elsewhere": stat.SignedRank(shifted, 16.25),
		} {
			if other != got {
				t.Fatalf("%v: %+v, %s %+v", ds, got, what, other)
			}
		}
	}
}

// TestSignedRankHoldsItsLevel: under the null, p <= 0.05 in at most 5 % of samples; with ties as well.
func TestSignedRankHoldsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	const rounds = 2000
	for _, n := range []int{6, 20, 60} {
		for name, draw := range map[string]func() float64{"normal": rng.NormFloat64, "coarse": func() float64 { return math.Round(2 * rng.NormFloat64()) }} {
			hits := 0
			for range rounds {
				ds := make([]float64, n)
				for i := range ds {
					ds[i] = draw()
				}
				if stat.SignedRank(ds, 0).Greater <= 0.05 {
					hits++
				}
			}
			if share := float64(hits) / rounds; share > 0.05+3*math.Sqrt(0.05*0.95/rounds) || share < 0.02 && n > 6 {
				t.Errorf("n=%d, %s: p <= 0.05 in %.4f of samples of nothing", n, name, share)
			}
		}
	}
}

// TestHodgesLehmannR: Hollander and Wolfe's example goes on with the estimate -0.46; R's wilcox.test(y - x, conf.int)
// gives the interval, whose exact level is 96.1 %.
func TestHodgesLehmannR(t *testing.T) {
	estimate, iv, ok := stat.HodgesLehmann(differences(depressionY, depressionX), 0.95)
	if !same(estimate, -0.46, 1e-9) || !same(iv.Low, -0.786, 1e-9) || !same(iv.High, -0.010, 1e-9) || !same(iv.Coverage, 1-20.0/512, 1e-12) || !ok {
		t.Errorf("%v [%v, %v] at %v, want -0.46 [-0.786, -0.010] at 0.961", estimate, iv.Low, iv.High, iv.Coverage)
	}
}

// TestHodgesLehmannRanks: with the differences 2^0, 2^1, … every average has its own place, and the interval is cut one
// above the critical value of the test.
func TestHodgesLehmannRanks(t *testing.T) {
	for i, critical := range signedRank025[:45] {
		n := 6 + i
		ds := make([]float64, n)
		for j := range ds {
			ds[j] = math.Ldexp(1, j)
		}
		var averages []float64
		for a := range ds {
			for b := a; b < n; b++ {
				averages = append(averages, (ds[a]+ds[b])/2)
			}
		}
		slices.Sort(averages)
		_, iv, ok := stat.HodgesLehmann(ds, 0.95)
		if iv.Low != averages[critical] || iv.High != averages[len(averages)-1-critical] || !ok {
			t.Errorf("n=%d: [%v, %v], want the averages %d from either end", n, iv.Low, iv.High, critical+1)
		}
	}
}

// TestHodgesLehmannInvertsTheTest: shifts inside the interval are not rejected, those outside are.
func TestHodgesLehmannInvertsTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 200 {
		ds := make([]float64, 6+rng.IntN(40))
		for i := range ds {
			ds[i] = 0.1 + 0.05*rng.NormFloat64()
		}
		estimate, iv, _ := stat.HodgesLehmann(ds, 0.95)
		const hair = 1e-9
		if estimate < iv.Low || estimate > iv.High {
			t.Fatalf("estimate %v outside [%v, %v]", estimate, iv.Low, iv.High)
		}
		for _, tt := range []struct {
			shift    float64
			rejected bool
		}{{iv.Low - hair, true}, {iv.Low + hair, false}, {estimate, false}, {iv.High - hair, false}, {iv.High + hair, true}} {
			if p := stat.SignedRank(ds, tt.shift).TwoSided; (p <= 0.05) != tt.rejected {
				t.Fatalf("n=%d [%v, %v]: at %v p is %v, rejected should be %v", len(ds), iv.Low, iv.High, tt.shift, p, tt.rejected)
			}
		}
	}
}

func TestHodgesLehmannDegenerate(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name                     string
		ds                       []float64
		estimate, low, high, cov float64
		ok                       bool
	}{
		{"none", nil, nan, nan, nan, nan, false},
		{"only NaN", []float64{nan, nan}, nan, nan, nan, nan, false},
		{"one", []float64{3}, 3, 3, 3, 0, false},
		{"two", []float64{1, 3}, 2, 1, 3, 0.5, false},
		{"five: the range, 93.75 %", []float64{1, 2, 3, 4, 5}, 3, 1, 5, 0.9375, false},
		{"all equal", []float64{2, 2, 2, 2, 2, 2}, 2, 2, 2, 0.96875, true},
		{"zeros are values", []float64{0, 0, 0, 0, 0, 0}, 0, 0, 0, 0.96875, true},
		{"opposite infinities", []float64{-inf, 0, inf}, 0, -inf, inf, 0.75, false},
		{"huge ones do not overflow", []float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, 0.5, false},
	} {
		estimate, iv, ok := stat.HodgesLehmann(tt.ds, 0.95)
		if !same(estimate, tt.estimate, 0) || !same(iv.Low, tt.low, 0) || !same(iv.High, tt.high, 0) || !same(iv.Coverage, tt.cov, 1e-12) || ok != tt.ok {
			t.Errorf("%s: %v [%v, %v] at %v, %v", tt.name, estimate, iv.Low, iv.High, iv.Coverage, ok)
		}
	}
}

func TestHodgesLehmannProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for range 100 {
		ds := make([]float64, 1+rng.IntN(70))
		for i := range ds {
			ds[i] = rng.NormFloat64()
		}
		estimate, iv, ok := stat.HodgesLehmann(ds, 0.95)
		negative, scaled, shuffled := make([]float64, len(ds)), make([]float64, len(ds)), slices.Clone(ds)
		for i, d := range ds {
			negative[i], scaled[i] = -d, 8*d
		}
		rng.Shuffle(len(ds), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if e, v, o := stat.HodgesLehmann(negative, 0.95); e != -estimate || v.Low != -iv.High || v.High != -iv.Low || v.Coverage != iv.Coverage || o != ok {
			t.Fatalf("exchanged arms: %v %v, want %v %v with the other sign", e, v, estimate, iv)
		}
		if e, v, _ := stat.HodgesLehmann(scaled, 0.95); e != 8*estimate || v.Low != 8*iv.Low || v.High != 8*iv.High {
			t.Fatal("does not scale")
		}
		if e, v, _ := stat.HodgesLehmann(shuffled, 0.95); fmt.Sprint(e, v) != fmt.Sprint(estimate, iv) {
			t.Fatal("the order matters")
		}
	}
}

// TestHodgesLehmannCovers: at least as often as it says, for symmetric differences.
func TestHodgesLehmannCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	const rounds = 1000
	for _, n := range []int{6, 20, 60} {
		held, coverage := 0, 0.0
		for range rounds {
			ds := make([]float64, n)
			for i := range ds {
				ds[i] = rng.NormFloat64()
			}
			_, iv, _ := stat.HodgesLehmann(ds, 0.95)
			coverage = iv.Coverage
			if iv.Low <= 0 && 0 <= iv.High {
				held++
			}
		}
		if share := float64(held) / rounds; math.Abs(share-coverage) > 4*math.Sqrt(coverage*(1-coverage)/rounds) {
			t.Errorf("n=%d: held 0 in %.4f of %d, says %.4f", n, share, rounds, coverage)
		}
	}
}
