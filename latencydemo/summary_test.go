package main

import (
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// What was asked for is not what a broker of somebody else's promises.
func TestPolicyLine(t *testing.T) {
	for _, tt := range []struct {
		policy   workload.Policy
		lossless runrecord.Lossless
		want     string
	}{
		{workload.PolicyLossless, runrecord.LosslessYes, "lossless: nothing may be dropped (by the configuration: lossless yes)"},
		{workload.PolicyLossless, runrecord.LosslessNo, "lossless was asked for, but full queues drop (by the configuration: lossless no)"},
		{workload.PolicyProduction, runrecord.LosslessNo, "production: full queues drop and count (by the configuration: lossless no)"},
	} {
		s := summary{r: &runrecord.Record{Lossless: tt.lossless}}
		s.r.Case.Policy = tt.policy
		s.head()
		if !strings.Contains(s.String(), tt.want) {
			t.Errorf("%v, lossless %v: got\n%s\nwant %s", tt.policy, tt.lossless, s.String(), tt.want)
		}
	}
}

// What was there stands in the unit of its bound, and a little is not nothing.
func TestHighWaterUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0.0KiB", 4352: "4.2KiB", 4 << 20: "4.0MiB", 300_000: "0.3MiB"} {
		if got := sizeOr(&n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
