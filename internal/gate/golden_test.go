package gate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"felix/internal/gate"
	"felix/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

// metric is one of a verdict: head/base by ratio.
func metric(cell string, m verdict.Metric, unit string, base, ratio float64, o verdict.Outcome) verdict.MetricResult {
	n := func(x float64) verdict.Number { return verdict.Number(x) }
	worse := ratio - 1
	if m.Direction() > 0 {
		worse = 1/ratio - 1
	}
	return verdict.MetricResult{
		Cell: cell, Metric: m, Unit: unit, N: 20, BaseMedian: n(base), HeadMedian: n(base * ratio), Ratio: n(ratio), Low: n(ratio * 0.97), High: n(ratio * 1.03), Coverage: 0.95,
		Worse: n(worse), SD: 0.04, MDE: 0.11, FailMargin: 0.05, PassMargin: 0.1, PWorse: 0.0004, PWorseRaw: 0.0001, PLess: 0.2, Outcome: o,
	}
}

// Every table of a verdict, with zero, with what is not known, one pair, five decades, a missing cell and nothing at all.
func TestGoldenTables(t *testing.T) {
	nan := verdict.Number(math.NaN())
	odd := metric("payload=0 batch=1", verdict.P50, "ns", 0, 1, verdict.Inconclusive)
	odd.Ratio, odd.Low, odd.High, odd.SD, odd.MDE, odd.PWorse, odd.PLess, odd.N = nan, nan, nan, nan, nan, nan, nan, 0
	odd.Worse, odd.HeadMedian = nan, nan
	one := metric("payload=256 batch=1", verdict.P99, "ns", 9e5, 1.02, verdict.Pass)
	one.N, one.SD, one.Low, one.High, one.Waived = 1, nan, one.Ratio, one.Ratio, true
	two := verdict.Verdict{
		Outcome: verdict.Fail, Look: 1, Looks: 1, Pairs: 20, Tests: 4, Level: 0.05, Alpha: 0.05, FailMargin: 0.05, PassMargin: 0.1,
		Reasons: []string{"payload=4096 batch=64: delivered_bytes_per_sec head/base 0.800 [0.776, 0.824] n=20: 25 % worse, beyond 5 %"},
		Notes:   []string{"not judged: cell \"payload=1024\" only in base, as allow_missing says"},
		Metrics: []verdict.MetricResult{
			metric("payload=4096 batch=64", verdict.DeliveredBytesPerSec, "B/s", 250e6, 0.8, verdict.Fail),
			metric("payload=4096 batch=64", verdict.CPUSecondsPerGB, "s/GB", 7.2, 1.01, verdict.Pass), one, odd,
		},
		Shown:     []verdict.MetricResult{metric("payload=256 batch=1", verdict.Max, "ns", 4e9, 1e-5, verdict.CannotJudge)},
		Modes:     []verdict.ModeResult{{Cell: "payload=4096 batch=64", N: 20, Base: 0, Head: 6, P: 0.01, Judged: true, Regression: true}, {Cell: "payload=256 batch=1", N: 1, P: nan}},
		Sentinels: []verdict.SentinelResult{{Name: "cpu", N: 20, Ratio: 1.001, Low: 0.99, High: 1.01}},
		Dropped: []verdict.CellDrops{{Cell: "payload=256 batch=1", Pairs: 20, Dropped: 3, Head: verdict.ArmDrops{Invalid: 3, Reasons: map[string]int{"shortfall": 3}}},
			{Cell: "payload=4096 batch=64", Pairs: 20}},
	}
	finding := func(m verdict.MetricResult, f verdict.Finding, better verdict.Number) verdict.ArmMetric {
		return verdict.ArmMetric{Result: m, PBetter: better, Finding: f}
	}
	arms := verdict.ArmsVerdict{
		Outcome: verdict.Fail, Arms: []string{"before", "fix", "reverted"}, Look: 1, Looks: 1, Pairs: 20, Tests: 12, Level: 0.05, Reasons: []string{"fix against before: p50 is worse"},
		Comparisons: []verdict.Comparison{
			{A: "before", B: "fix", Metrics: []verdict.ArmMetric{finding(metric("payload=256 batch=1", verdict.P50, "ns", 180e3, 1.2, verdict.Fail), verdict.Worse, 1)}, Verdict: two},
			{A: "before", B: "reverted", Metrics: []verdict.ArmMetric{finding(odd, verdict.Undecided, nan)}},
			{A: "fix", B: "reverted", Metrics: []verdict.ArmMetric{finding(metric("payload=256 batch=1", verdict.P50, "ns", 216e3, 0.83, verdict.Pass), verdict.Better, 0.001)}},
		},
	}
	nothing := verdict.Broken(verdict.Spec{}, os.ErrNotExist)
	noArms := verdict.BrokenArms(verdict.Spec{}, []string{"a", "b", "c"}, "no records: nothing was measured")
	for name, r := range map[string]gate.Result{"two": gate.Two{Verdict: &two}, "arms": gate.Arms{ArmsVerdict: &arms}, "nothing": gate.Two{Verdict: &nothing}, "no-arms": gate.Arms{ArmsVerdict: &noArms}} {
		var text, md bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteMarkdown(&md); err != nil {
			t.Fatal(err)
		}
		for file, got := range map[string][]byte{name + ".txt": text.Bytes(), name + ".md": md.Bytes()} {
			file = filepath.Join("testdata", file)
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from what is written now (-update writes it anew):\n%s", file, got)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s as JSON: %v", name, err)
		}
	}
}
