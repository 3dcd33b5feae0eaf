package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

// withU returns two samples without ties of which u pairs have the first above.
func withU(na, nb, u int) (a, b []float64) {
	for i := range nb {
		b = append(b, float64(i+1))
	}
	for i := range na {
		above := min(nb, max(0, u)) // of b's values
		u -= above
		a = append(a, float64(above)+0.5+float64(i)/1000)
	}
	return a, b
}

// TestMannWhitneyTable: critical values of U at 2.5 % one-sided (5 % two-sided), as in Mann and Whitney's tables
// extended by Auble (1953), which most textbooks reprint.
func TestMannWhitneyTable(t *testing.T) {
	for _, tt := range []struct{ na, nb, critical int }{
		{3, 5, 0}, {4, 4, 0}, {4, 8, 4}, {5, 5, 2}, {5, 10, 8}, {5, 20, 20}, {6, 6, 5}, {7, 7, 8}, {8, 8, 13}, {9, 9, 17},
		{10, 10, 23}, {10, 20, 55}, {12, 12, 37}, {15, 15, 64}, {20, 20, 127},
	} {
		for _, swapped := range []bool{false, true} {
			a, b := withU(tt.na, tt.nb, tt.critical)
			c, d := withU(tt.na, tt.nb, tt.critical+1)
			at, over := stat.MannWhitney(a, b), stat.MannWhitney(c, d)
			p, q := at.Less, over.Less
			if swapped {
				at, over = stat.MannWhitney(b, a), stat.MannWhitney(d, c)
				p, q = at.Greater, over.Greater
				at.Statistic = float64(tt.na*tt.nb) - at.Statistic
			}
			if at.Statistic != float64(tt.critical) || p > 0.025 || q <= 0.025 || !at.Exact || at.N != tt.na+tt.nb {
				t.Errorf("%d and %d: %+v, p %v at %d and %v above", tt.na, tt.nb, at, p, tt.critical, q)
			}
		}
	}
}

// TestMannWhitneyR: Hollander and Wolfe (1973), page 69; R's example prints W = 35, p-value = 0.1272.
func TestMannWhitneyR(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	if got := stat.MannWhitney(x, y); got.Statistic != 35 || !same(got.Greater, 0.1272, 5e-5) || !got.Exact {
		t.Errorf("%+v, want W = 35, p = 0.1272", got)
	}
}

// TestMannWhitneyEnumerated: every way to part a few values, by hand, with ties.
func TestMannWhitneyEnumerated(t *testing.T) {
	for _, all := range [][]float64{{1, 2}, {1, 1, 1}, {1, 2, 2, 5}, {3, 3, 4, 4, 4, 9, 10}} {
		for na := 1; na < len(all); na++ {
			var tests []stat.Test
			for chosen := range 1 << len(all) {
				var a, b []float64
				for i, x := range all {
					if chosen>>i&1 == 1 {
						a = append(a, x)
					} else {
						b = append(b, x)
					}
				}
				if len(a) == na {
					tests = append(tests, stat.MannWhitney(a, b))
				}
			}
			for _, got := range tests {
				less, greater := 0, 0
				for _, other := range tests {
					if other.Statistic <= got.Statistic {
						less++
					}
					if other.Statistic >= got.Statistic {
						greater++
					}
				}
				n := float64(len(tests))
				if !same(got.Less, float64(less)/n, 1e-12) || !same(got.Greater, float64(greater)/n, 1e-12) {
					t.Fatalf("%v, %d of them: %+v, want %d and %d of %v", all, na, got, less, greater, n)
				}
			}
		}
	}
}

func TestMannWhitneyDegenerate(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name             string
		a, b             []float64
		u, less, greater float64
	}{
		{"none", nil, nil, 0, 1, 1},
		{"one side", []float64{1, 2}, nil, 0, 1, 1},
		{"the other side", nil, []float64{1, 2}, 0, 1, 1},
		{"only NaN on a side", []float64{nan}, []float64{1}, 0, 1, 1},
		{"one each", []float64{1}, []float64{2}, 0, 0.5, 1},
		{"all equal", []float64{3, 3, 3}, []float64{3, 3, 3}, 4.5, 1, 1},
		{"zeros", []float64{0, 0}, []float64{0}, 1, 1, 1},
		{"infinities are ends", []float64{-inf, inf}, []float64{0}, 1, 2.0 / 3, 2.0 / 3},
	} {
		got := stat.MannWhitney(tt.a, tt.b)
		if got.Statistic != tt.u || !same(got.Less, tt.less, 1e-12) || !same(got.Greater, tt.greater, 1e-12) {
			t.Errorf("%s: %+v, want U %v, less %v, greater %v", tt.name, got, tt.u, tt.less, tt.greater)
		}
	}
	same60 := slices.Repeat([]float64{7}, 60)
	if got := stat.MannWhitney(same60, same60); got.Exact || got.TwoSided != 1 {
		t.Errorf("sixty equal on each side: %+v", got)
	}
}

func TestMannWhitneyProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for range 100 {
		a, b := make([]float64, 1+rng.IntN(20)), make([]float64, 1+rng.IntN(60))
		for _, xs := range [][]float64{a, b} {
			for i := range xs {
				xs[i] = float64(rng.IntN(30))
			}
		}
		got, back := stat.MannWhitney(a, b), stat.MannWhitney(b, a)
		if !same(back.Less, got.Greater, 1e-12) || !same(back.Greater, got.Less, 1e-12) || back.Statistic != float64(len(a)*len(b))-got.Statistic {
			t.Fatalf("%v %v: %+v, exchanged %+v", a, b, got, back)
		}
		for _, xs := range [][]float64{a, b} {
			for i := range xs {
				xs[i] = math.Exp(xs[i] / 4) // only ranks count
			}
			slices.Reverse(xs)
		}
		if other := stat.MannWhitney(a, b); other != got {
			t.Fatalf("%v %v: %+v, by ranks %+v", a, b, got, other)
		}
	}
}
