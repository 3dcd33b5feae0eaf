package workload_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/internal/workload"
)

func TestLabTexts(t *testing.T) {
	for _, tt := range []struct {
		why, in string
		v       interface {
			Set(string) error
			String() string
		}
		want string // the canonical text, or what the error holds if it begins with !
	}{
		{"a stall", "0.3:1s:5s", &workload.Stalls{}, "0.3:1s:5s"},
		{"one of the first stream", "3:0s:500ms", &workload.Stalls{}, "0.3:0s:500ms"},
		{"all of a stream, and all", "2.*:1s:1s,*:2s:1s", &workload.Stalls{}, "2.*:1s:1s,*:2s:1s"},
		{"a plus for --set, which splits at commas", "0:1s:1s+1:1s:1s", &workload.Stalls{}, "0.0:1s:1s,0.1:1s:1s"},
		{"no times", "0", &workload.Stalls{}, "!SUBSCRIBER:AT:FOR"},
		{"no length", "0:1s:0s", &workload.Stalls{}, "!how long"},
		{"too long", "0:1s:48h", &workload.Stalls{}, "!at most"},
		{"a negative beginning", "0:-1s:1s", &workload.Stalls{}, "!when it begins"},
		{"a name", "x:1s:1s", &workload.Stalls{}, "!STREAM.INDEX"},
		{"a negative subscriber", "-1:1s:1s", &workload.Stalls{}, "!STREAM.INDEX"},
		{"leading zeros", "0.03:1s:1s", &workload.Stalls{}, "!STREAM.INDEX"},
		{"nothing", "", &workload.Stalls{}, "!at least one"},
		{"a rate", "*:20MB", &workload.Slows{}, "*:20MB"},
		{"a rate with its unit of time", "*:64KiB/s", &workload.Slows{}, "*:64KiB"},
		{"no rate", "*", &workload.Slows{}, "!SUBSCRIBER:BYTES"},
		{"no bytes at all", "*:0", &workload.Slows{}, "!1 byte"},
		{"no number", "*:fast", &workload.Slows{}, "!no size"},
		{"a mix", "100:95%,1MiB:5%", &workload.PayloadMix{}, "100:95%,1MiB:5%"},
		{"halves of a percent", "100:99.5%,64KiB:0.5%", &workload.PayloadMix{}, "100:99.5%,64KiB:0.5%"},
		{"less than all", "100:90%,1MiB:5%", &workload.PayloadMix{}, "!95 % together"},
		{"one size", "100:100%", &workload.PayloadMix{}, "!between 0 and 100"},
		{"no percentage", "100:95,200:5", &workload.PayloadMix{}, "!SIZE:PERCENT%"},
		{"smaller than a stamp", "16:50%,100:50%", &workload.PayloadMix{}, "!32"},
		{"larger than a frame", "16MiB:50%,100:50%", &workload.PayloadMix{}, "!32"},
		{"a size twice", "1024:50%,1KiB:50%", &workload.PayloadMix{}, "!twice"},
		{"tenants", "a:20000,b:2000", &workload.Tenants{}, "a:20000,b:2000"},
		{"a tenant twice", "a:1,a:2", &workload.Tenants{}, "!twice"},
		{"no rate of a tenant", "a", &workload.Tenants{}, "!NAME:RATE"},
		{"a rate of nothing", "a:0", &workload.Tenants{}, "!more than 0"},
		{"a name with a slash", "a/b:1", &workload.Tenants{}, "!letters"},
	} {
		err := tt.v.Set(tt.in)
		if text, fails := strings.CutPrefix(tt.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: Set(%q) = %v, want an error with %q", tt.why, tt.in, err, text)
			}
			if got := tt.v.String(); got != "" {
				t.Errorf("%s: Set(%q) failed and left %q", tt.why, tt.in, got)
			}
			continue
		}
		if got := tt.v.String(); err != nil || got != tt.want {
			t.Errorf("%s: Set(%q) = %q, %v, want %q", tt.why, tt.in, got, err, tt.want)
		}
	}
}

func TestRepeatedHoldsAddUp(t *testing.T) {
	var stalls workload.Stalls
	for _, s := range []string{"0:1s:5s", "0.1:2s:1s"} {
		if err := stalls.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := stalls.String(); got != "0.0:1s:5s,0.1:2s:1s" || stalls.Until() != 6*time.Second || stalls.Longest() != 5*time.Second {
		t.Errorf("%s, until %v, longest %v", got, stalls.Until(), stalls.Longest())
	}
	slows := workload.Slows{}
	for _, s := range []string{"*:20MB", "0.1:1MB"} {
		if err := slows.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := slows.Of(0, 0), slows.Of(0, 1); a != 20e6 || b != 1e6 {
		t.Errorf("0.0 reads %d B/s and 0.1 %d, want 20e6 and 1e6: the last that names one counts", a, b)
	}
}

func lab(t *testing.T, c workload.Case, texts map[string]string) workload.Case {
	t.Helper()
	for name, text := range texts {
		var err error
		switch name {
		case "stall":
			err = c.Stall.Set(text)
		case "slow":
			err = c.Slow.Set(text)
		case "mix":
			err = c.PayloadMix.Set(text)
		case "tenants":
			err = c.Tenants.Set(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestLabResolves(t *testing.T) {
	c := resolve(t, workload.Case{Payload: 256, Burst: 400})
	if c.Load != workload.LoadBurst || c.Acks != workload.AcksNone || c.Throughput() || c.LatencyKind() != workload.KindQueueingDelay {
		t.Errorf("a burst is load %s acks %s throughput %v kind %s", c.Load, c.Acks, c.Throughput(), c.LatencyKind())
	}
	c = resolve(t, lab(t, workload.Case{Payload: 256}, map[string]string{"tenants": "a:3000,b:1000"}))
	if c.Rate != 4000 || c.Load != workload.LoadOpen || c.AllStreams() != 2 || c.Subscribers() != 2 || c.SubConns != 1 {
		t.Errorf("tenants: rate %v load %s, %d streams, %d subscribers, %d connections", c.Rate, c.Load, c.AllStreams(), c.Subscribers(), c.SubConns)
	}
	c = resolve(t, lab(t, workload.Case{Payload: 256}, map[string]string{"mix": "100:95%,1MiB:5%"}))
	if c.MessageBytes() != 52524 || c.LargestMessage() != 1<<20 || !slices.Equal(c.PayloadSizes(), []int{100, 1 << 20}) {
		t.Errorf("mix: mean %d largest %d sizes %v", c.MessageBytes(), c.LargestMessage(), c.PayloadSizes())
	}
	for _, tt := range []struct {
		why  string
		c    workload.Case
		want string
	}{
		{"a negative burst", workload.Case{Burst: -1}, "--burst"},
		{"a burst with a rate", workload.Case{Burst: 4, Rate: 5}, "--burst"},
		{"a burst in a closed loop", workload.Case{Burst: 4, Load: workload.LoadClosed}, "--load closed"},
		{"an acked burst", workload.Case{Burst: 4, Acks: workload.AcksPerBatch}, "--acks"},
		{"a burst of nothing", workload.Case{Load: workload.LoadBurst}, "--burst"},
		{"tenants with another rate", lab(t, workload.Case{Rate: 7}, map[string]string{"tenants": "a:3,b:5"}), "--rate"},
		{"tenants of a broker that runs", lab(t, workload.Case{Topology: workload.TopologyExternal}, map[string]string{"tenants": "a:3,b:5"}), "--tenants"},
		{"a batch of the mix's largest", lab(t, workload.Case{Batch: 16}, map[string]string{"mix": "100:95%,1MiB:5%"}), "16 MiB"},
		{"a subscriber that there is not", lab(t, workload.Case{Fanout: 3}, map[string]string{"stall": "0.3:1s:1s"}), "no such subscriber"},
		{"a stream that there is not", lab(t, workload.Case{}, map[string]string{"slow": "1.*:1MB"}), "no such subscriber"},
	} {
		if _, err := tt.c.Resolve(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

// What the lab does is part of the case: of its key, its flags and its record.
func TestLabIsPartOfTheCase(t *testing.T) {
	base := workload.Case{Payload: 256, Batch: 4, Fanout: 2, Rate: 1000}
	seen := map[string]bool{resolve(t, base).Key(): true}
	for _, c := range []workload.Case{
		{Payload: 256, Batch: 4, Fanout: 2, Burst: 8},
		{Payload: 256, Batch: 4, Fanout: 2, Burst: 9},
		{Payload: 256, Batch: 4, Fanout: 2, Rate: 1000, Overload: true},
		lab(t, base, map[string]string{"stall": "0:1s:1s"}),
		lab(t, base, map[string]string{"stall": "1:1s:1s"}),
		lab(t, base, map[string]string{"slow": "*:1MB"}),
		lab(t, base, map[string]string{"mix": "100:95%,1MiB:5%"}),
		lab(t, workload.Case{Payload: 256, Batch: 4, Fanout: 2}, map[string]string{"tenants": "a:300,b:700"}),
	} {
		c = resolve(t, c)
		if key := c.Key(); seen[key] {
			t.Errorf("%q is the key of two cases", key)
		} else {
			seen[key] = true
		}
		if got := fromFlags(t, c.Flags()); got.Key() != c.Key() || got.MessageBytes() != c.MessageBytes() {
			t.Errorf("the flags %q mean %q, want %q", c.Flags(), got.Key(), c.Key())
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back workload.Case
		if err := json.Unmarshal(b, &back); err != nil || resolve(t, back).Key() != c.Key() {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// The sizes of a mixed run follow from the seed and the publisher alone, whatever the timing was.
func TestMixDraw(t *testing.T) {
	c := resolve(t, lab(t, workload.Case{Payload: 256}, map[string]string{"mix": "100:80%,1KiB:15%,1MiB:5%"}))
	draw := func(publisher int, seed uint64, n int) []int {
		d := c.NewMixDraw(publisher, seed)
		out := make([]int, n)
		for i := range out {
			out[i] = d.Next()
		}
		return out
	}
	const n = 20_000
	first := draw(0, 7, n)
	if !slices.Equal(first, draw(0, 7, n)) {
		t.Error("one seed, two sequences")
	}
	if slices.Equal(first, draw(1, 7, n)) || slices.Equal(first, draw(0, 8, n)) {
		t.Error("another publisher, or another seed, and the same sequence")
	}
	counts := make([]float64, 3)
	for _, part := range first {
		counts[part]++
	}
	for i, want := range []float64{0.80, 0.15, 0.05} {
		if got := counts[i] / n; math.Abs(got-want) > 0.01 {
			t.Errorf("part %d: %.3f of the batches, want %.2f", i, got, want)
		}
	}
	one := resolve(t, workload.Case{Payload: 256}).NewMixDraw(0, 7)
	for range 3 {
		if part := one.Next(); part != 0 {
			t.Errorf("part %d of a case of one size", part)
		}
	}
}

func TestTenantsShare(t *testing.T) {
	c := resolve(t, lab(t, workload.Case{Payload: 256, Publishers: 2, Streams: 3}, map[string]string{"tenants": "loud:3000,quiet:1000,other:333"}))
	for _, total := range []int{0, 1, 999, 1000, 4333} {
		sum, byTenant := 0, make([]int, 3)
		for p := range c.AllPublishers() {
			n := c.Share(total, p)
			sum += n
			byTenant[p/2] += n
		}
		if sum != total {
			t.Errorf("%d messages, %d shared out: %v", total, sum, byTenant)
		}
		if want := total * 3000 / 4333; byTenant[0] < want-1 || byTenant[0] > want+1 {
			t.Errorf("%d messages: loud has %d, want about %d", total, byTenant[0], want)
		}
	}
	streams := map[int]bool{}
	for p := range c.AllPublishers() {
		for _, s := range c.StreamsOf(p) {
			if c.TenantOfStream(s) != p/c.Publishers || streams[s] {
				t.Errorf("publisher %d writes to stream %d of tenant %d", p, s, c.TenantOfStream(s))
			}
			streams[s] = true
		}
	}
	if len(streams) != c.AllStreams() {
		t.Errorf("%d streams are written to, want %d", len(streams), c.AllStreams())
	}
	// Each tenant keeps its own rate: 10 slots of a publisher of loud take 10/1500 s, of quiet 10/500 s.
	for p, perSec := range map[int]float64{0: 1500, 2: 500} {
		s := c.NewSchedule(p, 0, 1)
		first := s.Next()
		var last int64
		for range 10 {
			last = s.Next()
		}
		if got := float64(last-first) / 1e9; math.Abs(got-10/perSec) > 1e-6 {
			t.Errorf("publisher %d: 10 slots in %v s, want %v", p, got, 10/perSec)
		}
	}
}

func TestEstimateOfHeldCases(t *testing.T) {
	m := workload.NewModel(nil)
	cell := func(c workload.Case) *workload.Cell {
		return &workload.Cell{Case: resolve(t, c), Sizes: workload.Sizes{Duration: 4 * time.Second}}
	}
	free := m.Trial(cell(workload.Case{Payload: 1024, Batch: 16, Rate: 40_000}))
	slow := m.Trial(cell(lab(t, workload.Case{Payload: 1024, Batch: 16, Rate: 40_000}, map[string]string{"slow": "*:20MB"})))
	stalled := m.Trial(cell(lab(t, workload.Case{Payload: 1024, Batch: 16, Rate: 40_000}, map[string]string{"stall": "0:3s:10s"})))
	if slow < free+time.Second || stalled < free+8*time.Second {
		t.Errorf("free %v, slow %v, stalled for longer than it publishes %v", free, slow, stalled)
	}
	burst := m.Trial(&workload.Cell{Case: resolve(t, workload.Case{Payload: 1024, Burst: 400})})
	if burst > 3*time.Second {
		t.Errorf("a burst of 400 messages is planned for %v", burst)
	}
}
