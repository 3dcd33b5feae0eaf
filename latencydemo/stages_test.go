package main

import (
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

func TestStagesTable(t *testing.T) {
	ns := func(n int64) *int64 { return &n }
	r := &runrecord.Record{
		Stages: []runrecord.Stage{
			{Name: "client queue", N: 2000, MeanNs: ns(450), P50Ns: ns(400), P99Ns: ns(12_000)},
			{Name: "network and broker", N: 2000, MeanNs: ns(89_550), P50Ns: ns(81_000), P99Ns: ns(2_500_000)},
			{Name: "hand-over", N: 12, MeanNs: ns(10_000)},
		},
		Traces: &runrecord.Traces{Every: 8, Messages: 2000, Deliveries: 2000, Whole: 2000, MeanEndToEndNs: ns(100_000), Reconciled: true},
	}
	r.Latency.Kind = workload.KindLatency
	show := func() string {
		s := summary{r: r}
		s.stages()
		return s.String()
	}
	want := `stages      where the end to end goes: mean 100 us of 2000 traced deliveries, 1 of 8 messages
            client queue         0.5 %  mean   0.5 us  p50   0.4 us  p99 12 us
            network and broker  89.5 %  mean    90 us  p50    81 us  p99 2500 us      ##################
            hand-over           10.0 %  mean    10 us  p50      n/a  p99 n/a (n=12)   ##
            (what the broker does is in "network and broker": it is not ours to look into)
`
	if got := show(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.Traces.Reconciled, r.Latency.Kind = false, workload.KindQueueingDelay
	if got := show(); !strings.Contains(got, "where the queueing delay goes") || !strings.Contains(got, "[NOT RECONCILED: see the warnings]") {
		t.Errorf("got\n%s", got)
	}
	r.Traces.Whole = 0 // stages whose share of the whole is not known are not shown
	if got := show(); got != "" {
		t.Errorf("got\n%s\nwant nothing", got)
	}
}
