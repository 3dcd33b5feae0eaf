package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/cells"
	"felix/internal/runrecord"
)

// exported runs export on a session and returns the file's content.
func exported(t *testing.T, root, session, flag string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"export", "--results", root, "--session", session, flag, path}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// HdrHistogram's own reader reads the log: every valid trial, with its histogram, its cell and its time.
func TestHLogReadBack(t *testing.T) {
	root := filepath.Join(t.TempDir(), "compared")
	writeCompared(t, root)
	s, _, err := runrecord.FindSession(root, "eeee0002")
	if err != nil {
		t.Fatal(err)
	}
	var want []*runrecord.Record
	for _, r := range records(t, s.RecordsPath()) {
		if r.Valid {
			want = append(want, r)
		}
	}
	slices.SortStableFunc(want, func(a, b *runrecord.Record) int { return a.StartedAt.Compare(b.StartedAt) })
	log := hdr.NewHistogramLogReader(bytes.NewReader(exported(t, root, "eeee0002", "--hlog")))
	for i, r := range want {
		h, err := log.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatalf("line %d of %d: %v, %v", i+1, len(want), h, err)
		}
		recorded, err := hdr.Decode([]byte(*r.Latency.EndToEnd.HDR))
		if err != nil {
			t.Fatal(err)
		}
		if !h.Equals(recorded) || h.TotalCount() != r.Latency.EndToEnd.N {
			t.Errorf("line %d is not the histogram of run %s", i+1, r.RunID)
		}
		if h.StartTimeMs() != r.StartedAt.UnixMilli() || h.EndTimeMs()-h.StartTimeMs() != r.DurationNs/1e6 {
			t.Errorf("line %d: from %d to %d ms, want %d and %d ms long", i+1, h.StartTimeMs(), h.EndTimeMs(), r.StartedAt.UnixMilli(), r.DurationNs/1e6)
		}
		if !strings.Contains(h.Tag(), "payload="+strconv.Itoa(r.Case.Payload)+"/batch="+strconv.Itoa(r.Case.Batch)) {
			t.Errorf("line %d: tag %q of payload %d", i+1, h.Tag(), r.Case.Payload)
		}
	}
	if h, err := log.NextIntervalHistogram(); h != nil || err != nil {
		t.Errorf("a line too many: %v, %v", h, err)
	}
}

// The percentiles of a .hgrm are those of all the cell's messages.
func TestHGRM(t *testing.T) {
	root := filepath.Join(t.TempDir(), "compared")
	writeCompared(t, root)
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"export", "--results", root, "--session", "eeee0001", "--hgrm", dir}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	g := cells.NewGrouper()
	g.KeepHistograms = true
	s, _, err := runrecord.FindSession(root, "eeee0001")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records(t, s.RecordsPath()) {
		g.Add(r)
	}
	for _, c := range g.Cells() {
		d, err := c.EndToEnd()
		if err != nil {
			t.Fatal(err)
		}
		matches, err := filepath.Glob(filepath.Join(dir, "payload="+strconv.Itoa(c.Case.Payload)+"_batch="+strconv.Itoa(c.Case.Batch)+"_*.hgrm"))
		if err != nil || len(matches) != 1 {
			t.Fatalf("files of payload %d: %v, %v", c.Case.Payload, matches, err)
		}
		text, err := os.ReadFile(matches[0])
		if err != nil {
			t.Fatal(err)
		}
		var median float64
		rows := 0
		for _, line := range strings.Split(string(text), "\n") {
			f := strings.Fields(line)
			if len(f) != 4 || strings.HasPrefix(line, "#") || f[0] == "Value" {
				continue
			}
			rows++
			if f[1] == "0.500000" {
				if median, err = strconv.ParseFloat(f[0], 64); err != nil {
					t.Fatal(err)
				}
			}
		}
		// It is a rounded value of its bucket, 0.1 % wide.
		if want := float64(*d.P50Ns) / 1000; rows < 10 || math.Abs(median-want) > want/500 {
			t.Errorf("%s: median %v us in %d rows, want %v", matches[0], median, rows, want)
		}
	}
}

// benchLine is a line of the Go benchmark format, as x/perf's reader takes it apart.
var benchLine = regexp.MustCompile(`^Benchmark([A-Z]\S*) (\d+)((?: \S+ \S+)+)$`)

// medians reads the Go benchmark format and returns the medians of every benchmark and unit, and the units' directions.
func medians(t *testing.T, text []byte) (medians map[string]float64, better map[string]string) {
	t.Helper()
	samples := map[string][]float64{}
	better = map[string]string{}
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "Unit "); ok {
			unit, direction, _ := strings.Cut(rest, " better=")
			better[unit] = direction
			continue
		}
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		m := benchLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a benchmark's line: %q", line)
		}
		f := strings.Fields(m[3])
		for i := 0; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			samples[m[1]+" "+f[i+1]] = append(samples[m[1]+" "+f[i+1]], v)
			if better[f[i+1]] == "" {
				t.Errorf("unit %s has no direction", f[i+1])
			}
		}
	}
	medians = map[string]float64{}
	for k, v := range samples {
		slices.Sort(v)
		medians[k] = (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return medians, better
}

// The exported lines are the trials: their medians are those of the table.
func TestBenchMedians(t *testing.T) {
	root := filepath.Join(t.TempDir(), "compared")
	writeCompared(t, root)
	got, better := medians(t, exported(t, root, "eeee0002", "--bench"))
	for unit, want := range map[string]string{"B/s": "higher", "msgs/s": "higher", "cpu-sec/GB": "lower", "p50-latency-ns": "lower", "p99-latency-ns": "lower"} {
		if better[unit] != want {
			t.Errorf("%s: better=%s, want %s", unit, better[unit], want)
		}
	}
	for name, want := range cellMedians(t, root, "eeee0002") {
		if math.Abs(got[name]-want) > want*1e-12 {
			t.Errorf("%s: median %v, want %v", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more than the cells have: %v", got)
	}
}

// cellMedians are the medians of a session's cells, by benchmark and unit.
func cellMedians(t *testing.T, root, session string) map[string]float64 {
	t.Helper()
	s, _, err := runrecord.FindSession(root, session)
	if err != nil {
		t.Fatal(err)
	}
	names := gridNames([]*runrecord.Session{s})
	out := map[string]float64{}
	for _, c := range cells.Group(records(t, s.RecordsPath())) {
		name := "Felix/" + strings.ReplaceAll(names[c.Key], " ", "/") + " "
		switch {
		case c.N == 0:
		case c.Throughput:
			out[name+"msgs/s"] = c.Rate.Median
			if c.Case.Payload > 0 {
				out[name+"B/s"], out[name+"cpu-sec/GB"] = c.Main.Median, c.CPUPerGB.Median
			}
		default:
			out[name+"p50-latency-ns"], out[name+"p99-latency-ns"] = c.P50.Median, c.P99.Median
		}
	}
	return out
}

// benchstat reads the files of two sessions as one table each unit, and agrees on the medians. It is asked only where
// it is installed: scripts/tool benchstat brings it, as .ci/run does.
func TestBenchstatAgrees(t *testing.T) {
	benchstat, err := exec.LookPath("benchstat")
	if err != nil {
		if benchstat, err = filepath.Abs("../.bin/benchstat"); err == nil {
			_, err = os.Stat(benchstat)
		}
	}
	if err != nil {
		t.Skip("no benchstat in PATH, nor in .bin")
	}
	root := filepath.Join(t.TempDir(), "compared")
	writeCompared(t, root)
	var files []string
	for _, session := range []string{"eeee0001", "eeee0002"} {
		path := filepath.Join(t.TempDir(), session)
		if err := os.WriteFile(path, exported(t, root, session, "--bench"), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	out, err := exec.CommandContext(t.Context(), benchstat, append([]string{"-format", "csv"}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := benchstatMedians(t, out)
	compared := 0
	for column, session := range []string{"eeee0001", "eeee0002"} {
		for name, want := range cellMedians(t, root, session) {
			bench, unit, _ := strings.Cut(name, " ")
			if prefix, ok := strings.CutSuffix(unit, "-ns"); ok { // it counts in seconds
				unit, want = prefix+"-sec", want/1e9
			}
			v, ok := got[bench+" "+unit][column]
			if !ok || math.Abs(v-want) > want*1e-9 {
				t.Errorf("%s of %s: benchstat says %v, want %v\n%s", name, session, v, want, out)
			}
			compared++
		}
	}
	if compared < 12 {
		t.Errorf("compared %d medians", compared)
	}
}

// benchstatMedians reads benchstat's CSV: per benchmark and unit the medians by column.
func benchstatMedians(t *testing.T, text []byte) map[string]map[int]float64 {
	t.Helper()
	out := map[string]map[int]float64{}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	unit, second := "", 0
	for _, row := range rows {
		switch {
		case len(row) > 2 && row[0] == "" && row[2] == "CI": // the names of the columns
			unit = row[1]
			second = slices.Index(row[2:], unit) + 2
		case strings.HasPrefix(row[0], "Felix/"):
			key := row[0] + " " + unit
			out[key] = map[int]float64{}
			for column, at := range []int{1, second} {
				if at < len(row) && row[at] != "" {
					v, err := strconv.ParseFloat(row[at], 64)
					if err != nil {
						t.Fatal(err)
					}
					out[key][column] = v
				}
			}
		}
	}
	return out
}
