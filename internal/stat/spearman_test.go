package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

// withSquares returns an order of 1 to n whose squared rank differences from 1, 2, …, n sum to d2, that is with
// rho = 1 - 6 d2 / (n^3 - n).
func withSquares(t *testing.T, n, d2 int) []float64 {
	t.Helper()
	xs := upTo(n)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(d2)))
	for range 2_000_000 {
		sum := 0
		for i, x := range xs {
			d := int(x) - i - 1
			sum += d * d
		}
		if sum == d2 {
			return xs
		}
		if i := rng.IntN(n - 1); sum > d2 && xs[i] > xs[i+1] || sum < d2 && xs[i] < xs[i+1] || rng.IntN(8) == 0 {
			xs[i], xs[i+1] = xs[i+1], xs[i]
		}
	}
	t.Fatalf("no order of %d with %d", n, d2)
	return nil
}

// TestSpearmanTable: one-sided exact probabilities of the tables in Kendall, Rank Correlation Methods, appendix 2
// (and Zar, 1972); the function's p is two-sided, twice as large.
func TestSpearmanTable(t *testing.T) {
	for _, tt := range []struct {
		n, d2    int
		rho      float64
		oneSided float64
	}{
		{4, 0, 1.000, .0417}, {4, 2, 0.800, .1667}, {5, 0, 1.000, .0083}, {5, 2, 0.900, .0417}, {5, 4, 0.800, .0667},
		{6, 4, 0.886, .0167}, {6, 6, 0.829, .0292}, {7, 12, 0.786, .0240}, {7, 16, 0.714, .0440},
		{8, 22, 0.738, .0229}, {8, 30, 0.643, .0481}, {9, 36, 0.700, .0216}, {9, 48, 0.600, .0484},
	} {
		rho, p := stat.SpearmanPosition(withSquares(t, tt.n, tt.d2))
		if !same(rho, tt.rho, 5e-4) || !same(p, 2*tt.oneSided, 1.1e-4) {
			t.Errorf("n=%d, sum of squares %d: rho %.4f, p %.4f; want %.3f, %.4f", tt.n, tt.d2, rho, p, tt.rho, 2*tt.oneSided)
		}
	}
}

// TestSpearmanSampled: beyond n = 9 the orders are sampled. The tables say 0.0245 one-sided for rho = 0.648 at n = 10.
func TestSpearmanSampled(t *testing.T) {
	xs := withSquares(t, 10, 58)
	rho, p := stat.SpearmanPosition(xs)
	if !same(rho, 0.648, 1e-3) || !same(p, 0.049, 0.008) {
		t.Errorf("rho %.4f, p %.4f; want 0.648, about 0.049", rho, p)
	}
	if _, again := stat.SpearmanPosition(xs); again != p {
		t.Errorf("a second call says %v after %v: the seed is not fixed", again, p)
	}
	if _, p := stat.SpearmanPosition(upTo(30)); p != 1.0/10_001 {
		t.Errorf("a strict rise of 30: p %v, want 1/10,001: never 0", p)
	}
}

func TestSpearmanDegenerate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		xs     []float64
		rho, p float64
	}{
		{"none", nil, nan, nan},
		{"one", []float64{1}, nan, nan},
		{"all equal", []float64{3, 3, 3, 3}, nan, nan},
		{"two are always in line", []float64{1, 2}, 1, 1},
		{"falling", []float64{3, 2, 1}, -1, 2.0 / 6},
		{"NaN keeps its place empty", []float64{1, nan, 2, 3}, 1, 2.0 / 6},
		{"only NaN", []float64{nan, nan}, nan, nan},
		{"infinities have ranks", []float64{math.Inf(-1), 0, math.Inf(1)}, 1, 2.0 / 6},
		{"ties: 4 of the 6 orders of 1 1 2 are as far", []float64{1, 1, 2}, math.Sqrt(3) / 2, 4.0 / 6},
	} {
		rho, p := stat.SpearmanPosition(tt.xs)
		if !same(rho, tt.rho, 1e-12) || !same(p, tt.p, 1e-12) {
			t.Errorf("%s: rho %v, p %v; want %v, %v", tt.name, rho, p, tt.rho, tt.p)
		}
	}
}

func TestSpearmanProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		xs := make([]float64, 2+rng.IntN(11))
		for i := range xs {
			xs[i] = float64(rng.IntN(6))
		}
		rho, p := stat.SpearmanPosition(xs)
		backwards := slices.Clone(xs)
		slices.Reverse(backwards)
		if back, _ := stat.SpearmanPosition(backwards); !same(back, -rho, 1e-12) {
			t.Fatalf("%v: rho %v, backwards %v", xs, rho, back)
		}
		rising := slices.Clone(xs)
		for i := range rising {
			rising[i] = math.Exp(rising[i])
		}
		if r, q := stat.SpearmanPosition(rising); !same(r, rho, 1e-12) || !same(q, p, 0) {
			t.Fatalf("%v: only ranks count, but exp changes %v, %v to %v, %v", xs, rho, p, r, q)
		}
		if !math.IsNaN(p) && (p <= 0 || p > 1) {
			t.Fatalf("%v: p %v", xs, p)
		}
	}
}

// TestSpearmanHoldsItsLevel: under no trend, p <= 0.05 in at most 5 % of sequences.
func TestSpearmanHoldsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const rounds = 3000
	hits := 0
	for range rounds {
		xs := make([]float64, 6)
		for i := range xs {
			xs[i] = rng.NormFloat64()
		}
		if _, p := stat.SpearmanPosition(xs); p <= 0.05 {
			hits++
		}
	}
	if share := float64(hits) / rounds; share > 0.05 {
		t.Errorf("p <= 0.05 in %.3f of sequences without a trend", share)
	}
}
