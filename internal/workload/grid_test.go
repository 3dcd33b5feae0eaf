package workload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix/internal/settings"
	"felix/internal/workload"
)

const example = `
why: an example
trials: 3
sizes: {idle_timeout: 10s}
levels:
  preset:
    P1: {publishers: 1}
    P4: {publishers: 4, pub_conns: 2, streams: 4}
blocks:
  - why: latency
    base: {batch: 1}
    factors:
      payload: [0, 4096]
      preset: [P1, P4]
  - why: throughput
    sizes: {max_deliveries: 5000000}
    base: {batch: 64, preset: P1}
    factors:
      broker.subscriber_queue_capacity: [8, 512]
`

func parse(t *testing.T, text string) *workload.Grid {
	t.Helper()
	g, err := workload.ParseGrid("dir/example.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func names(g *workload.Grid) []string {
	var all []string
	for i := range g.Cells {
		all = append(all, g.Cells[i].Name)
	}
	return all
}

func TestGridIsEveryCombinationOfItsBlocks(t *testing.T) {
	g := parse(t, example)
	if g.Name != "example" || g.Why != "an example" || g.Trials != 3 {
		t.Errorf("got name %q why %q trials %d", g.Name, g.Why, g.Trials)
	}
	want := []string{
		"batch=1 payload=0 preset=P1",
		"batch=1 payload=0 preset=P4",
		"batch=1 payload=4096 preset=P1",
		"batch=1 payload=4096 preset=P4",
		"batch=64 payload=256 preset=P1 broker.subscriber_queue_capacity=8",
		"batch=64 payload=256 preset=P1 broker.subscriber_queue_capacity=512",
	}
	if d := cmp.Diff(want, names(g)); d != "" {
		t.Error(d)
	}
	c := g.Cells[3]
	if c.Case.Publishers != 4 || c.Case.PubConns != 2 || c.Case.Streams != 4 || c.Case.Load != workload.LoadClosed || c.Preset != "P4" || c.Why != "latency" {
		t.Errorf("cell 3 is %+v", c)
	}
	if d := cmp.Diff([]string{"--payload", "4096", "--publishers", "4", "--streams", "4", "--pub-conns", "2", "--idle-timeout", "10s"}, c.Flags()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"--batch", "64", "--broker-set", "subscriber_queue_capacity=8", "--max-deliveries", "5000000", "--idle-timeout", "10s"}, g.Cells[4].Flags()); d != "" {
		t.Error(d)
	}
}

func TestGridOfOneCellHasAName(t *testing.T) {
	g := parse(t, "why: w\nblocks: [{base: {payload: 4096}}]")
	if want := []string{"payload=4096 batch=1 fanout=1 load=closed acks=per_message"}; !slices.Equal(names(g), want) {
		t.Errorf("names = %q, want %q", names(g), want)
	}
	if g.Trials != workload.DefaultTrials {
		t.Errorf("trials = %d, want the default of %d", g.Trials, workload.DefaultTrials)
	}
}

func TestDigestIsOfWhatIsMeasured(t *testing.T) {
	digest := func(old, new string) string { return parse(t, strings.Replace(example, old, new, 1)).Digest }
	base := digest("", "")
	for _, tt := range []struct {
		why      string
		old, new string
		same     bool
	}{
		{"more trials of the same cells", "trials: 3", "trials: 9", true},
		{"the order of the file", "[0, 4096]", "[4096, 0]", true},
		{"prose", "why: latency", "why: delay", true},
		{"a name for the same levels", "P4", "P5", true},
		{"another payload", "[0, 4096]", "[0, 4095]", false},
		{"one cell less", "[8, 512]", "[8]", false},
		{"another size", "10s", "11s", false},
		{"another setting", "[8, 512]", "[8, 511]", false},
	} {
		got := strings.ReplaceAll(example, tt.old, tt.new)
		if (parse(t, got).Digest == base) != tt.same {
			t.Errorf("%s: same digest = %v, want %v", tt.why, !tt.same, tt.same)
		}
	}
}

func TestGridFromAnyEditor(t *testing.T) {
	want := parse(t, example).Digest
	if got := parse(t, "\ufeff"+strings.ReplaceAll(example, "\n", "\r\n")).Digest; got != want {
		t.Errorf("with a byte order mark and CRLF the digest is %s, want %s", got, want)
	}
}

func TestGridSurvivesJSON(t *testing.T) {
	g := parse(t, strings.Replace(example, "{idle_timeout: 10s}", "{idle_timeout: 10s, warmup: 0, seed: 0, conn_stats: 0s}", 1))
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back workload.Grid
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(g.Cells, back.Cells); d != "" {
		t.Error(d)
	}
	if got := workload.Digest(back.Cells); got != g.Digest {
		t.Errorf("digest %s after JSON, %s before", got, g.Digest)
	}
	if err := back.Set("payload=1"); err == nil || !strings.Contains(err.Error(), "fixed") {
		t.Errorf("Set on cells without their file = %v, want an error", err)
	}
}

// TestGridErrors: a typo names the file, the line, the key and the nearest one that exists.
func TestGridErrors(t *testing.T) {
	for _, tt := range []struct {
		why  string
		text string
		want []string // all of them in the error
	}{
		{"a key of the grid", "why: w\ntrails: 5\nblocks: [{}]", []string{"g.yml:2:", `"trails"`, "nearest: trials"}},
		{"a key of a block", "why: w\nblocks:\n  - factor: {payload: [1]}", []string{"g.yml:3:", `"factor"`, "nearest: factors"}},
		{"a size", "why: w\nsizes:\n  idle_timeuot: 5s\nblocks: [{}]", []string{"g.yml:3:", `"idle_timeuot"`, "nearest: idle_timeout"}},
		{"a factor", "why: w\nblocks:\n  - factors:\n      fanuot: [1]", []string{"g.yml:4:", `"fanuot"`, "nearest: fanout"}},
		{"a factor of base, spelled as the flag", "why: w\nblocks:\n  - base:\n      pub-conns: 1", []string{"g.yml:4:", `"pub-conns"`, "nearest: pub_conns"}},
		{"a setting", "why: w\nblocks:\n  - base:\n      broker.subscriber_queue_capcity: 8", []string{"g.yml:4:", "subscriber_queue_capcity", "nearest: broker.subscriber_queue_capacity"}},
		{"a setting of another section", "why: w\nblocks:\n  - base:\n      client.subscriber_queue_capacity: 8", []string{"g.yml:4:", "nearest: broker.subscriber_queue_capacity"}},
		{"a setting without its section", "why: w\nblocks:\n  - base:\n      subscriber_queue_capacity: 8", []string{"g.yml:4:", `unknown factor "subscriber_queue_capacity"`, "nearest: broker.subscriber_queue_capacity"}},
		{"a setting's value", "why: w\nblocks:\n  - base:\n      broker.subscriber_queue_policy: drop_nwe", []string{"g.yml:4:", "drop_nwe", "nearest: drop_new"}},
		{"a setting's bound", "why: w\nblocks:\n  - base:\n      broker.subscriber_queue_capacity: 0", []string{"g.yml:4:", "subscriber_queue_capacity", "at least 1"}},
		{"a level of a choice", "why: w\nblocks:\n  - factors: {sharding: [hash]}", []string{"g.yml:3:", "sharding", `"hash"`, "hash_stream, rr"}},
		{"a level that is no number", "why: w\nblocks:\n  - factors: {payload: [1K]}", []string{"g.yml:3:", "payload", `"1K"`}},
		{"a number that YAML reads as another", "why: w\nblocks:\n  - factors: {payload: [0o100]}", []string{"payload", `"0o100"`}},
		{"zero, which would mean the default", "why: w\nblocks:\n  - base: {batch: 0}", []string{"batch", "at least 1"}},
		{"a named level", "why: w\nlevels: {preset: {P1_hash: {publishers: 1}}}\nblocks:\n  - base: {preset: P1_hsh}", []string{"g.yml:4:", `preset "P1_hsh"`, "nearest: P1_hash"}},
		{"a factor of a named level", "why: w\nlevels:\n  preset:\n    P1: {publisher: 1}\nblocks: [{base: {preset: P1}}]", []string{"g.yml:4:", `"publisher"`, "nearest: publishers"}},
		{"a named level nobody uses", "why: w\nlevels:\n  preset:\n    P1: {publishers: 1}\n    P2: {publishers: 2}\nblocks: [{base: {preset: P1}}]", []string{"g.yml:5:", "P2", "no block"}},
		{"a named level that hides a factor", "why: w\nlevels: {payload: {big: {batch: 4}}}\nblocks: [{}]", []string{"g.yml:2:", `"payload"`}},
		{"a named level that sets nothing", "why: w\nlevels: {preset: {P1: {}}}\nblocks: [{base: {preset: P1}}]", []string{"g.yml:2:", "sets nothing"}},
		{"a topology that needs to be told more", "why: w\nblocks:\n  - base: {topology: external}", []string{"g.yml:3:", "topology", "its own brokers"}},
		{"a factor decided twice", "why: w\nlevels: {preset: {P1: {publishers: 1}}}\nblocks:\n  - base: {preset: P1, publishers: 2}", []string{"g.yml:4:", "publishers is decided twice", "preset=P1", "publishers=2"}},
		{"a factor in base and in factors", "why: w\nblocks:\n  - base: {batch: 1}\n    factors:\n      batch: [2]", []string{"g.yml:5:", "batch is in base and in factors"}},
		{"one level twice", "why: w\nblocks:\n  - factors: {rate: [1000, 1e3]}", []string{"g.yml:3:", "rate", "one level"}},
		{"a setting at one level, spelled twice", "why: w\nblocks:\n  - factors:\n      broker.subscriber_queue_max_bytes: [8MiB, 8388608]", []string{"g.yml:4:", "one level"}},
		{"a cell that occurs twice", "why: w\nblocks:\n  - base: {payload: 0}\n  - factors: {payload: [64, 0]}", []string{"g.yml:4:", "occurs twice", "line 3", "payload=0"}},
		{"a cell that cannot be", "why: w\nblocks:\n  - base: {batch: 64}\n    factors:\n      inflight: [4]", []string{"g.yml:5:", "batch=64 inflight=4", "--inflight 4"}},
		{"a key twice", "why: w\nwhy: v\nblocks: [{}]", []string{"g.yml:2:", "why", "twice"}},
		{"no why", "blocks: [{}]", []string{"g.yml:1:", "why"}},
		{"no blocks", "why: w", []string{"g.yml:1:", "blocks"}},
		{"empty blocks", "why: w\nblocks: []", []string{"g.yml:2:", "blocks"}},
		{"no levels", "why: w\nblocks:\n  - factors: {payload: []}", []string{"g.yml:3:", "payload", "list"}},
		{"one level where a list is wanted", "why: w\nblocks:\n  - factors: {payload: 4}", []string{"g.yml:3:", "payload", "list"}},
		{"a list where one level is wanted", "why: w\nblocks:\n  - base: {payload: [4]}", []string{"g.yml:3:", "payload", "one value"}},
		{"no value", "why: w\nblocks:\n  - base: {payload: }", []string{"g.yml:3:", "payload", "one value"}},
		{"trials", "why: w\ntrials: many\nblocks: [{}]", []string{"g.yml:2:", `trials "many"`}},
		{"a size's value", "why: w\nsizes: {duration: 10}\nblocks: [{}]", []string{"g.yml:2:", `duration "10"`, "10s"}},
		{"a size's bound", "why: w\nsizes: {send_window: 1KiB}\nblocks: [{}]", []string{"g.yml:2:", "send_window", "1MiB"}},
		{"an alias", "why: w\nblocks:\n  - base: &b {payload: 64}\n  - base: *b", []string{"g.yml:4:", "base"}},
		{"no YAML", "why: w\n\tblocks: [", []string{"g.yml:", "not YAML"}},
		{"two documents", "why: w\nblocks: [{}]\n---\nwhy: v", []string{"g.yml:3:", "second"}},
		{"nothing", "# only talk", []string{"g.yml", "empty"}},
		{"no mapping", "- 1", []string{"g.yml:1:", "mapping"}},
		{"far too many cells", "why: w\nblocks:\n  - factors: {payload: [" + numbers(200) + "], batch: [" + numbers(200) + "]}", []string{"g.yml:3:", "more than 10000 cells"}},
	} {
		_, err := workload.ParseGrid("g.yml", []byte(tt.text))
		if err == nil {
			t.Errorf("%s: accepted", tt.why)
			continue
		}
		var at *settings.Error
		if !errors.As(err, &at) {
			t.Errorf("%s: error is a %T, want a *settings.Error", tt.why, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q lacks %q", tt.why, err, want)
			}
		}
	}
}

func numbers(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(100+i))
	}
	return strings.Join(list, ", ")
}

func TestSharedLevels(t *testing.T) {
	shared, err := workload.ParseLevels("shared.yml", []byte("preset: {P2: {publishers: 2}}"))
	if err != nil {
		t.Fatal(err)
	}
	shared = shared.WithProfiles("balanced", "high_memory")
	parse := func(text string) error {
		_, err := workload.ParseGrid("g.yml", []byte(text), shared)
		return err
	}
	for _, tt := range []struct {
		why, text, want string // want "" is no error
	}{
		{"a shared level needs no definition, nor to be used", "why: w\nblocks: [{base: {profile: high_memory}}]", ""},
		{"an own level stands beside it", "why: w\nlevels: {preset: {P3: {publishers: 3}}}\nblocks: [{factors: {preset: [P2, P3]}}]", ""},
		{"but does not change it", "why: w\nlevels: {preset: {P2: {publishers: 3}}}\nblocks: [{base: {preset: P2}}]", "shared"},
		{"profiles are known", "why: w\nblocks:\n  - base: {profile: high_memry}", "nearest: high_memory"},
	} {
		switch err := parse(tt.text); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.why, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v lacks %q", tt.why, err, tt.want)
		}
	}
}

func TestSelect(t *testing.T) {
	for _, tt := range []struct {
		why       string
		set, only []string
		want      []string // names of the cells
		err       string
	}{
		{why: "one named level", only: []string{"preset=P4"},
			want: []string{"batch=1 payload=0 preset=P4", "batch=1 payload=4096 preset=P4"}},
		{why: "several narrow further", only: []string{"preset=P1", "batch=1", "payload=4096"},
			want: []string{"batch=1 payload=4096 preset=P1"}},
		{why: "a factor that a named level decides", only: []string{"publishers=4"},
			want: []string{"batch=1 payload=0 preset=P4", "batch=1 payload=4096 preset=P4"}},
		{why: "a setting, however it is spelled", only: []string{"broker.subscriber_queue_capacity=8"},
			want: []string{"batch=64 payload=256 preset=P1 broker.subscriber_queue_capacity=8"}},
		{why: "a factor at its default", only: []string{"encoding=binary", "batch=64"},
			want: []string{"batch=64 payload=256 preset=P1 broker.subscriber_queue_capacity=8", "batch=64 payload=256 preset=P1 broker.subscriber_queue_capacity=512"}},
		{why: "levels in place of the block's", set: []string{"payload=1024"}, only: []string{"batch=1"},
			want: []string{"batch=1 preset=P1", "batch=1 preset=P4"}},
		{why: "a new factor", set: []string{"encoding=binary,json"}, only: []string{"preset=P4", "payload=0"},
			want: []string{"batch=1 payload=0 preset=P4 encoding=binary", "batch=1 payload=0 preset=P4 encoding=json"}},
		{why: "what cannot be is left out by an only", set: []string{"inflight=8"}, only: []string{"batch=1", "preset=P1"},
			want: []string{"payload=0 preset=P1", "payload=4096 preset=P1"}},
		{why: "what cannot be", set: []string{"inflight=8"}, err: "--inflight 8"},
		{why: "what a preset decides", set: []string{"publishers=2"}, err: "decided twice"},
		{why: "a level nobody has", only: []string{"payload=4069"}, err: "there are 0, 4096, 256 (nearest: 4096)"},
		{why: "a factor nobody has", only: []string{"broker.log_capacity=9"}, err: "no cell has the factor"},
		{why: "a named level nobody knows", set: []string{"preset=P5"}, err: `preset "P5"`},
		{why: "a typo", set: []string{"palyoad=1"}, err: "nearest: payload"},
		{why: "a typo", only: []string{"presets=P1"}, err: "nearest: preset"},
		{why: "no level", set: []string{"payload="}, err: "factor=level"},
		{why: "no factor", only: []string{"P1"}, err: "factor=level"},
		{why: "an empty level", only: []string{"preset=P1,"}, err: "empty level"},
		{why: "one level twice", set: []string{"rate=1000,1e3"}, err: "one level"},
		{why: "different sizes for one case", set: []string{"batch=64", "broker.subscriber_queue_capacity=8", "payload=64"}, err: "different sizes"},
	} {
		g := parse(t, example)
		before := g.Digest
		err := g.Select(tt.set, tt.only)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v lacks %q", tt.why, err, tt.err)
			}
			if g.Digest != before || len(g.Cells) != 6 {
				t.Errorf("%s: the grid changed in spite of the error", tt.why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.why, err)
			continue
		}
		if d := cmp.Diff(tt.want, names(g)); d != "" {
			t.Errorf("%s: %s", tt.why, d)
		}
		if g.Digest == before || g.Digest != workload.Digest(g.Cells) {
			t.Errorf("%s: the digest is not that of the cells", tt.why)
		}
	}
}

// Cells that a set makes the same are one: the user named each level once.
func TestSetMergesWhatBecomesTheSame(t *testing.T) {
	g := parse(t, "why: w\nblocks:\n  - base: {batch: 1}\n    factors: {payload: [0, 64]}\n  - base: {batch: 64, payload: 0}")
	if err := g.Set("batch=8"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"payload=0", "payload=64"}; !slices.Equal(names(g), want) {
		t.Errorf("cells are %q, want %q", names(g), want)
	}
}

// What only keeps, it keeps through a later set.
func TestSetAfterOnly(t *testing.T) {
	g := parse(t, example)
	if err := errors.Join(g.Only("preset=P4"), g.Set("payload=64,128")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"batch=1 payload=64 preset=P4", "batch=1 payload=128 preset=P4"}; !slices.Equal(names(g), want) {
		t.Errorf("cells are %q, want %q", names(g), want)
	}
}

// Every field of Case is a factor of a grid, and changes what latencydemo is told: a new field without one is missed
// here.
func TestEveryFieldOfCaseIsAFactor(t *testing.T) {
	levels := map[string]string{
		"probe": "relay", "transport": "tls", "payload": "512", "batch": "8", "fanout": "3", "load": "flood", "rate": "100", "arrival": "poisson", "acks": "per_batch",
		"inflight": "4", "publishers": "2", "streams": "2", "pub_conns": "2", "pub_streams_per_conn": "2", "sharding": "rr",
		"sub_conns": "1", "encoding": "json", "policy": "production", "topology": "split", "procs": "2", "cpus": "broker=0", "timer_slack": "1ms", "profile": "high_memory",
		"burst": "400", "payload_mix": "'100:95%,1KiB:5%'", "tenants": "'a:30,b:5'", "stall": "'0:1s:5s'", "slow": "'*:20MB'", "overload": "true",
		"broker_set": "broker.log_capacity", "client_set": "client.publish_queue_depth", "transport_set": "transport.keep_alive_ms",
	}
	needs := map[string]string{"transport": ", probe: relay", "arrival": ", rate: 100", "sub_conns": ", fanout: 2"}
	typ := reflect.TypeFor[workload.Case]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		level := levels[name]
		if level == "" {
			t.Errorf("field %s has no level in this test", name)
			continue
		}
		factor := name + ": " + level
		if strings.HasSuffix(name, "_set") {
			factor = level + ": 77"
		}
		with := parse(t, "why: w\nblocks:\n  - base: {"+factor+needs[name]+"}")
		without := parse(t, "why: w\nblocks:\n  - base: {"+strings.TrimPrefix(needs[name], ", ")+"}")
		if slices.Equal(with.Cells[0].Flags(), without.Cells[0].Flags()) {
			t.Errorf("%s changes no flag", factor)
		}
		if with.Digest == without.Digest {
			t.Errorf("%s does not change the digest", factor)
		}
	}
}

// Every size is read and becomes a flag.
func TestEverySizeIsAFlag(t *testing.T) {
	sizes := map[string]string{
		"total": "1000", "duration": "1m30s", "warmup": "0", "send_window": "8MiB", "max_deliveries": "99",
		"allow_undersized": "true", "idle_timeout": "2s", "seed": "0", "conn_stats": "0s",
	}
	want := map[string]string{
		"total": "--total 1000", "duration": "--duration 1m30s", "warmup": "--warmup 0", "send_window": "--send-window 8388608", "max_deliveries": "--max-deliveries 99",
		"allow_undersized": "--allow-undersized", "idle_timeout": "--idle-timeout 2s", "seed": "--seed 0", "conn_stats": "--conn-stats 0s",
	}
	if n := reflect.TypeFor[workload.Sizes]().NumField(); n != len(sizes) {
		t.Errorf("%d sizes are tested, there are %d", len(sizes), n)
	}
	for key, value := range sizes {
		g := parse(t, fmt.Sprintf("why: w\nsizes: {%s: %s}\nblocks: [{}]", key, value))
		if got := strings.Join(g.Cells[0].Sizes.Flags(), " "); got != want[key] {
			t.Errorf("%s: %s is %q, want %q", key, value, got, want[key])
		}
	}
	g := parse(t, "why: w\nsizes: {total: 5, warmup: 5}\nblocks: [{sizes: {total: auto, warmup: auto}}]")
	if f := g.Cells[0].Sizes.Flags(); len(f) > 0 {
		t.Errorf("a block that goes back to auto has the flags %q", f)
	}
}

func TestLintFindsAFactorWithoutEffect(t *testing.T) {
	const text = "why: w\nblocks:\n  - factors:\n      fanout: [1, 2]\n      broker.log_capacity: [8, 9]\n"
	for _, tt := range []struct {
		why     string
		resolve func(*workload.Cell) (string, error)
		want    []string
	}{
		{"both have one", func(c *workload.Cell) (string, error) {
			return fmt.Sprint(c.Case.Fanout, c.Case.BrokerSet), nil
		}, nil},
		{"a setting that nobody reads", func(c *workload.Cell) (string, error) { return fmt.Sprint(c.Case.Fanout), nil },
			[]string{"g.yml:5:", "broker.log_capacity has no effect", "8 and 9", "fanout=1"}},
		{"a factor that nobody reads", func(c *workload.Cell) (string, error) { return fmt.Sprint(c.Case.BrokerSet), nil },
			[]string{"g.yml:4:", "fanout has no effect", "1 and 2"}},
		{"a cell that cannot be resolved", func(*workload.Cell) (string, error) { return "", errors.New("refused") },
			[]string{"g.yml:3:", "refused"}},
	} {
		g, err := workload.ParseGrid("g.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = g.Lint(tt.resolve)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: Lint = %v", tt.why, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q lacks %q", tt.why, err, want)
			}
		}
	}
}

func TestEstimateFollowsTheSizeRule(t *testing.T) {
	m := workload.NewModel(map[string]map[string]string{"high_memory": {"conn_recv_window": "256MiB", "stream_recv_window": "64MiB"}})
	trial := func(block string) time.Duration {
		return m.Trial(&parse(t, "why: w\nblocks:\n  - "+block).Cells[0])
	}
	for _, tt := range []struct {
		why       string
		block     string
		low, high time.Duration
	}{
		{"measured: 1.5 to 9 s", "base: {payload: 256}", 1200 * time.Millisecond, 9 * time.Second},
		{"measured: 200 to 260 MB/s, at least 2 s", "base: {payload: 4096, batch: 64}", 2500 * time.Millisecond, 5 * time.Second},
		{"measured: 28 MB/s published", "base: {payload: 4096, batch: 64, fanout: 10}", 9 * time.Second, 13 * time.Second},
		{"a total ends it before", "{base: {payload: 4096, batch: 64, fanout: 10}, sizes: {total: 1000, warmup: 0}}", 400 * time.Millisecond, time.Second},
		{"and so does a time", "{base: {batch: 64}, sizes: {duration: 20s}}", 20 * time.Second, 22 * time.Second},
		{"an open loop takes as long as its rate says", "{base: {rate: 1000}, sizes: {total: 5000}}", 5 * time.Second, 7 * time.Second},
		{"a slow one at least 1,000 messages", "base: {rate: 50}", 20 * time.Second, 30 * time.Second},
	} {
		if got := trial(tt.block); got < tt.low || got > tt.high {
			t.Errorf("%s: %s takes %v, want %v to %v", tt.why, tt.block, got, tt.low, tt.high)
		}
	}
	const ten = "base: {payload: 4096, batch: 64, fanout: 10"
	few := trial(ten + "}")
	for _, longer := range []string{
		ten + ", pub_conns: 4, pub_streams_per_conn: 2, sharding: rr}",                                     // W is 128 MiB
		ten + ", pub_conns: 4, pub_streams_per_conn: 2, streams: 8}",                                       // 8 QUIC streams in use
		ten + ", pub_conns: 2, pub_streams_per_conn: 1, sharding: rr, profile: high_memory}",               // 2 x 64 MiB
		ten + ", transport.stream_recv_window: 128MiB, transport.conn_recv_window: 128MiB, sub_conns: 10}", // 128 MiB
		"{sizes: {send_window: 512MiB}, base: {payload: 4096, batch: 64, fanout: 10}}",                     // 128 MiB
	} {
		if got := trial(longer); float64(got) < 1.7*float64(few) {
			t.Errorf("%s takes %v, want about twice the %v of one QUIC stream: the window is twice 64 MiB", longer, got, few)
		}
	}
	if got := trial(ten + ", pub_conns: 4, pub_streams_per_conn: 2}"); got > few+time.Second {
		t.Errorf("one logical stream on one of eight QUIC streams takes %v, want about %v", got, few)
	}
}

func TestEstimateLearns(t *testing.T) {
	g := parse(t, "why: w\nblocks:\n  - base: {batch: 64}\n    factors: {payload: [256, 1024, 4096]}\n  - base: {batch: 1}")
	m := workload.NewModel(nil)
	before := make([]time.Duration, len(g.Cells))
	for i := range g.Cells {
		before[i] = m.Trial(&g.Cells[i])
	}
	m.Observe(&g.Cells[0], 3*before[0])
	m.Observe(&g.Cells[0], 5*before[0])
	m.Observe(&g.Cells[1], 0) // nothing was measured
	near := func(got, want time.Duration) bool { return (got - want).Abs() < time.Millisecond }
	if got := m.Trial(&g.Cells[0]); !near(got, 4*before[0]) {
		t.Errorf("the observed cell takes %v, want its mean of %v", got, 4*before[0])
	}
	if got := m.Trial(&g.Cells[1]).Seconds() / before[1].Seconds(); got < 3.8 || got > 4 { // sqrt(15)
		t.Errorf("a cell of its kind takes %.2f times as long, want 3.87", got)
	}
	if got := m.Trial(&g.Cells[3]); got != before[3] {
		t.Errorf("a latency cell takes %v, want %v as before: no latency trial was observed", got, before[3])
	}
	if got, want := m.Grid(g, 2), 2*(m.Trial(&g.Cells[0])+m.Trial(&g.Cells[1])+m.Trial(&g.Cells[2])+m.Trial(&g.Cells[3])); got != want {
		t.Errorf("the grid takes %v, want the sum of %v", got, want)
	}
}
