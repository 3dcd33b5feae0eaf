package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"felix/internal/stat"
)

// levels makes a series: n values at each level, with a noise of sd.
func levels(rng *rand.Rand, sd float64, n int, at ...float64) []float64 {
	var xs []float64
	for _, level := range at {
		for range n {
			xs = append(xs, level+sd*rng.NormFloat64())
		}
	}
	return xs
}

func places(changes []stat.Change) []int {
	var out []int
	for _, c := range changes {
		out = append(out, c.At)
	}
	return out
}

func TestChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	nan := math.NaN()
	for _, tt := range []struct {
		why    string
		series []float64
		want   []int
	}{
		{"nothing", nil, nil},
		{"one value", []float64{1}, nil},
		{"all equal", make([]float64, 40), nil},
		{"five values can show nothing", []float64{1, 1, 1, 9, 9}, nil},
		{"six values cannot either, at this level", []float64{1, 1, 1, 9, 9, 9}, nil},
		{"a clear step", []float64{1, 1.1, 1, 0.9, 1, 1.1, 1, 2, 2.1, 2, 1.9, 2, 2.1, 2}, []int{7}},
		{"one odd value is none", []float64{1, 1.1, 1, 0.9, 1, 1.1, 9, 1, 1.1, 1, 0.9, 1, 1.1, 1}, nil},
		{"values that are missing are no change", []float64{1, 1.1, nan, 1, 0.9, 1, 1.1, 1, nan, 2, 2.1, 2, 1.9, 2, 2.1, 2, nan}, []int{9}},
		{"two steps, up and back", levels(rng, 0.02, 15, 1, 1.2, 1), []int{15, 30}},
		{"three levels", levels(rng, 0.02, 12, 1, 1.2, 1.5), []int{12, 24}},
	} {
		got := stat.Changes(tt.series, 0.01)
		if !slices.Equal(places(got), tt.want) {
			t.Errorf("%s: %v, want changes at %v", tt.why, got, tt.want)
		}
		for _, c := range got {
			if !(c.P > 0 && c.P <= 0.01) {
				t.Errorf("%s: p = %v", tt.why, c.P)
			}
		}
		if again := stat.Changes(tt.series, 0.01); !slices.Equal(got, again) {
			t.Errorf("%s: %v, and then %v", tt.why, got, again)
		}
	}
}

// Neither the unit nor the direction of time says where a series changes.
func TestChangesSymmetries(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	xs := levels(rng, 0.05, 14, 1, 1.4)
	want := places(stat.Changes(xs, 0.01))
	if !slices.Equal(want, []int{14}) {
		t.Fatalf("changes at %v, want 14", want)
	}
	scaled := slices.Clone(xs)
	for i := range scaled {
		scaled[i] = -1e9*scaled[i] + 5
	}
	if got := places(stat.Changes(scaled, 0.01)); !slices.Equal(got, want) {
		t.Errorf("in another unit, upside down: %v, want %v", got, want)
	}
	slices.Reverse(xs)
	if got := places(stat.Changes(xs, 0.01)); !slices.Equal(got, []int{14}) {
		t.Errorf("backwards: %v, want 14", got)
	}
}

// How often it cries without a cause, and how often it sees a step of three sds in the middle of twenty values.
func TestChangesSimulated(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 100
	}
	rng := rand.New(rand.NewPCG(3, 3))
	alarms, seen, near := 0, 0, 0
	for range n {
		if len(stat.Changes(levels(rng, 1, 20, 0), 0.05)) > 0 {
			alarms++
		}
		got := stat.Changes(levels(rng, 1, 10, 0, 3), 0.05)
		if len(got) > 0 {
			seen++
			if d := got[0].At - 10; d >= -1 && d <= 1 {
				near++
			}
		}
	}
	// 5 % and three standard errors.
	if limit := 0.05*float64(n) + 3*math.Sqrt(0.05*0.95*float64(n)); float64(alarms) > limit {
		t.Errorf("%d of %d series without a change have one, want at most %.0f", alarms, n, limit)
	}
	if float64(seen) < 0.95*float64(n) || float64(near) < 0.85*float64(n) {
		t.Errorf("of %d steps %d are seen, %d within one value, want 95 %% and 85 %%", n, seen, near)
	}
}

// A drift has no place where it changes: it is cut, and every cut is a real difference of the parts.
func TestChangesOfDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	xs := levels(rng, 0.05, 40, 0)
	for i := range xs {
		xs[i] += float64(i) / 20
	}
	changes := stat.Changes(xs, 0.01)
	if len(changes) < 2 {
		t.Fatalf("changes %v, want the drift cut into several", changes)
	}
	from := 0
	for i, c := range changes {
		to := len(xs)
		if i+1 < len(changes) {
			to = changes[i+1].At
		}
		if before, after := stat.Median(xs[from:c.At]), stat.Median(xs[c.At:to]); after <= before {
			t.Errorf("at %d the median goes from %v to %v, want up", c.At, before, after)
		}
		from = c.At
	}
}
