package workload_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/workload"
)

// fromFlags reads flags as latencydemo does: over its defaults, every flag a factor of the same name.
func fromFlags(t *testing.T, flags []string) workload.Case {
	t.Helper()
	doc := map[string]any{"payload": workload.DefaultPayload}
	for i := 0; i < len(flags); i += 2 {
		name, ok := strings.CutPrefix(flags[i], "--")
		if !ok {
			t.Fatalf("flags %q: %q is no flag", flags, flags[i])
		}
		if name == "overload" { // on or off: it has no value
			doc[name] = true
			i--
			continue
		}
		name = strings.ReplaceAll(name, "-", "_")
		value := flags[i+1]
		if strings.HasSuffix(name, "_set") {
			k, v, _ := strings.Cut(value, "=")
			if doc[name] == nil {
				doc[name] = map[string]string{}
			}
			doc[name].(map[string]string)[k] = v
		} else if n, err := strconv.ParseFloat(value, 64); err == nil {
			doc[name] = n
		} else {
			doc[name] = value
		}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var c workload.Case
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatalf("flags %q: %v", flags, err)
	}
	return resolve(t, c)
}

func TestFlagsMeanTheCase(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(levels ...int) int { return levels[r.IntN(len(levels))] }
	tested := 0
	for range 5000 {
		c := workload.Case{
			Payload: pick(0, 32, 256, 4096), Batch: pick(0, 1, 64), Fanout: pick(0, 1, 3), Load: workload.Load(r.IntN(4)), Rate: []float64{0, 0, 1500.5, 2e6}[r.IntN(4)],
			Arrival: workload.Arrival(pick(0, 0, 1)), Acks: workload.Acks(r.IntN(4)), Inflight: pick(0, 0, 1, 8), Publishers: pick(0, 1, 4),
			Streams: pick(0, 1, 2), PubConns: pick(0, 1, 2), PubStreamsPerConn: pick(0, 1, 2), Sharding: workload.Sharding(r.IntN(2)), SubConns: pick(0, 1),
			Overload: r.IntN(4) == 0,
			Encoding: workload.Encoding(r.IntN(2)), Policy: workload.Policy(r.IntN(2)), Topology: workload.Topology(r.IntN(3)), Profile: []string{"", "balanced", "high_memory"}[r.IntN(3)],
		}
		if r.IntN(2) == 0 {
			c.BrokerSet, c.TransportSet = map[string]string{"log_capacity": "9", "subscriber_queue_policy": "block"}, map[string]string{"packet_size": "1280"}
		}
		want, err := c.Resolve()
		if err != nil {
			continue
		}
		tested++
		if d := cmp.Diff(want, fromFlags(t, want.Flags())); d != "" {
			t.Fatalf("%+v has the flags %q, which mean another case: %s", want, want.Flags(), d)
		}
	}
	if tested < 500 {
		t.Errorf("only %d cases could be resolved: the levels above fit together too rarely", tested)
	}
}

func TestFlagsAreFew(t *testing.T) {
	for _, tt := range []struct {
		why  string
		in   workload.Case
		want string
	}{
		{"latencydemo's own case needs none", workload.Case{Payload: 256}, ""},
		{"the stamp alone is not latencydemo's default", workload.Case{}, "--payload 0"},
		{"what auto decides is left to it", workload.Case{Payload: 256, Batch: 64, Acks: workload.AcksNone, Load: workload.LoadFlood}, "--batch 64"},
		{"what it would decide otherwise is said", workload.Case{Payload: 256, Batch: 64, Acks: workload.AcksPerBatch}, "--batch 64 --acks per_batch"},
		{"acks and load apart", workload.Case{Payload: 256, Load: workload.LoadFlood}, "--load flood"},
		{"a rate makes an open loop", workload.Case{Payload: 256, Rate: 1000}, "--rate 1000"},
		{"connections by default follow the subscribers", workload.Case{Payload: 256, Fanout: 10, SubConns: 10}, "--fanout 10"},
		{"settings in order", workload.Case{Payload: 256, BrokerSet: map[string]string{"b": "2", "a": "1"}}, "--broker-set a=1 --broker-set b=2"},
	} {
		if got := strings.Join(resolve(t, tt.in).Flags(), " "); got != tt.want {
			t.Errorf("%s: flags %q, want %q", tt.why, got, tt.want)
		}
	}
}
