package verdict_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/verdict"
)

// gates is how many gates a simulation runs: one that the statistics have to hold, or one that shows what else is so. The race detector makes one cost ten times as much.
func gates(bar bool) int {
	switch {
	case raceEnabled || testing.Short():
		return 150
	case !bar:
		return 500
	}
	return 2000
}

// simulate runs gates of two cells with two metrics each, m = 4, from a fixed seed, and counts how they end.
func simulate(spec verdict.Spec, w world, seed uint64, n int) map[verdict.Outcome]int {
	g := newGate(30, throughputCase, latencyCase)
	rng := rand.New(rand.NewPCG(seed, 4))
	got := map[verdict.Outcome]int{}
	for i := range n {
		g.fill(&w, rng, rng.Uint64()+uint64(i))
		v := verdict.Gate(spec, g.cells)
		got[v.Outcome]++
	}
	return got
}

// one is an effect on the delivered rate alone, in logarithms.
func one(ratio float64) [2][2]float64 { return [2][2]float64{{math.Log(ratio), 0}} }

// TestGateSimulated holds the gate to what STATISTICS.md promises of it: sd of d 5 %, three looks, four metrics.
func TestGateSimulated(t *testing.T) {
	all := func(ratio float64) [2][2]float64 {
		d := math.Log(ratio)
		return [2][2]float64{{d, d}, {d, d}}
	}
	for _, tt := range []struct {
		name                string
		w                   world
		bar                 bool
		failLeast, failMost float64 // share of gates
		passLeast, passMost float64
	}{
		{name: "null", bar: true, w: world{sd: 0.05}, failMost: 0.01, passLeast: 0.99, passMost: 1},
		{name: "linear drift of 20 %", bar: true, w: world{sd: 0.05, drift: math.Log(1.2)}, failMost: 0.01, passLeast: 0.95, passMost: 1},
		{name: "second slot 3 %", bar: true, w: world{sd: 0.05, second: 0.03}, failMost: 0.01, passLeast: 0.95, passMost: 1},
		{name: "both, noisier", w: world{sd: 0.10, second: 0.03, drift: math.Log(1.2)}, failMost: 0.01, passMost: 1},
		{name: "+10 % in one metric", bar: true, w: world{sd: 0.05, effect: one(1.10)}, failLeast: 0.80, failMost: 1, passMost: 0.05},
		{name: "+20 % in one metric", bar: true, w: world{sd: 0.05, effect: one(1.20)}, failLeast: 0.99, failMost: 1},
		{name: "20 % better in all", w: world{sd: 0.05, effect: all(1 / 1.2)}, failMost: 0, passLeast: 0.99, passMost: 1},
		{name: "new slow mode, 30 % x 5.5", bar: true, w: world{sd: 0.05, slow: [2]float64{0, 0.3}, slowBy: math.Log(5.5)}, failLeast: 0.80, failMost: 1, passMost: 0.2},
		// Fisher's test stands outside the family, at 5 % of its own.
		{name: "the same slow mode in both arms", w: world{sd: 0.05, slow: [2]float64{0.3, 0.3}, slowBy: math.Log(5.5)}, failMost: 0.03, passMost: 1},
		// At the margin itself the hypothesis is true, and every look of every metric could reject it.
		{name: "looks keep alpha: one metric at the fail margin", bar: true, w: world{sd: 0.05, effect: one(1.05)}, failMost: 0.05, passMost: 1},
		{name: "looks keep alpha: all metrics at the fail margin", bar: true, w: world{sd: 0.05, effect: all(1.05)}, failMost: 0.05, passMost: 1},
		{name: "looks keep alpha: one metric at the pass margin", w: world{sd: 0.10, effect: one(1.10)}, failMost: 1, passMost: 0.05},
		{name: "the sentinel moved with everything", w: world{sd: 0.05, effect: all(1.2), sentinel: math.Log(1.2)}, failMost: 0, passMost: 0},
		{name: "invalid in both arms alike, 5 %", w: world{sd: 0.05, invalid: [2]float64{0.05, 0.05}}, failMost: 0.01, passMost: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := float64(gates(tt.bar))
			got := simulate(verdict.Spec{}, tt.w, 42, int(n))
			fail, pass := float64(got[verdict.Fail])/n, float64(got[verdict.Pass])/n
			t.Logf("fail %.2f %%, pass %.2f %%, inconclusive %.2f %%, cannot judge %.2f %% of %v gates",
				100*fail, 100*pass, 100*float64(got[verdict.Inconclusive])/n, 100*float64(got[verdict.CannotJudge])/n, n)
			slack := 0.0
			if n < 2000 { // three standard deviations of a share of few
				slack = 3 * math.Sqrt(0.05*0.95/n)
			}
			if fail < tt.failLeast-slack || fail > tt.failMost+slack {
				t.Errorf("fail in %.4f of gates, want %v to %v", fail, tt.failLeast, tt.failMost)
			}
			if pass < tt.passLeast-slack || pass > tt.passMost+slack {
				t.Errorf("pass in %.4f of gates, want %v to %v", pass, tt.passLeast, tt.passMost)
			}
			if got[verdict.Continue] > 0 {
				t.Errorf("%d gates continue after the last look", got[verdict.Continue])
			}
		})
	}
}
