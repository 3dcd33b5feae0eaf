package verdict_test

import (
	"math"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// TestJudgeByHand: 12 pairs, all worse by 20 % and a little more each, so that every p-value is one of 2^12 signs.
func TestJudgeByHand(t *testing.T) {
	g := newGate(12, latencyCase)
	for i := range g.cells[0].Pairs {
		set(g.cells[0].Pairs[i].Head, math.Log(1.2)+1e-4*float64(i), math.Log(1.07)+1e-4*float64(i))
	}
	v := verdict.Judge(verdict.Spec{}, g.cells, 0)
	outcome(t, v, verdict.Fail)
	if v.Look != 1 || v.Looks != 3 || v.Pairs != 12 || v.Tests != 2 || math.Abs(v.Level-0.05/3) > 1e-15 {
		t.Errorf("look %d of %d, %d pairs, m = %d, level %v; want 1 of 3, 12, 2, 0.05/3", v.Look, v.Looks, v.Pairs, v.Tests, v.Level)
	}
	near := func(what string, got verdict.Number, want, slack float64) {
		t.Helper()
		if !(math.Abs(float64(got)-want) <= slack) {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	const least = 1.0 / (1 << 12)
	p50, p99 := v.Metrics[0], v.Metrics[1]
	if p50.Metric != verdict.P50 || p99.Metric != verdict.P99 || p50.N != 12 {
		t.Fatalf("metrics %s", jsonOf(t, &v.Metrics))
	}
	// The indices are 1 to 12: their centre is 6.5, and their sd the root of 13.
	near("p50 ratio", p50.Ratio, 1.2*math.Exp(6.5e-4), 1e-5)
	near("p50 sd", p50.SD, math.Sqrt(13)*1e-4, 5e-6)
	near("p50 raw p", p50.PWorseRaw, least, 0)
	near("p50 p by Holm", p50.PWorse, 2*least, 0)
	near("p50 p of less", p50.PLess, 1, 0)
	// 7 % is beyond 5 %, and within 10 %: it fails.
	near("p99 p by Holm", p99.PWorse, 2*least, 0)
	near("p99 p of less", p99.PLess, least, 0)
	if p99.Outcome != verdict.Fail {
		t.Errorf("p99 is %v, want fail", p99.Outcome)
	}

	// What is shown is described, and never judged.
	shown := map[verdict.Metric]bool{}
	for _, m := range v.Shown {
		shown[m.Metric] = true
		if !math.IsNaN(float64(m.PWorse)) || m.Outcome != verdict.CannotJudge || !(m.Ratio > 1) {
			t.Errorf("shown %s", jsonOf(t, &m))
		}
	}
	if len(shown) != 4 || !shown[verdict.CPUSecondsPerGB] || !shown[verdict.P90] || !shown[verdict.P999] || !shown[verdict.Max] {
		t.Errorf("shown %v, want the CPU, p90, p999 and max", shown)
	}
}

// TestHolmStepsDown: one bad metric of four has to be four times as certain, the next bad one three times.
func TestHolmStepsDown(t *testing.T) {
	g := newGate(12, throughputCase, latencyCase)
	for i := range g.cells[0].Pairs {
		set(g.cells[0].Pairs[i].Head, 0.5+0.001*float64(i), 0)
		d := 0.5 + 0.001*float64(i)
		if i == 1 { // the smallest of them, on the other side: 2 of 4096
			d = -0.3
		}
		set(g.cells[1].Pairs[i].Head, d, 0)
	}
	v := verdict.Judge(verdict.Spec{}, g.cells, 0)
	const least = 1.0 / (1 << 12)
	want := map[string]float64{
		verdict.FloorKey(throughputCase.Key, verdict.DeliveredBytesPerSec): 4 * least,
		verdict.FloorKey(latencyCase.Key, verdict.P50):                     3 * 2 * least,
	}
	for _, m := range v.Metrics {
		if p, ok := want[verdict.FloorKey(m.Cell, m.Metric)]; ok && float64(m.PWorse) != p {
			t.Errorf("%s: p = %v, want %v (raw %v)", m.String(), m.PWorse, p, m.PWorseRaw)
		} else if !ok && m.Outcome != verdict.Pass {
			t.Errorf("%s: %v, want pass", m.String(), m.Outcome)
		}
	}
}

func TestMetricValues(t *testing.T) {
	r := trial(throughputCase, verdict.Base, 0)
	for m, want := range map[verdict.Metric]float64{
		verdict.DeliveredBytesPerSec: 400e6, verdict.DeliveredMsgsPerSec: 100e3, verdict.P50: 200e3, verdict.P90: 400e3, verdict.P99: 900e3,
		verdict.P999: 5e6, verdict.Max: 20e6, verdict.CPUSecondsPerGB: 2 / (4096 * float64(1<<20) / 1e9), // 2 s over what was delivered
	} {
		if got, ok := m.Value(r); !ok || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s = %v, %v, want %v", m, got, ok, want)
		}
		if m.Direction() == verdict.NoDirection || m.Unit() == "" {
			t.Errorf("%s: %v, unit %q", m, m.Direction(), m.Unit())
		}
		if _, ok := m.Value(&runrecord.Record{}); ok {
			t.Errorf("%s of an empty record has a value", m)
		}
		if _, ok := m.Value(nil); ok {
			t.Errorf("%s of no record has a value", m)
		}
	}
	unknown := verdict.Metric("mtu_bytes")
	if _, ok := unknown.Value(r); ok || unknown.Direction() != verdict.NoDirection || unknown.Unit() != "" {
		t.Errorf("%s is known", unknown)
	}
	for name, change := range map[string]func(r *runrecord.Record){
		"one process not known": func(r *runrecord.Record) { r.Processes = append(r.Processes, runrecord.Process{UserNs: ptr(int64(1))}) },
		"nothing delivered":     func(r *runrecord.Record) { r.Counts.Delivered = 0 },
		"payload 0":             func(r *runrecord.Record) { r.Case.Payload = 0 },
		"no CPU time at all":    func(r *runrecord.Record) { *r.Processes[0].UserNs = 0 },
	} {
		r := trial(throughputCase, verdict.Base, 0)
		change(r)
		if got, ok := verdict.CPUSecondsPerGB.Value(r); ok {
			t.Errorf("%s: CPU per GB = %v, want none", name, got)
		}
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		*r.Rates.DeliveredBytesPerSec = rate
		if got, ok := verdict.DeliveredBytesPerSec.Value(r); ok {
			t.Errorf("a rate of %v is %v, want none", rate, got)
		}
	}
}
