package workload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"felix/internal/workload"
)

// A resolved probe is its own resolution, has a key of its own, and survives JSON.
func TestProbeResolves(t *testing.T) {
	keys := map[string]bool{}
	for _, probe := range append(workload.Probes(), workload.ProbeNone) {
		for _, transport := range []workload.Transport{workload.TransportQUIC, workload.TransportTLS, workload.TransportTCP} {
			if probe == workload.ProbeNone && transport != workload.TransportQUIC {
				continue
			}
			c, err := workload.Case{Probe: probe, Transport: transport, Payload: 256, Publishers: 2, Streams: 2}.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			again, err := c.Resolve()
			if err != nil || again.Key() != c.Key() {
				t.Errorf("resolved again: %v, %s, want %s", err, again.Key(), c.Key())
			}
			if keys[c.Key()] {
				t.Errorf("two cases of the key %s", c.Key())
			}
			keys[c.Key()] = true
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var back workload.Case
			if err := json.Unmarshal(text, &back); err != nil || back.Key() != c.Key() || back.PubConns != c.PubConns {
				t.Errorf("from JSON: %v, %s, want %s", err, back.Key(), c.Key())
			}
			if probe == workload.ProbeNone && strings.Contains(string(text), "probe") {
				t.Errorf("a case without a probe speaks of one: %s", text)
			}
			if kind := c.Kind(); kind != map[string]string{"none": "case", "raw": "raw", "relay": "relay", "echo": "echo", "echo-relay": "echo"}[probe.String()] {
				t.Errorf("%s: kind %s", probe, kind)
			}
			if (c.LatencyKind() == workload.KindLatency) != (probe.Echo() || probe == workload.ProbeNone) || c.Throughput() != (probe == workload.ProbeRaw || probe == workload.ProbeRelay) {
				t.Errorf("%s: %s, throughput %v", c.Key(), c.LatencyKind(), c.Throughput())
			}
		}
	}
}

// Probes are cells of a grid beside what is held against them, and a factor that a probe has not got is refused with
// its place.
func TestProbeInGrid(t *testing.T) {
	g, err := workload.ParseGrid("g.yml", []byte(`
why: the ceiling beside the broker
blocks:
  - base: {batch: 64, topology: split}
    factors: {probe: [none, relay], payload: [256, 4096], fanout: [1, 10]}
  - base: {probe: relay, batch: 64, payload: 4096}
    factors: {transport: [tls, tcp]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Cells) != 10 {
		t.Fatalf("%d cells, want 10", len(g.Cells))
	}
	relay := g.Cells[4]
	if relay.Name != "topology=split probe=relay payload=256 fanout=1 transport=quic" {
		t.Errorf("name %q", relay.Name)
	}
	if got := strings.Join(relay.Flags(), " "); got != "probe relay --batch 64 --topology split" {
		t.Errorf("flags %q", got)
	}
	if got := strings.Join(g.Cells[8].Flags(), " "); got != "probe relay --transport tls --payload 4096 --batch 64" {
		t.Errorf("flags %q", got)
	}
	for _, tt := range []struct{ block, want string }{
		{"{base: {probe: relay}, factors: {encoding: [binary, json]}}", "--encoding json"},
		{"{base: {probe: relay}, factors: {broker.log_capacity: [8, 9]}}", "--broker-set"},
		{"{base: {probe: raw}, factors: {fanout: [1, 10]}}", "--fanout 10"},
		{"{factors: {probe: [none, relai]}}", "want one of none, raw, relay"},
		{"{factors: {transport: [quic, tls]}}", "--transport tls"},
	} {
		_, err := workload.ParseGrid("g.yml", []byte("why: no\nblocks:\n  - "+tt.block+"\n"))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "g.yml:3") {
			t.Errorf("%s: %v, want %q with its line", tt.block, err, tt.want)
		}
	}
}
