package workload_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"felix/internal/workload"
)

func TestCPUs(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"broker=0", "broker=0"},
		{"sub=0-1,pub=1,broker=0", "broker=0,pub=1,sub=0-1"},
		{"broker=3,1,2,pub=7-9,5", "broker=1-3,pub=5,7-9"},
		{"broker=0,0,0-1", "broker=0-1"},
	} {
		var c workload.CPUs
		if err := c.Set(tt.text); err != nil || c.String() != tt.want {
			t.Errorf("Set(%q) = %q, %v, want %q", tt.text, c, err, tt.want)
			continue
		}
		again := c
		if err := again.Set(c.String()); err != nil || again != c {
			t.Errorf("%q does not parse to itself: %q, %v", c, again, err)
		}
	}
	var c workload.CPUs
	if err := c.Set("broker=0,pub=2-3,7"); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[workload.Role][]int{workload.RoleBroker: {0}, workload.RolePublisher: {2, 3, 7}, workload.RoleSubscriber: nil} {
		if got := c.Of(role); !slices.Equal(got, want) {
			t.Errorf("%s of %s = %v, want %v", role, c, got, want)
		}
	}
	for _, text := range []string{"0", "0,broker=1", "broker", "broker=", "broker=x", "broker=-1", "broker=2-1", "broker=0-", "broker=9999", "relay=0", "broker=0,broker=1", "broker=0,,1"} {
		if err := c.Set(text); err == nil {
			t.Errorf("Set(%q) taken as %q", text, c)
		}
	}
}

func TestPlacementIsPartOfTheCase(t *testing.T) {
	plain, err := workload.Case{Payload: 256}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	placed := workload.Case{Payload: 256, Topology: workload.TopologySplit, Procs: 2, CPUs: "sub=1,broker=0"}
	if placed, err = placed.Resolve(); err != nil {
		t.Fatal(err)
	}
	if key := placed.Key(); !strings.Contains(key, " procs=2 cpus=broker=0,sub=1") || strings.Contains(plain.Key(), "procs") || strings.Contains(plain.Key(), "cpus") {
		t.Errorf("keys %q and %q", key, plain.Key())
	}
	flags := strings.Join(placed.Flags(), " ")
	if !strings.Contains(flags, "--procs 2 --cpus broker=0,sub=1") || strings.Contains(strings.Join(plain.Flags(), " "), "procs") {
		t.Errorf("flags %q and %q", flags, plain.Flags())
	}
	for _, c := range []workload.Case{plain, placed} {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back workload.Case
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s came back as %+v, %v", text, back, err)
		}
	}
}

func TestPlacementIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    workload.Case
		want string
	}{
		{"in one process", workload.Case{Topology: workload.TopologyInprocess, CPUs: "broker=0"}, "all roles share one process"},
		{"of a running broker", workload.Case{Topology: workload.TopologyExternal, CPUs: "broker=0"}, "taskset"},
		{"procs of a running broker", workload.Case{Topology: workload.TopologyExternal, Procs: 1}, "GOMAXPROCS=N"},
		{"one of two roles of a process", workload.Case{CPUs: "broker=0,pub=1"}, "--topology split"},
		{"two roles of a process, apart", workload.Case{CPUs: "pub=0,sub=1"}, "--topology split"},
		{"a broker of one hop", workload.Case{Payload: 256, Probe: workload.ProbeRaw, CPUs: "broker=0"}, "nothing between"},
		{"no processors", workload.Case{CPUs: "0"}, "role=list"},
		{"negative procs", workload.Case{Procs: -1}, "--procs -1"},
		{"absurd procs", workload.Case{Procs: 1025}, "--procs 1025"},
	} {
		if _, err := tt.c.Resolve(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Resolve = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	for _, c := range []workload.Case{
		{Payload: 256, Probe: workload.ProbeRaw, CPUs: "pub=0,sub=1"}, {Payload: 256, Probe: workload.ProbeRelay, CPUs: "broker=0"},
		{CPUs: "broker=0,pub=1,sub=1"}, {CPUs: "broker=0"}, {Procs: 1, Topology: workload.TopologyInprocess},
		{Topology: workload.TopologyExternal, CPUs: "pub=1,sub=1"}, {Topology: workload.TopologySplit, CPUs: "pub=0,sub=1"},
	} {
		if _, err := c.Resolve(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestPlacementInAGrid(t *testing.T) {
	g := parse(t, `
why: where roles run
blocks:
  - why: each
    base: {topology: split, payload: 256}
    factors:
      procs: [auto, 1]
      cpus: ["broker=0", "broker=1,pub=0"]
      transport.gro: ["on", "off"]
      transport.sockets: [own, shared]
`)
	if len(g.Cells) != 16 {
		t.Errorf("%d cells, want 16", len(g.Cells))
	}
}
