package workload_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix/internal/workload"
)

func resolve(t *testing.T, c workload.Case) workload.Case {
	t.Helper()
	r, err := c.Resolve()
	if err != nil {
		t.Fatalf("Resolve(%+v): %v", c, err)
	}
	return r
}

func TestResolveDecidesAutoFactors(t *testing.T) {
	for _, tt := range []struct {
		why        string
		in         workload.Case
		load       workload.Load
		acks       workload.Acks
		kind       workload.LatencyKind
		throughput bool
	}{
		{"the default is the acked closed loop of single messages", workload.Case{Payload: 256}, workload.LoadClosed, workload.AcksPerMessage, workload.KindLatency, false},
		{"a batch is not acked, and what is not acked floods", workload.Case{Batch: 64}, workload.LoadFlood, workload.AcksNone, workload.KindQueueingDelay, true},
		{"a rate makes an open loop, whose delay is latency at any batch", workload.Case{Batch: 64, Rate: 1000}, workload.LoadOpen, workload.AcksNone, workload.KindLatency, false},
		{"an acked batch closes the loop, but a batch waits for its own tail", workload.Case{Batch: 64, Acks: workload.AcksPerBatch}, workload.LoadClosed, workload.AcksPerBatch, workload.KindQueueingDelay, true},
		{"any in-flight depth of acked single messages is latency", workload.Case{Inflight: 32}, workload.LoadClosed, workload.AcksPerMessage, workload.KindLatency, false},
		{"a flood of single messages is a throughput run", workload.Case{Load: workload.LoadFlood}, workload.LoadFlood, workload.AcksPerMessage, workload.KindQueueingDelay, true},
		{"without acks a closed loop waits only for its own writes", workload.Case{Load: workload.LoadClosed, Acks: workload.AcksNone}, workload.LoadClosed, workload.AcksNone, workload.KindQueueingDelay, false},
	} {
		c := resolve(t, tt.in)
		if c.Load != tt.load || c.Acks != tt.acks || c.LatencyKind() != tt.kind || c.Throughput() != tt.throughput {
			t.Errorf("%s: got load %s acks %s kind %s throughput %v, want %s %s %s %v", tt.why, c.Load, c.Acks, c.LatencyKind(), c.Throughput(), tt.load, tt.acks, tt.kind, tt.throughput)
		}
	}
}

func TestResolveRefusesNonsense(t *testing.T) {
	for _, tt := range []struct {
		in   workload.Case
		want string // in the error
	}{
		{workload.Case{Payload: 5}, "stamp of 32 bytes"},
		{workload.Case{Payload: -1}, "--payload"},
		{workload.Case{Payload: 1 << 30}, "--payload"},
		{workload.Case{Batch: -1}, "--batch"},
		{workload.Case{Fanout: -3}, "--fanout"},
		{workload.Case{Payload: 1 << 20, Batch: 64}, "16 MiB"},
		{workload.Case{SubConns: 2}, "--sub-conns"},
		{workload.Case{Load: workload.LoadOpen}, "--rate"},
		{workload.Case{Load: workload.LoadFlood, Rate: 5}, "--rate"},
		{workload.Case{Rate: math.NaN()}, "--rate"},
		{workload.Case{Rate: -1}, "--rate"},
		{workload.Case{Load: workload.LoadFlood, Inflight: 4}, "--inflight"},
		{workload.Case{Arrival: workload.ArrivalPoisson}, "--arrival"},
	} {
		if _, err := tt.in.Resolve(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Resolve(%+v) = %v, want an error with %q", tt.in, err, tt.want)
		}
	}
}

// A key must tell every two cases apart that differ in any factor: merged cells would hide a difference.
func TestKeyTellsEveryFactorApart(t *testing.T) {
	base := workload.Case{Payload: 256, Batch: 8, Fanout: 2, Streams: 2}
	variants := map[string]func(*workload.Case){
		"payload":    func(c *workload.Case) { c.Payload = 512 },
		"batch":      func(c *workload.Case) { c.Batch = 9 },
		"fanout":     func(c *workload.Case) { c.Fanout = 3 },
		"load":       func(c *workload.Case) { c.Load = workload.LoadClosed },
		"rate":       func(c *workload.Case) { c.Rate = 1000 },
		"rate 2":     func(c *workload.Case) { c.Rate = 2000 },
		"arrival":    func(c *workload.Case) { c.Rate, c.Arrival = 1000, workload.ArrivalPoisson },
		"acks":       func(c *workload.Case) { c.Acks = workload.AcksPerBatch },
		"inflight":   func(c *workload.Case) { c.Load, c.Inflight = workload.LoadClosed, 2 },
		"publishers": func(c *workload.Case) { c.Publishers = 3 },
		"streams":    func(c *workload.Case) { c.Streams = 3 },
		"conns":      func(c *workload.Case) { c.PubConns = 2 },
		"qstreams":   func(c *workload.Case) { c.PubStreamsPerConn = 2 },
		"sharding":   func(c *workload.Case) { c.Sharding = workload.ShardingRR },
		"subconns":   func(c *workload.Case) { c.SubConns = 1 },
		"encoding":   func(c *workload.Case) { c.Encoding = workload.EncodingJSON },
		"policy":     func(c *workload.Case) { c.Policy = workload.PolicyProduction },
		"topology":   func(c *workload.Case) { c.Topology = workload.TopologySplit },
		"profile":    func(c *workload.Case) { c.Profile = "high_memory" },
		"broker":     func(c *workload.Case) { c.BrokerSet = map[string]string{"a": "1"} },
		"client":     func(c *workload.Case) { c.ClientSet = map[string]string{"a": "1"} },
		"transport":  func(c *workload.Case) { c.TransportSet = map[string]string{"a": "1"} },
	}
	seen := map[string]string{resolve(t, base).Key(): "base"}
	for name, change := range variants {
		c := base
		change(&c)
		key := resolve(t, c).Key()
		if other, dup := seen[key]; dup {
			t.Errorf("%s and %s have one key %q", name, other, key)
		}
		seen[key] = name
	}
}

func TestCaseRoundTripsThroughJSON(t *testing.T) {
	c := resolve(t, workload.Case{Payload: 100, Rate: 5, Arrival: workload.ArrivalPoisson, Sharding: workload.ShardingRR, Topology: workload.TopologyExternal, BrokerSet: map[string]string{"k": "v"}})
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back workload.Case
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if d := cmp.Diff(c, back); d != "" {
		t.Error(d)
	}
}

func TestPublishersCoverEveryStreamOnce(t *testing.T) {
	for publishers := 1; publishers <= 9; publishers++ {
		for streams := 1; streams <= 9; streams++ {
			c := resolve(t, workload.Case{Publishers: publishers, Streams: streams})
			writers := make([]int, streams)
			for p := range publishers {
				for _, s := range c.StreamsOf(p) {
					writers[s]++
				}
			}
			for s, n := range writers {
				if n == 0 {
					t.Errorf("%d publishers, %d streams: nobody writes to stream %d", publishers, streams, s)
				}
				if publishers <= streams && n != 1 {
					t.Errorf("%d publishers, %d streams: stream %d has %d writers, want 1", publishers, streams, s, n)
				}
			}
			total := 0
			for p := range publishers {
				total += c.Share(1001, p)
			}
			if total != 1001 {
				t.Errorf("%d publishers share %d of 1001 messages", publishers, total)
			}
		}
	}
}

func TestScheduleIsAbsoluteAndKeepsItsRate(t *testing.T) {
	for _, arrival := range []workload.Arrival{workload.ArrivalConstant, workload.ArrivalPoisson} {
		c := resolve(t, workload.Case{Rate: 4000, Arrival: arrival, Batch: 4, Publishers: 2, Acks: workload.AcksNone})
		const slots = 20_000 // 500 slots a second and publisher
		s := c.NewSchedule(1, 1e9, 7)
		last := int64(0)
		for range slots {
			at := s.Next()
			if at < last || at < 1e9 {
				t.Fatalf("%s: slot at %d after %d", arrival, at, last)
			}
			last = at
		}
		if got, want := float64(last-1e9)/1e9, float64(slots)/500; math.Abs(got-want)/want > 0.03 {
			t.Errorf("%s: %d slots took %.2f s, want about %.2f", arrival, slots, got, want)
		}
	}
	c := resolve(t, workload.Case{Rate: 100, Arrival: workload.ArrivalPoisson})
	if a, b := c.NewSchedule(0, 0, 1).Next(), c.NewSchedule(0, 0, 1).Next(); a != b {
		t.Errorf("one seed, two schedules: %d and %d", a, b)
	}
	if a, b := c.NewSchedule(0, 0, 1).Next(), c.NewSchedule(0, 0, 2).Next(); a == b {
		t.Errorf("two seeds, one schedule: %d", a)
	}
}

func TestSizeRule(t *testing.T) {
	const mib = 1 << 20
	normal := workload.Sizing{WindowBytes: 16 * mib, MessageBytes: 4096, Subscribers: 1, MaxDeliveries: 3_000_000}
	tiny := workload.Sizing{WindowBytes: 16 * mib, MessageBytes: 32, Subscribers: 1, MaxDeliveries: 3_000_000}
	wide := workload.Sizing{WindowBytes: 256 * mib, MessageBytes: 4096, Subscribers: 1, MaxDeliveries: 3_000_000}
	for _, tt := range []struct {
		why    string
		s      workload.Sizing
		r      workload.Reached
		grade  workload.Grade
		enough bool
	}{
		{"all three hold", normal, workload.Reached{RunBytes: 256 * mib, PeakBacklog: 60 * mib, Elapsed: 3 * time.Second}, workload.GradeSized, true},
		{"fits the window", normal, workload.Reached{RunBytes: 255 * mib, Elapsed: 3 * time.Second}, workload.GradeUndersized, false},
		{"large but over before anything settled", normal, workload.Reached{RunBytes: 900 * mib, Elapsed: time.Second}, workload.GradeUndersized, false},
		{"too small and swallowed: too small", normal, workload.Reached{RunBytes: 20 * mib, PeakBacklog: 19 * mib, Elapsed: time.Second}, workload.GradeUndersized, false},
		{"swallowed by queues at any size", normal, workload.Reached{RunBytes: 900 * mib, PeakBacklog: 300 * mib, Elapsed: 9 * time.Second}, workload.GradeBufferAbsorbed, false},
		{"the larger of the floor and W counts", wide, workload.Reached{RunBytes: 900 * mib, Elapsed: 9 * time.Second}, workload.GradeUndersized, false},
		{"bytes say nothing about tiny messages", tiny, workload.Reached{RunBytes: 9 * mib, PeakBacklog: 1 * mib, Elapsed: 2 * time.Second}, workload.GradeSized, true},
		{"a hair too short", normal, workload.Reached{RunBytes: 900 * mib, Elapsed: 2*time.Second - 1}, workload.GradeUndersized, false},
		{"out of deliveries after 2 s", normal, workload.Reached{RunBytes: 20 * mib, Deliveries: 3_000_000, Elapsed: 2 * time.Second}, workload.GradeCapped, true},
		{"out of deliveries too early goes on", normal, workload.Reached{RunBytes: 20 * mib, Deliveries: 3_000_000, Elapsed: time.Second}, workload.GradeUndersized, false},
		{"capped does not excuse a backlog", normal, workload.Reached{RunBytes: 20 * mib, PeakBacklog: 6 * mib, Deliveries: 3_000_000, Elapsed: 2 * time.Second}, workload.GradeBufferAbsorbed, true},
	} {
		grade, reason := tt.s.Grade(tt.r)
		if grade != tt.grade || tt.s.Enough(tt.r) != tt.enough {
			t.Errorf("%s: grade %s enough %v, want %s %v", tt.why, grade, tt.s.Enough(tt.r), tt.grade, tt.enough)
		}
		if bad := grade == workload.GradeUndersized || grade == workload.GradeBufferAbsorbed; bad != (reason != "") {
			t.Errorf("%s: grade %s with reason %q", tt.why, grade, reason)
		}
	}
	if got, want := workload.Window(64*mib, 16*mib, []int{1, 2, 8}), int64((16+32+64)*mib); got != want {
		t.Errorf("Window = %d, want %d", got, want)
	}
}
