package history_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/analysis/internal/history"
	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

var update = os.Getenv("UPDATE") != ""

func ptr[T any](v T) *T { return &v }

// sitting is a session of one latency cell and one throughput cell, three trials each. The n-th of a day each; NaN is a
// session whose trials are all invalid.
func sitting(t *testing.T, n int, p50, bytesPerSec float64, rng *rand.Rand) history.Sitting {
	t.Helper()
	s := &runrecord.Session{
		SessionID: fmt.Sprintf("01a20000-%04d-7000-8000-000000000000", n), Kind: runrecord.SessionKindGrid, Dir: fmt.Sprintf("results/s%02d", n),
		StartedAt: time.Date(2026, 3, 1+n, 2, 17, 0, 0, time.UTC),
	}
	commit := strings.Repeat(fmt.Sprintf("%x", n%16), 40)
	var records []*runrecord.Record
	for i, c := range []workload.Case{{Payload: 256}, {Payload: 4096, Batch: 64}} {
		c, err := c.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		for trial := range 3 {
			f := math.Exp(0.005 * rng.NormFloat64())
			r := &runrecord.Record{
				Schema: runrecord.Schema, RunID: fmt.Sprint(n, i, trial), SessionID: &s.SessionID, Kind: "case", Valid: true, Lossless: runrecord.LosslessYes,
				Case: runrecord.Case{Key: c.Key(), Case: c}, Build: runrecord.Build{Commit: &commit, Dirty: ptr(n == 3), Optimized: true},
				Host: runrecord.Host{Fingerprint: "host", Noise: &runrecord.Noise{Grade: "quiet"}},
			}
			r.Latency.Kind = c.LatencyKind()
			if i == 0 {
				r.Latency.EndToEnd = &runrecord.Distribution{N: 5000, P50Ns: ptr(int64(p50 * f)), P99Ns: ptr(int64(4 * p50 * f))}
				r.Valid = !math.IsNaN(p50)
			} else {
				r.Rates.DeliveredBytesPerSec = ptr(bytesPerSec * f)
				r.Valid = !math.IsNaN(bytesPerSec)
			}
			if !r.Valid {
				r.Reasons, r.Latency.EndToEnd, r.Rates.DeliveredBytesPerSec = []string{"unaccounted: 3"}, nil, nil
			}
			records = append(records, r)
		}
	}
	return history.Sitting{Session: s, Cells: cells.Group(records), Names: map[string]string{records[0].Case.Key: "latency 256 B"}}
}

// A step of 12 % at the 10th of 20 sessions is found where it is, and in the other cell, which has none, nothing is.
func report(t *testing.T) *history.Report {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	var sittings []history.Sitting
	for n := range 20 {
		p50, rate := 180e3*math.Exp(0.01*rng.NormFloat64()), 250e6*math.Exp(0.01*rng.NormFloat64())
		if n >= 10 {
			p50 *= 1.12
		}
		if n == 5 {
			rate = math.NaN()
		}
		sittings = append(sittings, sitting(t, n, p50, rate, rng))
	}
	rng.Shuffle(len(sittings), func(i, j int) { sittings[i], sittings[j] = sittings[j], sittings[i] }) // their order is that of time
	return history.Build(sittings, history.DefaultLevel)
}

func TestHistoryFindsTheStep(t *testing.T) {
	r := report(t)
	if r.Sessions != 20 || len(r.Series) != 4 || r.Hosts != 1 {
		t.Fatalf("%d sessions, %d series, %d hosts, want 20, 4 and 1", r.Sessions, len(r.Series), r.Hosts)
	}
	for i := range r.Series {
		s := &r.Series[i]
		latency := strings.HasPrefix(s.Metric.Name, "p")
		if len(s.Points) != 20 || latency && s.Cell != "latency 256 B" {
			t.Errorf("%s %s: %d points, want 20", s.Cell, s.Metric.Name, len(s.Points))
		}
		if !latency {
			if len(s.Changes) > 0 {
				t.Errorf("%s changes: %+v", s.Metric.Name, s.Changes)
			}
			continue
		}
		if len(s.Changes) != 1 || s.Changes[0].At != 10 || !s.Changes[0].Worse || math.Abs(s.Changes[0].Ratio-1.12) > 0.02 || s.Changes[0].P > 0.01 {
			t.Errorf("%s: changes %+v, want one at 10, worse by 12 %%", s.Metric.Name, s.Changes)
		}
	}
	if strings.HasPrefix(r.Series[2].Metric.Name, "p") {
		t.Error("what changed does not stand first")
	}
}

// Throughput that rises is better, and few sessions show nothing.
func TestHistoryDirections(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	build := func(n int, step float64) *history.Report {
		var sittings []history.Sitting
		for i := range n {
			rate := 250e6 * math.Exp(0.01*rng.NormFloat64())
			if i >= n/2 {
				rate *= step
			}
			sittings = append(sittings, sitting(t, i, 180e3, rate, rng))
		}
		return history.Build(sittings, history.DefaultLevel)
	}
	for _, tt := range []struct {
		n       int
		step    float64
		changes int
		worse   bool
	}{{14, 1.3, 1, false}, {14, 0.7, 1, true}, {5, 0.5, 0, false}, {1, 1, 0, false}} {
		r := build(tt.n, tt.step)
		for i := range r.Series {
			s := &r.Series[i]
			if s.Metric.Name != "delivered_bytes_per_sec" {
				continue
			}
			if len(s.Changes) != tt.changes || tt.changes > 0 && s.Changes[0].Worse != tt.worse {
				t.Errorf("%d sessions, x%v: %+v, want %d, worse %v", tt.n, tt.step, s.Changes, tt.changes, tt.worse)
			}
		}
	}
	for n, want := range map[int]bool{9: true, 10: false} { // of so few that no change can be told, "none" would be an all-clear
		var b bytes.Buffer
		if err := build(n, 1).WriteText(&b); err != nil || strings.Contains(b.String(), "n/a: 9 of the 10 sessions") != want {
			t.Errorf("%d sessions, %v:\n%s", n, err, b.String())
		}
	}
	if r := history.Build(nil, 0.01); len(r.Series) != 0 || r.Sessions != 0 {
		t.Errorf("of nothing: %+v", r)
	}
}

func TestHistoryGolden(t *testing.T) {
	r := report(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"history.txt": func(b *bytes.Buffer) error { return r.WriteText(b) }, "history.md": func(b *bytes.Buffer) error { return r.WriteMarkdown(b) },
		"history.csv": func(b *bytes.Buffer) error { return r.WriteCSV(b) }, "history.json": func(b *bytes.Buffer) error { return r.WriteJSON(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s differs from what is written now (UPDATE=1 writes it anew):\n%s", file, b.String())
		}
		switch name {
		case "history.csv":
			if rows, err := csv.NewReader(&b).ReadAll(); err != nil || len(rows) != 4*20+1 {
				t.Errorf("%d rows, %v, want 81", len(rows), err)
			}
		case "history.json":
			var doc map[string]any
			if err := json.Unmarshal(b.Bytes(), &doc); err != nil || doc["schema"] != history.Schema {
				t.Errorf("%v, %v", doc["schema"], err)
			}
		}
	}
}
