package verdict_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/verdict"
)

// random is a gate of a random world, with whatever a gate can come to.
func random(seed uint64) (*gate, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 7))
	g := newGate(30, throughputCase, latencyCase)
	w := world{sd: 0.02 + 0.1*rng.Float64(), second: 0.03 * rng.Float64(), slow: [2]float64{0.3 * rng.Float64(), 0.3 * rng.Float64()}, slowBy: 1}
	for k := range w.effect {
		w.effect[k] = [2]float64{0.2 * rng.NormFloat64(), 0.2 * rng.NormFloat64()}
	}
	g.fill(&w, rng, seed)
	return g, rng
}

// TestJudgeSwapped: what is worse one way is better by as much the other way.
func TestJudgeSwapped(t *testing.T) {
	for seed := range uint64(20) {
		g, _ := random(seed)
		v := verdict.Judge(verdict.Spec{}, g.cells, 2)
		for k := range g.cells {
			for i := range g.cells[k].Pairs {
				p := &g.cells[k].Pairs[i]
				p.Base, p.Head = p.Head, p.Base
				for s := range p.Sentinels {
					p.Sentinels[s].Base, p.Sentinels[s].Head = p.Sentinels[s].Head, p.Sentinels[s].Base
				}
			}
		}
		swapped := verdict.Judge(verdict.Spec{}, g.cells, 2)
		if len(v.Metrics) != 4 || len(swapped.Metrics) != 4 {
			t.Fatalf("seed %d: %d and %d metrics, want 4; %q", seed, len(v.Metrics), len(swapped.Metrics), v.Reasons)
		}
		for i, m := range v.Metrics {
			s := swapped.Metrics[i]
			for _, x := range []struct {
				name      string
				got, want verdict.Number
			}{
				{"ratio", s.Ratio, 1 / m.Ratio}, {"low", s.Low, 1 / m.High}, {"high", s.High, 1 / m.Low},
				{"worse", s.Worse, 1/(1+m.Worse) - 1}, {"sd", s.SD, m.SD}, {"base median", s.BaseMedian, m.HeadMedian},
			} {
				if math.Abs(float64(x.got-x.want)) > 1e-9*(1+math.Abs(float64(x.want))) {
					t.Errorf("seed %d: %s %s: %s swapped = %v, want %v", seed, m.Cell, m.Metric, x.name, x.got, x.want)
				}
			}
			if m.Outcome == verdict.Fail && s.Outcome != verdict.Pass {
				t.Errorf("seed %d: %s %s fails, and swapped is %v", seed, m.Cell, m.Metric, s.Outcome)
			}
		}
		for i, m := range v.Modes {
			if s := swapped.Modes[i]; s.Base != m.Head || s.Head != m.Base {
				t.Errorf("seed %d: slow %d and %d swapped = %d and %d", seed, m.Base, m.Head, s.Base, s.Head)
			}
		}
	}
}

// TestJudgeOrderOfInput: pairs count by their index, wherever they stand, and cells stand for themselves.
func TestJudgeOrderOfInput(t *testing.T) {
	for seed := range uint64(20) {
		g, rng := random(seed)
		for look := range 3 {
			v := verdict.Judge(verdict.Spec{}, g.cells, look)
			for k := range g.cells {
				p := g.cells[k].Pairs
				rng.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
			}
			g.cells[0], g.cells[1] = g.cells[1], g.cells[0]
			shuffled := verdict.Judge(verdict.Spec{}, g.cells, look)
			g.cells[0], g.cells[1] = g.cells[1], g.cells[0]
			if shuffled.Outcome != v.Outcome {
				t.Errorf("seed %d: shuffled %v, want %v", seed, shuffled.Outcome, v.Outcome)
			}
			if len(v.Metrics) != 4 || len(shuffled.Metrics) != 4 {
				t.Fatalf("seed %d: %d and %d metrics, want 4", seed, len(v.Metrics), len(shuffled.Metrics))
			}
			for i, m := range v.Metrics {
				if s := shuffled.Metrics[(i+2)%4]; jsonOf(t, &s) != jsonOf(t, &m) {
					t.Errorf("seed %d: shuffled %s, want %s", seed, jsonOf(t, &s), jsonOf(t, &m))
				}
			}
		}
	}
}

// TestJudgeScaled: the unit of a metric, and what the host makes of it, change no ratio.
func TestJudgeScaled(t *testing.T) {
	for seed := range uint64(20) {
		g, _ := random(seed)
		v := verdict.Judge(verdict.Spec{}, g.cells, 2)
		for i := range g.cells[0].Pairs {
			p := &g.cells[0].Pairs[i]
			*p.Base.Rates.DeliveredBytesPerSec *= 1 << 10
			*p.Head.Rates.DeliveredBytesPerSec *= 1 << 10
		}
		scaled := verdict.Judge(verdict.Spec{}, g.cells, 2)
		for i, m := range v.Metrics {
			s := scaled.Metrics[i]
			if math.Abs(float64(s.Ratio-m.Ratio)) > 1e-12 || s.PWorse != m.PWorse || s.PLess != m.PLess || s.Outcome != m.Outcome {
				t.Errorf("seed %d: scaled %s, want %s", seed, jsonOf(t, &s), jsonOf(t, &m))
			}
		}
		if scaled.Outcome != v.Outcome || scaled.Modes[0].Base != v.Modes[0].Base || scaled.Modes[0].Head != v.Modes[0].Head {
			t.Errorf("seed %d: scaled %v, want %v", seed, scaled.Outcome, v.Outcome)
		}
	}
}

// TestGateIsItsLooks: the gate is the first look that does not continue.
func TestGateIsItsLooks(t *testing.T) {
	for seed := range uint64(20) {
		g, _ := random(seed)
		want := verdict.Judge(verdict.Spec{}, g.cells, 0)
		for look := 1; want.Outcome == verdict.Continue; look++ {
			want = verdict.Judge(verdict.Spec{}, g.cells, look)
		}
		if got := verdict.Gate(verdict.Spec{}, g.cells); jsonOf(t, &got) != jsonOf(t, &want) {
			t.Errorf("seed %d: gate %s, want %s", seed, jsonOf(t, &got), jsonOf(t, &want))
		}
	}
}

// TestVerdictJSON: what is not known is null, and comes back as it was.
func TestVerdictJSON(t *testing.T) {
	for _, g := range []*gate{shifted(30, 0.2, throughputCase, latencyCase), shifted(3, 0, throughputCase), newGate(0, latencyCase)} {
		v := verdict.Gate(verdict.Spec{Looks: []int{2, 30}, Alpha: 0.5}, g.cells)
		text := jsonOf(t, &v)
		var back verdict.Verdict
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		if again := jsonOf(t, &back); again != text {
			t.Errorf("read back %s, want %s", again, text)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
