package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/stat"
)

func TestStandardDeviation(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name string
		xs   []float64
		want float64
	}{
		{"none", nil, nan},
		{"one", []float64{3}, nan},
		{"equal", []float64{3, 3, 3}, 0},
		{"by hand", []float64{2, 4, 4, 4, 5, 5, 7, 9}, math.Sqrt(32.0 / 7)},
		{"NaN is left out", []float64{1, nan, 3}, math.Sqrt2},
		{"far from zero", []float64{1e9 + 1, 1e9 + 2, 1e9 + 3}, 1},
		{"infinite", []float64{1, math.Inf(1)}, nan},
	} {
		got := stat.StandardDeviation(tt.xs)
		if math.Abs(got-tt.want) > 1e-12*tt.want && got != tt.want || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDetectableShift(t *testing.T) {
	for _, tt := range []struct {
		name             string
		n                int
		sd, alpha, power float64
		want             float64
	}{
		// t(0.95; 24) = 1.710882 and t(0.995; 9) = 3.249836, z(0.8) = 0.841621 (Fisher and Yates, tables III and I).
		{"as a table has it", 25, 1, 0.05, 0.8, (1.710882 + 0.841621*math.Sqrt(1+1.710882*1.710882/48)) / math.Sqrt(3/math.Pi*25)},
		{"at half the power", 10, 2, 0.005, 0.5, 2 * 3.249836 / math.Sqrt(3/math.Pi*10)},
		{"at a level above a half", 25, 1, 0.95, 0.99, (-1.710882 + 2.326348*math.Sqrt(1+1.710882*1.710882/48)) / math.Sqrt(3/math.Pi*25)},
		{"no noise", 25, 0, 0.05, 0.8, 0},
		{"none can reject", 7, 1, 0.05 / 12, 0.8, math.Inf(1)},
		{"one pair", 1, 1, 0.5, 0.8, math.NaN()},
		{"no pairs", 0, 1, 0.05, 0.8, math.NaN()},
		{"no sd", 10, math.NaN(), 0.05, 0.8, math.NaN()},
		{"no level", 10, 1, 0, 0.8, math.NaN()},
		{"no power", 10, 1, 0.05, 1, math.NaN()},
	} {
		got := stat.DetectableShift(tt.n, tt.sd, tt.alpha, tt.power)
		if math.Abs(got-tt.want) > 1e-5 && got != tt.want || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestDetectableShiftIsDetected: a shift of that size is detected about as often as asked for.
func TestDetectableShiftIsDetected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	const alpha, power, runs = 0.05 / 12, 0.8, 1000
	for _, n := range []int{8, 12, 20, 30, 60} {
		shift, found := stat.DetectableShift(n, 0.05, alpha, power), 0
		ds := make([]float64, n)
		for range runs {
			for i := range ds {
				ds[i] = shift + 0.05*rng.NormFloat64()
			}
			if stat.SignedRank(ds, 0).Greater <= alpha {
				found++
			}
		}
		if got := float64(found) / runs; got < 0.7 || got > 0.87 {
			t.Errorf("n=%d: a shift of %.3f sd is found in %.3f of runs, want about %v", n, shift/0.05, got, power)
		}
	}
}
