package trial

import (
	"testing"
	"time"

	"felix/internal/workload"
)

func planOf(t *testing.T, c workload.Case) *Plan {
	t.Helper()
	p, err := Spec{Case: c}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const mib = 1 << 20

func TestPathHoldsWhatItsBoundsSay(t *testing.T) {
	type set = map[string]string
	base := workload.Case{Payload: 4096, Batch: 64} // 256 KiB a batch
	for _, tt := range []struct {
		why    string
		broker set
		client set
		fanout int
		of     func(path) int64
		want   int64
	}{
		{"checkpoint 1 is the client's budget", nil, nil, 1, func(p path) int64 { return p.clientAdmission }, 4 * mib},
		{"3 bounds large batches: one connection, and a frame in hand", nil, nil, 1, func(p path) int64 { return p.ingress }, 16*mib + mib/4},
		{"4 bounds them when it is shallow", set{"pub_queue_depth": "2", "pub_workers_per_conn": "3"}, nil, 1, func(p path) int64 { return p.ingress }, 6*mib/4 + mib/4},
		{"5 in bytes", nil, nil, 1, func(p path) int64 { return p.queue }, 8 * mib},
		{"5 in batches", set{"subscriber_queue_capacity": "4"}, nil, 1, func(p path) int64 { return p.queue }, mib},
		{"6 in bytes: the budget of its connection", nil, nil, 1, func(p path) int64 { return p.egress }, 16 * mib},
		{"6 in frames, and the one being written", set{"subscriber_lane_queue_depth": "3"}, nil, 1, func(p path) int64 { return p.egress }, mib},
		{"5 to the wire, over all subscribers", set{"subscriber_queue_max_bytes_total": "10MiB"}, nil, 1, func(p path) int64 { return p.queue + p.egress }, 10 * mib},
		{"a batch larger than the budget passes alone", set{"subscriber_queue_max_bytes": "1KiB"}, nil, 1, func(p path) int64 { return p.queue }, mib / 4},
		{"the peer's credit", nil, nil, 1, func(p path) int64 { return p.eventWindow }, 16 * mib},
		{"7, if it drops", nil, set{"client_sub_queue_policy": "drop_new", "client_sub_queue_capacity": "8"}, 1, func(p path) int64 { return p.clientQueue }, 2 * mib},
	} {
		c := base
		c.BrokerSet, c.ClientSet, c.Fanout = tt.broker, tt.client, tt.fanout
		p := planOf(t, c)
		if got := tt.of(newPath(&p.Case, &p.Broker, &p.Client, &p.Transport, 16*mib)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.why, got, tt.want)
		}
	}
	shared := base
	shared.Fanout, shared.SubConns = 4, 1
	p := planOf(t, shared)
	if got := newPath(&p.Case, &p.Broker, &p.Client, &p.Transport, 0).egress; got != 4*mib {
		t.Errorf("6 of four subscriptions on one connection: %d each, want a quarter of 16 MiB", got)
	}
}

func TestDelayBound(t *testing.T) {
	c := workload.Case{Payload: 1024, Batch: 16, Policy: workload.PolicyProduction}
	if err := c.Slow.Set("*:20MB"); err != nil {
		t.Fatal(err)
	}
	p := planOf(t, c)
	x := newPath(&p.Case, &p.Broker, &p.Client, &p.Transport, 0)
	// 5: 512 batches of 16 KiB; 6: 64 frames of at most 64 KiB and one more; then the window.
	if want := int64(8*mib + 65*65536 + 16*mib); x.downstream() != want {
		t.Errorf("downstream of the fanout %d, want %d", x.downstream(), want)
	}
	bound := x.delayBound(&p.Case)
	if bound == nil || time.Duration(*bound).Round(10*time.Millisecond) != 1470*time.Millisecond {
		t.Errorf("bound %v, want 1.47 s at 20 MB/s", bound)
	}
	p = planOf(t, workload.Case{Payload: 1024})
	if b := newPath(&p.Case, &p.Broker, &p.Client, &p.Transport, 0).delayBound(&p.Case); b != nil {
		t.Errorf("bound %v of a subscriber that reads as fast as it can", *b)
	}
}
