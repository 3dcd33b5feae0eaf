package cells_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

func to[T any](v T) *T { return &v }

// run numbers the runs, so that no two records are the same one.
var run int

// record is a valid quiet trial of a clean build, delivering so many MB/s.
func record(c workload.Case, mbs float64, edits ...func(*runrecord.Record)) *runrecord.Record {
	c, err := c.Resolve()
	if err != nil {
		panic(err) // the test's own case
	}
	run++
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: fmt.Sprintf("run-%d", run), SessionID: to("session"), Trial: to(run), Kind: "case",
		Case:  runrecord.Case{Key: c.Key(), Case: c, SendWindow: workload.DefaultSendWindow, MaxDeliveries: workload.DefaultMaxDeliveries, Seed: uint64(run)},
		Build: runrecord.Build{Commit: to("4f2c1a9e77aa"), Dirty: to(false), TreeDigest: to("8d3e1f0a2b44"), BinarySHA256: to("bb1efcd132e7efa6"), Go: "go1.26.8", QuicGo: to("v0.65.0"), Optimized: true},
		Host:  runrecord.Host{Fingerprint: "8a4b77839907", Noise: &runrecord.Noise{Grade: "quiet"}},
		Valid: true, SizeGrade: string(workload.GradeSized), Lossless: runrecord.LosslessYes,
		Env: map[string]string{},
	}
	r.Rates.DeliveredBytesPerSec = to(mbs * 1e6)
	r.Rates.DeliveredMsgsPerSec = to(mbs * 1e6 / float64(c.MessageBytes()))
	r.Counts.Delivered = 1000
	r.Processes = []runrecord.Process{{UserNs: to(int64(500 * c.MessageBytes())), SystemNs: to(int64(1000 * c.MessageBytes()))}}
	r.Latency = runrecord.Latency{Kind: c.LatencyKind(), EndToEnd: &runrecord.Distribution{N: 1000, P50Ns: to(int64(200_000)), P99Ns: to(int64(900_000))}}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

// latency is a trial whose end-to-end p50 is so many us, and p99 four times that.
func latency(c workload.Case, us float64, edits ...func(*runrecord.Record)) *runrecord.Record {
	return record(c, 4, append([]func(*runrecord.Record){func(r *runrecord.Record) {
		r.SizeGrade = string(workload.GradeNone)
		r.Latency.EndToEnd.P50Ns, r.Latency.EndToEnd.P99Ns = to(int64(us*1000)), to(int64(us*4000))
	}}, edits...)...)
}

func invalid(reason string) func(*runrecord.Record) {
	return func(r *runrecord.Record) { r.Valid, r.Reasons = false, append(r.Reasons, reason) }
}

func noise(grade string) func(*runrecord.Record) {
	return func(r *runrecord.Record) { r.Host.Noise = &runrecord.Noise{Grade: grade} }
}

var flood = workload.Case{Payload: 4096, Batch: 64}

func floods(mbs ...float64) []*runrecord.Record {
	var rs []*runrecord.Record
	for _, v := range mbs {
		rs = append(rs, record(flood, v))
	}
	return rs
}

func only(t *testing.T, rs []*runrecord.Record) cells.Cell {
	t.Helper()
	cs := cells.Group(rs)
	if len(cs) != 1 {
		t.Fatalf("%d cells, want one", len(cs))
	}
	return cs[0]
}

func TestGroupThroughput(t *testing.T) {
	c := only(t, floods(480, 490, 470, 500, 460))
	if !c.Throughput || c.N != 5 || c.Main.N != 5 || !c.Publishable || len(c.Marks) != 0 || len(c.Caveats) != 0 {
		t.Errorf("throughput %v, n %d, publishable %v, marks %v, caveats %v", c.Throughput, c.N, c.Publishable, c.Marks, c.Caveats)
	}
	want := cells.Figure{Unit: "B/s", N: 5, Median: 480e6, Low: 460e6, High: 500e6, Coverage: 0.9375, Worst: 460e6, Spread: 496.0 / 464}
	if got := c.Main; math.Abs(got.Spread-want.Spread) > 1e-9 || math.Abs(got.Coverage-want.Coverage) > 1e-9 {
		t.Errorf("main %+v, want %+v", got, want)
	} else if got.Spread, got.Coverage = want.Spread, want.Coverage; got != want {
		t.Errorf("main %+v, want %+v", got, want)
	}
	// 1,500 ns x 4,096 CPU for 1,000 deliveries of 4,096 bytes.
	if c.CPUPerGB.Median != 1.5 || c.CPUPerGB.Unit != "s/GB" {
		t.Errorf("CPU %+v, want 1.5 s/GB", c.CPUPerGB)
	}
	if c.SlowModes.K != 0 || c.SlowModes.N != 5 || len(c.Trials) != 5 {
		t.Errorf("slow modes %+v of %d trials", c.SlowModes, len(c.Trials))
	}
}

func TestGroupLatency(t *testing.T) {
	var rs []*runrecord.Record
	for _, us := range []float64{180, 190, 170, 900, 185, 175} {
		rs = append(rs, latency(workload.Case{Payload: 256}, us))
	}
	c := only(t, rs)
	if c.Throughput || c.Main.Unit != "ns" || c.Main.Median != 182_500 || c.Main.Worst != 900_000 || c.P99.Median != 730_000 {
		t.Errorf("main %+v, p99 %+v", c.Main, c.P99)
	}
	if c.SlowModes.K != 1 || !c.Trials[3].Slow || c.Trials[0].Slow {
		t.Errorf("slow modes %+v, want the trial of 900 us", c.SlowModes)
	}
	if c.Publishable || !slices.Equal(c.Marks, []cells.Mark{cells.MarkSpread}) {
		t.Errorf("marks %v, want the spread", c.Marks)
	}
}

// TestGroupMarks: each thing that is wrong with a cell has its own word.
func TestGroupMarks(t *testing.T) {
	edit := func(edits ...func(*runrecord.Record)) []*runrecord.Record {
		rs := floods(480, 490, 470, 500, 460)
		for _, e := range edits {
			e(rs[4])
		}
		return rs
	}
	all := func(e func(*runrecord.Record)) []*runrecord.Record {
		rs := floods(480, 490, 470, 500, 460)
		for _, r := range rs {
			e(r)
		}
		return rs
	}
	for _, tt := range []struct {
		name    string
		records []*runrecord.Record
		n       int
		marks   []cells.Mark
		caveats []cells.Mark
	}{
		{"all well", edit(), 5, nil, nil},
		{"one trial", floods(480), 1, []cells.Mark{cells.MarkFew}, nil},
		{"invalid", edit(invalid("lost 5: …")), 4, []cells.Mark{cells.MarkFew, cells.MarkInvalid}, nil},
		{"one more, and one invalid", append(floods(480), edit(invalid("lost"))...), 5, []cells.Mark{cells.MarkInvalid}, nil},
		{"failed", append(floods(480), edit(invalid("x"), func(r *runrecord.Record) { r.Error = to("killed") })...), 5, []cells.Mark{cells.MarkFailed}, nil},
		{"interrupted", append(floods(480), edit(invalid("x"), func(r *runrecord.Record) { r.Interrupted, r.Error = true, to("x") })...), 5, nil, []cells.Mark{cells.CaveatInterrupted}},
		{"noisy", edit(noise("noisy")), 5, []cells.Mark{cells.MarkNoisy}, nil},
		{"contaminated", edit(noise("contaminated")), 5, []cells.Mark{cells.MarkNoisy}, nil},
		{"noise not known", edit(func(r *runrecord.Record) { r.Host.Noise = nil }), 5, nil, []cells.Mark{cells.CaveatNoise}},
		{"spread", floods(480, 490, 470, 500, 90, 100), 6, []cells.Mark{cells.MarkSpread}, nil},
		{"spread at the limit", floods(150, 150, 150, 100, 100, 100), 6, []cells.Mark{cells.MarkSpread}, nil},
		{"zeros", floods(0, 0, 0, 0, 0), 5, []cells.Mark{cells.MarkSpread}, nil},
		{"no rate", edit(func(r *runrecord.Record) { r.Rates = runrecord.Rates{} }), 5, []cells.Mark{cells.MarkMissing}, nil},
		{"allowed to be undersized", edit(func(r *runrecord.Record) { r.SizeGrade = "undersized" }), 5, []cells.Mark{cells.MarkUndersized}, nil},
		{"capped", edit(func(r *runrecord.Record) { r.SizeGrade = "capped" }), 5, nil, []cells.Mark{cells.CaveatCapped}},
		{"perturbed", all(func(r *runrecord.Record) { r.Perturbed = []string{"pprof cpu"} }), 5, []cells.Mark{cells.MarkPerturbed}, nil},
		{"race", all(func(r *runrecord.Record) { r.Build.Race = true }), 5, []cells.Mark{cells.MarkBuild}, nil},
		{"dirty", all(func(r *runrecord.Record) { r.Build.Dirty = to(true) }), 5, nil, []cells.Mark{cells.CaveatDirty}},
		{"unknown tree", all(func(r *runrecord.Record) { r.Build = runrecord.Build{Optimized: true} }), 5, nil, []cells.Mark{cells.CaveatNoBuild}},
		{"another size", edit(func(r *runrecord.Record) { r.Case.Total = to(int64(10)) }), 5, nil, []cells.Mark{cells.CaveatSizes}},
		{"all invalid", all(invalid("lost")), 0, []cells.Mark{cells.MarkFew, cells.MarkInvalid}, nil},
	} {
		c := only(t, tt.records)
		if c.N != tt.n || !slices.Equal(c.Marks, tt.marks) || !slices.Equal(c.Caveats, tt.caveats) || c.Publishable != (len(tt.marks) == 0) {
			t.Errorf("%s: n %d, marks %v, caveats %v, publishable %v; want %d, %v, %v", tt.name, c.N, c.Marks, c.Caveats, c.Publishable, tt.n, tt.marks, tt.caveats)
		}
	}
}

// TestGroupSetsApart: whatever sets trials apart makes two cells of them; what does not, does not.
func TestGroupSetsApart(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*runrecord.Record)
		want int
	}{
		{"nothing", func(*runrecord.Record) {}, 1},
		{"seed and trial", func(r *runrecord.Record) { r.Case.Seed, r.Trial = 99, to(99) }, 1},
		{"session", func(r *runrecord.Record) { r.SessionID = to("another") }, 1},
		{"key", func(r *runrecord.Record) { r.Case.Fanout = 2; r.Case.Key = r.Case.Case.Key() }, 2},
		{"kind", func(r *runrecord.Record) { r.Kind = "relay" }, 2},
		{"arm", func(r *runrecord.Record) { r.Arm = to("head") }, 2},
		{"tree: two dirty states of one commit", func(r *runrecord.Record) { r.Build.TreeDigest = to("other") }, 2},
		{"binary", func(r *runrecord.Record) { r.Build.BinarySHA256 = to("other") }, 2},
		{"commit", func(r *runrecord.Record) { r.Build.Commit = nil }, 2},
		{"Go", func(r *runrecord.Record) { r.Build.Go = "go1.27" }, 2},
		{"quic-go", func(r *runrecord.Record) { r.Build.QuicGo = to("v0.66.0") }, 2},
		{"race", func(r *runrecord.Record) { r.Build.Race = true }, 2},
		{"no optimisation", func(r *runrecord.Record) { r.Build.Optimized = false }, 2},
		{"coverage", func(r *runrecord.Record) { r.Build.Coverage = true }, 2},
		{"host", func(r *runrecord.Record) { r.Host.Fingerprint = "other" }, 2},
		{"lossless", func(r *runrecord.Record) { r.Lossless = runrecord.LosslessAlmost }, 2},
		{"perturbed", func(r *runrecord.Record) { r.Perturbed = []string{"qlog"} }, 2},
		{"environment", func(r *runrecord.Record) { r.Env = map[string]string{"GOGC": "50"} }, 2},
		{"send window", func(r *runrecord.Record) { r.Case.SendWindow /= 2 }, 2},
		{"configuration", func(r *runrecord.Record) {
			r.Config.Broker = map[string]runrecord.Setting{"log_capacity": {Value: 7}}
		}, 2},
	} {
		rs := floods(480, 490)
		tt.edit(rs[1])
		cs := cells.Group(rs)
		if len(cs) != tt.want {
			t.Errorf("%s: %d cells, want %d", tt.name, len(cs), tt.want)
			continue
		}
		if again := cells.Group(rs); cs[0].ID == "" || again[0].ID != cs[0].ID || len(cs) == 2 && cs[0].ID == cs[1].ID {
			t.Errorf("%s: ids %q and %q: want one a cell, always the same", tt.name, cs[0].ID, cs[len(cs)-1].ID)
		}
	}
}

// TestGroupReadsWhatWasWritten: a record says the same before and after its line of JSON.
func TestGroupReadsWhatWasWritten(t *testing.T) {
	rs := floods(480)
	rs[0].Config.Broker = map[string]runrecord.Setting{"a": {Value: 64 << 20, From: "default"}, "b": {Value: true}, "c": {Value: "x"}, "d": {Value: []string{"t/n/s"}}, "e": {Value: map[string]string{}}, "f": {Value: int64(1) << 40}}
	line, err := rs[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := runrecord.Parse(bytes.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	r.RunID = "another"
	if cs := cells.Group([]*runrecord.Record{rs[0], r}); len(cs) != 1 || cs[0].N != 2 {
		t.Errorf("%d cells, want one of two", len(cs))
	}
}

func TestGroupIgnoresARunReadTwice(t *testing.T) {
	g := cells.NewGrouper()
	r := record(flood, 480)
	g.Add(r)
	g.Add(r)
	if cs := g.Cells(); cs[0].N != 1 || g.Duplicates() != 1 {
		t.Errorf("n %d, %d duplicates; want 1 and 1", cs[0].N, g.Duplicates())
	}
	none := record(flood, 480, func(r *runrecord.Record) { r.RunID = "" })
	g.Add(none)
	g.Add(none)
	if cs := g.Cells(); cs[0].N != 3 {
		t.Errorf("records without an id: n %d, want 3: they cannot be told apart", cs[0].N)
	}
}

// TestGroupRepeatsOfNoisyTrials: a noisy trial that was repeated in quiet is kept and not counted; its figure has no
// say in that.
func TestGroupRepeatsOfNoisyTrials(t *testing.T) {
	trial := func(n int) func(*runrecord.Record) { return func(r *runrecord.Record) { r.Trial = &n } }
	rs := []*runrecord.Record{
		record(flood, 480, trial(1)), record(flood, 300, trial(2), noise("noisy")), record(flood, 470, trial(3)),
		record(flood, 310, trial(2), noise("contaminated")), record(flood, 490, trial(2)), // repeats
		record(flood, 305, trial(4), noise("noisy")), record(flood, 306, trial(4), noise("noisy")), // never quiet
		record(flood, 307, trial(5), noise("noisy")), record(flood, 500, trial(5), invalid("lost")), // quiet, but invalid
		record(flood, 308, trial(1), noise("noisy"), func(r *runrecord.Record) { r.SessionID = to("another") }),
	}
	c := only(t, rs)
	if c.N != 7 || c.Superseded != 2 || c.Noisy != 4 || c.Invalid != 1 || !c.Trials[1].Superseded || !c.Trials[3].Superseded {
		t.Errorf("n %d, superseded %d, noisy %d, invalid %d; want 7, 2, 4, 1", c.N, c.Superseded, c.Noisy, c.Invalid)
	}
	if c.Main.N != 7 || c.Main.Worst != 305e6 {
		t.Errorf("main %+v: want the repeated trials out of it", c.Main)
	}
}

func TestGroupReasons(t *testing.T) {
	rs := []*runrecord.Record{
		record(flood, 1, invalid("undersized: 12.0 MB published"), invalid("lost 5 of 9")),
		record(flood, 1, invalid("undersized: 13.0 MB published"), invalid("undersized: again")),
		record(flood, 1, func(r *runrecord.Record) { r.Valid, r.Error = false, to("timeout: 30 s\npanic") }),
		record(flood, 1, func(r *runrecord.Record) { r.Valid = false }),
		record(flood, 1, invalid("by hand"), func(r *runrecord.Record) { r.Interrupted = true }),
	}
	want := map[string]int{"undersized": 2, "lost 5 of 9": 1, "timeout": 1, "no reason given": 1}
	if got := only(t, rs).Reasons; !reflect.DeepEqual(got, want) {
		t.Errorf("reasons %v, want %v", got, want)
	}
}

func TestGroupPayload0(t *testing.T) {
	c := only(t, []*runrecord.Record{record(workload.Case{Batch: 64}, 32)})
	if c.Main.Unit != "msg/s" || c.Main.Median != 1e6 || !math.IsNaN(c.CPUPerGB.Median) || c.CPUPerGB.N != 0 {
		t.Errorf("main %+v, CPU %+v: want messages, and no bytes", c.Main, c.CPUPerGB)
	}
}

func TestGroupMissingFigures(t *testing.T) {
	rs := floods(480, 490)
	rs[1].Rates, rs[1].Latency, rs[1].Processes = runrecord.Rates{}, runrecord.Latency{}, []runrecord.Process{{UserNs: to(int64(1))}}
	c := only(t, rs)
	for name, f := range map[string]cells.Figure{"main": c.Main, "p50": c.P50, "p99": c.P99, "rate": c.Rate, "cpu": c.CPUPerGB} {
		if f.N != 1 || math.IsNaN(f.Median) {
			t.Errorf("%s: %+v, want the one trial that has it", name, f)
		}
	}
}

// TestGrouperGoesOn: asking for the cells does not end the gathering.
func TestGrouperGoesOn(t *testing.T) {
	g := cells.NewGrouper()
	if cs := g.Cells(); len(cs) != 0 {
		t.Errorf("%d cells of nothing", len(cs))
	}
	g.Add(record(flood, 480))
	before := g.Cells()
	g.Add(record(flood, 490))
	if after := g.Cells(); before[0].N != 1 || after[0].N != 2 || len(before[0].Trials) != 1 {
		t.Errorf("n %d then %d, want 1 then 2", before[0].N, after[0].N)
	}
}

func TestCellsInOrderOfAppearance(t *testing.T) {
	a, b := workload.Case{Payload: 4096, Batch: 64}, workload.Case{Payload: 256, Batch: 64}
	cs := cells.Group([]*runrecord.Record{record(a, 1), record(b, 1), record(a, 1)})
	if len(cs) != 2 || cs[0].Case.Payload != 4096 || cs[0].N != 2 {
		t.Errorf("%d cells", len(cs))
	}
}

func histogram(t *testing.T, values ...int64) func(*runrecord.Record) {
	t.Helper()
	h := hdr.New(1, 3_600_000_000_000, 3)
	longest := int64(0)
	for _, v := range values {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, v)
	}
	text, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *runrecord.Record) {
		r.Latency.EndToEnd.HDR, r.Latency.EndToEnd.N, r.Latency.EndToEnd.MaxNs = to(string(text)), int64(len(values)), &longest
	}
}

// TestEndToEnd: percentiles of all messages together, not means of percentiles.
func TestEndToEnd(t *testing.T) {
	var fast, slow []int64
	for i := range int64(900) {
		fast = append(fast, 100_000+i)
	}
	for i := range int64(100) {
		slow = append(slow, 50_000_000+i)
	}
	g := cells.NewGrouper()
	g.KeepHistograms = true
	g.Add(record(flood, 480, histogram(t, fast...)))
	g.Add(record(flood, 480, histogram(t, slow...)))
	g.Add(record(flood, 480))                                                // has none
	g.Add(record(flood, 480, histogram(t, 1, 2, 3), invalid("not counted"))) // is in no figure
	c := g.Cells()[0]
	d, err := c.EndToEnd()
	if err != nil {
		t.Fatal(err)
	}
	near := func(got *int64, want int64) bool {
		return got != nil && math.Abs(float64(*got-want)) <= float64(want)/1000
	}
	if d.N != 1000 || !near(d.P50Ns, 100_499) || !near(d.P90Ns, 100_899) || !near(d.P99Ns, 50_000_089) || d.P999Ns != nil || d.MaxNs == nil || *d.MaxNs != 50_000_099 {
		t.Errorf("%+v: n %d, p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", d, d.N, *d.P50Ns, *d.P90Ns, *d.P99Ns, d.P999Ns, *d.MaxNs)
	}
	merged, err := hdr.Decode([]byte(*d.HDR))
	if err != nil || merged.TotalCount() != 1000 {
		t.Errorf("the merged text does not decode to 1,000 samples: %v", err)
	}
}

func TestEndToEndErrors(t *testing.T) {
	c := only(t, floods(480))
	if _, err := c.EndToEnd(); !errors.Is(err, cells.ErrNoHistograms) {
		t.Errorf("not kept: %v", err)
	}
	if _, err := new(cells.Cell).EndToEnd(); !errors.Is(err, cells.ErrNoHistograms) {
		t.Errorf("a zero cell: %v", err)
	}
	other := hdr.New(1, 1000, 2)
	text, err := other.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{"not base64": "?", "cut": "HISTFAAA", "another range": string(text)} {
		g := cells.NewGrouper()
		g.KeepHistograms = true
		g.Add(record(flood, 480, histogram(t, 5)))
		g.Add(record(flood, 480, func(r *runrecord.Record) { r.RunID = "bad-" + name; r.Latency.EndToEnd.HDR = &bad }))
		c := g.Cells()[0]
		if d, err := c.EndToEnd(); err == nil || !bytes.Contains([]byte(err.Error()), []byte("bad-"+name)) {
			t.Errorf("%s: %+v, %v: want an error that names the run", name, d, err)
		}
	}
	g := cells.NewGrouper()
	g.KeepHistograms = true
	g.Add(record(flood, 480))
	c = g.Cells()[0]
	if d, err := c.EndToEnd(); err != nil || d.N != 0 || d.HDR != nil {
		t.Errorf("none recorded: %+v, %v", d, err)
	}
}

// TestGrouperKeepsNumbers: a trial costs the numbers that it leaves, not its record.
func TestGrouperKeepsNumbers(t *testing.T) {
	const trials = 20_000
	g := cells.NewGrouper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range trials {
		r := record(flood, 480)
		r.Command = []string{string(make([]byte, 8<<10))}
		g.Add(r)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (after.HeapAlloc - before.HeapAlloc) / trials; per > 600 {
		t.Errorf("%d bytes a trial, want a few hundred at most", per)
	}
	runtime.KeepAlive(g)
}
