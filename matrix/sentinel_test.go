package main

import (
	"slices"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

func TestSentinelProbesBoth(t *testing.T) {
	// How many of each is the machine's business: one that is busy may not run this at all for most of the time.
	r := runSentinel(20 * time.Millisecond)
	if r.err != nil || !(r.cpuRounds > 0) || !(r.loopback > 0) {
		t.Errorf("%+v: want rounds and bytes a second", r)
	}
	if r := runSentinel(0); r != (sentinelReading{}) {
		t.Errorf("not asked for: %+v", r)
	}
}

// The canary is made of what base did in the discarded pair.
func TestCanaryFlags(t *testing.T) {
	resolved := func(c workload.Case) runrecord.Case {
		c, err := c.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return runrecord.Case{Key: c.Key(), Case: c}
	}
	p50, rate := int64(150_000), 240_000.0
	latency := &runrecord.Record{Valid: true, Case: resolved(workload.Case{Payload: 256})}
	latency.Latency.EndToEnd = &runrecord.Distribution{P50Ns: &p50}
	throughput := &runrecord.Record{Valid: true, Case: resolved(workload.Case{Payload: 4096, Batch: 64, Fanout: 10})}
	throughput.Rates.DeliveredMsgsPerSec = &rate
	for _, tt := range []struct {
		why  string
		r    *runrecord.Record
		want []string
	}{
		{"20 % of 150 us", latency, []string{"--canary-delay", "30µs"}},
		{"a tenth of 240,000 deliveries are published, by 1.2", throughput, []string{"--canary-rate", "20000.0"}},
	} {
		if got, err := canaryFlags(tt.r, 0.2); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.why, got, err, tt.want)
		}
		tt.r.Valid = false
		if _, err := canaryFlags(tt.r, 0.2); err == nil {
			t.Errorf("%s: taken from an invalid trial", tt.why)
		}
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]float64{"20%": 0.2, "0.2": 0.2, "5 %": 0.05, "": 0, "x": 0, "-1%": 0, "0": 0, "NaN": 0, "9999%": 0} {
		got, err := parseShare(text)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
