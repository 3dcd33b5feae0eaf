package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

func TestHolm(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ps, want []float64
	}{
		{"none", nil, []float64{}},
		{"one is its own", []float64{0.04}, []float64{0.04}},
		// R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm").
		{"R", []float64{0.01, 0.02, 0.03, 0.04, 0.05}, []float64{0.05, 0.08, 0.09, 0.09, 0.09}},
		// Wikipedia, Holm-Bonferroni method: of 0.01, 0.04, 0.03, 0.005 the first and last are rejected at 0.05.
		{"unsorted", []float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{"capped", []float64{0.9, 0.8, 0.7}, []float64{1, 1, 1}},
		{"ties", []float64{0.01, 0.01}, []float64{0.02, 0.02}},
		{"zeros", []float64{0, 0.5}, []float64{0, 0.5}},
		{"a NaN counts in the family", []float64{0.01, nan}, []float64{0.02, nan}},
		{"only NaN", []float64{nan}, []float64{nan}},
	} {
		got := stat.Holm(tt.ps)
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return same(a, b, 1e-12) }) {
			t.Errorf("%s: Holm(%v) = %v, want %v", tt.name, tt.ps, got, tt.want)
		}
	}
}

// TestHolmHoldsItsLevel: with 20 tests of nothing, some rejection at 5 % in at most 5 % of families, where uncorrected
// ones have it in 64 %.
func TestHolmHoldsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	const rounds = 4000
	plain, held := 0, 0
	for range rounds {
		ps := make([]float64, 20)
		for i := range ps {
			ps[i] = rng.Float64()
		}
		if slices.Min(ps) <= 0.05 {
			plain++
		}
		if slices.Min(stat.Holm(ps)) <= 0.05 {
			held++
		}
	}
	if share := float64(held) / rounds; share > 0.05+3*math.Sqrt(0.05*0.95/rounds) {
		t.Errorf("some rejection in %.4f of families", share)
	}
	if share := float64(plain) / rounds; math.Abs(share-0.6415) > 0.03 {
		t.Errorf("uncorrected: %.4f, want 0.64: the simulation is not what it says", share)
	}
}

func TestFisherExact(t *testing.T) {
	for _, tt := range []struct {
		name              string
		k, n, base, baseN int
		want              float64
		tolerance         float64
	}{
		{"the lady tasting tea, R's TeaTasting: 0.2429", 3, 4, 1, 4, 17.0 / 70, 1e-12},
		{"all eight cups: 1 in 70", 4, 4, 0, 4, 1.0 / 70, 1e-12},
		// R's Convictions example, alternative = "less" of the transposed sides: p-value = 0.0004652.
		{"convictions of twins", 10, 13, 2, 17, 0.0004652, 5e-8},
		{"nothing marked", 0, 10, 0, 10, 1, 0},
		{"everything marked", 10, 10, 10, 10, 1, 0},
		{"none of mine", 0, 10, 5, 10, 1, 0},
		{"an empty side", 0, 0, 3, 5, 1, 0},
		{"nothing at all", 0, 0, 0, 0, 1, 0},
		{"more than all", 3, 2, 0, 5, nan, 0},
		{"negative", -1, 2, 0, 5, nan, 0},
		{"base more than all", 1, 2, 6, 5, nan, 0},
		{"base negative", 1, 2, -1, 5, nan, 0},
		// 30 % of 30 slow against none: what a gate's last look sees.
		{"a new slow mode", 9, 30, 0, 30, hypergeometric(9, 30, 30, 9), 1e-12},
	} {
		if got := stat.FisherExact(tt.k, tt.n, tt.base, tt.baseN); !same(got, tt.want, tt.tolerance) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// hypergeometric is the chance that all of the marked are among the first n, by multiplication.
func hypergeometric(k, n, other, marked int) float64 {
	p := 1.0
	for i := range marked {
		p *= float64(n-i) / float64(n+other-i)
	}
	if k != marked {
		panic("only for all of them")
	}
	return p
}

// TestFisherExactSums: the two one-sided tails overlap in what was seen, and large counts do not overflow.
func TestFisherExactSums(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for m := 1; m <= 12; m++ {
			for k := 0; k <= n; k++ {
				for b := 0; b <= m; b++ {
					more, fewer := stat.FisherExact(k, n, b, m), stat.FisherExact(n-k, n, m-b, m)
					if more < 0 || more > 1 || more+fewer < 1-1e-9 {
						t.Fatalf("%d of %d against %d of %d: %v and %v", k, n, b, m, more, fewer)
					}
					if k < n && b > 0 { // one more of the same margin is less likely
						if next := stat.FisherExact(k+1, n, b-1, m); next > more+1e-12 {
							t.Fatalf("%d of %d against %d of %d: %v, one more %v", k, n, b, m, more, next)
						}
					}
				}
			}
		}
	}
	if p := stat.FisherExact(50_000, 100_000, 50_000, 100_000); !same(p, 0.5, 0.01) {
		t.Errorf("large and equal: %v, want about 0.5", p)
	}
}
