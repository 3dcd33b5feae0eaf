package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/analysis/internal/chart"
)

// grid makes a session of payloads x batches x fanouts x presets.
func grid(batches, presets int) chart.SessionData {
	var in chart.SessionData
	for _, payload := range payloads {
		for b := range batches {
			for _, fanout := range []int{1, 4, 10} {
				for p := range presets {
					in.Cells = append(in.Cells, cellOf(payload, 1<<(3*b), fanout, p))
				}
			}
		}
	}
	return in
}

func cellOf(payload float64, batch, fanout, preset int) chart.Cell {
	c := chart.Cell{
		Source: dirty, Shape: chart.Shape{Queueing: batch > 1, Load: "flood"}, Payload: int(payload), Throughput: batch > 1,
		Factors: []chart.Factor{
			{Name: "payload", Level: fmt.Sprint(int(payload))}, {Name: "batch", Level: fmt.Sprint(batch)},
			{Name: "fanout", Level: fmt.Sprint(fanout)}, {Name: "preset", Level: fmt.Sprintf("P%d_hash", preset)},
		},
	}
	if batch == 1 {
		c.Shape.Load = "closed loop, acks per message, 1 in flight"
	}
	base := 40e3 * (1 + payload/20000) * float64(fanout+preset)
	c.P50, c.P99 = of(base, 0.1, 5), of(3*base, 0.2, 5)
	c.P90, c.P999 = of(2*base, nan, 5), of(9*base, nan, 5)
	rate := 1e5 * math.Sqrt(float64(batch)) / (1 + payload/4000) / float64(preset+1)
	c.MsgsPerSec, c.BytesPerSec = of(rate, 0.05, 5), of(rate*payload, 0.05, 5)
	for i := range 5 {
		v := base * (1 + 0.03*float64(i-2))
		if c.Throughput {
			v = rate * max(payload, 1) * (1 + 0.03*float64(i-2))
		}
		c.Trials = append(c.Trials, chart.Dot{Value: v})
	}
	d := curve("", 5, 100_000, base)
	c.Curve = &d
	return c
}

func TestSession(t *testing.T) {
	in := grid(2, 2)
	in.Cells = slices.DeleteFunc(in.Cells, func(c chart.Cell) bool { return c.Payload == 4096 && c.Factors[3].Level == "P1_hash" })
	in.Runs = []chart.Run{
		{Name: "payload=4096 batch=64", RunID: "0190-aaaaaaaaaaaa", Timeline: *timeline(), Ledger: *ledger([]int64{9, 9, 9, 9, 9, 18, 18, 18}, nil)},
		{Name: "payload=0", RunID: "0190-bbbbbbbbbbbb"},
	}
	in.Comparisons = []*chart.Forest{forest(), {Base: "a", Head: "b"}}
	for len(in.Comparisons[0].Rows) <= chart.MostRows {
		in.Comparisons[0].Rows = append(in.Comparisons[0].Rows, forest().Rows...)
	}
	dir := t.TempDir()
	if *look != "" {
		dir = filepath.Join(*look, "session")
	}
	files, skipped, err := chart.Session(dir, in, chart.SVG)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name)
		if info, err := os.Stat(filepath.Join(dir, f.Name)); err != nil || info.Size() != int64(f.Bytes) {
			t.Errorf("%s: %v, %d bytes told", f.Name, err, f.Bytes)
		}
	}
	for _, s := range skipped {
		got = append(got, "skipped "+s.Name+": "+s.Reason)
	}
	var want []string
	for _, batch := range []string{"1", "8"} {
		for _, fanout := range []string{"1", "4", "10"} {
			for _, preset := range []string{"P0_hash", "P1_hash"} {
				of := "batch-" + batch + "-fanout-" + fanout + "-preset-" + preset + ".svg"
				want = append(want, "latency-"+of, "distribution-"+of)
			}
		}
	}
	for _, kind := range []string{"rate-batch-1-preset-P0_hash", "rate-batch-1-preset-P1_hash", "rate-batch-8-preset-P0_hash", "rate-batch-8-preset-P1_hash",
		"throughput-batch-8-preset-P0_hash", "throughput-batch-8-preset-P1_hash", "trials-throughput-part-01", "trials-throughput-part-02",
		"trials-rate", "trials-latency-part-01", "trials-latency-part-02", "timeline-payload-4096-batch-64-aaaaaaaa", "ledger-payload-4096-batch-64-aaaaaaaa",
		"comparison-head-base", "comparison-head-base-part-2"} {
		want = append(want, kind+".svg")
	}
	want = append(want, "skipped timeline-payload-0-bbbbbbbb: no time line was recorded",
		"skipped ledger-payload-0-bbbbbbbb: no station of the path was counted", "skipped comparison-b-a: nothing was compared")
	slices.Sort(got)
	slices.Sort(want)
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestSessionTwice: the same session gives the same bytes, whichever core drew them.
func TestSessionTwice(t *testing.T) {
	in := grid(1, 1)
	in.Cells = slices.DeleteFunc(in.Cells, func(c chart.Cell) bool { return c.Factors[2].Level != "1" })
	var all [2]map[string][]byte
	for i := range all {
		dir := t.TempDir()
		files, _, err := chart.Session(dir, in)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = map[string][]byte{}
		for _, f := range files {
			if all[i][f.Name], err = os.ReadFile(filepath.Join(dir, f.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(all[0]) == 0 || len(all[0]) != len(all[1]) {
		t.Fatalf("%d and %d files", len(all[0]), len(all[1]))
	}
	for name, b := range all[0] {
		if !bytes.Equal(b, all[1][name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestSessionLarge draws 504 cells in both formats; the bar is 30 s.
func TestSessionLarge(t *testing.T) {
	if testing.Short() || *look == "" {
		t.Skip("takes half a minute; run with -look DIR")
	}
	began := time.Now()
	in := grid(3, 8)
	files, skipped, err := chart.Session(filepath.Join(*look, "large"), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cells: %d files, %d skipped, %v", len(in.Cells), len(files), len(skipped), time.Since(began))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%d cells took %v", len(in.Cells), took)
	}
}

func TestSessionWithoutPayloads(t *testing.T) {
	in := grid(3, 2)
	in.Cells = slices.DeleteFunc(in.Cells, func(c chart.Cell) bool { return c.Payload != 256 })
	files, _, err := chart.Session(t.TempDir(), in, chart.SVG)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f chart.File) bool { return f.Title == "Latency percentiles against batch" }) &&
		!slices.ContainsFunc(files, func(f chart.File) bool { return f.Title == "Latency percentiles against fanout" }) {
		t.Errorf("payload does not vary, and no other factor took the axis: %+v", files)
	}
}

func TestSessionEmpty(t *testing.T) {
	files, skipped, err := chart.Session(t.TempDir(), chart.SessionData{})
	if len(files) > 0 || len(skipped) > 0 || err != nil {
		t.Errorf("Session of nothing = %v, %v, %v", files, skipped, err)
	}
}

func TestSessionUnwritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := chart.Session(path, grid(1, 1)); err == nil {
		t.Error("no error for a directory that is a file")
	}
}

// TestEmpty: a figure without anything to draw says why, and is no picture.
func TestEmpty(t *testing.T) {
	levels := func(points ...chart.Point) *chart.Levels {
		return &chart.Levels{Factor: "payload", Series: []chart.Series{{Name: "p50", Points: points}}}
	}
	for name, tt := range map[string]struct {
		figure chart.Figure
		want   string
	}{
		"no cells":            {&chart.Levels{}, "no cells"},
		"all invalid":         {levels(chart.Point{X: 1, Value: absent(nan, 0, 5)}), "1 value: all trials invalid"},
		"all zero":            {levels(chart.Point{X: 1, Value: absent(0, 5, 0)}, chart.Point{X: 2, Value: absent(0, 5, 0)}), "2 values: measured, and zero"},
		"too many series":     {&chart.Levels{Series: make([]chart.Series, 9)}, "9 series, more than the 8 that can be told apart"},
		"no histograms":       {&chart.Distribution{Curves: []chart.Curve{{Name: "a"}}}, "no latency histogram with samples"},
		"no trials":           {&chart.Trials{Rows: []chart.TrialRow{{Name: "a"}}}, "no trials"},
		"trials of nothing":   {&chart.Trials{Rows: []chart.TrialRow{{Name: "a", Dots: []chart.Dot{{Value: nan}, {Value: 0}}}}}, "2 trials, none with a figure above 0"},
		"no time line":        {&chart.Timeline{}, "no time line was recorded"},
		"time without length": {&chart.Timeline{Samples: []chart.ConnSample{{CwndBytes: 5}}}, "the time line has no length"},
		"one rate":            {plateau(false, 1), "fewer than two rates were measured"},
		"no rates":            {&chart.Load{}, "fewer than two rates were measured"},
		"nothing sent":        {ledger(make([]int64, 8), nil), "not one message was sent"},
		"nothing counted":     {&chart.Ledger{}, "no station of the path was counted"},
		"no ratios":           {&chart.Forest{Rows: []chart.ForestRow{{Ratio: nan}}}, "1 row, none with a ratio"},
		"nothing compared":    {&chart.Forest{}, "nothing was compared"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := chart.Render(tt.figure, chart.SVG)
			var empty *chart.EmptyError
			if !errors.As(err, &empty) || empty.Reason != tt.want || out != nil {
				t.Errorf("Render = %d pictures, %v; want %q", len(out), err, tt.want)
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	for _, tt := range []struct {
		text string
		want chart.Format
		bad  bool
	}{{"svg", chart.SVG, false}, {"PNG", chart.PNG, false}, {"pdf", "", true}, {"", "", true}} {
		if got, err := chart.ParseFormat(tt.text); got != tt.want || (err != nil) != tt.bad {
			t.Errorf("ParseFormat(%q) = %q, %v", tt.text, got, err)
		}
	}
}

// wellFormed reads XML to its end.
func wellFormed(b []byte) error {
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestNamesAreEscaped: names come from flags and files.
func TestNamesAreEscaped(t *testing.T) {
	f := trialRows()
	f.Title, f.Rows[0].Name = `a <b> & "c" $1`, "\x00<script>\t€ 漢"
	out, err := chart.Render(f, chart.SVG)
	if err != nil {
		t.Fatal(err)
	}
	if err := wellFormed(out[0]); err != nil {
		t.Error(err)
	}
	if svg := string(out[0]); strings.Contains(svg, "<script>") || !strings.Contains(svg, "$1") {
		t.Error("a name came through as markup, or changed")
	}
}

// TestEveryPictureSays what it must: source, caveat, n, and that its axes are logarithmic.
func TestEveryPictureSays(t *testing.T) {
	for name, f := range figures() {
		out, err := chart.Render(f, chart.SVG)
		if err != nil {
			t.Fatal(err)
		}
		svg := string(out[0])
		for _, want := range []string{"session 20260301T", "commit ", "host 3fa8c1d2e4b59607aa", "n = ", "scale"} {
			if strings.HasPrefix(name, "ledger") && want == "scale" {
				continue // no axes
			}
			if !strings.Contains(svg, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if err := wellFormed(out[0]); err != nil {
			t.Errorf("%s is no XML: %v", name, err)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s has a coordinate or a text that is no number", name)
		}
		for _, shape := range []string{"latency of single messages", "latencies of single messages", "queueing delay (NOT per-message latency)"} {
			if strings.Contains(svg, shape) {
				svg = ""
			}
		}
		if svg != "" {
			t.Errorf("%s does not say how its load shape wants it read", name)
		}
	}
	out, err := chart.Render(figures()["rate"], chart.SVG)
	if err != nil || !strings.Contains(string(out[0]), "(DIRTY)") {
		t.Errorf("a dirty build is not called DIRTY: %v", err)
	}
}
