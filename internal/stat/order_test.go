package stat_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

var nan = math.NaN()

// same reports whether two numbers are equal to within tolerance, NaN being NaN.
func same(got, want, tolerance float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) == math.IsNaN(got)
	}
	return got == want || math.Abs(got-want) <= tolerance
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name string
		xs   []float64
		want float64
	}{
		{"none", nil, nan},
		{"only NaN", []float64{nan, nan}, nan},
		{"one", []float64{7}, 7},
		{"two", []float64{1, 4}, 2.5},
		{"odd, unsorted", []float64{9, 1, 5}, 5},
		{"a NaN is no value", []float64{nan, 1, 3}, 2},
		{"zeros", []float64{0, 0, 0}, 0},
		{"infinities", []float64{math.Inf(1), math.Inf(1), 1}, math.Inf(1)},
		{"two infinities", []float64{math.Inf(1), math.Inf(1)}, math.Inf(1)},
	} {
		if got := stat.Median(tt.xs); !same(got, tt.want, 0) {
			t.Errorf("%s: Median(%v) = %v, want %v", tt.name, tt.xs, got, tt.want)
		}
	}
}

// TestQuantile: the figures are R's quantile(c(1,2,4,7,11), p, type=7), which NumPy's default agrees with.
func TestQuantile(t *testing.T) {
	xs := []float64{11, 1, 7, 2, 4}
	for _, tt := range []struct{ p, want float64 }{
		{0, 1}, {10, 1.4}, {25, 2}, {50, 4}, {62.5, 5.5}, {75, 7}, {90, 9.4}, {100, 11},
		{-1, nan}, {101, nan}, {nan, nan},
	} {
		if got := stat.Quantile(xs, tt.p); !same(got, tt.want, 1e-12) {
			t.Errorf("Quantile(%v, %v) = %v, want %v", xs, tt.p, got, tt.want)
		}
	}
	if !slices.Equal(xs, []float64{11, 1, 7, 2, 4}) {
		t.Errorf("the caller's values were sorted: %v", xs)
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name string
		xs   []float64
		want float64
	}{
		{"none", nil, nan},
		{"one", []float64{5}, nan},
		{"equal", []float64{5, 5, 5}, 1},
		{"zeros", []float64{0, 0}, nan},
		{"reaches zero", []float64{0, 0, 5, 5}, nan},
		{"a hundred and one values", upTo(101), 91.0 / 11},
		{"NaN left out", []float64{nan, 1, 2}, 1.9 / 1.1},
	} {
		if got := stat.Spread(tt.xs); !same(got, tt.want, 1e-12) {
			t.Errorf("%s: Spread = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// upTo returns 1, 2, …, n.
func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	return xs
}

// TestMedianIntervalTable: ranks of the interval at 95 % and its coverage, as tabulated for the sign test (Gibbons and
// Chakraborti, Nonparametric Statistical Inference; the same ranks stand in Hollander and Wolfe).
func TestMedianIntervalTable(t *testing.T) {
	for _, tt := range []struct {
		n, rank  int
		coverage float64
	}{
		{6, 1, .9688}, {7, 1, .9844}, {8, 1, .9922}, {9, 2, .9609}, {10, 2, .9785}, {11, 2, .9883}, {12, 3, .9614},
		{13, 3, .9775}, {14, 3, .9871}, {15, 4, .9648}, {16, 4, .9787}, {17, 5, .9510}, {18, 5, .9691}, {19, 5, .9808},
		{20, 6, .9586}, {25, 8, .9567}, {30, 10, .9572}, {50, 18, .9672},
	} {
		median, iv, ok := stat.MedianInterval(upTo(tt.n), 0.95)
		if want := float64(tt.n+1) / 2; median != want {
			t.Errorf("n=%d: median %v, want %v", tt.n, median, want)
		}
		if !ok || iv.Low != float64(tt.rank) || iv.High != float64(tt.n+1-tt.rank) || !same(iv.Coverage, tt.coverage, 5e-5) {
			t.Errorf("n=%d: %v to %v with %.4f (%v), want %d to %d with %.4f", tt.n, iv.Low, iv.High, iv.Coverage, ok, tt.rank, tt.n+1-tt.rank, tt.coverage)
		}
	}
}

func TestMedianIntervalSmall(t *testing.T) {
	for _, tt := range []struct {
		name     string
		xs       []float64
		median   float64
		low, hi  float64
		coverage float64
		ok       bool
	}{
		{"none", nil, nan, nan, nan, nan, false},
		{"only NaN", []float64{nan}, nan, nan, nan, nan, false},
		{"one holds nothing between", []float64{3}, 3, 3, 3, 0, false},
		{"two", []float64{3, 5}, 4, 3, 5, 0.5, false},
		{"five: the range, 93.75 %", []float64{5, 1, 4, 2, 3}, 3, 1, 5, 0.9375, false},
		{"all equal", []float64{2, 2, 2, 2, 2, 2}, 2, 2, 2, 0.96875, true},
		{"zeros are values", []float64{0, 0, 0, 1, 1, 1}, 0.5, 0, 1, 0.96875, true},
	} {
		median, iv, ok := stat.MedianInterval(tt.xs, 0.95)
		if !same(median, tt.median, 0) || !same(iv.Low, tt.low, 0) || !same(iv.High, tt.hi, 0) || !same(iv.Coverage, tt.coverage, 1e-12) || ok != tt.ok {
			t.Errorf("%s: %v [%v, %v] covers %v, %v; want %v [%v, %v] covers %v, %v", tt.name, median, iv.Low, iv.High, iv.Coverage, ok, tt.median, tt.low, tt.hi, tt.coverage, tt.ok)
		}
	}
}

// TestMedianIntervalIsTheWidestNeeded: one rank further in would cover less than the level, by integer arithmetic.
func TestMedianIntervalIsTheWidestNeeded(t *testing.T) {
	outside := func(k, n int) float64 { // 2 P(Bin(n, 1/2) < k)
		sum := new(big.Int)
		for i := range k {
			sum.Add(sum, new(big.Int).Binomial(int64(n), int64(i)))
		}
		share, _ := new(big.Rat).SetFrac(sum.Lsh(sum, 1), new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
		return share
	}
	for _, level := range []float64{0.5, 0.9, 0.95, 0.99} {
		for n := 1; n <= 120; n++ {
			_, iv, ok := stat.MedianInterval(upTo(n), level)
			k := int(iv.Low)
			if want := 1 - outside(k, n); !same(iv.Coverage, max(0, want), 1e-9) {
				t.Fatalf("level %v, n=%d, rank %d: coverage %v, want %v", level, n, k, iv.Coverage, want)
			}
			if ok != (iv.Coverage >= level) || !ok && k != 1 {
				t.Errorf("level %v, n=%d: ok %v with rank %d and coverage %v", level, n, ok, k, iv.Coverage)
			}
			if 2*(k+1) <= n && 1-outside(k+1, n) >= level+1e-9 {
				t.Errorf("level %v, n=%d: rank %d is enough, got %d", level, n, k+1, k)
			}
		}
	}
}

// TestMedianIntervalCovers simulates: the interval holds the true median at least as often as it says, whatever the
// distribution.
func TestMedianIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"normal":      rng.NormFloat64,
		"exponential": func() float64 { return rng.ExpFloat64() - math.Ln2 },
		"two modes":   func() float64 { return rng.Float64() - 0.5 + 100*math.Copysign(1, rng.Float64()-0.5) },
	} {
		for _, n := range []int{5, 10, 25} {
			const rounds = 4000
			held, coverage := 0, 0.0
			for range rounds {
				xs := make([]float64, n)
				for i := range xs {
					xs[i] = draw()
				}
				_, iv, _ := stat.MedianInterval(xs, 0.95)
				coverage = iv.Coverage
				if iv.Low <= 0 && 0 <= iv.High {
					held++
				}
			}
			sd := math.Sqrt(coverage * (1 - coverage) / rounds)
			if got := float64(held) / rounds; math.Abs(got-coverage) > 4*sd {
				t.Errorf("%s, n=%d: held the median in %.4f of %d, says %.4f", name, n, got, rounds, coverage)
			}
		}
	}
}

func TestOrderProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		xs := make([]float64, 1+rng.IntN(40))
		for i := range xs {
			xs[i] = math.Exp(rng.NormFloat64())
		}
		shuffled, scaled := slices.Clone(xs), slices.Clone(xs)
		rng.Shuffle(len(xs), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range scaled {
			scaled[i] *= 8 // exact
		}
		of := func(xs []float64) string {
			m, iv, ok := stat.MedianInterval(xs, 0.95)
			return fmt.Sprint(m, iv, ok, stat.Spread(xs), stat.SlowModes(xs))
		}
		if a, b := of(xs), of(shuffled); a != b {
			t.Fatalf("round %d: the order matters: %s, %s", round, a, b)
		}
		m, iv, _ := stat.MedianInterval(xs, 0.95)
		m8, iv8, _ := stat.MedianInterval(scaled, 0.95)
		if m8 != 8*m || iv8.Low != 8*iv.Low || iv8.High != 8*iv.High || iv8.Coverage != iv.Coverage {
			t.Fatalf("round %d: does not scale", round)
		}
		if !same(stat.Spread(scaled), stat.Spread(xs), 1e-12) || stat.SlowModes(scaled) != stat.SlowModes(xs) {
			t.Fatalf("round %d: spread or slow modes depend on the unit", round)
		}
		if iv.Low > m || m > iv.High {
			t.Fatalf("round %d: median %v outside [%v, %v]", round, m, iv.Low, iv.High)
		}
	}
}
