package verdict_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/verdict"
)

func TestAA(t *testing.T) {
	g := newGate(75, throughputCase, latencyCase)
	w := world{sd: 0.05}
	g.fill(&w, rand.New(rand.NewPCG(1, 5)), 1)
	r := verdict.AA(verdict.Spec{NoiseFloor: verdict.NoiseFloor{"p50_ns": 9}}, g.cells)
	if len(r.Gates) != 2 || r.Judged != 2 || r.FalseFails != 0 || r.Outcome != verdict.Pass {
		t.Fatalf("%d gates, %d judged, %d failed, %v %q, want 2, 2, 0, pass", len(r.Gates), r.Judged, r.FalseFails, r.Outcome, r.Reasons)
	}
	// Clopper-Pearson of 0 of 2: 1 - sqrt(0.025).
	if want := 1 - math.Sqrt(0.025); math.Abs(float64(r.Rate.High)-want) > 1e-9 || r.Rate.Low != 0 {
		t.Errorf("rate [%v, %v], want [0, %v]", r.Rate.Low, r.Rate.High, want)
	}
	if len(r.Floors) != 4 {
		t.Fatalf("%d floors, want 4", len(r.Floors))
	}
	for _, f := range r.Floors {
		if f.N != 75 || f.SD < 0.03 || f.SD > 0.07 || !(f.Low < 1 && f.High > 1) {
			t.Errorf("floor %s, want an sd of about 0.05 of 75 pairs, and a ratio of 1", jsonOf(t, &f))
		}
		if got := r.NoiseFloor.At(f.Cell, f.Metric); got != float64(f.SD) {
			t.Errorf("NoiseFloor.At = %v, want %v", got, f.SD)
		}
		if got := r.NoiseFloor.At("another cell", f.Metric); got != float64(f.SD) { // each metric has one cell here
			t.Errorf("NoiseFloor.At of another cell = %v, want %v", got, f.SD)
		}
	}
	if got := r.NoiseFloor.At("", "unknown"); got != 0 {
		t.Errorf("NoiseFloor.At of an unknown metric = %v, want 0", got)
	}
}

func TestAAOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cells  []verdict.Cell
		gates  int
		judged int
		want   verdict.Outcome
	}{
		{"one gate", shifted(30, 0, throughputCase).cells, 1, 1, verdict.Pass},
		{"one look", shifted(12, 0, throughputCase).cells, 1, 1, verdict.Pass},
		{"not even that", shifted(11, 0, throughputCase).cells, 1, 0, verdict.CannotJudge},
		{"nothing", nil, 1, 0, verdict.CannotJudge},
		{"not equal at all", shifted(60, 0.3, throughputCase).cells, 2, 2, verdict.Fail},
	} {
		r := verdict.AA(verdict.Spec{}, tt.cells)
		if len(r.Gates) != tt.gates || r.Judged != tt.judged || r.Outcome != tt.want {
			t.Errorf("%s: %d gates, %d judged, %v %q, want %d, %d, %v", tt.name, len(r.Gates), r.Judged, r.Outcome, r.Reasons, tt.gates, tt.judged, tt.want)
		}
		if r.Outcome != verdict.Pass && len(r.Reasons) == 0 {
			t.Errorf("%s: %v without a reason", tt.name, r.Outcome)
		}
		jsonOf(t, &r)
	}
}
