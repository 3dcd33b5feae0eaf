package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"felix/internal/runrecord"
)

// writeCPU writes a CPU profile of so many samples of 10 ms in one function.
func writeCPU(t *testing.T, path, function string, samples int64) {
	t.Helper()
	fn := &profile.Function{ID: 1, Name: function}
	loc := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: int64(10 * time.Millisecond),
		Function: []*profile.Function{fn}, Location: []*profile.Location{loc},
		Sample: []*profile.Sample{{Location: []*profile.Location{loc}, Value: []int64{samples, samples * int64(10*time.Millisecond)}}},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A file that is named twice, by itself and by its directory, counts once; the bytes of a GB are those of every run.
func TestCPU(t *testing.T) {
	session := t.TempDir()
	one, two := filepath.Join(session, "runs", "one"), filepath.Join(session, "runs", "two")
	writeCPU(t, filepath.Join(one, "broker.cpu.pprof"), "felix/broker.(*stream).publish", 100)
	writeCPU(t, filepath.Join(two, "broker.cpu.pprof"), "felix/broker.(*stream).publish", 300)
	writeCPU(t, filepath.Join(two, "clients.cpu.pprof"), "felix/client.(*Publisher).Publish", 200)
	for _, id := range []string{"one", "two"} {
		r := &runrecord.Record{Schema: runrecord.Schema, RunID: id}
		r.Rates.RunBytes = 1e9
		if err := runrecord.Append(filepath.Join(session, runrecord.RecordsFile), r); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cpu", "--per-gb", "--format", "json", one, filepath.Join(one, "broker.cpu.pprof"), two}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var got struct {
		Runs  int
		Cells []struct {
			Process, Group string
			PerGB          float64 `json:"cpu_s_per_gb"`
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, c := range got.Cells {
		if c.PerGB != 0 {
			figures[c.Process+" "+c.Group] = c.PerGB
		}
	}
	want := map[string]float64{"broker felix broker": 2, "clients felix client": 1, "all felix broker": 2, "all felix client": 1}
	for name, v := range want {
		if figures[name] != v {
			t.Errorf("%s: %v s/GB, want %v", name, figures[name], v)
		}
	}
	if got.Runs != 2 || len(figures) != len(want) {
		t.Errorf("%d runs, figures %v, want 2 and %v", got.Runs, figures, want)
	}
}

// Seconds for each GB need the record: without one nothing is printed.
func TestCPUWithoutRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	writeCPU(t, filepath.Join(dir, "broker.cpu.pprof"), "felix/broker.(*stream).publish", 1)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cpu", "--per-gb", dir}, &stdout, &stderr); code != exitUsage || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, want %d and nothing", code, stdout.Bytes(), exitUsage)
	}
	if !strings.Contains(stderr.String(), "--per-gb: ") || !strings.Contains(stderr.String(), "leave it out for plain seconds") {
		t.Errorf("stderr %q", stderr.Bytes())
	}
}
