package presets_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/internal/workload"
	"felix/presets"
)

func grid(t *testing.T, name string) *workload.Grid {
	t.Helper()
	g, err := presets.Grid(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Every file of the folder is read by somebody: one that is not embedded would be a grid that nobody can name.
func TestEveryFileIsRead(t *testing.T) {
	files, err := filepath.Glob("*.yml")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gate.yml", "profiles.yml", "publishers.yml"}
	for _, name := range presets.GridNames() {
		want = append(want, name+".yml")
	}
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("the folder holds %q, read are %q", files, want)
	}
	if others, _ := filepath.Glob("*.yaml"); len(others) > 0 {
		t.Errorf("%q: grids end in .yml", others)
	}
}

func TestPublisherPresets(t *testing.T) {
	used := map[string]bool{}
	for _, name := range presets.GridNames() {
		for _, c := range grid(t, name).Cells {
			used[c.Preset] = true
		}
	}
	for _, tt := range []struct {
		name                                       string
		publishers, conns, streamsPerConn, logical int
		sharding                                   workload.Sharding
	}{
		{"P1_hash", 1, 1, 1, 1, workload.ShardingHashStream},
		{"P2_hash", 2, 1, 2, 2, workload.ShardingHashStream},
		{"P4_hash", 4, 2, 2, 4, workload.ShardingHashStream},
		{"P8_hash", 8, 4, 2, 8, workload.ShardingHashStream},
		{"P8_hash_1stream", 8, 4, 2, 1, workload.ShardingHashStream},
		{"P8_rr", 8, 4, 2, 1, workload.ShardingRR},
		{"P8_rrN", 8, 4, 2, 8, workload.ShardingRR},
	} {
		g, err := presets.ParseGrid("mine.yml", []byte("why: a user's file may name them\nblocks: [{base: {preset: "+tt.name+"}}]"))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		c := g.Cells[0].Case
		if c.Publishers != tt.publishers || c.PubConns != tt.conns || c.PubStreamsPerConn != tt.streamsPerConn || c.Streams != tt.logical || c.Sharding != tt.sharding {
			t.Errorf("%s is %d publishers, %d x %d, %d logical, %s", tt.name, c.Publishers, c.PubConns, c.PubStreamsPerConn, c.Streams, c.Sharding)
		}
		if !used[tt.name] {
			t.Errorf("%s is used by no grid", tt.name)
		}
		delete(used, tt.name)
	}
	delete(used, "")
	for name := range used {
		t.Errorf("%s is not in this table", name)
	}
}

// levels lists what a factor is in the cells of a grid, each once, in their order.
func levels[T comparable](g *workload.Grid, of func(*workload.Cell) T) []T {
	var all []T
	for i := range g.Cells {
		if l := of(&g.Cells[i]); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

func payload(c *workload.Cell) int   { return c.Case.Payload }
func batch(c *workload.Cell) int     { return c.Case.Batch }
func fanout(c *workload.Cell) int    { return c.Case.Fanout }
func preset(c *workload.Cell) string { return c.Preset }

func TestGrids(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cells, trials int
		limit         time.Duration // of the plan on two cores
	}{
		{"latency-matrix", 2*2*4*7 + 8, 5, 3 * time.Hour},
		{"fast", 2 * 4 * 5, 3, 20 * time.Minute},
		{"quick", 7, 5, 4 * time.Minute},
		{"ceiling", 13, 5, 10 * time.Minute},
		{"ci-latency", 2, 5, time.Minute},
		{"ci-throughput", 2, 5, 2 * time.Minute},
		{"overload", 20, 3, 20 * time.Minute},
	} {
		g := grid(t, tt.name)
		if len(g.Cells) != tt.cells || g.Trials != tt.trials {
			t.Errorf("%s: %d cells, %d trials, want %d and %d", tt.name, len(g.Cells), g.Trials, tt.cells, tt.trials)
		}
		if d := presets.Model().Grid(g, g.Trials); d > tt.limit || d < 5*time.Second {
			t.Errorf("%s: planned for %v, want at most %v", tt.name, d, tt.limit)
		}
		for _, c := range g.Cells {
			if lab := tt.name == "overload"; c.Case.Overload != lab || !lab && c.Case.Policy != workload.PolicyLossless || c.Case.Profile != workload.DefaultProfile {
				t.Errorf("%s: cell %s: profile %s, policy %s", tt.name, c.Name, c.Case.Profile, c.Case.Policy)
			}
			if c.Why == "" {
				t.Errorf("%s: cell %s does not say why", tt.name, c.Name)
			}
		}
	}
	if n := len(presets.GridNames()); n != 7 {
		t.Errorf("%d grids, 7 are tested", n)
	}

	g := grid(t, "latency-matrix")
	if got := levels(g, payload); !slices.Equal(got, []int{0, 256, 1024, 4096}) {
		t.Errorf("latency-matrix: payloads %v", got)
	}
	if got := slices.Concat(levels(g, batch), levels(g, fanout)); !slices.Equal(got, []int{1, 64, 1, 10}) {
		t.Errorf("latency-matrix: batches and fanouts %v", got)
	}
	if got := levels(g, preset); len(got) != 7 {
		t.Errorf("latency-matrix: presets %v", got)
	}
	if got := levels(grid(t, "fast"), preset); len(got) != 5 {
		t.Errorf("fast: presets %v", got)
	}
}

func TestUnknownNames(t *testing.T) {
	if _, err := presets.Grid("latency-matrx"); err == nil || !strings.Contains(err.Error(), "nearest: latency-matrix") {
		t.Errorf("Grid of a typo = %v", err)
	}
	if _, err := presets.ParseGrid("g.yml", []byte("why: w\nblocks:\n  - base: {profile: balancd}")); err == nil || !strings.Contains(err.Error(), "g.yml:3") || !strings.Contains(err.Error(), "nearest: balanced") {
		t.Errorf("a typo in a profile = %v", err)
	}
}

// With a mix the payload is its mean: a grid that varies it varies nothing, and is told so.
func TestMixDecidesThePayload(t *testing.T) {
	_, err := presets.ParseGrid("g.yml", []byte("why: w\nblocks:\n  - base: {payload_mix: '100:50%,200:50%'}\n    factors: {payload: [64, 128]}"))
	if err == nil || !strings.Contains(err.Error(), "occurs twice") {
		t.Errorf("two payloads with one mix = %v", err)
	}
}

// A grid is the caller's own: what one selects is not missing for the next.
func TestGridsAreFresh(t *testing.T) {
	g := grid(t, "quick")
	if err := g.Only("batch=1"); err != nil {
		t.Fatal(err)
	}
	if again := grid(t, "quick"); len(again.Cells) == len(g.Cells) {
		t.Errorf("%d cells after somebody else's --only", len(again.Cells))
	}
}
