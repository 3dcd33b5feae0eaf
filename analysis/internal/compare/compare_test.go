package compare_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"felix/analysis/internal/compare"
	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

func to[T any](v T) *T { return &v }

var runs int

// flood is a valid trial of a flood that delivered so many MB/s.
func flood(mbs float64, edits ...func(*runrecord.Record)) *runrecord.Record {
	c, err := workload.Case{Payload: 4096, Batch: 64}.Resolve()
	if err != nil {
		panic(err) // the test's own case
	}
	runs++
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: fmt.Sprintf("run-%d", runs), SessionID: to("session"), Kind: "case",
		Case:  runrecord.Case{Key: c.Key(), Case: c},
		Build: runrecord.Build{Commit: to("c"), TreeDigest: to("t"), BinarySHA256: to("b"), BenchDigest: to("d"), Go: "go1.26", Optimized: true},
		Host:  runrecord.Host{Fingerprint: "host", Noise: &runrecord.Noise{Grade: "quiet"}},
		Valid: true, SizeGrade: "sized", Lossless: runrecord.LosslessYes,
	}
	r.Rates.DeliveredBytesPerSec = to(mbs * 1e6)
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func floods(mbs []float64, edits ...func(*runrecord.Record)) []*runrecord.Record {
	var out []*runrecord.Record
	for i, v := range mbs {
		out = append(out, flood(v, append([]func(*runrecord.Record){func(r *runrecord.Record) { r.Trial = to(i + 1) }}, edits...)...))
	}
	return out
}

func side(label string, records ...[]*runrecord.Record) compare.Side {
	return compare.Side{Label: label, Cells: cells.Group(slices.Concat(records...))}
}

// first compares and returns the row of the delivered rate.
func first(t *testing.T, base, head compare.Side) compare.Row {
	t.Helper()
	c, err := compare.Sessions(base, head)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Rows, func(r compare.Row) bool { return r.Main })
	return c.Rows[i]
}

var (
	slowly = []float64{90, 91, 89, 92, 88, 90}
	fast   = []float64{100, 101, 99, 102, 98, 100}
)

func TestFindings(t *testing.T) {
	host := func(h string) func(*runrecord.Record) { return func(r *runrecord.Record) { r.Host.Fingerprint = h } }
	for _, tt := range []struct {
		name       string
		base, head []*runrecord.Record
		want       compare.Finding
		why        string
	}{
		{"slower", floods(fast), floods(slowly), compare.Worse, ""},
		{"faster", floods(slowly), floods(fast), compare.Better, ""},
		{"the same", floods(fast), floods(fast), compare.Unclear, ""},
		{"all equal", floods([]float64{5, 5, 5, 5, 5}), floods([]float64{5, 5, 5, 5, 5}), compare.Unclear, ""},
		{"few", floods(fast), floods(slowly[:4]), compare.Few, ""},
		{"one", floods(fast), floods(slowly[:1]), compare.Few, ""},
		{"other hosts", floods(fast), floods(slowly, host("other")), compare.NotJudged, "hosts differ"},
		{"a host not known", floods(fast), floods(slowly, host("")), compare.NotJudged, "a host is not known"},
		{"no host known", floods(fast, host("")), floods(slowly, host("")), compare.NotJudged, "a host is not known"},
		{"race", floods(fast), floods(slowly, func(r *runrecord.Record) { r.Build.Race = true }), compare.NotJudged, "built with race"},
		{"perturbed", floods(fast), floods(slowly, func(r *runrecord.Record) { r.Perturbed = []string{"qlog"} }), compare.NotJudged, "perturbed by instruments"},
		{"base at zero", floods([]float64{0, 0, 0, 0, 0}), floods(fast), compare.NoRatio, "the base is zero"},
		{"nothing valid in head", floods(fast), floods(slowly, func(r *runrecord.Record) { r.Valid = false }), compare.NoRatio, "no valid trial with it in head"},
	} {
		r := first(t, side("base", tt.base), side("head", tt.head))
		if r.Finding != tt.want || r.Why != tt.why {
			t.Errorf("%s: %s (%q), want %s (%q); ratio %v %+v", tt.name, r.Finding, r.Why, tt.want, tt.why, r.Ratio, r.Interval)
		}
		if r.Finding != compare.NoRatio && (r.Finding == compare.NotJudged) != math.IsNaN(r.P) {
			t.Errorf("%s: p = %v of a row that is %s", tt.name, r.P, r.Finding)
		}
	}
}

// Exchanging the sides gives the reciprocal and the opposite finding; the order of the trials does not matter.
func TestSwapped(t *testing.T) {
	there := first(t, side("base", floods(fast)), side("head", floods(slowly)))
	back := slices.Clone(slowly)
	slices.Reverse(back)
	again := first(t, side("base", floods(back)), side("head", floods(fast)))
	if math.Abs(there.Ratio*again.Ratio-1) > 1e-12 || math.Abs(there.Interval.Low*again.Interval.High-1) > 1e-12 || math.Abs(there.Interval.High*again.Interval.Low-1) > 1e-12 {
		t.Errorf("%v %+v and back %v %+v", there.Ratio, there.Interval, again.Ratio, again.Interval)
	}
	if there.Finding != compare.Worse || again.Finding != compare.Better || math.Abs(there.P-again.P) > 1e-12 {
		t.Errorf("%s p=%v and back %s p=%v", there.Finding, there.P, again.Finding, again.P)
	}
}

// keyed is a flood of another case.
func keyed(payload int) func(*runrecord.Record) {
	return func(r *runrecord.Record) {
		r.Case.Payload = payload
		r.Case.Key = r.Case.Case.Key()
	}
}

// What is sure comes first, by the end of its interval that is nearer to no difference: a wild 40 % after a firm 20 %,
// if it may be as little as 10 %.
func TestOrder(t *testing.T) {
	scaled := func(by float64, xs []float64) []float64 {
		out := make([]float64, len(xs))
		for i, x := range xs {
			out[i] = x * by
		}
		return out
	}
	wild := []float64{60, 62, 58, 90, 61, 59, 89}
	base := side("base", floods(fast, keyed(100)), floods(fast, keyed(200)), floods(fast, keyed(300)), floods(fast, keyed(400)), floods(fast, keyed(500)))
	head := side("head", floods(fast, keyed(100)), floods(wild, keyed(200)), floods(scaled(0.8, fast), keyed(300)), floods([]float64{50}, keyed(400)), floods(scaled(2, fast), keyed(500)))
	c, err := compare.Sessions(base, head)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range c.Rows {
		if r.Main {
			got = append(got, r.Cell+" "+string(r.Finding))
		}
	}
	want := "[payload=500 better payload=300 worse payload=200 worse payload=400 n too small payload=100 unclear]"
	if fmt.Sprint(got) != want {
		t.Errorf("order %v, want %s", got, want)
	}
	if !strings.Contains(c.Shared, "batch=64") || strings.Contains(c.Shared, "payload") {
		t.Errorf("shared %q", c.Shared)
	}
}

// Cells of one case are matched by their settings; those that have no one partner are missing, on either side.
func TestMatch(t *testing.T) {
	set := func(v int) func(*runrecord.Record) {
		return func(r *runrecord.Record) { r.Config.Broker = map[string]runrecord.Setting{"log_capacity": {Value: v}} }
	}
	c, err := compare.Sessions(side("base", floods(fast, set(1)), floods(fast, set(2))), side("head", floods(slowly, set(2)), floods(slowly, set(3))))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Rows); n != 2 || len(c.Missing) != 2 || c.Missing[0].Why != "not with these settings or instruments in head" {
		t.Errorf("%d rows, missing %+v", n, c.Missing)
	}
	// A case with one cell on each side is one, with other settings too: that is what sessions are compared for.
	c, err = compare.Sessions(side("base", floods(fast, set(1))), side("head", floods(slowly, set(2))))
	if err != nil || len(c.Missing) != 0 || fmt.Sprint(c.Differences) != "[effective settings differ: broker.log_capacity 1 -> 2]" {
		t.Errorf("missing %+v, differences %v, %v", c.Missing, c.Differences, err)
	}
	if _, err = compare.Sessions(side("base", floods(fast, keyed(100))), side("head", floods(fast, keyed(200)))); err == nil {
		t.Error("no error of sides without a common cell")
	}
}

// A new slow mode is seen though the medians agree; with fewer than 8 trials a side it is counted and not tested.
func TestModes(t *testing.T) {
	steady := []float64{100, 101, 99, 102, 98, 100, 101, 99}
	moody := []float64{100, 101, 30, 102, 29, 100, 31, 30}
	r := first(t, side("base", floods(steady)), side("head", floods(moody)))
	if r.Base.Slow != 0 || r.Head.Slow != 4 || r.Head.SlowOf != 8 || !(r.SlowP < 0.05) {
		t.Errorf("slow %d/%d, %d/%d, p = %v", r.Base.Slow, r.Base.SlowOf, r.Head.Slow, r.Head.SlowOf, r.SlowP)
	}
	r = first(t, side("base", floods(steady[:5])), side("head", floods(moody[:5])))
	if r.Head.Slow != 2 || !math.IsNaN(r.SlowP) {
		t.Errorf("slow %d of 5, p = %v, want 2 and none", r.Head.Slow, r.SlowP)
	}
}

// A trial that crashed before it said how it was set up is counted with its cell, unless that is not certain.
func TestFold(t *testing.T) {
	crashed := flood(0, func(r *runrecord.Record) {
		r.Valid, r.Error, r.Build, r.Rates = false, to("killed"), runrecord.Build{}, runrecord.Rates{}
	})
	list := compare.Fold(side("", floods(fast), []*runrecord.Record{crashed}).Cells)
	if len(list) != 1 || list[0].Failed != 1 || list[0].N != 6 || list[0].Publishable || !slices.Contains(list[0].Marks, cells.MarkFailed) || list[0].Reasons["killed"] != 1 {
		t.Errorf("folded to %+v", list)
	}
	other := floods(fast, func(r *runrecord.Record) { r.Build.TreeDigest = to("other") })
	if list := compare.Fold(side("", floods(fast), other, []*runrecord.Record{crashed}).Cells); len(list) != 3 {
		t.Errorf("%d cells, want the crash in one of its own", len(list))
	}
	if states := compare.States(side("", floods(fast), []*runrecord.Record{crashed}).Cells); len(states) != 1 {
		t.Errorf("states %v: a crash has none", states)
	}
}

// levels is a session with the publishers of its cells, at rates by trial.
func levels(rates map[int][]float64, edits ...func(*runrecord.Record)) (compare.Side, map[string]int) {
	var all []*runrecord.Record
	block := map[string]int{}
	for _, p := range []int{1, 2, 4} {
		for i, r := range floods(rates[p], append([]func(*runrecord.Record){func(r *runrecord.Record) {
			r.Case.Publishers = p
			r.Case.Key = r.Case.Case.Key()
		}}, edits...)...) {
			block[r.RunID] = i
			all = append(all, r)
		}
	}
	return side("", all), block
}

// Drift that is shared by a block cancels in pairs.
func TestByPairs(t *testing.T) {
	var one, two []float64
	for i := range 8 {
		drift := 100 * math.Pow(1.3, float64(i))
		one, two = append(one, drift), append(two, drift*(0.95+0.001*float64(i)))
	}
	s, block := levels(map[int][]float64{1: one, 2: two})
	c, _, err := compare.By(s, compare.ByOptions{Factor: "publishers", Block: block})
	if err != nil {
		t.Fatal(err)
	}
	r := c[0].Rows[0]
	if r.N != 8 || r.Dropped != 0 || r.Finding != compare.Worse || math.Abs(r.Ratio-0.9535) > 0.0005 {
		t.Errorf("%d pairs, %d dropped, %s, ratio %v", r.N, r.Dropped, r.Finding, r.Ratio)
	}
	// An invalid trial costs its pair, on either side.
	for i := range s.Cells {
		s.Cells[i].Trials[i].Valid = false
	}
	c, _, err = compare.By(s, compare.ByOptions{Factor: "publishers", Block: block})
	if r := c[0].Rows[0]; err != nil || r.N != 6 || r.Dropped != 2 {
		t.Errorf("%d pairs, %d dropped, %v; want 6 and 2", r.N, r.Dropped, err)
	}
	// Without blocks there are no pairs.
	c, _, err = compare.By(s, compare.ByOptions{Factor: "publishers"})
	if r := c[0].Rows[0]; err != nil || r.N != 0 || r.Finding != compare.NoRatio {
		t.Errorf("%d pairs, %s, %v", r.N, r.Finding, err)
	}
}

// A noise peak is not crowned: the level with the best median is the best only if it is told from its neighbours and
// the reference.
func TestBest(t *testing.T) {
	up := func(by float64) []float64 {
		var out []float64
		for i := range 8 {
			out = append(out, by*(100+float64(i*i%7)))
		}
		return out
	}
	peak := up(1)
	peak[2], peak[5], peak[6], peak[7] = 130, 131, 132, 90
	for _, tt := range []struct {
		name  string
		rates map[int][]float64
		want  string
	}{
		{"clear", map[int][]float64{1: up(1), 2: up(1.1), 4: up(1.2)}, "best publishers of batch=64 fanout=1 load=flood acks=none payload=4096: 4, by delivered; better in pairs than 2 and 1"},
		{"a peak", map[int][]float64{1: up(1), 2: peak, 4: up(1)}, "no best publishers of X: 2 has the best median delivered, but is not told from 1 in n=8 pairs"},
		{"not told from its neighbour", map[int][]float64{1: up(1), 2: up(1.1), 4: up(1.1)}, "but is not told from"},
	} {
		s, block := levels(tt.rates)
		_, best, err := compare.By(s, compare.ByOptions{Factor: "publishers", Block: block})
		if err != nil || len(best) != 1 {
			t.Fatalf("%s: %q, %v", tt.name, best, err)
		}
		_, end, _ := strings.Cut(tt.want, ": ")
		if end == "" {
			end = tt.want
		}
		if !strings.HasSuffix(best[0], end) && !strings.Contains(best[0], end) || strings.HasPrefix(best[0], "no best") == (tt.name == "clear") {
			t.Errorf("%s: %q, want %q", tt.name, best[0], tt.want)
		}
	}
}

// Every format tells the same rows, also where there is nothing to tell.
func TestWriters(t *testing.T) {
	for name, head := range map[string][]*runrecord.Record{
		"slower": floods(slowly), "one trial": floods(slowly[:1]), "all invalid": floods(slowly, func(r *runrecord.Record) { r.Valid = false }),
		"five decades": floods([]float64{1e-2, 1e-1, 1, 10, 100, 1000}), "zero": floods([]float64{0, 0, 0, 0, 0}),
	} {
		c, err := compare.Sessions(side("base", floods(fast)), side("head", head))
		if err != nil {
			t.Fatal(err)
		}
		r := &compare.Report{Comparisons: []*compare.Comparison{c}}
		var text, md, csv, doc strings.Builder
		for _, err := range []error{r.WriteText(&text), r.WriteMarkdown(&md), r.WriteCSV(&csv), r.WriteJSON(&doc)} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, line := range strings.Split(text.String(), "\n") {
			if n := len([]rune(line)); n > 140 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
		if n := strings.Count(csv.String(), "\n"); n != 1+len(c.Rows) {
			t.Errorf("%s: %d lines of CSV for %d rows", name, n, len(c.Rows))
		}
		for format, got := range map[string]string{"text": text.String(), "md": md.String(), "csv": csv.String(), "json": doc.String()} {
			if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
				t.Errorf("%s: %s has NaN or Inf:\n%s", name, format, got)
			}
		}
	}
}

// The arms of an A/B of settings are pairs, though the setting is part of their cases' keys and of their variables.
func TestByArmOfSettings(t *testing.T) {
	arm := func(name string, capacity string) func(*runrecord.Record) {
		return func(r *runrecord.Record) {
			r.Arm, r.Env = &name, map[string]string{"GOGC": capacity}
			r.Case.BrokerSet = map[string]string{"log_capacity": capacity}
			r.Case.Key = r.Case.Case.Key()
		}
	}
	var all []*runrecord.Record
	block := map[string]int{}
	for _, payload := range []int{1000, 2000} {
		for i := range 7 {
			for _, a := range []struct {
				name, capacity string
				rate           float64
			}{{"base", "1", 100}, {"head", "2", 90}} {
				r := flood(a.rate*float64(1+i), func(r *runrecord.Record) { r.Case.Payload = payload }, arm(a.name, a.capacity))
				block[r.RunID] = i
				all = append(all, r)
			}
		}
	}
	c, _, err := compare.By(side("", all), compare.ByOptions{Factor: "arm", Block: block})
	if err != nil {
		t.Fatal(err)
	}
	if len(c) != 1 || len(c[0].Missing) != 0 || len(c[0].Rows) != 4 || c[0].Rows[0].N != 7 || c[0].Rows[0].Finding != compare.Worse {
		t.Errorf("%d comparisons, missing %v, rows %+v", len(c), c[0].Missing, c[0].Rows)
	}
	if d := strings.Join(c[0].Differences, "; "); !strings.Contains(d, "variables differ: GOGC 1 -> 2") {
		t.Errorf("differences %q", d)
	}
}
