package verdict_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// mentions fails the test unless one of the texts has all of the words.
func mentions(t *testing.T, texts []string, words ...string) {
	t.Helper()
	if !slices.ContainsFunc(texts, func(text string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}) {
		t.Errorf("got %q, want one with %q", texts, words)
	}
}

// each calls f with every pair that is not discarded.
func (g *gate) each(f func(i int, p *verdict.Pair)) *gate {
	for k := range g.cells {
		for i := range g.cells[k].Pairs {
			if p := &g.cells[k].Pairs[i]; !p.Discarded {
				f(i, p)
			}
		}
	}
	return g
}

func TestGateBrokenInput(t *testing.T) {
	plain := func() *gate { return shifted(30, 0, throughputCase) }
	crash := func(r *runrecord.Record) {
		*r = runrecord.Record{Arm: r.Arm, Kind: r.Kind, Case: r.Case, Error: ptr("no result: signal: killed"), Reasons: []string{"no result: signal: killed"}}
	}
	for _, tt := range []struct {
		name  string
		spec  verdict.Spec
		cells []verdict.Cell
		words []string
	}{
		{name: "no cells", words: []string{"nothing was measured"}},
		{name: "a cell without pairs", cells: []verdict.Cell{{Name: "empty", Case: throughputCase}}, words: []string{"empty", "neither arm"}},
		{name: "one arm crashed", cells: plain().each(func(_ int, p *verdict.Pair) { crash(p.Head) }).cells,
			words: []string{"12 of 12 pairs dropped", "head: no result x12"}},
		{name: "base crashed", cells: plain().each(func(_ int, p *verdict.Pair) { crash(p.Base) }).cells,
			words: []string{"12 of 12 pairs dropped", "base: no result x12"}},
		{name: "one arm left nothing", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head = nil }).cells[:1],
			words: []string{"dropped", "head: no record"}},
		{name: "renamed cell", cells: func() []verdict.Cell {
			a, b := plain().cells[0], plain().cells[0]
			b.Name = "renamed"
			for i := range a.Pairs {
				a.Pairs[i].Head, b.Pairs[i].Base = nil, nil
			}
			return []verdict.Cell{a, b, shifted(30, 0, latencyCase).cells[0]}
		}(), words: []string{"only in base", `"renamed" only in head`, "missing or renamed"}},
		{name: "cell twice", cells: append(plain().cells, plain().cells...), words: []string{"twice"}},
		{name: "metric without direction", spec: verdict.Spec{Metrics: []verdict.Metric{"cwnd_bytes"}}, cells: plain().cells,
			words: []string{"cwnd_bytes", "no declared direction", "p99_ns"}},
		{name: "metric never gated", spec: verdict.Spec{Metrics: []verdict.Metric{verdict.P999}}, cells: plain().cells, words: []string{"never gated"}},
		{name: "metric of another kind", spec: verdict.Spec{Metrics: []verdict.Metric{verdict.P99}}, cells: plain().cells, words: []string{"no gated metric"}},
		{name: "metric only in base", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head.Processes = nil }).cells,
			words: []string{"cpu_s_per_gb", "only base has it"}},
		{name: "metric only in head", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Processes = nil }).cells,
			words: []string{"cpu_s_per_gb", "only head has it"}},
		{name: "no common metric", cells: plain().each(func(_ int, p *verdict.Pair) {
			p.Base.Processes, p.Head.Rates.DeliveredBytesPerSec = nil, nil
		}).cells, words: []string{"delivered_bytes_per_sec", "only base has it"}},
		{name: "metric in neither", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Processes, p.Head.Processes = nil, nil }).cells,
			words: []string{"cpu_s_per_gb", "no trial has it"}},
		{name: "all allow-listed", spec: verdict.Spec{AllowMissing: []string{"cpu_s_per_gb", "delivered_bytes_per_sec"}},
			cells: plain().each(func(_ int, p *verdict.Pair) {
				p.Base.Processes, p.Head.Rates.DeliveredBytesPerSec = nil, nil
			}).cells, words: []string{"no gated metric in common"}},
		{name: "metric often missing", cells: plain().each(func(i int, p *verdict.Pair) {
			if i%3 == 0 {
				p.Base.Processes = nil
			}
		}).cells, words: []string{"4 of 12 pairs lack it"}},
		{name: "differing hosts", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head.Host.Fingerprint = "other" }).cells,
			words: []string{"different hosts", "host (12 trials)", "other (12 trials)"}},
		{name: "race build", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head.Build.Race = true }).cells, words: []string{"head", "-race"}},
		{name: "coverage build", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Build.Coverage = true }).cells, words: []string{"base", "coverage"}},
		{name: "-N build", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Build.Optimized = false }).cells, words: []string{"base", "-N"}},
		{name: "two toolchains", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Build.Go = "go1.25" }).cells, words: []string{"go1.25", "toolchain"}},
		{name: "an arm of two builds", cells: plain().each(func(i int, p *verdict.Pair) { p.Head.Build.BinarySHA256 = ptr(fmt.Sprint(i % 2)) }).cells,
			words: []string{"head is of 2 different builds"}},
		{name: "perturbed", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head.Perturbed = []string{"qlog"} }).cells, words: []string{"qlog (12 trials)"}},
		{name: "unreachable alpha", spec: verdict.Spec{Alpha: 1e-9}, cells: plain().cells, words: []string{"this gate cannot fail: needs 33 pairs"}},
		{name: "too few looks", spec: verdict.Spec{Looks: []int{5}}, cells: plain().cells, words: []string{"this gate cannot fail: needs 6 pairs"}},
		{name: "no look complete", cells: shifted(11, 0, throughputCase).cells, words: []string{"no look is complete", "11 pairs of the 12"}},
		{name: "only the discarded pair", cells: shifted(0, 0, throughputCase).cells, words: []string{"no look is complete", "0 pairs"}},
		{name: "single messages flooding at payload 0", cells: shifted(30, 0, resolved(workload.Case{Load: workload.LoadFlood})).cells,
			words: []string{"no gated metric"}},
		{name: "open loop of batches", cells: shifted(30, 0, resolved(workload.Case{Payload: 256, Batch: 64, Rate: 1000})).cells, words: []string{"no gated metric"}},
		{name: "no sentinel", cells: plain().each(func(_ int, p *verdict.Pair) { p.Sentinels = nil }).cells, words: []string{"no sentinel ran beside 12 of 12"}},
		{name: "arms of other kinds", cells: plain().each(func(_ int, p *verdict.Pair) { p.Head.Case = latencyCase }).cells, words: []string{"another kind of case"}},
		{name: "invalid in both", cells: plain().each(func(i int, p *verdict.Pair) { p.Base.Valid, p.Head.Valid = i%2 == 0, i%2 == 1 }).cells,
			words: []string{"12 of 12 pairs dropped", "base: no reason given x6", "head: no reason given x6"}},
		{name: "invalid only in base", cells: plain().each(func(_ int, p *verdict.Pair) { p.Base.Valid = false }).cells, words: []string{"12 of 12 pairs dropped"}},
		{name: "too few left to fail", spec: verdict.Spec{Looks: []int{6}},
			cells: plain().each(func(i int, p *verdict.Pair) { p.Base.Valid = i != 3 }).cells, words: []string{"5 pairs are left", "needs 6"}},
		{name: "negative margin", spec: verdict.Spec{FailMargin: -0.1}, cells: plain().cells, words: []string{"fail_margin -0.1"}},
		{name: "NaN alpha", spec: verdict.Spec{Alpha: math.NaN()}, cells: plain().cells, words: []string{"alpha NaN"}},
		{name: "margins crossed", spec: verdict.Spec{FailMargin: 0.2}, cells: plain().cells, words: []string{"pass_margin 0.1 below"}},
		{name: "looks not ascending", spec: verdict.Spec{Looks: []int{20, 12}}, cells: plain().cells, words: []string{"looks [20 12]"}},
		{name: "metric twice", spec: verdict.Spec{Metrics: []verdict.Metric{verdict.P50, verdict.P50}}, cells: plain().cells, words: []string{"twice"}},
		{name: "noise floor NaN", spec: verdict.Spec{NoiseFloor: verdict.NoiseFloor{"p50_ns": math.NaN()}}, cells: plain().cells, words: []string{"noise floor"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict.Gate(tt.spec, tt.cells)
			outcome(t, v, verdict.CannotJudge)
			if got := v.ExitCode(); got != 2 {
				t.Errorf("exit code %d, want 2", got)
			}
			mentions(t, v.Reasons, tt.words...)
			for _, policy := range []verdict.Policy{verdict.FailInconclusive, verdict.PassInconclusive} {
				tt.spec.Inconclusive = policy
				if v := verdict.Gate(tt.spec, tt.cells); v.ExitCode() != 2 {
					t.Errorf("on_inconclusive %v: exit code %d, want 2", policy, v.ExitCode())
				}
			}
		})
	}
	v := verdict.Broken(verdict.Spec{}, errors.New("base does not build"))
	outcome(t, v, verdict.CannotJudge)
	mentions(t, v.Reasons, "base does not build")
	if v.ExitCode() != 2 || (&verdict.Verdict{}).ExitCode() != 2 {
		t.Errorf("broken: exit code %d, zero verdict %d, want 2", v.ExitCode(), (&verdict.Verdict{}).ExitCode())
	}
}

func TestGateVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spec  verdict.Spec
		cells []verdict.Cell
		want  verdict.Outcome
		exit  int
		words []string
	}{
		{name: "nothing changed", cells: shifted(30, 0, throughputCase, latencyCase).cells, want: verdict.Pass, exit: 0, words: []string{"all 4 metrics"}},
		{name: "throughput halves", cells: shifted(30, math.Log(2), throughputCase).cells, want: verdict.Fail, exit: 1,
			words: []string{"delivered_bytes_per_sec head/base 0.50", "n=12", "worse, beyond 5 %"}},
		{name: "throughput doubles", cells: shifted(30, -math.Log(2), throughputCase).cells, want: verdict.Pass, exit: 0},
		{name: "latency doubles", cells: shifted(30, math.Log(2), latencyCase).cells, want: verdict.Fail, exit: 1, words: []string{"p99_ns head/base 2.0"}},
		{name: "latency halves", cells: shifted(30, -math.Log(2), latencyCase).cells, want: verdict.Pass, exit: 0},
		{name: "losing messages only in head", cells: shifted(30, 0, throughputCase).each(func(i int, p *verdict.Pair) {
			if p.Head.Valid = i%2 == 0; !p.Head.Valid {
				p.Head.Reasons = []string{"unaccounted: 17 of 1000 deliveries"}
			}
		}).cells, want: verdict.Fail, exit: 1, words: []string{"invalid only in head", "6 of 12 trials of head, none of base", "unaccounted x6"}},
		{name: "losing messages only in head, before a look", cells: shifted(5, 0, throughputCase).each(func(_ int, p *verdict.Pair) { p.Head.Valid = false }).cells,
			want: verdict.Fail, exit: 1, words: []string{"invalid only in head"}},
		{name: "four invalid in head are not yet that", cells: shifted(12, 0, throughputCase).each(func(i int, p *verdict.Pair) { p.Head.Valid = i > 4 }).cells,
			want: verdict.CannotJudge, exit: 2, words: []string{"4 of 12 pairs dropped"}},
		{name: "two of twelve may be dropped", cells: shifted(12, 0, throughputCase).each(func(i int, p *verdict.Pair) { p.Head.Valid = i > 2 }).cells,
			want: verdict.Pass, exit: 0},
		{name: "interrupted trials are nobody's", cells: shifted(12, 0, throughputCase).each(func(i int, p *verdict.Pair) { p.Head.Interrupted = i <= 2 }).cells,
			want: verdict.Pass, exit: 0},
		{name: "bench differs", cells: shifted(30, 1, throughputCase).each(func(_ int, p *verdict.Pair) { p.Head.Build.BenchDigest = ptr("other") }).cells,
			want: verdict.Inconclusive, exit: 3, words: []string{"bench_digest"}},
		{name: "the machine got slower beside head", cells: shifted(30, 1, throughputCase).each(func(_ int, p *verdict.Pair) { p.Sentinels[0].Head = 500 }).cells,
			want: verdict.Inconclusive, exit: 3, words: []string{"sentinel cpu", "moved"}},
		{name: "the machine got faster beside head", cells: shifted(30, 0, throughputCase).each(func(_ int, p *verdict.Pair) { p.Sentinels[1].Head = 2e9 }).cells,
			want: verdict.Inconclusive, exit: 3, words: []string{"sentinel loopback", "moved"}},
		{name: "no sentinel, by permission", spec: verdict.Spec{SentinelOptional: true},
			cells: shifted(30, 0, throughputCase).each(func(_ int, p *verdict.Pair) { p.Sentinels = nil }).cells, want: verdict.Pass, exit: 0},
		{name: "between the margins at the cap", spec: verdict.Spec{Looks: []int{12}}, cells: shifted(12, math.Log(1.075), throughputCase).cells,
			want: verdict.Fail, exit: 1},
		{name: "noise floor raises the margin", spec: verdict.Spec{NoiseFloor: verdict.NoiseFloor{"delivered_bytes_per_sec": 0.3, verdict.FloorKey(throughputCase.Key, verdict.CPUSecondsPerGB): 0.3}},
			cells: shifted(30, math.Log(1.2), throughputCase).cells, want: verdict.Inconclusive, exit: 3, words: []string{"neither beyond 30 %", "nor within 10 %", "minimum detectable effect"}},
		{name: "inconclusive passes by policy", spec: verdict.Spec{Inconclusive: verdict.PassInconclusive, NoiseFloor: verdict.NoiseFloor{"delivered_bytes_per_sec": 0.3, "cpu_s_per_gb": 0.3}},
			cells: shifted(30, math.Log(1.2), throughputCase).cells, want: verdict.Inconclusive, exit: 0},
		{name: "inconclusive fails by policy", spec: verdict.Spec{Inconclusive: verdict.FailInconclusive, NoiseFloor: verdict.NoiseFloor{"delivered_bytes_per_sec": 0.3, "cpu_s_per_gb": 0.3}},
			cells: shifted(30, math.Log(1.2), throughputCase).cells, want: verdict.Inconclusive, exit: 1},
		{name: "missing metric allow-listed", spec: verdict.Spec{AllowMissing: []string{"cpu_s_per_gb"}},
			cells: shifted(30, 0, throughputCase).each(func(_ int, p *verdict.Pair) { p.Base.Processes = nil }).cells, want: verdict.Pass, exit: 0, words: []string{"all 1 metrics"}},
		{name: "missing cell allow-listed", spec: verdict.Spec{AllowMissing: []string{latencyCase.Key}}, cells: func() []verdict.Cell {
			g := shifted(30, 0, throughputCase, latencyCase)
			for i := range g.cells[1].Pairs {
				g.cells[1].Pairs[i].Base = nil
			}
			return g.cells
		}(), want: verdict.Pass, exit: 0, words: []string{"all 2 metrics"}},
		{name: "a single message has its CPU gated", cells: shifted(30, 0, resolved(workload.Case{Payload: 256, Batch: 1, Load: workload.LoadFlood})).cells,
			want: verdict.Pass, exit: 0, words: []string{"all 1 metrics"}},
		{name: "the pair under way does not count", cells: shifted(13, 0, throughputCase).each(func(i int, p *verdict.Pair) {
			if i == 13 {
				p.Head = nil
			}
		}).cells, want: verdict.Pass, exit: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict.Gate(tt.spec, tt.cells)
			outcome(t, v, tt.want)
			if got := v.ExitCode(); got != tt.exit {
				t.Errorf("exit code %d, want %d", got, tt.exit)
			}
			if len(tt.words) > 0 {
				mentions(t, v.Reasons, tt.words...)
			}
		})
	}
}

// TestGateDiscardedPair: the first pair is in no figure, whatever it holds.
func TestGateDiscardedPair(t *testing.T) {
	g := shifted(12, 0, throughputCase)
	want := verdict.Gate(verdict.Spec{}, g.cells)
	p := &g.cells[0].Pairs[0]
	set(p.Head, 9, 9)
	p.Base.Valid, p.Base.Host.Fingerprint = false, "elsewhere"
	if got := verdict.Gate(verdict.Spec{}, g.cells); jsonOf(t, &got) != jsonOf(t, &want) {
		t.Errorf("got %s, want %s", jsonOf(t, &got), jsonOf(t, &want))
	}
}

// TestGateBudget: what ends after a complete look, and before the last, is inconclusive by that look's figures.
func TestGateBudget(t *testing.T) {
	g := newGate(17, throughputCase)
	for i := range g.cells[0].Pairs { // half of it much better, half of it worse: no look can tell
		set(g.cells[0].Pairs[i].Head, 0.15*float64(i%2*2-1), 0)
	}
	v := verdict.Judge(verdict.Spec{}, g.cells, 0)
	outcome(t, v, verdict.Continue)
	if v.ExitCode() != 3 || len(v.Metrics) != 2 || !(v.Metrics[0].MDE > 0.15) {
		t.Errorf("continuing: exit code %d, metrics %s", v.ExitCode(), jsonOf(t, &v.Metrics))
	}
	v = verdict.Gate(verdict.Spec{}, g.cells)
	outcome(t, v, verdict.Inconclusive)
	mentions(t, v.Reasons, "the pairs end after look 1 of 3")
	if v.Look != 1 || v.Pairs != 12 || v.Metrics[0].Outcome != verdict.Inconclusive {
		t.Errorf("look %d of %d pairs, metric %v, want look 1 of 12, inconclusive", v.Look, v.Pairs, v.Metrics[0].Outcome)
	}
	// Five trials invalid in head, after that look.
	for i := 13; i <= 17; i++ {
		g.cells[0].Pairs[i].Head.Valid = false
	}
	v = verdict.Gate(verdict.Spec{}, g.cells)
	outcome(t, v, verdict.Fail)
	mentions(t, v.Reasons, "invalid only in head")
}

func TestEarly(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pairs   int
		change  func(i int, p *verdict.Pair)
		want    verdict.Outcome
		decided bool
	}{
		{"nothing yet", 0, func(int, *verdict.Pair) {}, 0, false},
		{"all is well", 7, func(int, *verdict.Pair) {}, 0, false},
		{"four invalid in head", 4, func(_ int, p *verdict.Pair) { p.Head.Valid = false }, 0, false},
		{"five invalid in head", 5, func(_ int, p *verdict.Pair) { p.Head.Valid = false }, verdict.Fail, true},
		{"three crashed in head", 3, func(_ int, p *verdict.Pair) { p.Head.Error = ptr("killed") }, verdict.CannotJudge, true},
		{"three invalid in base", 3, func(_ int, p *verdict.Pair) { p.Base.Valid = false }, verdict.CannotJudge, true},
		{"two invalid in base", 2, func(_ int, p *verdict.Pair) { p.Base.Valid = false }, 0, false},
		{"hosts differ", 1, func(_ int, p *verdict.Pair) { p.Base.Host.Fingerprint = "x" }, verdict.CannotJudge, true},
		{"head is under way", 1, func(_ int, p *verdict.Pair) { p.Head = nil }, 0, false},
	} {
		v, decided := verdict.Early(verdict.Spec{}, shifted(tt.pairs, 0, throughputCase).each(tt.change).cells)
		if decided != tt.decided || decided && v.Outcome != tt.want {
			t.Errorf("%s: %v %v %q, want %v %v", tt.name, v.Outcome, decided, v.Reasons, tt.want, tt.decided)
		}
	}
}

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		name       string
		c          runrecord.Case
		pairs      int
		base, head int // slow trials
		judged     bool
		want       verdict.Outcome
	}{
		// C(30,6)/C(60,6) = 0.0119, and of 5 0.0261: level 0.0167.
		{"six of thirty, none in base", throughputCase, 30, 0, 6, true, verdict.Fail},
		{"five of thirty", throughputCase, 30, 0, 5, true, verdict.Pass},
		{"in base", throughputCase, 30, 6, 0, true, verdict.Pass},
		{"latency", latencyCase, 30, 0, 6, true, verdict.Fail},
		{"too few to judge", throughputCase, 7, 0, 2, false, verdict.Continue},
	} {
		g := shifted(tt.pairs, 0, tt.c)
		g.each(func(i int, p *verdict.Pair) {
			if i <= tt.base {
				set(p.Base, 1.7, 0)
			}
			if i > tt.pairs-tt.head {
				set(p.Head, 1.7, 0)
			}
		})
		v := verdict.Judge(verdict.Spec{Looks: []int{1, 2, tt.pairs}, Alpha: 0.05}, g.cells, 2)
		if tt.pairs < 8 {
			v = verdict.Judge(verdict.Spec{Looks: []int{1, tt.pairs, 30}}, g.cells, 1)
		}
		if len(v.Modes) != 1 {
			t.Fatalf("%s: %d modes, want 1; %q", tt.name, len(v.Modes), v.Reasons)
		}
		if m := v.Modes[0]; m.Base != tt.base || m.Head != tt.head || m.Judged != tt.judged || m.Regression != (tt.want == verdict.Fail) || m.N != tt.pairs {
			t.Errorf("%s: %s", tt.name, jsonOf(t, &m))
		}
		if tt.want == verdict.Fail {
			outcome(t, v, tt.want)
			mentions(t, v.Reasons, "a new slow mode", "head 6 of 30")
		}
	}
}

func TestFeasible(t *testing.T) {
	for _, tt := range []struct {
		spec verdict.Spec
		m    int
		need int
		ok   bool
	}{
		// ceil(log2(L m / alpha))
		{verdict.Spec{}, 4, 8, true},   // log2(240) = 7.9
		{verdict.Spec{}, 20, 11, true}, // log2(1200) = 10.2
		{verdict.Spec{Looks: []int{20}}, 4, 7, true},
		{verdict.Spec{Looks: []int{6}}, 4, 7, false},
		{verdict.Spec{Looks: []int{2}, Alpha: 0.5}, 2, 2, true}, // log2(4), exactly
		{verdict.Spec{Looks: []int{1}, Alpha: 0.5}, 2, 2, false},
		{verdict.Spec{Alpha: 1e-300}, 1, 999, false},
	} {
		need, err := tt.spec.MinPairs(tt.m)
		if err != nil || need != tt.need {
			t.Errorf("%+v: MinPairs(%d) = %d, %v, want %d", tt.spec, tt.m, need, err, tt.need)
		}
		if err := tt.spec.FeasibleTests(tt.m); (err == nil) != tt.ok {
			t.Errorf("%+v: FeasibleTests(%d) = %v, want ok %v", tt.spec, tt.m, err, tt.ok)
		}
		if err := tt.spec.Feasible(tt.m / 2); tt.m%2 == 0 && (err == nil) != tt.ok {
			t.Errorf("%+v: Feasible(%d) = %v, want ok %v", tt.spec, tt.m/2, err, tt.ok)
		}
	}
	if err := (verdict.Spec{}).Feasible(0); err == nil {
		t.Error("no cells are feasible")
	}
	if m, err := (verdict.Spec{}).Tests([]runrecord.Case{throughputCase, latencyCase}); m != 4 || err != nil {
		t.Errorf("Tests = %d, %v, want 4", m, err)
	}
	if _, err := (verdict.Spec{Metrics: []verdict.Metric{verdict.P50}}).Tests([]runrecord.Case{throughputCase}); err == nil || !strings.Contains(err.Error(), throughputCase.Key) {
		t.Errorf("Tests of nothing: %v, want an error that names the case", err)
	}
}

func TestTexts(t *testing.T) {
	for _, o := range []verdict.Outcome{verdict.CannotJudge, verdict.Pass, verdict.Fail, verdict.Inconclusive, verdict.Continue} {
		if back, err := verdict.ParseOutcome(o.String()); back != o || err != nil {
			t.Errorf("%v read back %v, %v", o, back, err)
		}
	}
	for _, p := range []verdict.Policy{verdict.Neutral, verdict.FailInconclusive, verdict.PassInconclusive} {
		if back, err := verdict.ParsePolicy(p.String()); back != p || err != nil {
			t.Errorf("%v read back %v, %v", p, back, err)
		}
	}
	_, err := verdict.ParsePolicy("maybe")
	if want := `on_inconclusive "maybe": want neutral, fail or pass`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
