package chart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/analysis/internal/chart"
	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

func ptr[V any](v V) *V { return &v }

// record is a believable trial of 2,000 messages to two subscribers.
func record(t *testing.T, payload, batch, trial int) *runrecord.Record {
	t.Helper()
	c, err := workload.Case{Payload: payload, Batch: batch, Fanout: 2}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	h := hdr.New(1, int64(time.Hour), 3)
	for i := range int64(4000) {
		if err := h.RecordValue(30_000 + i*100); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: fmt.Sprintf("0190-%d-%d-%08d", payload, batch, trial), SessionID: ptr("s"), Kind: "case", Valid: true, Trial: ptr(trial),
		Case:  runrecord.Case{Key: c.Key(), Case: c},
		Build: runrecord.Build{Commit: ptr("0941600abc"), Dirty: ptr(true), TreeDigest: ptr("aa"), Go: "go1.26", Optimized: true},
		Host:  runrecord.Host{Fingerprint: "host-a", Noise: &runrecord.Noise{Grade: "quiet"}}, Lossless: runrecord.LosslessYes,
		Rates: runrecord.Rates{DeliveredMsgsPerSec: ptr(1e4 + float64(trial)), DeliveredBytesPerSec: ptr((1e4 + float64(trial)) * float64(payload)), PeakBacklogBytes: 5000},
		Latency: runrecord.Latency{Kind: c.LatencyKind(), EndToEnd: &runrecord.Distribution{
			N: 4000, P50Ns: ptr(int64(230_000 + trial)), P90Ns: ptr(int64(390_000)), P99Ns: ptr(int64(425_000)), MaxNs: ptr(int64(429_900)), HDR: ptr(string(packed))}},
		Flow: runrecord.Flow{Offered: 2000, Written: ptr(int64(2000)), Published: ptr(int64(2000)), Queued: ptr(int64(4000)), Delivered: 3990},
		Counts: runrecord.Counts{Published: 2000, Expected: 4000, Delivered: 3990, Lost: 10, Unaccounted: 3, Refused: map[string]int64{"full": 4, "late": 1},
			Dropped: runrecord.Dropped{Subscriber: ptr(int64(7))}},
		Conns: []runrecord.Conn{{ID: "clients/c1", Role: "publisher", Remote: "127.0.0.1:2"}, {ID: "broker/c7", Role: "broker", Remote: "127.0.0.1:1", Busiest: true}},
	}
	for i := range int64(3) {
		r.Intervals = append(r.Intervals, runrecord.Interval{AtNs: (i + 1) * 1e8, Published: 100, Delivered: 200, DeliveredBytes: 200 * int64(payload), P50Ns: ptr(int64(1000))})
	}
	return r
}

// Open loops that differ in their rate alone are one plateau and one load curve; what was not counted has no place.
func TestOpenLoopsMakeALoadCurve(t *testing.T) {
	g := cells.NewGrouper()
	names := map[string]string{}
	for i, rate := range []float64{1000, 4000} {
		for trial := range 5 {
			r := record(t, 256, 4, trial)
			c, err := workload.Case{Payload: 256, Batch: 4, Fanout: 2, Rate: rate, Overload: true}.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			r.RunID = fmt.Sprintf("0190-%v-%d", rate, trial)
			r.Case = runrecord.Case{Key: c.Key(), Case: c}
			r.Counts.Expected, r.Counts.Dropped = 4000, runrecord.Dropped{Ingress: ptr(int64(40 * i)), Subscriber: ptr(int64(400 * i)), Writer: ptr(int64(0))}
			names[c.Key()] = fmt.Sprintf("rate=%v", rate)
			g.Add(r)
		}
	}
	list, err := chart.FromCells("s", g.Cells(), names)
	if err != nil {
		t.Fatal(err)
	}
	c := list[1]
	if c.Offered != 4000 || c.Subscribers != 2 || !c.Overload || c.Dropped[0].Median != 1 || c.Dropped[1].Median != 10 || c.Dropped[2].Median != 0 || !math.IsNaN(c.Dropped[3].Median) {
		t.Errorf("cell offers %v, dropped %+v", c.Offered, c.Dropped)
	}
	files, _, err := chart.Session(t.TempDir(), chart.SessionData{Cells: list}, chart.SVG)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, f := range files {
		kinds[f.Kind]++
	}
	if kinds["overload"] != 1 || kinds["load"] != 1 {
		t.Errorf("pictures %v, want one plateau and one load curve", kinds)
	}
	if kinds["latency"] != 1 || kinds["rate"] != 1 {
		t.Errorf("pictures %v: the rates of an open loop are the points of one curve", kinds)
	}
}

func TestFromCells(t *testing.T) {
	g := cells.NewGrouper()
	g.KeepHistograms = true
	names := map[string]string{}
	for _, payload := range []int{0, 256} {
		for _, batch := range []int{1, 64} {
			for trial := range 6 {
				r := record(t, payload, batch, trial)
				if batch == 64 && trial == 5 {
					r.Valid, r.Reasons = false, []string{"undersized: too short"}
				}
				if batch == 64 && trial == 4 {
					r.Rates.DeliveredMsgsPerSec, r.Rates.DeliveredBytesPerSec = ptr(1e3), ptr(1e3*float64(payload))
				}
				names[r.Case.Key] = fmt.Sprintf("payload=%d batch=%d preset=P1", payload, batch)
				g.Add(r)
			}
		}
	}
	list, err := chart.FromCells("the-session", g.Cells(), names)
	if err != nil || len(list) != 4 {
		t.Fatalf("FromCells = %d cells, %v", len(list), err)
	}
	c := list[3] // payload 256, batch 64
	if got, want := fmt.Sprint(c.Factors), "[{payload 256} {batch 64} {preset P1}]"; got != want {
		t.Errorf("factors %s, want %s", got, want)
	}
	if want := (chart.Source{Session: "the-session", Commit: "0941600abc", Dirty: true, Host: "host-a"}); c.Source != want {
		t.Errorf("source %+v, want %+v", c.Source, want)
	}
	if want := (chart.Shape{Queueing: true, Load: "flood"}); c.Shape != want {
		t.Errorf("shape %+v, want %+v", c.Shape, want)
	}
	if c.BytesPerSec.N != 5 || c.BytesPerSec.Invalid != 1 || !c.BytesPerSec.Doubtful || c.BytesPerSec.Median != 256*10001 {
		t.Errorf("bytes/s %+v", c.BytesPerSec)
	}
	kinds := ""
	for _, d := range c.Trials {
		kinds += fmt.Sprint(int(d.Kind))
	}
	if want := fmt.Sprintf("0000%d%d", chart.DotSlow, chart.DotInvalid); kinds != want {
		t.Errorf("kinds of the dots %s, want %s", kinds, want)
	}
	if !strings.HasPrefix(c.Slow, "slow 1/5 [") || !strings.Contains(c.Marks, "invalid") {
		t.Errorf("slow %q, marks %q", c.Slow, c.Marks)
	}
	if c.Curve == nil || c.Curve.N != 5*4000 || c.Curve.Steps[len(c.Curve.Steps)-1].Quantile != 1 || c.Curve.MaxNs != 429_900 {
		t.Errorf("curve %+v", c.Curve)
	}
	if c.P90.Median < 380_000 || c.P90.Median > 400_000 || !math.IsNaN(c.P90.Low) {
		t.Errorf("p90 of all messages %+v", c.P90)
	}
	ids, left := chart.Slowest(g.Cells(), 3)
	if want := []string{"0190-0-64-00000004", "0190-256-64-00000004", "0190-0-1-00000005"}; fmt.Sprint(ids) != fmt.Sprint(want) || left != 1 {
		t.Errorf("Slowest = %v, %d; want %v, 1", ids, left, want)
	}
	latency := list[0]
	if latency.Throughput || latency.Shape.Queueing || !math.IsNaN(latency.BytesPerSec.Median) || latency.P50.Median != 230_002.5 {
		t.Errorf("latency cell %+v", latency)
	}
	if files, _, err := chart.Session(t.TempDir(), chart.SessionData{Cells: list}, chart.SVG); err != nil || len(files) == 0 {
		t.Errorf("Session = %d files, %v", len(files), err)
	}
}

// TestFromCellsSameCase: two builds of one case are two cells, and their names say so.
func TestFromCellsSameCase(t *testing.T) {
	a, b := record(t, 256, 1, 0), record(t, 256, 1, 1)
	a.Build.BinarySHA256, b.Build.BinarySHA256 = ptr("aaaaaaaaaaaa"), ptr("bbbbbbbbbbbb")
	d := record(t, 256, 1, 2)
	d.Build.BinarySHA256, d.Env, d.Arm = b.Build.BinarySHA256, map[string]string{"GOGC": "off"}, nil
	list, err := chart.FromCells("s", cells.Group([]*runrecord.Record{a, b, d}), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		seen[fmt.Sprint(c.Factors)] = true
		if c.Curve != nil {
			t.Error("a curve without histograms")
		}
	}
	if len(list) != 3 || len(seen) != 3 {
		t.Errorf("%d cells, %d names: %v", len(list), len(seen), seen)
	}
}

func TestFromRecord(t *testing.T) {
	r := record(t, 256, 64, 3)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	stat := func(ms int, lost int) map[string]any {
		return map[string]any{"at": at.Add(time.Duration(ms) * time.Millisecond), "mtu_bytes": 1452, "cwnd_bytes": 40000, "rtt_min_ns": 1000, "rtt_smoothed_ns": 2000, "packets_lost": lost}
	}
	line, err := json.Marshal(map[string]any{"id": "broker/c7", "samples": []any{stat(-250, 1), stat(250, 4), stat(500, 3)}, "marked": stat(0, 2), "final": stat(600, 9)})
	if err != nil {
		t.Fatal(err)
	}
	beside := fstest.MapFS{
		"intervals.json":    {Data: []byte(`[{"at_ns":100000000,"published":10,"delivered":20,"delivered_bytes":5120,"p50_ns":null,"p99_ns":null,"backlog_bytes":77},{"at_ns":200000000,"published":0,"delivered":0,"delivered_bytes":0,"p50_ns":5,"p99_ns":9,"backlog_bytes":0}]`)},
		"connections.jsonl": {Data: append([]byte(`{"id":"clients/c1","final":{}}`+"\n"), append(line, '\n')...)},
	}
	run, err := chart.FromRecord("s", "payload=256", r, beside)
	if err != nil {
		t.Fatal(err)
	}
	tl := run.Timeline
	if len(tl.Slices) != 2 || tl.Slices[0].Delivered != 51200 || tl.Slices[0].Published != 10*256/0.1 || tl.Slices[0].BacklogBytes != 77 || !math.IsNaN(tl.Slices[0].P99Ns) {
		t.Errorf("slices %+v", tl.Slices)
	}
	if len(tl.Samples) != 4 || tl.Samples[0].AtSeconds != 0 || tl.Samples[1].PacketsLost != 2 || tl.Samples[3].AtSeconds != 0.6 || tl.Samples[3].PacketsLost != 7 {
		t.Errorf("samples %+v", tl.Samples)
	}
	if !strings.Contains(tl.Conn, "broker/c7") || !strings.Contains(tl.Trial, "trial 3") || !strings.Contains(tl.Trial, "valid") {
		t.Errorf("conn %q, trial %q", tl.Conn, tl.Trial)
	}
	losses := map[string]string{}
	for _, l := range run.Ledger.Losses {
		losses[l.Name] = "unknown"
		if l.Count != nil {
			losses[l.Name] = fmt.Sprint(*l.Count)
		}
	}
	for name, want := range map[string]string{"refused": "5", "dropped by subscriber queues": "7", "dropped by writers": "unknown", "UNACCOUNTED": "3"} {
		if losses[name] != want {
			t.Errorf("%s: %s, want %s", name, losses[name], want)
		}
	}

	t.Run("the record alone", func(t *testing.T) {
		run, err := chart.FromRecord("s", "payload=256", r, fstest.MapFS{})
		if err != nil || len(run.Timeline.Slices) != 3 || len(run.Timeline.Samples) != 0 || run.Timeline.Conn != "" || !math.IsNaN(run.Timeline.Slices[0].BacklogBytes) {
			t.Errorf("FromRecord = %+v, %v", run.Timeline, err)
		}
		if run, err = chart.FromRecord("s", "payload=256", r, nil); err != nil || len(run.Timeline.Slices) != 3 {
			t.Errorf("FromRecord without files = %+v, %v", run.Timeline, err)
		}
	})
	for name, file := range map[string]string{"intervals.json": "[", "connections.jsonl": "{"} {
		t.Run("broken "+name, func(t *testing.T) {
			run, err := chart.FromRecord("s", "payload=256", r, fstest.MapFS{name: {Data: []byte(file)}})
			if err == nil || !strings.Contains(err.Error(), name) || len(run.Timeline.Slices) == 0 {
				t.Errorf("FromRecord = %d slices, %v; want an error that names the file, and what the record has", len(run.Timeline.Slices), err)
			}
		})
	}
	t.Run("many intervals", func(t *testing.T) {
		var many []map[string]int64
		for i := range int64(5000) {
			many = append(many, map[string]int64{"at_ns": (i + 1) * 1e8, "published": 1, "delivered": 2, "delivered_bytes": 512, "p99_ns": i})
		}
		b, err := json.Marshal(many)
		if err != nil {
			t.Fatal(err)
		}
		run, err := chart.FromRecord("s", "x", r, fstest.MapFS{"intervals.json": {Data: b}})
		if n := len(run.Timeline.Slices); err != nil || n > 600 || n < 300 {
			t.Fatalf("%d slices, %v", n, err)
		}
		last := run.Timeline.Slices[len(run.Timeline.Slices)-1]
		if last.P99Ns != 4999 || last.AtSeconds != 500 || math.Abs(run.Timeline.Slices[0].Delivered-5120) > 1e-6 {
			t.Errorf("first %+v, last %+v", run.Timeline.Slices[0], last)
		}
	})
}

// FuzzFromRecord: whatever lies beside a record, the reader does not panic and the picture can be drawn or is empty.
func FuzzFromRecord(f *testing.F) {
	f.Add([]byte(`[{"at_ns":100,"p50_ns":-5,"backlog_bytes":-1}]`), []byte(`{"id":"broker/c7","marked":{},"samples":[{"cwnd_bytes":-1}],"final":{"at":"2026-03-01T10:00:00Z"}}`))
	f.Add([]byte(`[{},{}]`), []byte("\n"))
	f.Fuzz(func(t *testing.T, intervals, conns []byte) {
		r := &runrecord.Record{RunID: "x", Conns: []runrecord.Conn{{ID: "broker/c7", Busiest: true}}}
		run, err := chart.FromRecord("s", "x", r, fstest.MapFS{"intervals.json": {Data: intervals}, "connections.jsonl": {Data: conns}})
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is there: %v", err)
		}
		for _, figure := range []chart.Figure{&run.Timeline, &run.Ledger} {
			out, err := chart.Render(figure, chart.SVG)
			var empty *chart.EmptyError
			if err != nil && !errors.As(err, &empty) {
				t.Error(err)
			}
			if len(out) > 0 && (strings.Contains(string(out[0]), "NaN") || strings.Contains(string(out[0]), "Inf")) {
				t.Error("a coordinate that is no number")
			}
		}
	})
}

// TestLookAtARecord draws a real run: CHART_RECORD names its JSON, beside which out/ may lie.
func TestLookAtARecord(t *testing.T) {
	path := os.Getenv("CHART_RECORD")
	if path == "" || *look == "" {
		t.Skip("set CHART_RECORD and -look to draw a run of your own")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r runrecord.Record
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	run, err := chart.FromRecord("a session", r.Case.Key, &r, os.DirFS(filepath.Join(filepath.Dir(path), "out")))
	if err != nil {
		t.Fatal(err)
	}
	g := cells.NewGrouper()
	g.KeepHistograms = true
	g.Add(&r)
	list, err := chart.FromCells("a session", g.Cells(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, skipped, err := chart.Session(filepath.Join(*look, "record"), chart.SessionData{Cells: list, Runs: []chart.Run{run}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(skipped)
}
