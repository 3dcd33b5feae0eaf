package gate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix/internal/gate"
	"felix/internal/verdict"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestBuiltInGate(t *testing.T) {
	g, err := gate.Load("", now)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := g.Grid()
	if err != nil {
		t.Fatal(err)
	}
	if len(grid.Cells) != 4 || grid.Digest == "" {
		t.Fatalf("%d cells, digest %q", len(grid.Cells), grid.Digest)
	}
	names := map[string]bool{}
	for _, c := range grid.Cells {
		names[c.Name] = true
	}
	if len(names) != 4 || !names["ci-throughput fanout=10"] {
		t.Errorf("names %v", names)
	}
	s, err := g.Spec.Resolve()
	if err != nil || s.Alpha != 0.05 || s.FailMargin != 0.05 || s.PassMargin != 0.10 || s.Looks[0] != 20 || s.Feasible(4) != nil {
		t.Errorf("spec %+v, %v", s, err)
	}
	// A level that only some grids have leaves the others out.
	g.Only = []string{"fanout=10"}
	if grid, err = g.Grid("broker.subscriber_queue_capacity=8"); err != nil || len(grid.Cells) != 2 || grid.Cells[0].Case.BrokerSet["subscriber_queue_capacity"] != "8" {
		t.Errorf("grid %+v, %v", grid, err)
	}
	g.Only = []string{"fanout=11"}
	if _, err := g.Grid(); err == nil || !strings.Contains(err.Error(), "fanout") {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestWholeFile(t *testing.T) {
	text := `
why: all keys
grids: [fast]
only: [payload=0]
looks: [12, 20]
alpha: 0.1
fail_margin: 0.03
pass_margin: 0.06
max_dropped: 0.1
metrics: [p50_ns]
allow_missing: [x]
on_inconclusive: fail
sentinel_optional: true
noise_floor: {p50_ns: 0.04}
waivers: [{metric: p50_ns, cell: c, ceiling: 0.3, reason: known, expiry: 2027-01-31}]
`
	g, err := gate.Parse("g.yml", []byte("\ufeff"+strings.ReplaceAll(text, "\n", "\r\n")), now)
	if err != nil {
		t.Fatal(err)
	}
	want := verdict.Spec{
		Looks: []int{12, 20}, Alpha: 0.1, FailMargin: 0.03, PassMargin: 0.06, MaxDropped: 0.1, Metrics: []verdict.Metric{verdict.P50},
		AllowMissing: []string{"x"}, Inconclusive: verdict.FailInconclusive, SentinelOptional: true, NoiseFloor: verdict.NoiseFloor{"p50_ns": 0.04}, Now: now,
		Waivers: []verdict.Waiver{{Metric: verdict.P50, Cell: "c", Ceiling: 0.3, Reason: "known", Expiry: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)}},
	}
	if d := cmp.Diff(want, g.Spec); d != "" {
		t.Error(d)
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, tt := range []struct{ why, text, want string }{
		{"nothing", "# only talk", "empty"},
		{"no grids", "looks: [20]", "no grids"},
		{"a key", "grids: [fast]\nloks: [20]", `line 2: unknown key "loks" of a gate (nearest: looks)`},
		{"a key of a waiver", "grids: [fast]\nwaivers:\n  - {metrc: p50_ns}", `line 3: unknown key "metrc" of a waiver (nearest: metric)`},
		{"no mapping", "- 1", "mapping"},
		{"a second document", "grids: [fast]\n---\nlooks: [3]", "second document"},
		{"no number", "grids: [fast]\nalpha: much", "line 2"},
		{"zero, which would mean the default", "grids: [fast]\nfail_margin: 0", "fail_margin 0: want more than 0"},
		{"margins the wrong way round", "grids: [fast]\nfail_margin: 0.2\npass_margin: 0.1", "pass_margin 0.1 below fail_margin 0.2"},
		{"looks out of order", "grids: [fast]\nlooks: [20, 12]", "looks"},
		{"a metric without direction", "grids: [fast]\nmetrics: [speed]", "no declared direction"},
		{"a policy", "grids: [fast]\non_inconclusive: shrug", "neutral, fail or pass"},
		{"an expired waiver", "grids: [fast]\nwaivers: [{metric: p50_ns, cell: c, ceiling: 0.3, reason: r, expiry: 2026-11-30}]", "expired on 2026-11-30"},
		{"no day", "grids: [fast]\nwaivers: [{metric: p50_ns, cell: c, ceiling: 0.3, reason: r, expiry: soon}]", `expiry "soon"`},
		{"no YAML", "grids: [", "g.yml"},
		{"a key twice", "grids: [fast]\ngrids: [quick]", "already"},
	} {
		_, err := gate.Parse("g.yml", []byte(tt.text), now)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "g.yml: ") {
			t.Errorf("%s: error %v, want g.yml and %q", tt.why, err, tt.want)
		}
	}
	g, err := gate.Parse("g.yml", []byte("grids: [fsat]"), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Grid(); err == nil || !strings.Contains(err.Error(), "nearest: fast") {
		t.Errorf("an unknown grid: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("grids: [fast]\nlooks: [20]\nwaivers: [{metric: p50_ns}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if g, err := gate.Parse("g.yml", text, now); err == nil && len(g.Grids) == 0 {
			t.Error("a gate without grids")
		}
	})
}

func TestExperimentIsReadBack(t *testing.T) {
	dir := t.TempDir()
	if _, err := gate.ReadExperiment(dir); err == nil || !strings.Contains(err.Error(), "no A/B session") {
		t.Errorf("of an empty directory: %v", err)
	}
	x := &gate.Experiment{Kind: gate.KindAB, ArmFactors: []string{"batch"}, Arms: []gate.Arm{{Name: "base"}}, Spec: verdict.Spec{Looks: []int{8}, Now: now}}
	if err := x.Write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := gate.ReadExperiment(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x, back); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{"{": "ab.json", `{"schema":"felix.ab/9"}`: "felix.ab/9"} {
		if err := os.WriteFile(filepath.Join(dir, gate.ExperimentFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := gate.ReadExperiment(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A verdict is readable whatever it does not know, and never larger than a CI page takes.
func TestTexts(t *testing.T) {
	var unknown verdict.Number
	if err := json.Unmarshal([]byte("null"), &unknown); err != nil {
		t.Fatal(err)
	}
	v := verdict.Verdict{Outcome: verdict.Inconclusive, Look: 1, Looks: 1, Pairs: 20, Tests: 2, Level: 0.05, Reasons: []string{"a|b <c>"}, Notes: []string{"a note"}}
	m := verdict.MetricResult{Cell: "payload=256", Metric: verdict.P50, Unit: "ns", N: 20, BaseMedian: 150e3, HeadMedian: 165e3, Ratio: 1.1, Low: 1.05, High: 1.15,
		Worse: 0.1, SD: 0.05, MDE: 0.12, PWorse: 0.03, PLess: unknown, Outcome: verdict.Inconclusive}
	v.Metrics = append(v.Metrics, m)
	v.Shown = append(v.Shown, verdict.MetricResult{Cell: "c", Metric: verdict.Max, Unit: "ns", BaseMedian: unknown, HeadMedian: unknown, Ratio: unknown, Low: unknown, High: unknown, Worse: unknown, SD: unknown})
	var text, md bytes.Buffer
	if err := gate.WriteText(&text, &v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INCONCLUSIVE at look 1 of 1, 20 pairs (exit code 3)", "  - a|b <c>", "150.0 us", "1.100", "[1.050, 1.150]", "5.0 %", "n/a", "note       a note"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	for range 20_000 {
		v.Metrics = append(v.Metrics, m)
	}
	if err := gate.WriteMarkdown(&md, &v); err != nil {
		t.Fatal(err)
	}
	if md.Len() > 900<<10 || !strings.Contains(md.String(), "left out: ") || !strings.Contains(md.String(), `a\|b &lt;c>`) {
		t.Errorf("%d bytes of Markdown:\n%.300s", md.Len(), md.String())
	}
}
