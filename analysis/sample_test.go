package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Sessions made up for the scripts: every figure follows from a seed, so that tables can be held against golden files.

func ptr[T any](v T) *T { return &v }

// sampleID is a UUIDv7 in looks.
func sampleID(session, n int) string {
	return fmt.Sprintf("01a20000-%04x-7000-8000-%012x", session, n)
}

const (
	sampleHost = "8a4b77839907"
	sampleTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	dirtyTree  = "9d1dcfdaf1a6857c5f83dc27019c7600e1ffaff8"
)

func sampleBuild(tree string, dirty bool) runrecord.Build {
	return runrecord.Build{
		Commit: ptr("0941600f3a1de0a3cd1a4b4d3f6b7b5ad4c1e2f0"), Dirty: &dirty, TreeDigest: &tree,
		BenchDigest: ptr("b3nc4"), BinarySHA256: ptr("5ha256-of-" + tree[:8]), Source: "ldflags", Go: "go1.26.8",
		QuicGo: ptr("v0.65.0"), Optimized: true,
	}
}

// sampleDistribution is n latencies around median, log-normal, with their histogram.
func sampleDistribution(rng *rand.Rand, n int, median float64) *runrecord.Distribution {
	h := hdr.New(1, 3_600_000_000_000, 3)
	var longest int64
	for range n {
		v := int64(median * (1 + rng.ExpFloat64()/4))
		longest = max(longest, v)
		if err := h.RecordValue(v); err != nil {
			panic(err)
		}
	}
	text, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	d := &runrecord.Distribution{N: int64(n), P50Ns: ptr(h.ValueAtPercentile(50)), P90Ns: ptr(h.ValueAtPercentile(90)), MaxNs: &longest, HDR: ptr(string(text))}
	if n >= 1000 {
		d.P99Ns = ptr(h.ValueAtPercentile(99))
	}
	return d
}

// sample is one run to make up.
type sample struct {
	workload workload.Case
	session  string
	id       string
	trial    int
	order    int
	build    runrecord.Build
	speed    float64 // 1 is usual
	messages int
	noise    string // "" is quiet
}

func (s sample) record(rng *rand.Rand) *runrecord.Record {
	c, err := s.workload.Resolve()
	if err != nil {
		panic(err)
	}
	deliveries := int64(s.messages * c.Fanout)
	msgs := 100_000 * s.speed * (1 + rng.Float64()/50)
	if !c.Throughput() {
		msgs /= 10
	}
	bytes := msgs * float64(max(c.Payload, workload.StampBytes))
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: s.id, SessionID: &s.session,
		StartedAt: time.Date(2026, 11, 30, 9, 0, 3*s.order, 0, time.UTC), DurationNs: 3_000_000_000,
		Trial: &s.trial, Order: &s.order, Kind: "case",
		Case: runrecord.Case{
			Key: c.Key(), Case: c, SendWindow: 64 << 20, MaxDeliveries: workload.DefaultMaxDeliveries, IdleTimeoutNs: 5e9, Seed: 1,
		},
		Command: []string{"--json", "-"}, Env: map[string]string{}, Rerun: "latencydemo --json -", Build: s.build,
		Host:     runrecord.Host{Fingerprint: sampleHost, Facts: []byte(`{"cores":2}`), Noise: &runrecord.Noise{Grade: "quiet", OthersCPU: ptr(0.01), Steal: ptr(0.0), Load: ptr(0.5)}},
		Valid:    true,
		Lossless: runrecord.LosslessYes, SizeGrade: "n/a",
		Counts: runrecord.Counts{
			Published: int64(s.messages), Expected: deliveries, Delivered: deliveries,
			Dropped: runrecord.Dropped{Ingress: ptr(int64(0)), Subscriber: ptr(int64(0)), Client: ptr(int64(0))}, DiscardedOnClose: ptr(int64(0)),
		},
		Flow: runrecord.Flow{Offered: int64(s.messages), Written: ptr(int64(s.messages)), Delivered: deliveries},
		Rates: runrecord.Rates{
			WindowNs: 2_000_000_000, PublishedMsgsPerSec: ptr(msgs / float64(c.Fanout)), DeliveredMsgsPerSec: &msgs,
			DeliveredBytesPerSec: &bytes, RunBytes: int64(s.messages * c.Payload), SendWindowBytes: 16 << 20, DeliveredGoodputShare: ptr(1.0),
		},
		Latency:    runrecord.Latency{Kind: c.LatencyKind(), Inflight: c.Inflight, EndToEnd: sampleDistribution(rng, s.messages, 80_000/s.speed)},
		IntervalNs: 100_000_000,
		Processes: []runrecord.Process{
			{Name: "clients", GOMAXPROCS: 2, UserNs: ptr(int64(900_000_000)), SystemNs: ptr(int64(300_000_000)), MaxRSSBytes: ptr(int64(30 << 20))},
			{Name: "broker", GOMAXPROCS: 2, UserNs: ptr(int64(500_000_000)), SystemNs: ptr(int64(300_000_000)), MaxRSSBytes: ptr(int64(20 << 20))},
		},
		Config: runrecord.Config{Broker: map[string]runrecord.Setting{"log_capacity": {Value: 1024, From: "default"}}},
	}
	if c.Throughput() {
		r.SizeGrade = "sized"
	}
	if s.noise != "" {
		r.Host.Noise.Grade, r.Host.Noise.OthersCPU = s.noise, ptr(0.4)
	}
	r.Latency.Network = r.Latency.EndToEnd
	return r
}

// sampleCells are the grid of the made-up sessions.
func sampleCells() ([]runrecord.SessionCell, []workload.Case) {
	cases := []workload.Case{
		{Payload: 256},
		{Payload: 4096, Batch: 64},
		{Payload: 0, Batch: 64},
		{Payload: 4096, Batch: 64, Fanout: 10},
	}
	var grid []runrecord.SessionCell
	for i, c := range cases {
		resolved, err := c.Resolve()
		if err != nil {
			panic(err)
		}
		cases[i] = resolved
		grid = append(grid, runrecord.SessionCell{
			Name: fmt.Sprintf("payload=%d batch=%d fanout=%d", resolved.Payload, resolved.Batch, resolved.Fanout), Key: resolved.Key(),
		})
	}
	return grid, cases
}

// writeSession writes a session's directory below root, and returns it.
func writeSession(t testing.TB, root string, s *runrecord.Session, records []*runrecord.Record) string {
	t.Helper()
	name := "single"
	if s.Grid != nil {
		name = s.Grid.Name
	}
	dir := filepath.Join(root, runrecord.SessionDirName(s.StartedAt, name, s.SessionID))
	if err := runrecord.WriteSession(dir, s); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, r := range records {
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line...)
	}
	if err := os.WriteFile(s.RecordsPath(), all, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeSamples makes the sessions that the scripts work on:
//
//	2026-11-29  a grid session of another tree, dirty, 2 trials a cell
//	2026-11-30  a grid session, 5 trials a cell planned: one invalid, one failed, one noisy, one in a slow mode, one
//	            cell not recorded at all
//	2026-12-01  a single session of 1 record, whose record names no session
func writeSamples(t testing.TB, root string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 3))
	grid, cases := sampleCells()

	old := &runrecord.Session{
		SessionID: sampleID(1, 0xaaaa0001), Kind: runrecord.SessionKindGrid, StartedAt: time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC),
		EndedAt: ptr(time.Date(2026, 11, 29, 9, 10, 0, 0, time.UTC)),
		Grid:    &runrecord.SessionGrid{Name: "quick", Digest: "d1", Why: "a test", Cells: grid}, Trials: ptr(2), Order: ptr("random"),
		Seed: ptr(uint64(7)),
	}
	var records []*runrecord.Record
	for trial := 1; trial <= 2; trial++ {
		for i, c := range cases {
			n := len(records)
			records = append(records, sample{
				workload: c, session: old.SessionID, id: sampleID(1, n+1), trial: trial, order: n + 1,
				build: sampleBuild(dirtyTree, true), speed: 1 + float64(i)/10, messages: 1200,
			}.record(rng))
		}
	}
	writeSession(t, root, old, records)

	now := &runrecord.Session{
		SessionID: sampleID(2, 0xbbbb0002), Kind: runrecord.SessionKindGrid, StartedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC),
		Grid: &runrecord.SessionGrid{Name: "quick", Digest: "d1", Why: "a test", Cells: grid}, Trials: ptr(5), Order: ptr("random"),
		Seed: ptr(uint64(7)),
	}
	records = nil
	for trial := 1; trial <= 5; trial++ {
		for _, i := range rng.Perm(3) { // the fourth cell was not reached
			n := len(records)
			s := sample{
				workload: cases[i], session: now.SessionID, id: sampleID(2, n+1), trial: trial, order: n + 1,
				build: sampleBuild(sampleTree, false), speed: 1, messages: 1200,
			}
			if i == 1 && trial == 2 {
				s.speed = 0.4
			}
			if i == 2 && trial == 3 {
				s.noise = "noisy"
			}
			r := s.record(rng)
			switch {
			case i == 0 && trial == 4:
				r.Valid, r.Reasons = false, []string{"unaccounted: 3 deliveries"}
				r.Counts.Delivered, r.Counts.Lost, r.Counts.Unaccounted = 1197, 3, 3
			case i == 2 && trial == 5:
				r.Valid, r.Error = false, ptr("exit status 1\nlatencydemo: subscribe: \"timeout\"")
				r.Latency, r.Rates, r.Processes = runrecord.Latency{Kind: r.Latency.Kind}, runrecord.Rates{}, nil
				r.Counts, r.Flow = runrecord.Counts{}, runrecord.Flow{}
			}
			records = append(records, r)
		}
	}
	writeSession(t, root, now, records)

	single := &runrecord.Session{
		SessionID: sampleID(3, 0xcccc0003), Kind: runrecord.SessionKindSingle, StartedAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
	}
	one := sample{workload: cases[0], id: sampleID(3, 1), build: sampleBuild(sampleTree, false), speed: 1, messages: 1200}.record(rng)
	one.SessionID, one.Trial, one.Order = nil, nil, nil
	writeSession(t, root, single, []*runrecord.Record{one})
}

// records reads a file whole.
func records(t testing.TB, path string) (all []*runrecord.Record) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = runrecord.Read(f, path, func(r *runrecord.Record) error { all = append(all, r); return nil },
		func(e *runrecord.SyntaxError) { t.Error(e) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}
