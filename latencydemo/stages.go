package main

import (
	"fmt"
	"slices"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// stages shows where the time goes, of the messages that were followed.
func (s *summary) stages() {
	t := s.r.Traces
	if t == nil || t.Whole == 0 {
		return
	}
	what := "end to end"
	if s.r.Latency.Kind == workload.KindQueueingDelay {
		what = "queueing delay"
	}
	s.line("stages", "where the %s goes: mean %s of %d traced deliveries, 1 of %d messages%s", what, fine(t.MeanEndToEndNs), t.Deliveries, t.Every, reconciledText(t))
	var total int64
	for _, st := range s.r.Stages {
		total += value(st.MeanNs)
	}
	for _, st := range s.r.Stages {
		share := 100 * float64(value(st.MeanNs)) / float64(max(1, total))
		p99 := fmt.Sprintf("n/a (n=%d)", st.N)
		if st.P99Ns != nil {
			p99 = fine(st.P99Ns)
		}
		text := fmt.Sprintf("%-18s %5.1f %%  mean %8s  p50 %8s  p99 %-12s %s", st.Name, share, fine(st.MeanNs), fine(st.P50Ns), p99, strings.Repeat("#", int(share/5+0.5)))
		s.line("", "%s", strings.TrimRight(text, " "))
	}
	if slices.ContainsFunc(s.r.Stages, func(st runrecord.Stage) bool { return st.Name == "network and broker" }) {
		s.line("", "(what the broker does is in \"network and broker\": it is not ours to look into)")
	}
}

func reconciledText(t *runrecord.Traces) string {
	if t.Reconciled {
		return ""
	}
	return "   [NOT RECONCILED: see the warnings]"
}

// fine prints a duration that may be missing; many stages take less than a microsecond.
func fine(ns *int64) string {
	switch {
	case ns == nil:
		return "n/a"
	case *ns < 10_000:
		return fmt.Sprintf("%.1f us", float64(*ns)/1e3)
	}
	return duration(*ns)
}
