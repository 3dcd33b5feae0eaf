package trial_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

func TestTopologiesAndShapesAreValid(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    workload.Case
	}{
		{"the default: acked, one at a time", workload.Case{Payload: 256}},
		{"processes, batches, fanout", workload.Case{Payload: 512, Batch: 16, Fanout: 3}},
		{"split", workload.Case{Payload: 512, Batch: 16, Fanout: 2, Topology: workload.TopologySplit}},
		{"inprocess", workload.Case{Payload: 512, Batch: 16, Topology: workload.TopologyInprocess}},
		{"stamp alone", workload.Case{Payload: 0, Batch: 8}},
		{"json, acked batches", workload.Case{Payload: 300, Batch: 4, Acks: workload.AcksPerBatch, Encoding: workload.EncodingJSON}},
		{"deep closed loop", workload.Case{Payload: 64, Inflight: 16}},
		{"acked by the batch", workload.Case{Payload: 64, Batch: 2, Inflight: 4, Acks: workload.AcksPerBatch}},
		{"open loop", workload.Case{Payload: 64, Rate: 4000, Arrival: workload.ArrivalPoisson, Topology: workload.TopologyInprocess}},
		{"many publishers, streams, connections", workload.Case{Payload: 64, Batch: 4, Publishers: 4, Streams: 3, Fanout: 2, PubConns: 2, PubStreamsPerConn: 2, SubConns: 2, Topology: workload.TopologyInprocess}},
		{"fewer publishers than streams", workload.Case{Payload: 64, Publishers: 2, Streams: 5, Topology: workload.TopologyInprocess}},
		{"rr over several QUIC streams", workload.Case{Payload: 64, Batch: 4, Publishers: 2, PubConns: 2, PubStreamsPerConn: 2, Sharding: workload.ShardingRR, Topology: workload.TopologyInprocess}},
		{"high_memory", workload.Case{Payload: 64, Profile: "high_memory", Topology: workload.TopologyInprocess}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.Batch > 1 && tt.c.Acks == workload.AcksAuto {
				tt.c.Acks = workload.AcksPerBatch // a small flood is absorbed by buffers, and said to be
			}
			r := run(t, t.Context(), small(tt.c))
			mustBeValid(t, r)
			if r.Counts.Expected != 2000*int64(max(1, tt.c.Fanout)) {
				t.Errorf("expected %d deliveries, want %d", r.Counts.Expected, 2000*max(1, tt.c.Fanout))
			}
			if got, want := *r.Flow.Published, int64(2000); got != want {
				t.Errorf("broker published %d since the mark, want %d", got, want)
			}
			c := resolve(t, small(tt.c)).Case
			if r.Latency.Kind != c.LatencyKind() || r.Latency.EndToEnd == nil || r.Latency.EndToEnd.N != r.Counts.Delivered {
				t.Errorf("latency %+v, want kind %s over %d deliveries", r.Latency, c.LatencyKind(), r.Counts.Delivered)
			}
			if acked := c.Acks != workload.AcksNone; acked != (r.Latency.AckRTT != nil) {
				t.Errorf("acks %s: ack rtt %+v", c.Acks, r.Latency.AckRTT)
			}
			checkConns(t, r)
			checkStages(t, r)
		})
	}
}

// checkConns wants both ends of every connection, joined, with what a reader asks for first.
func checkConns(t *testing.T, r *runrecord.Record) {
	t.Helper()
	roles := map[string]int{}
	busiest := 0
	for _, c := range r.Conns {
		roles[c.Role]++
		if c.Busiest {
			busiest++
		}
		if c.MTUBytes == nil || *c.MTUBytes < 1200 || c.CwndBytes <= 0 || c.RTTSmoothedNs <= 0 {
			t.Errorf("connection %s: mtu %v cwnd %d rtt %d", c.ID, c.MTUBytes, c.CwndBytes, c.RTTSmoothedNs)
		}
		if c.Peer == nil {
			t.Errorf("connection %s (%s -> %s): its other end is not in the record", c.ID, c.Local, c.Remote)
		}
	}
	if roles["broker"] != roles["publisher"]+roles["subscriber"] || roles["publisher"] == 0 || roles["subscriber"] == 0 || busiest != 1 {
		t.Errorf("connection ends by role %v, %d busiest", roles, busiest)
	}
}

func TestRecordIsSmallAndItsExtrasAreWhole(t *testing.T) {
	s := small(workload.Case{Payload: 256, Batch: 8, Fanout: 10})
	s.Sizes.Total, s.Sizes.Duration = 0, 3*time.Second
	s.Sizes.ConnStats = 50 * time.Millisecond
	out, err := trial.Run(t.Context(), resolve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	line, err := out.Record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(line) > runrecord.MaxBytes {
		t.Errorf("record of %d bytes at fanout 10, want at most %d", len(line), runrecord.MaxBytes)
	}
	if len(out.Record.Intervals) < 10 {
		t.Errorf("%d intervals in 3 s, want at least 10", len(out.Record.Intervals))
	}
	if n := strings.Count(string(out.Extras["connections.jsonl"]), "\n"); n != 22 {
		t.Errorf("%d connection ends in connections.jsonl, want both of 11", n)
	}
}

func TestSizeRuleJudges(t *testing.T) {
	s := small(workload.Case{Payload: 4096, Batch: 64, Acks: workload.AcksPerBatch})
	s.Sizes.Total, s.Sizes.AllowUndersized = 640, false
	r := run(t, t.Context(), s)
	if r.Valid || r.SizeGrade != "undersized" || !strings.Contains(strings.Join(r.Reasons, " "), "undersized") {
		t.Errorf("valid %v, grade %s, reasons %v", r.Valid, r.SizeGrade, r.Reasons)
	}
	s.Sizes.AllowUndersized = true
	r = run(t, t.Context(), s)
	if len(faults(r)) > 0 || r.SizeGrade != "undersized" || !strings.Contains(strings.Join(r.Warnings, " "), "undersized") {
		t.Errorf("allowed: valid %v, grade %s, warnings %v", r.Valid, r.SizeGrade, r.Warnings)
	}
}

// Whose message is whose is the same question in every topology.
func TestSeveralStreamsInEveryTopology(t *testing.T) {
	for _, topology := range []workload.Topology{workload.TopologyProcesses, workload.TopologySplit, workload.TopologyInprocess} {
		for name, c := range map[string]workload.Case{
			"streams":            {Payload: 64, Streams: 3, Publishers: 4, Fanout: 2},
			"streams of a relay": {Payload: 64, Streams: 3, Publishers: 3, Fanout: 2, Probe: workload.ProbeRelay},
			"tenants":            {Payload: 64, Batch: 4, Overload: true, Tenants: []workload.Tenant{{Name: "a", Rate: 400}, {Name: "b", Rate: 1200}}},
		} {
			t.Run(fmt.Sprintf("%v/%s", topology, name), func(t *testing.T) {
				c.Topology = topology
				s := small(c)
				s.Sizes.Total, s.Sizes.Duration = 0, 300*time.Millisecond
				if r := run(t, t.Context(), s); len(faults(r)) > 0 || r.Counts.Published == 0 {
					t.Errorf("%d published, faults %v", r.Counts.Published, faults(r))
				}
			})
		}
	}
}

// So much publishing is what was asked for; the time from the mark to the first publish does not count.
func TestDurationIsOfPublishing(t *testing.T) {
	s := small(workload.Case{Payload: 256, Batch: 8, Load: workload.LoadClosed, Acks: workload.AcksPerBatch, Publishers: 2})
	s.Sizes.Total, s.Sizes.Duration = 0, 200*time.Millisecond
	for range 5 {
		if r := run(t, t.Context(), s); r.Rates.WindowNs < int64(s.Sizes.Duration) {
			t.Errorf("asked for %v, got %v", s.Sizes.Duration, time.Duration(r.Rates.WindowNs))
		}
	}
}

// A broker that sheds must say so: what is missing has to equal what its checkpoint counted, and the drain must not
// wait for what will never come.
func TestProductionDropsAreNamed(t *testing.T) {
	s := small(workload.Case{Payload: 1024, Batch: 8, Policy: workload.PolicyProduction, Topology: workload.TopologyInprocess,
		BrokerSet: map[string]string{"subscriber_queue_capacity": "1", "subscriber_lane_queue_depth": "1"}})
	s.Sizes.Total, s.Sizes.IdleTimeout = 40_000, 20*time.Second
	began := time.Now()
	r := run(t, t.Context(), s)
	if r.Counts.Lost == 0 {
		t.Skip("nothing was dropped: the machine was faster than a queue of one batch")
	}
	accounted(t, r)
	if r.Lossless == runrecord.LosslessYes {
		t.Error("called lossless")
	}
	if took := time.Since(began); took > s.Sizes.IdleTimeout {
		t.Errorf("took %v: waited for what was dropped", took)
	}
}

func TestInterruptDrainsAndIsRecorded(t *testing.T) {
	s := small(workload.Case{Payload: 256, Topology: workload.TopologySplit})
	s.Sizes.Total, s.Sizes.Duration = 0, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Progress = func(p trial.Progress) {
		if p.Phase == "measure" && p.Published > 100 {
			cancel()
		}
	}
	r := run(t, ctx, s)
	if r.Valid || !r.Interrupted || r.Counts.Delivered == 0 || r.Counts.Unaccounted != 0 {
		t.Errorf("valid %v, interrupted %v, delivered %d, unaccounted %d, reasons %v", r.Valid, r.Interrupted, r.Counts.Delivered, r.Counts.Unaccounted, r.Reasons)
	}
	if left := append(children(t, "role", "broker"), children(t, "role", "publisher")...); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// killWhileMeasuring runs the spec and kills the process of a role once something was measured.
func killWhileMeasuring(t *testing.T, s trial.Spec, role string) *runrecord.Record {
	t.Helper()
	s.Sizes.Total, s.Sizes.Duration = 0, time.Minute
	var once sync.Once
	s.Progress = func(p trial.Progress) {
		if p.Phase == "measure" && p.Delivered > 1000 {
			once.Do(func() {
				for _, pid := range children(t, "role", role) {
					kill(t, pid)
				}
			})
		}
	}
	began := time.Now()
	r := run(t, t.Context(), s)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if r.Valid || !strings.Contains(strings.Join(r.Reasons, "; "), role+" process ended") {
		t.Errorf("valid %v, reasons %v", r.Valid, r.Reasons)
	}
	return r
}

// A subscriber that is killed takes its ledger with it. The run must end by itself and name what is missing as far as
// anybody can know: what came after the last that the process said it had.
func TestKilledSubscriberIsNamed(t *testing.T) {
	r := killWhileMeasuring(t, small(workload.Case{Payload: 1024, Batch: 4, Fanout: 2, Topology: workload.TopologySplit}), "subscriber")
	if len(r.Subscribers) != 2 {
		t.Fatalf("%d subscribers in the record, want 2", len(r.Subscribers))
	}
	for _, sub := range r.Subscribers {
		if len(sub.Missing) == 0 || sub.Missing[0].LastSeq < sub.Missing[0].FirstSeq || sub.Lost <= 0 || sub.Delivered == 0 {
			t.Errorf("subscriber %s: delivered %d, lost %d, missing %v", sub.ID, sub.Delivered, sub.Lost, sub.Missing)
		}
	}
}

// With publishers in a process of their own, a broker that was killed left them waiting for an ack that never came, and
// the runner waiting for them.
func TestKilledBrokerEndsTheRun(t *testing.T) {
	for _, topology := range []workload.Topology{workload.TopologyProcesses, workload.TopologySplit} {
		for _, c := range []workload.Case{{Payload: 256}, {Payload: 1024, Batch: 4}} {
			t.Run(fmt.Sprintf("%s batch %d", topology, c.Batch), func(t *testing.T) {
				c.Topology = topology
				killWhileMeasuring(t, small(c), "broker")
			})
		}
	}
}

// What a publisher that is gone had published was taken to be nothing, and all that had arrived to be messages that
// nobody had sent.
func TestKilledPublisherEndsTheRun(t *testing.T) {
	r := killWhileMeasuring(t, small(workload.Case{Payload: 1024, Batch: 4, Topology: workload.TopologySplit}), "publisher")
	if r.Counts.Expected == 0 || r.Counts.Delivered > r.Counts.Expected || r.Counts.Lost < 0 || r.Counts.Unaccounted < 0 {
		t.Errorf("counts %+v", r.Counts)
	}
}

// A rate over the span of its own publishes said 74,600 msg/s of one message, and CPU over the same span said 7.9 of two
// cores were busy.
func TestFewMessagesHaveNoRate(t *testing.T) {
	s := small(workload.Case{Payload: 256, Topology: workload.TopologyInprocess})
	s.Sizes.Total = 1
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	if r.Rates.PublishedMsgsPerSec != nil || r.Rates.DeliveredBytesPerSec != nil {
		t.Errorf("rates %+v of one message", r.Rates)
	}
	if r.CostNs == nil || *r.CostNs < r.Rates.WindowNs {
		t.Errorf("cost over %v ns, the window is %d ns", r.CostNs, r.Rates.WindowNs)
	}
}

func TestShallowLoopIsSaid(t *testing.T) {
	s := small(workload.Case{Payload: 64 << 10, Inflight: 1000})
	if p := resolve(t, s); len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "only 63 fit") {
		t.Errorf("warnings %v, want one that says that 63 of 1000 fit", p.Warnings)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    trial.Spec
		want string // in the error or its hint
	}{
		{"a factor out of range", trial.Spec{Case: workload.Case{Fanout: -1}}, "--fanout"},
		{"external without an address", trial.Spec{Case: workload.Case{Topology: workload.TopologyExternal}}, "--broker"},
		{"a broker's address without external", trial.Spec{External: &trial.External{Addr: "x"}}, "external"},
		{"a setting of a broker that runs", trial.Spec{Case: workload.Case{Topology: workload.TopologyExternal, BrokerSet: map[string]string{"log_capacity": "9"}}, External: &trial.External{Addr: "x"}}, "--broker-set"},
		{"an unknown profile", trial.Spec{Case: workload.Case{Profile: "huge"}}, "balanced"},
		{"a misspelt key", trial.Spec{Case: workload.Case{BrokerSet: map[string]string{"log_capacty": "9"}}}, "log_capacity"},
		{"a key that a flag decides", trial.Spec{Case: workload.Case{ClientSet: map[string]string{"publish_conn_pool": "9"}}}, "--pub-conns"},
		{"a variable that a flag decides", trial.Spec{Environ: []string{"FELIX_EVENT_CONN_POOL=3"}}, "--sub-conns"},
		{"a variable that cannot exist", trial.Spec{Environ: []string{"FELIX_INITIAL_CWND=3"}}, "FELIX_INITIAL_CWND"},
	} {
		_, err := tt.s.Resolve()
		var usage *trial.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error()+usage.Hint, tt.want) || usage.Hint == "" {
			t.Errorf("%s: %v, want a usage error with a hint and %q", tt.name, err, tt.want)
		}
	}
}

// What --broker-set, --transport-set and --send-window say has to reach the broker, or the echo in the record lies.
func TestSettingsReachTheProcesses(t *testing.T) {
	s := small(workload.Case{Payload: 64, BrokerSet: map[string]string{"subscriber_queue_capacity": "7"}, TransportSet: map[string]string{"packet_size": "1400", "mtu_discovery": "false"}})
	s.Sizes.SendWindow = 8 << 20
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	if got := r.Config.Broker["subscriber_queue_capacity"]; got.Value != float64(7) || !strings.Contains(got.From, "--broker-set") {
		t.Errorf("record says %+v", got)
	}
	for _, c := range r.Conns {
		if c.MTUBytes == nil || *c.MTUBytes != 1400 {
			t.Errorf("connection %s: mtu %v, want 1400", c.ID, c.MTUBytes)
		}
	}
	if r.Rates.SendWindowBytes != 2<<20 { // one QUIC stream: a quarter
		t.Errorf("W = %d, want %d", r.Rates.SendWindowBytes, 2<<20)
	}
	found := false
	for _, c := range r.Checkpoints {
		if c.Number == 5 {
			found = true
			if !strings.HasPrefix(c.Bound, "7 batches") || c.Policy != "block" {
				t.Errorf("checkpoint 5 of the broker: %s, %s", c.Bound, c.Policy)
			}
		}
	}
	if !found {
		t.Error("no checkpoint 5")
	}
}
