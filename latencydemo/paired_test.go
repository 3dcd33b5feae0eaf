package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// The order of every block is balanced, differs from block to block and comes again from the seed.
func TestCaseFirst(t *testing.T) {
	heads := 0
	for seed := range uint64(200) {
		first := caseFirst(20, seed)
		if len(first) != 21 {
			t.Fatalf("seed %d: %d pairs, want 20 and the discarded one", seed, len(first))
		}
		for i := 1; i < 20; i += 2 {
			if first[i] == first[i+1] {
				t.Errorf("seed %d: pairs %d and %d run in one order", seed, i, i+1)
			}
			if first[i] {
				heads++
			}
		}
		for i, again := range caseFirst(20, seed) {
			if again != first[i] {
				t.Fatalf("seed %d: another order the second time", seed)
			}
		}
	}
	if share := float64(heads) / 2000; share < 0.45 || share > 0.55 {
		t.Errorf("the case is first in %.0f %% of blocks, want half", 100*share)
	}
	if n := len(caseFirst(3, 1)); n != 4 {
		t.Errorf("3 pairs: %d orders, want 4", n)
	}
}

func madeUp(c workload.Case, edit func(*runrecord.Record)) *runrecord.Record {
	r := &runrecord.Record{Valid: true, Case: runrecord.Case{Case: c, Key: c.Key()}}
	edit(r)
	return r
}

func to[T any](v T) *T { return &v }

// pairsOf are ten pairs whose case does share of what its probe does, a little up and down, and costs the inverse.
func pairsOf(c, probe workload.Case, share float64) []pairOf {
	var pairs []pairOf
	for i := range 10 {
		drift := 1 + 0.3*float64(i) // of the machine: the same for both
		wobble := 1 + 0.01*float64(i%3-1)
		rate := func(v float64) func(*runrecord.Record) {
			return func(r *runrecord.Record) {
				bytes := int64(1e9)
				r.Rates.DeliveredBytesPerSec, r.Rates.WireBytesPerSec = to(v/drift), to(2.1*v/drift)
				r.Rates.WireBytesSent = to(int64(2.1e9))
				r.Counts.Delivered = bytes / int64(max(r.Case.Payload, 1))
				r.Processes = []runrecord.Process{{UserNs: to(int64(4e17 / v)), SystemNs: to(int64(2e17 / v)), VoluntarySwitches: to(int64(900)), InvoluntarySwitches: to(int64(100))}}
				r.Wakeups = []runrecord.Wakeup{{Count: 2000}, {Count: 3000}}
				r.Latency.EndToEnd = &runrecord.Distribution{P50Ns: to(int64(1e13 / v)), P99Ns: to(int64(4e13 / v))}
			}
		}
		pairs = append(pairs, pairOf{madeUp(c, rate(share*wobble*200e6)), madeUp(probe, rate(200e6))})
	}
	return pairs
}

func contestants(t *testing.T, c workload.Case, against workload.Probe) (kase, probe workload.Case) {
	t.Helper()
	kase, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if probe, err = opponent(kase, against, workload.TransportQUIC); err != nil {
		t.Fatal(err)
	}
	return kase, probe
}

// A drift that both trials of a pair share is in no ratio; the estimate is the share, and its interval holds it.
func TestSummarize(t *testing.T) {
	kase, probe := contestants(t, workload.Case{Payload: 4096, Batch: 64}, workload.ProbeRelay)
	pairs := pairsOf(kase, probe, 0.8)
	pairs = append(pairs, pairOf{nil, pairs[0].probe}, pairOf{pairs[0].kase, nil}, pairOf{madeUp(kase, func(r *runrecord.Record) { r.Valid = false }), nil})
	s := summarize(kase, probe, pairs)
	if s.Pairs != 10 || s.DroppedByCase != 2 || s.DroppedByProbe != 1 {
		t.Errorf("%d pairs, dropped by case %d and by probe %d, want 10, 2, 1", s.Pairs, s.DroppedByCase, s.DroppedByProbe)
	}
	want := map[string]float64{"payload": 0.8, "wire": 0.8, "CPU user": 1.25, "CPU system": 1.25, "switches": 1, "wake-ups": 1, "p50": 1.25, "p99": 1.25}
	for _, m := range s.Metrics {
		w, ok := want[m.Name]
		if !ok || m.N != 10 || m.Ratio == nil || math.Abs(*m.Ratio-w) > 0.01 || *m.Low > w || *m.High < w || *m.Coverage < 0.95 {
			t.Errorf("%s: %+v, want %v within its interval", m.Name, m, w)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("no metric %v", want)
	}
}

// The broker's delivery is held against half of a round trip.
func TestSummarizeHalfTheRoundTrip(t *testing.T) {
	kase, probe := contestants(t, workload.Case{Payload: 256}, workload.ProbeEchoRelay)
	s := summarize(kase, probe, pairsOf(kase, probe, 1))
	if m := s.Metrics[0]; m.Name != "p50" || math.Abs(*m.Ratio-2) > 0.01 || math.Abs(2**m.Probe-*m.Case) > 0.02**m.Case {
		t.Errorf("p50 first, and twice half the round trip: %+v", m)
	}
}

// Of one hop nothing but wire bytes is compared, costs included.
func TestSummarizeOneHop(t *testing.T) {
	kase, probe := contestants(t, workload.Case{Payload: 4096, Batch: 64}, workload.ProbeRaw)
	var names []string
	for _, m := range summarize(kase, probe, pairsOf(kase, probe, 0.5)).Metrics {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "wire CPU user CPU system switches wake-ups" {
		t.Errorf("metrics %q", got)
	}
}

// What the reader sees, whole.
func TestPrintPaired(t *testing.T) {
	var b strings.Builder
	for _, tt := range []struct {
		c       workload.Case
		against workload.Probe
		share   float64
	}{
		{workload.Case{Payload: 4096, Batch: 64}, workload.ProbeRelay, 0.8},
		{workload.Case{Payload: 256}, workload.ProbeEchoRelay, 0.9},
		{workload.Case{Payload: 4096, Batch: 64}, workload.ProbeRaw, 0.5},
		{workload.Case{Batch: 64}, workload.ProbeRelay, 0.5}, // stamps alone
	} {
		kase, probe := contestants(t, tt.c, tt.against)
		pairs := pairsOf(kase, probe, tt.share)
		printPaired(&b, kase, probe, summarize(kase, probe, append(pairs[:9], pairOf{pairs[9].kase, nil})))
		b.WriteByte('\n')
	}
	const golden = "testdata/paired.golden"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("go test ./latencydemo -run PrintPaired -rewrite\ngot:\n%s\nwant:\n%s", b.String(), want)
	}
}
