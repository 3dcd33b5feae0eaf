package trial_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"felix/internal/host"
	"felix/internal/workload"
)

func TestPlacementHoldsAndIsPutBack(t *testing.T) {
	before, err := host.Affinity()
	if err != nil {
		t.Skip(err)
	}
	if len(before) < 2 {
		t.Skip("one processor: nothing to tell apart")
	}
	procs := runtime.GOMAXPROCS(0)
	first, second := workload.FormatCPUs(before[:1]), workload.FormatCPUs(before[1:2])
	type where struct {
		gomaxprocs int
		cpus       string
	}
	anywhere := where{max(1, procs/2), workload.FormatCPUs(before)} // two processes share the machine
	third := where{max(1, procs/3), anywhere.cpus}
	for _, tt := range []struct {
		name string
		c    workload.Case
		want map[string]where
	}{
		{"as they come", workload.Case{}, map[string]where{"clients": anywhere, "broker": anywhere}},
		{"GOMAXPROCS of all", workload.Case{Procs: 1}, map[string]where{"clients": {1, anywhere.cpus}, "broker": {1, anywhere.cpus}}},
		{"in one process", workload.Case{Procs: 1, Topology: workload.TopologyInprocess}, map[string]where{"all": {1, anywhere.cpus}}},
		{"processors, and as many goroutines at once", workload.Case{CPUs: workload.CPUs("broker=" + first + ",pub=" + second + ",sub=" + second)},
			map[string]where{"clients": {1, second}, "broker": {1, first}}},
		{"the broker alone", workload.Case{CPUs: workload.CPUs("broker=" + second)}, map[string]where{"clients": anywhere, "broker": {1, second}}},
		{"a relay in the broker's place", workload.Case{Probe: workload.ProbeRelay, CPUs: workload.CPUs("broker=" + second)}, map[string]where{"clients": anywhere, "relay": {1, second}}},
		{"one hop", workload.Case{Probe: workload.ProbeRaw, CPUs: workload.CPUs("pub=" + first + ",sub=" + second)}, map[string]where{"publisher": {1, first}, "subscriber": {1, second}}},
		{"every role by itself", workload.Case{Topology: workload.TopologySplit, Procs: 2, CPUs: workload.CPUs("broker=" + first + ",pub=" + second)},
			map[string]where{"broker": {2, first}, "publisher": {2, second}, "subscriber": {2, anywhere.cpus}}},
		{"every role its share", workload.Case{Topology: workload.TopologySplit}, map[string]where{"broker": third, "publisher": third, "subscriber": third}},
		{"one process has it all", workload.Case{Topology: workload.TopologyInprocess}, map[string]where{"all": {procs, anywhere.cpus}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Payload = 64
			s := small(tt.c)
			s.Sizes.Total = 200
			r := run(t, t.Context(), s)
			mustBeValid(t, r)
			got := map[string]where{}
			for _, p := range r.Processes {
				if p.CPUs == nil {
					t.Fatalf("process %s: no processors in the record", p.Name)
				}
				got[p.Name] = where{p.GOMAXPROCS, *p.CPUs}
			}
			for name, want := range tt.want {
				if got[name] != want {
					t.Errorf("process %s ran on %+v, want %+v", name, got[name], want)
				}
			}
			after, err := host.Affinity()
			if err != nil || !slices.Equal(after, before) || runtime.GOMAXPROCS(0) != procs {
				t.Errorf("this process is left on %v with GOMAXPROCS %d, want %v and %d", after, runtime.GOMAXPROCS(0), before, procs)
			}
			if key := r.Case.Key; (tt.c.Procs > 0) != strings.Contains(key, "procs=") || (tt.c.CPUs != "") != strings.Contains(key, "cpus=") {
				t.Errorf("key %q", key)
			}
		})
	}
	if _, err := small(workload.Case{Payload: 64, CPUs: "broker=1023"}).Resolve(); err == nil || !strings.Contains(err.Error(), "processor 1023") {
		t.Errorf("Resolve = %v, want a processor that there is not", err)
	}
}

// TestTransportLeversAreRecorded runs a case with the socket's settings away from their defaults: what is in effect
// stands in the record, and sockets shared or not, both ends of each connection are found.
func TestTransportLeversAreRecorded(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  map[string]string
	}{
		{"defaults", nil},
		{"all of them", map[string]string{"gso": "off", "gro": "off", "recv_gate_bytes": "60000", "sockets": "shared"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := small(workload.Case{Payload: 512, Batch: 16, Fanout: 3, PubConns: 2, Acks: workload.AcksPerBatch, TransportSet: tt.set})
			r := run(t, t.Context(), s)
			mustBeValid(t, r)
			set := tt.set != nil
			for _, sock := range r.Config.Sockets {
				if runtime.GOOS == "linux" && (sock.GSO == nil || *sock.GSO == set || sock.GRO == nil || *sock.GRO == set || (sock.RecvGateBytes == 60_000) != set) {
					t.Errorf("socket %+v, levers set: %v", sock, set)
				}
				if shared := set || sock.Role == "broker"; sock.Shared != shared {
					t.Errorf("socket of the %s shared: %v, want %v", sock.Role, sock.Shared, shared)
				}
			}
			checkConns(t, r)
			locals := map[string]bool{}
			for _, c := range r.Conns {
				if c.Role != "broker" {
					locals[c.Local] = true
				}
			}
			// Two publish connections and three of subscriptions.
			if want := map[bool]int{true: 2, false: 5}[set]; len(locals) != want {
				t.Errorf("%d client sockets, want %d", len(locals), want)
			}
			for key, want := range tt.set {
				if got := r.Config.Transport[key].From; got != "flag --transport-set" {
					t.Errorf("%s=%s is from %q", key, want, got)
				}
			}
			reads := 0
			for _, w := range r.Wakeups {
				if strings.HasPrefix(w.Place, "socket read (") && w.Count > 0 {
					reads++
				}
			}
			if reads != 3 {
				t.Errorf("wake-ups %+v: those of the sockets of three roles are wanted", r.Wakeups)
			}
		})
	}
}

// Tenants have clients of their own, and with sockets shared one socket for each role all the same.
func TestTenantsShareTheSocketOfARole(t *testing.T) {
	for sockets, want := range map[string]int{"own": 4, "shared": 2} {
		s := small(workload.Case{Payload: 64, Tenants: workload.Tenants{{Name: "a", Rate: 2000}, {Name: "b", Rate: 1000}}, TransportSet: map[string]string{"sockets": sockets}})
		s.Sizes.Total = 600
		r := run(t, t.Context(), s)
		locals := map[string]bool{}
		for _, c := range r.Conns {
			if c.Role != "broker" {
				locals[c.Local] = true
			}
		}
		if len(locals) != want || r.Counts.Delivered != r.Counts.Expected {
			t.Errorf("sockets %s: %d client sockets, want %d; delivered %d of %d (%v)", sockets, len(locals), want, r.Counts.Delivered, r.Counts.Expected, r.Reasons)
		}
	}
}
