package workload_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/settings"
	"felix/internal/workload"
)

// FuzzParseGrid: a file is read or refused in words that name it, never a panic; and what is read is what a session
// relies on: cells told apart by name and by case, resolved, with flags that mean them, unchanged by JSON.
func FuzzParseGrid(f *testing.F) {
	for _, text := range []string{
		example,
		"why: w\nblocks: [{}]",
		"why: w\nblocks: [{factors: {rate: [1e3, 5], arrival: [poisson, constant]}}, {base: {sub_conns: 1, fanout: 2}}]",
		"why: w\nlevels: {shape: {a: {batch: 4, acks: per_batch}, b: {load: flood}}}\nblocks: [{factors: {shape: [a, b], transport.packet_size: [0, 1280]}}]",
		"why: w\nsizes: {total: auto, duration: 1s, warmup: 5, send_window: 64MiB, allow_undersized: true, seed: 7, conn_stats: 0s}\nblocks: [{base: {policy: production, profile: x}}]",
		"why: &a w\nblocks: [{base: *a}]",
		"why: w\nblocks: [{<<: {base: {batch: 2}}}]",
		"{\"why\": \"w\", \"blocks\": [{\"base\": {\"topology\": \"split\"}}]}",
		"why: w\n? [complex]\n: key\nblocks: !!binary aGk=",
		"%YAML 1.1\n---\nwhy: >-\n  folded\nblocks:\n- base:\n    client.ack_timeout_ms: 077\n",
	} {
		f.Add(text, "payload=64,4096", "batch=1")
	}
	f.Fuzz(func(t *testing.T, text, set, only string) {
		g, err := workload.ParseGrid("fuzz.yml", []byte(text))
		if err != nil {
			var at *settings.Error
			if !errors.As(err, &at) || !strings.HasPrefix(at.Where, "fuzz.yml") {
				t.Fatalf("error without its place: %#v", err)
			}
			return
		}
		check(t, g)
		before := g.Digest
		if err := g.Select([]string{set}, []string{only}); err == nil {
			check(t, g)
		} else if g.Digest != before || workload.Digest(g.Cells) != before {
			t.Fatalf("%v changed the grid", err)
		}
	})
}

func check(t *testing.T, g *workload.Grid) {
	t.Helper()
	if len(g.Cells) == 0 || g.Trials < 1 || g.Why == "" || g.Digest != workload.Digest(g.Cells) {
		t.Fatalf("grid %+v", g)
	}
	names, keys := map[string]bool{}, map[string]bool{}
	m := workload.NewModel(nil)
	for i := range g.Cells {
		c := &g.Cells[i]
		if names[c.Name] || keys[c.Case.Key()] {
			t.Fatalf("cell %q occurs twice, key %q", c.Name, c.Case.Key())
		}
		names[c.Name], keys[c.Case.Key()] = true, true
		again, err := c.Case.Resolve()
		if err != nil {
			t.Fatalf("cell %q is not resolved: %v", c.Name, err)
		}
		if d := cmp.Diff(c.Case, again); d != "" {
			t.Fatalf("cell %q is not resolved: %s", c.Name, d)
		}
		_ = c.Flags()
		if m.Trial(c) <= 0 {
			t.Fatalf("cell %q takes %v", c.Name, m.Trial(c))
		}
	}
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back workload.Grid
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if got := workload.Digest(back.Cells); got != g.Digest {
		t.Fatalf("digest %s after JSON, %s before", got, g.Digest)
	}
}
