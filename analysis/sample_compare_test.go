package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// commitOf and treeOf are ids that begin with a letter of one's choice.
func commitOf(letter string) string { return letter + "0941600f3a1de0a3cd1a4b4d3f6b7b5ad4c1e2f" }

func treeOf(letter string) string { return letter + "b825dc642cb6eb9a060e54bf8d69288fbee4904" }

// comparedSession is a session to make up for comparisons.
type comparedSession struct {
	day     int
	cases   []workload.Case
	names   []string
	trials  int
	build   runrecord.Build
	speed   func(cell, trial int) float64
	edit    func(r *runrecord.Record, cell, trial int)
	noGrid  bool
	inBuild bool // session.json says what was built
}

// id is the session's.
func (c comparedSession) id() string { return sampleID(c.day, 0xeeee0000+c.day) }

func (c comparedSession) write(t testing.TB, root string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(c.day), 5))
	s := &runrecord.Session{
		SessionID: c.id(), Kind: runrecord.SessionKindGrid, StartedAt: time.Date(2026, 12, c.day, 9, 0, 0, 0, time.UTC),
		EndedAt: ptr(time.Date(2026, 12, c.day, 9, 30, 0, 0, time.UTC)), Trials: &c.trials, Order: ptr("random"), Seed: ptr(uint64(7)),
		Grid: &runrecord.SessionGrid{Name: "fast", Digest: "d2", Why: "a test"},
	}
	if c.inBuild {
		s.Build = c.build
	}
	for i, k := range c.cases {
		resolved, err := k.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		c.cases[i] = resolved
		s.Grid.Cells = append(s.Grid.Cells, runrecord.SessionCell{Name: c.names[i], Key: resolved.Key()})
	}
	if c.noGrid {
		s.Kind, s.Grid, s.Trials = runrecord.SessionKindAB, nil, nil
	}
	var records []*runrecord.Record
	for trial := 1; trial <= c.trials; trial++ {
		for _, i := range rng.Perm(len(c.cases)) {
			n := len(records)
			r := sample{
				workload: c.cases[i], session: s.SessionID, id: sampleID(c.day, n+1), trial: trial, order: n + 1,
				build: c.build, speed: c.speed(i, trial), messages: 1200,
			}.record(rng)
			if c.edit != nil {
				c.edit(r, i, trial)
			}
			records = append(records, r)
		}
	}
	writeSession(t, root, s, records)
}

func buildOf(letter string, dirty bool) runrecord.Build {
	b := sampleBuild(treeOf(letter), dirty)
	b.Commit = ptr(commitOf(letter))
	return b
}

// The cells of the sessions that are compared.
func comparedCases() ([]workload.Case, []string) {
	return []workload.Case{
			{Payload: 256}, {Payload: 4096}, {Payload: 4096, Batch: 64}, {Payload: 0, Batch: 64},
		}, []string{
			"payload=256 batch=1 fanout=1", "payload=4096 batch=1 fanout=1", "payload=4096 batch=64 fanout=1", "payload=0 batch=64 fanout=1",
		}
}

func usual(int, int) float64 { return 1 }

// writeCompared makes the sessions that are compared, by the day of December 2026:
//
//	1  the base: commit a, 8 trials of 4 cells
//	2  commit b: the flood of 4096 B is 10 % slower, the latency at 256 B 20 % better; one trial of a flood is in a slow
//	   mode, one lost messages, one crashed; the latency cell of 4096 B is not in it, one of 1024 B is
//	3  commit c, measured on another host, by another bench
//	4  commit d twice, in two dirty states, in one session
//	5  commit a again
//	6  an A/B of commits a and e, 9 pairs: e is 5 % slower; the trials drift by far more
//	7  one build at publishers 1, 2 and 4: 4 is best by far
//	8  commit f: nothing valid
//	9  commit g, 3 trials, built with -race
func writeCompared(t testing.TB, root string) {
	t.Helper()
	cases, names := comparedCases()
	comparedSession{day: 1, cases: cases, names: names, trials: 8, build: buildOf("a", false), speed: usual, inBuild: true}.write(t, root)

	cases, names = comparedCases()
	cases[1], names[1] = workload.Case{Payload: 1024}, "payload=1024 batch=1 fanout=1"
	comparedSession{day: 2, cases: cases, names: names, trials: 8, build: buildOf("b", false), speed: func(cell, trial int) float64 {
		switch {
		case cell == 0:
			return 1.25
		case cell == 2:
			return 0.9
		case cell == 3 && trial == 5:
			return 0.3
		}
		return 1
	}, edit: func(r *runrecord.Record, cell, trial int) {
		r.Config.Broker["log_capacity"] = runrecord.Setting{Value: 2048, From: "default"}
		switch {
		case cell == 2 && trial == 3:
			r.Valid, r.Reasons = false, []string{"unaccounted: 3 deliveries"}
		case cell == 2 && trial == 4: // before it said how it was set up
			r.Valid, r.Error = false, ptr("exit status 2")
			r.Latency, r.Rates, r.Processes = runrecord.Latency{Kind: r.Latency.Kind}, runrecord.Rates{}, nil
			r.Config = runrecord.Config{}
		}
	}}.write(t, root)

	cases, names = comparedCases()
	comparedSession{day: 3, cases: cases, names: names, trials: 8, build: buildOf("c", false), speed: func(int, int) float64 { return 2 },
		edit: func(r *runrecord.Record, _, _ int) {
			r.Host.Fingerprint, r.Build.BenchDigest, r.Build.PGO = "77aa01c2d3e4", ptr("0therb3nc4"), true
		}}.write(t, root)

	cases, names = comparedCases()
	comparedSession{day: 4, cases: cases, names: names, trials: 6, build: buildOf("d", true), speed: usual,
		edit: func(r *runrecord.Record, _, trial int) {
			if trial > 3 {
				r.Build.TreeDigest, r.Build.BinarySHA256 = ptr(treeOf("e")), ptr("5ha256-of-the-other")
			}
		}}.write(t, root)

	cases, names = comparedCases()
	comparedSession{day: 5, cases: cases, names: names, trials: 2, build: buildOf("a", false), speed: usual, inBuild: true}.write(t, root)

	// The arms' trials share their pair's drift.
	arms := []string{"base", "head"}
	comparedSession{day: 6, cases: []workload.Case{{Payload: 4096, Batch: 64}, {Payload: 4096, Batch: 64}}, names: arms, trials: 9, noGrid: true,
		build: buildOf("a", false), speed: func(cell, trial int) float64 {
			drift := 1 + float64(trial)/4
			return drift * (1 - 0.05*float64(cell))
		}, edit: func(r *runrecord.Record, cell, trial int) {
			r.Arm, r.Pair = &arms[cell], ptr(trial-1)
			if cell == 1 {
				r.Build = buildOf("e", false)
			}
		}}.write(t, root)

	var publishers []workload.Case
	var named []string
	for _, p := range []int{1, 2, 4} {
		publishers = append(publishers, workload.Case{Payload: 4096, Batch: 64, Publishers: p})
		named = append(named, fmt.Sprintf("payload=4096 batch=64 publishers=%d", p))
	}
	comparedSession{day: 7, cases: publishers, names: named, trials: 8, build: buildOf("a", false), speed: func(cell, trial int) float64 {
		return (1 + float64(trial)/4) * []float64{1, 1.002, 1.3}[cell]
	}}.write(t, root)

	cases, names = comparedCases()
	comparedSession{day: 8, cases: cases, names: names, trials: 2, build: buildOf("f", false), speed: usual,
		edit: func(r *runrecord.Record, _, _ int) { r.Valid, r.Reasons = false, []string{"lost: 5"} }}.write(t, root)

	cases, names = comparedCases()
	b := buildOf("9", false)
	b.Race = true
	comparedSession{day: 9, cases: cases, names: names, trials: 3, build: b, speed: usual}.write(t, root)
}

// TestWriteCompared keeps the sessions where CMP_OUT says, to try the command by hand.
func TestWriteCompared(t *testing.T) {
	out := os.Getenv("CMP_OUT")
	if out == "" {
		t.Skip("CMP_OUT names no directory")
	}
	writeSamples(t, filepath.Join(out, "results"))
	writeCompared(t, filepath.Join(out, "compared"))
}
