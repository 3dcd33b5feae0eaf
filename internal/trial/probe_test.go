package trial_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// Every probe in every topology, and over every transport in one: the same ledger, the same record, each process where
// it belongs.
func TestProbes(t *testing.T) {
	processes := map[workload.Topology]map[int][]string{ // by hops
		workload.TopologyProcesses: {1: {"publisher", "subscriber"}, 2: {"clients", "relay"}},
		workload.TopologySplit:     {1: {"publisher", "runner", "subscriber"}, 2: {"publisher", "relay", "runner", "subscriber"}},
		workload.TopologyInprocess: {1: {"all"}, 2: {"all"}},
	}
	for _, probe := range workload.Probes() {
		for _, network := range []workload.Transport{workload.TransportQUIC, workload.TransportTLS, workload.TransportTCP} {
			for topology, names := range processes {
				if network != workload.TransportQUIC && topology != workload.TopologyProcesses {
					continue
				}
				c := workload.Case{Probe: probe, Transport: network, Topology: topology, Payload: 200, Batch: 8}
				if probe.Echo() {
					c.Batch = 1
				}
				t.Run(fmt.Sprintf("%s/%s/%s", probe, network, topology), func(t *testing.T) {
					r := run(t, t.Context(), small(c))
					mustBeValid(t, r)
					if r.Kind != r.Case.Kind() || r.Probe == nil || r.Probe.Name != probe.String() || r.Probe.Transport != network.String() || r.Probe.Hops != probe.Hops() || r.Probe.RTT != probe.Echo() {
						t.Errorf("kind %s, probe %+v", r.Kind, r.Probe)
					}
					var got []string
					for _, p := range r.Processes {
						got = append(got, p.Name)
					}
					if slices.Sort(got); !slices.Equal(got, names[probe.Hops()]) {
						t.Errorf("processes %q, want %q", got, names[probe.Hops()])
					}
					checkProbeFacts(t, r, network)
				})
			}
		}
	}
}

func checkProbeFacts(t *testing.T, r *runrecord.Record, network workload.Transport) {
	t.Helper()
	if r.Config.Broker != nil || r.Config.Client != nil || r.Probe.Unavailable["config.broker"] == "" {
		t.Error("the settings of a broker that is not there")
	}
	readers := []string{"event reader", "relay reader"}[:r.Probe.Hops]
	for _, place := range readers {
		if !slices.ContainsFunc(r.Wakeups, func(w runrecord.Wakeup) bool { return w.Place == place && w.Count > 0 && *w.ItemsPerWakeup > 0 }) {
			t.Errorf("no wake-ups of the %s: %+v", place, r.Wakeups)
		}
	}
	if network != workload.TransportQUIC {
		if len(r.Conns) > 0 || r.UDP != nil || r.Rates.WireBytesSent != nil || r.Config.Transport != nil || r.Probe.Unavailable["conns"] == "" {
			t.Errorf("facts of QUIC over %s", network)
		}
		return
	}
	if hops := r.Probe.Hops; len(r.Conns) != 2*hops {
		t.Errorf("%d connection ends, want two of each of %d hops", len(r.Conns), hops)
	}
	for _, c := range r.Conns {
		if c.Peer == nil {
			t.Errorf("connection %s has no other end", c.ID)
		}
	}
	payload := r.Counts.Delivered * int64(r.Case.MessageBytes())
	if w := r.Rates.WireBytesSent; w == nil || *w < payload*int64(r.Probe.Hops) {
		t.Errorf("wire bytes %v, want at least %d times %d", w, r.Probe.Hops, payload)
	}
}

// An echo's end to end is the round trip; what the answering end saw is one way, and shorter.
func TestProbeEchoLatencies(t *testing.T) {
	r := run(t, t.Context(), small(workload.Case{Probe: workload.ProbeEchoRelay, Payload: 256}))
	mustBeValid(t, r)
	l := r.Latency
	if l.Kind != workload.KindLatency || l.EndToEnd == nil || l.Network == nil || l.EndToEnd.N != r.Counts.Published || l.Network.N != r.Counts.Published {
		t.Fatalf("latency %+v", l)
	}
	if *l.EndToEnd.P50Ns <= *l.Network.P50Ns {
		t.Errorf("round trip p50 %d ns, one way %d ns", *l.EndToEnd.P50Ns, *l.Network.P50Ns)
	}
	for _, s := range r.Subscribers {
		if s.P50Ns != nil {
			t.Error("a subscriber's one-way p50 stands beside round trips")
		}
	}
}

// The relay copies to every subscriber of every stream, whoever published.
func TestProbeRelayShapes(t *testing.T) {
	for _, c := range []workload.Case{
		{Fanout: 10, Payload: 1024, Batch: 16},
		{Publishers: 4, PubConns: 4, Payload: 64, Batch: 4, Fanout: 2, SubConns: 1},
		{Publishers: 3, Streams: 2, PubConns: 2, Payload: 300, Fanout: 3},
		{Streams: 3, Payload: 32768, Batch: 4},
		{Rate: 2000, Payload: 100, Topology: workload.TopologyInprocess},
	} {
		c.Probe = workload.ProbeRelay
		t.Run(c.Key(), func(t *testing.T) {
			r := run(t, t.Context(), small(c))
			mustBeValid(t, r)
			if f := r.Flow; f.Received == nil || f.Sent == nil || *f.Received != r.Counts.Published || *f.Sent != r.Counts.Delivered {
				t.Errorf("flow %+v, want received %d and sent %d", f, r.Counts.Published, r.Counts.Delivered)
			}
			if r.Lossless != runrecord.LosslessYes {
				t.Errorf("lossless %s", r.Lossless)
			}
		})
	}
}

// A relay that is killed ends the trial at once, and the ledger says what is missing.
func TestProbeRelayKilled(t *testing.T) {
	s := small(workload.Case{Probe: workload.ProbeRelay, Payload: 1024, Batch: 8})
	s.Sizes.Total = 1 << 30
	killed := false
	s.Progress = func(p trial.Progress) {
		if p.Phase == "measure" && p.Delivered > 0 && !killed {
			killed = true
			for _, pid := range children(t, "role", "relay") {
				kill(t, pid)
			}
		}
	}
	r := run(t, t.Context(), s)
	if r.Valid || r.Counts.Delivered == 0 {
		t.Errorf("valid %v, delivered %d, reasons %q", r.Valid, r.Counts.Delivered, r.Reasons)
	}
}

func TestProbeRefused(t *testing.T) {
	for _, c := range []workload.Case{
		{Probe: workload.ProbeRelay, Topology: workload.TopologyExternal},
		{Probe: workload.ProbeEcho, Fanout: 2},
		{Probe: workload.ProbeRaw, Publishers: 2},
		{Probe: workload.ProbeRelay, PubConns: 2},
		{Transport: workload.TransportTCP},
	} {
		_, err := trial.Spec{Case: c}.Resolve()
		var usage *trial.UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: %v, want a usage error", c.Key(), err)
		}
	}
}
