package export_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"felix/analysis/internal/export"
	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

func to[T any](v T) *T { return &v }

// set is one valid trial of each case, with names as a grid may give them.
func set(t *testing.T, names map[workload.Load]string, edits ...func(*runrecord.Record)) *export.Set {
	t.Helper()
	s := &export.Set{Names: map[string]string{}, Runs: map[string]export.Run{}}
	var all []*runrecord.Record
	for load, name := range names {
		c, err := workload.Case{Payload: 256, Load: load, Rate: map[workload.Load]float64{workload.LoadOpen: 100}[load]}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		r := &runrecord.Record{
			RunID: name, Valid: true, Case: runrecord.Case{Key: c.Key(), Case: c}, Build: runrecord.Build{Optimized: true},
			Latency: runrecord.Latency{EndToEnd: &runrecord.Distribution{N: 10, P50Ns: to(int64(1500))}},
			Rates:   runrecord.Rates{DeliveredBytesPerSec: to(2.5e6), DeliveredMsgsPerSec: to(1e4)},
		}
		for _, edit := range edits {
			edit(r)
		}
		s.Names[c.Key()] = name
		s.Runs[name] = export.RunOf(r, true)
		all = append(all, r)
	}
	s.Cells = cells.Group(all)
	return s
}

// What benchstat takes for a benchmark's line.
var wellFormed = regexp.MustCompile(`^BenchmarkFelix/\S+ \d+( [0-9.e+-]+ \S+)+$`)

// A cell's name becomes one word; "-NUMBER" at its end would be read as so many processors.
func TestBenchNames(t *testing.T) {
	for name, want := range map[string]string{
		"payload=256 batch=1": "BenchmarkFelix/payload=256/batch=1 1 ",
		"pool-4":              "BenchmarkFelix/pool-4_ 1 ",
		"a\tb,c  d":           "BenchmarkFelix/a/b_c/d 1 ",
		"µs":                  "BenchmarkFelix/µs 1 ",
		"-7":                  "BenchmarkFelix/-7_ 1 ",
		"7":                   "BenchmarkFelix/7 1 ",
	} {
		var out bytes.Buffer
		s := set(t, map[workload.Load]string{workload.LoadClosed: name})
		if n, err := s.WriteBench(&out); err != nil || n != 1 {
			t.Fatalf("%q: %d lines, %v", name, n, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, want) || !wellFormed.MatchString(last) {
			t.Errorf("%q: %q, want it to begin with %q", name, last, want)
		}
	}
}

// Two things that are not the same thing never go out under one unit: latency, and the delay in queues that the
// generator filled; and what is not known does not go out at all.
func TestUnits(t *testing.T) {
	var out bytes.Buffer
	s := set(t, map[workload.Load]string{workload.LoadFlood: "flood", workload.LoadOpen: "open"})
	if _, err := s.WriteBench(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"Unit p50-latency-ns better=lower\n", "/flood 1 2.5e+06 B/s 10000 msgs/s\n", "/open 1 1500 p50-latency-ns\n", "host: unknown\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "p99-latency-ns\n") && !strings.Contains(text, "Unit p99") {
		t.Errorf("figures that are not there:\n%s", text)
	}
	s = set(t, map[workload.Load]string{workload.LoadClosed: "batchless"}, func(r *runrecord.Record) { r.Case.Acks = workload.AcksNone })
	out.Reset()
	if _, err := s.WriteBench(&out); err != nil || !strings.Contains(out.String(), " 1500 p50-queueing-ns") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// File names hold no path, whatever a grid or a file of records calls a cell.
func TestFileNames(t *testing.T) {
	for _, name := range []string{"../../etc/passwd", "a/b", strings.Repeat("x=1 ", 200), "nul\x00", "a:b"} {
		got := set(t, map[workload.Load]string{workload.LoadClosed: name}).FileNames()[0]
		if strings.ContainsAny(got, "/\\\x00: ") || len(got) > 200 || got == "" {
			t.Errorf("%q: file name %q", name, got)
		}
	}
}

// The tracker's figures are numbers, of one direction a list, and none is of a cell without a valid trial.
func TestTracker(t *testing.T) {
	s := set(t, map[workload.Load]string{workload.LoadFlood: "flood", workload.LoadOpen: "open"})
	bigger, smaller := s.Tracker()
	b, err := json.Marshal([][]export.TrackerEntry{bigger, smaller})
	if err != nil {
		t.Fatal(err)
	}
	if len(bigger) != 2 || len(smaller) != 1 || bigger[0].Value != 2.5 || bigger[0].Unit != "MB/s" || smaller[0].Value != 1.5 || smaller[0].Unit != "us" {
		t.Errorf("%s", b)
	}
	if !strings.Contains(smaller[0].Extra, "n=1\nnot publishable: n<5") {
		t.Errorf("extra %q", smaller[0].Extra)
	}
	s = set(t, map[workload.Load]string{workload.LoadFlood: "flood"}, func(r *runrecord.Record) { r.Valid = false })
	if bigger, smaller = s.Tracker(); len(bigger)+len(smaller) > 0 {
		t.Errorf("%v %v of nothing valid", bigger, smaller)
	}
}
