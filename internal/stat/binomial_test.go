package stat_test

import (
	"math"
	"math/big"
	"testing"

	"felix/internal/stat"
)

// TestClopperPearsonTable: figures of R's binom.test; 682 of 925 is the example of its manual page, from Conover,
// Practical Nonparametric Statistics (1971).
func TestClopperPearsonTable(t *testing.T) {
	for _, tt := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 5, 0, 0.5218238}, {1, 5, 0.005050763, 0.7164179}, {5, 5, 0.4781762, 1}, {1, 10, 0.002528579, 0.4450161},
		{5, 10, 0.1870860, 0.8129140}, {0, 30, 0, 0.1157033}, {1, 30, 0.0008435709, 0.1721695}, {682, 925, 0.7076683, 0.7654066},
		{1, 1, 0.025, 1}, {0, 1, 0, 0.975},
	} {
		s := stat.ClopperPearson(tt.k, tt.n, 0.95)
		if s.K != tt.k || s.N != tt.n || s.Share != float64(tt.k)/float64(tt.n) || !same(s.Low, tt.low, 5e-8) || !same(s.High, tt.high, 5e-8) {
			t.Errorf("%d of %d: %+v, want [%v, %v]", tt.k, tt.n, s, tt.low, tt.high)
		}
	}
}

func TestClopperPearsonDegenerate(t *testing.T) {
	for _, tt := range []struct {
		name             string
		k, n             int
		level            float64
		share, low, high float64
	}{
		{"nothing known", 0, 0, 0.95, nan, 0, 1},
		{"more than all", 3, 2, 0.95, nan, nan, nan},
		{"fewer than none", -1, 2, 0.95, nan, nan, nan},
		{"negative n", 0, -1, 0.95, nan, nan, nan},
		{"level NaN", 1, 2, nan, nan, nan, nan},
		{"level 2", 1, 2, 2, nan, nan, nan},
		{"certainty is everything", 1, 2, 1, 0.5, 0, 1},
	} {
		s := stat.ClopperPearson(tt.k, tt.n, tt.level)
		if !same(s.Share, tt.share, 0) || !same(s.Low, tt.low, 0) || !same(s.High, tt.high, 0) {
			t.Errorf("%s: %+v, want %v [%v, %v]", tt.name, s, tt.share, tt.low, tt.high)
		}
	}
}

// TestClopperPearsonInverts: each limit is the share at which the one-sided test is just rejected, and the interval
// covers at least its level whatever the true share.
func TestClopperPearsonInverts(t *testing.T) {
	for n := 1; n <= 40; n++ {
		intervals := make([]stat.Share, n+1)
		for k := range intervals {
			s := stat.ClopperPearson(k, n, 0.95)
			intervals[k] = s
			if k > 0 && !same(stat.BinomialTail(k, n, s.Low), 0.025, 1e-7) {
				t.Fatalf("%d of %d: P(X >= k) at the lower limit is %v", k, n, stat.BinomialTail(k, n, s.Low))
			}
			if k < n && !same(stat.BinomialCDF(k, n, s.High), 0.025, 1e-7) {
				t.Fatalf("%d of %d: P(X <= k) at the upper limit is %v", k, n, stat.BinomialCDF(k, n, s.High))
			}
		}
		for p := 0.01; p < 1; p += 0.01 {
			covered := 0.0
			for k, s := range intervals {
				if s.Low <= p && p <= s.High {
					covered += stat.BinomialCDF(k, n, p) - stat.BinomialCDF(k-1, n, p)
				}
			}
			if covered < 0.95-1e-9 {
				t.Fatalf("n=%d, p=%.2f: covered with %v", n, p, covered)
			}
		}
	}
}

// TestBinomialExact holds the tails against integer arithmetic at p = 1/2, and a sum of terms elsewhere.
func TestBinomialExact(t *testing.T) {
	for _, n := range []int{1, 2, 9, 30, 64, 200} {
		all := new(big.Int).Lsh(big.NewInt(1), uint(n))
		below := new(big.Int)
		for k := 0; k <= n; k++ {
			below.Add(below, new(big.Int).Binomial(int64(n), int64(k)))
			want, _ := new(big.Rat).SetFrac(below, all).Float64()
			if got := stat.BinomialCDF(k, n, 0.5); !same(got, want, 1e-12) {
				t.Errorf("P(Bin(%d, 1/2) <= %d) = %v, want %v", n, k, got, want)
			}
			if got := stat.BinomialTail(k+1, n, 0.5); !same(got, 1-want, 1e-12) {
				t.Errorf("P(Bin(%d, 1/2) > %d) = %v, want %v", n, k, got, 1-want)
			}
		}
	}
	// R: 1 - pbinom(6, 10, 0.3) and pbinom(2, 20, 0.05).
	if got := stat.BinomialTail(7, 10, 0.3); !same(got, 0.0105920784, 1e-10) {
		t.Errorf("P(Bin(10, 0.3) >= 7) = %v", got)
	}
	if got := stat.BinomialCDF(2, 20, 0.05); !same(got, 0.924516326, 1e-9) {
		t.Errorf("P(Bin(20, 0.05) <= 2) = %v", got)
	}
}

func TestBinomialDegenerate(t *testing.T) {
	for _, tt := range []struct {
		k, n           int
		p, below, tail float64
	}{
		{0, 0, 0.5, 1, 1}, {1, 0, 0.5, 1, 0}, {-1, 3, 0.5, 0, 1}, {4, 3, 0.5, 1, 0},
		{0, 3, 0, 1, 1}, {1, 3, 0, 1, 0}, {2, 3, 1, 0, 1}, {3, 3, 1, 1, 1},
		{1, -1, 0.5, nan, nan}, {1, 3, nan, nan, nan}, {1, 3, 1.5, nan, nan}, {1, 3, -0.1, nan, nan},
	} {
		if got := stat.BinomialCDF(tt.k, tt.n, tt.p); !same(got, tt.below, 1e-15) {
			t.Errorf("BinomialCDF(%d, %d, %v) = %v, want %v", tt.k, tt.n, tt.p, got, tt.below)
		}
		if got := stat.BinomialTail(tt.k, tt.n, tt.p); !same(got, tt.tail, 1e-15) {
			t.Errorf("BinomialTail(%d, %d, %v) = %v, want %v", tt.k, tt.n, tt.p, got, tt.tail)
		}
	}
}

func TestSlowModes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rates []float64
		k, n  int
	}{
		{"none", nil, 0, 0},
		{"one", []float64{5}, 0, 1},
		{"equal", []float64{5, 5, 5}, 0, 3},
		{"one of five slow", []float64{100, 98, 102, 18, 101}, 1, 5},
		{"two thirds is not below", []float64{90, 90, 90, 60}, 0, 4},
		{"just below two thirds", []float64{90, 90, 90, 59.9}, 1, 4},
		{"most are slow: the fast ones are the measure", []float64{10, 10, 10, 100, 100}, 3, 5},
		{"zeros are slow", []float64{0, 0, 5}, 2, 3},
		{"all zero", []float64{0, 0, 0}, 0, 3},
		{"NaN and infinite are no rates", []float64{nan, math.Inf(1), 10, 1}, 1, 2},
	} {
		if s := stat.SlowModes(tt.rates); s.K != tt.k || s.N != tt.n {
			t.Errorf("%s: %d of %d, want %d of %d", tt.name, s.K, s.N, tt.k, tt.n)
		}
	}
	s := stat.SlowModes([]float64{100, 98, 102, 18, 101})
	if s != stat.ClopperPearson(1, 5, 0.95) {
		t.Errorf("interval %+v is not that of 1 of 5", s)
	}
	if limit := stat.SlowLimit([]float64{90, 90}); limit != 60 {
		t.Errorf("SlowLimit = %v, want 60", limit)
	}
	if limit := stat.SlowLimit(nil); !math.IsNaN(limit) {
		t.Errorf("SlowLimit of none = %v", limit)
	}
}
