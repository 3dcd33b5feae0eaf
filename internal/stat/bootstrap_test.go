package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

// TestRatioOfMediansExactly: the median of a resample of 5 is the k-th of them with the probability
// P(Bin(5, (k-1)/5) <= 2) - P(Bin(5, k/5) <= 2), so that the whole distribution of the ratio is known (Efron, Bootstrap
// Methods, 1979, section 3) and the percentiles can be held against it.
func TestRatioOfMediansExactly(t *testing.T) {
	base, head := []float64{95, 98, 100, 103, 110}, []float64{101, 107, 112, 115, 131}
	type atom struct{ ratio, p float64 }
	var atoms []atom
	chance := func(k int) float64 {
		return stat.BinomialCDF(2, 5, float64(k)/5) - stat.BinomialCDF(2, 5, float64(k+1)/5)
	}
	for i, b := range base {
		for j, h := range head {
			atoms = append(atoms, atom{h / b, chance(i) * chance(j)})
		}
	}
	slices.SortFunc(atoms, func(a, b atom) int { return int(math.Copysign(1, a.ratio-b.ratio)) })
	at := func(p float64) float64 {
		sum := 0.0
		for _, a := range atoms {
			if sum += a.p; sum >= p {
				return a.ratio
			}
		}
		return math.Inf(1)
	}
	for _, level := range []float64{0.8, 0.9, 0.95} {
		ratio, iv, ok := stat.RatioOfMedians(base, head, level)
		tail := (1 - level) / 2
		const slack = 0.006 // four standard deviations of a share of 10,000 resamples
		if ratio != 1.12 || iv.Coverage != level || !ok {
			t.Errorf("level %v: ratio %v, %+v, %v", level, ratio, iv, ok)
		}
		if lo, hi := at(tail-slack), at(tail+slack); iv.Low < lo-1e-9 || iv.Low > hi+1e-9 {
			t.Errorf("level %v: low end %v, want from %v to %v", level, iv.Low, lo, hi)
		}
		if lo, hi := at(1-tail-slack), at(1-tail+slack); iv.High < lo-1e-9 || iv.High > hi+1e-9 {
			t.Errorf("level %v: high end %v, want from %v to %v", level, iv.High, lo, hi)
		}
	}
}

func TestRatioOfMediansDegenerate(t *testing.T) {
	five := []float64{1, 1, 1, 1, 1}
	for _, tt := range []struct {
		name             string
		base, head       []float64
		ratio, low, high float64
		ok               bool
	}{
		{"none", nil, nil, nan, nan, nan, false},
		{"no base", nil, five, nan, nan, nan, false},
		{"no head", five, nil, nan, nan, nan, false},
		{"only NaN", []float64{nan}, five, nan, nan, nan, false},
		{"one each knows nothing of its error", []float64{2}, []float64{3}, 1.5, 1.5, 1.5, false},
		{"all equal", five, five, 1, 1, 1, true},
		{"head is nothing", five, []float64{0, 0, 0, 0, 0}, 0, 0, 0, true},
		{"base is nothing", []float64{0, 0, 0, 0, 0}, five, nan, nan, nan, false},
		{"both are nothing", []float64{0, 0}, []float64{0, 0}, nan, nan, nan, false},
		{"below 0 there are no ratios", []float64{-1, 2, 3}, five, nan, nan, nan, false},
		{"infinite", []float64{math.Inf(1)}, five, 0, 0, 0, false},
	} {
		ratio, iv, ok := stat.RatioOfMedians(tt.base, tt.head, 0.95)
		if !same(ratio, tt.ratio, 1e-12) || !same(iv.Low, tt.low, 1e-12) || !same(iv.High, tt.high, 1e-12) || ok != tt.ok {
			t.Errorf("%s: %v %+v %v, want %v [%v, %v] %v", tt.name, ratio, iv, ok, tt.ratio, tt.low, tt.high, tt.ok)
		}
	}
	if ratio, iv, ok := stat.RatioOfMedians(five, five, nan); !math.IsNaN(ratio) || !math.IsNaN(iv.Low) || ok {
		t.Errorf("level NaN: %v %+v %v", ratio, iv, ok)
	}
}

func TestRatioOfMediansProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for range 8 {
		base, head := make([]float64, 5+rng.IntN(6)), make([]float64, 5+rng.IntN(6))
		for _, xs := range [][]float64{base, head} {
			for i := range xs {
				xs[i] = math.Exp(rng.NormFloat64() / 10)
			}
		}
		ratio, iv, _ := stat.RatioOfMedians(base, head, 0.95)
		back, vi, _ := stat.RatioOfMedians(head, base, 0.95)
		if !same(back*ratio, 1, 1e-12) || !same(vi.Low*iv.High, 1, 1e-12) || !same(vi.High*iv.Low, 1, 1e-12) {
			t.Fatalf("%v %+v, exchanged %v %+v", ratio, iv, back, vi)
		}
		slices.Reverse(base)
		if again, v, _ := stat.RatioOfMedians(base, head, 0.95); again != ratio || v != iv {
			t.Fatal("the order matters, or the seed is not fixed")
		}
		for i := range head {
			head[i] *= 4
		}
		if four, v, _ := stat.RatioOfMedians(base, head, 0.95); !same(four, 4*ratio, 1e-12) || !same(v.Low, 4*iv.Low, 1e-9) || !same(v.High, 4*iv.High, 1e-9) {
			t.Fatalf("does not scale: %v %+v, want four times %v %+v", four, v, ratio, iv)
		}
		if ratio < iv.Low || ratio > iv.High {
			t.Fatalf("ratio %v outside %+v", ratio, iv)
		}
	}
}

// TestRatioOfMediansCovers: the nominal 95 % is about kept with ten values a side.
func TestRatioOfMediansCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	const rounds = 60
	held := 0
	for range rounds {
		base, head := make([]float64, 10), make([]float64, 10)
		for _, xs := range [][]float64{base, head} {
			for i := range xs {
				xs[i] = math.Exp(0.05 * rng.NormFloat64())
			}
		}
		if _, iv, _ := stat.RatioOfMedians(base, head, 0.95); iv.Low <= 1 && 1 <= iv.High {
			held++
		}
	}
	if share := float64(held) / rounds; share < 0.88 {
		t.Errorf("held 1 in %.3f of %d", share, rounds)
	}
}
