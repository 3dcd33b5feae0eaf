package trial_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"felix/internal/trial"
	"felix/internal/workload"
)

// A canary shows in what the gate reads: a delayed message in EndToEnd, a held generator in the rate.
func TestCanarySlows(t *testing.T) {
	s := small(workload.Case{Payload: 256})
	s.Sizes.Total, s.Sizes.Canary.Delay = 1000, 3*time.Millisecond
	r := run(t, t.Context(), s)
	if e := r.Latency.EndToEnd; !r.Valid || e == nil || *e.P50Ns < int64(3*time.Millisecond) {
		t.Errorf("delayed by 3 ms: valid %v %v, EndToEnd %+v", r.Valid, r.Reasons, e)
	}
	if !strings.Contains(strings.Join(r.Warnings, "; "), "canary: every publish was delayed by 3ms") {
		t.Errorf("warnings %q", r.Warnings)
	}

	const rate = 4000
	s = small(workload.Case{Payload: 256, Batch: 16, Publishers: 2, Fanout: 2})
	s.Sizes.Total, s.Sizes.Canary.Rate = 2000, rate
	r = run(t, t.Context(), s)
	if got := *r.Rates.PublishedMsgsPerSec; len(faults(r)) > 0 || got > rate*1.1 || got < rate*0.05 { // a busy machine may be slower
		t.Errorf("held to %d/s: valid %v %v, %.0f/s", rate, r.Valid, r.Reasons, got)
	}
}

func TestCanaryFitsItsCase(t *testing.T) {
	for _, tt := range []struct {
		why  string
		c    workload.Case
		y    trial.Canary
		want string
	}{
		{"a delay in a flood", workload.Case{Payload: 256, Batch: 16}, trial.Canary{Delay: time.Millisecond}, "backpressure"},
		{"a rate in a closed loop", workload.Case{Payload: 256}, trial.Canary{Rate: 10}, "no rate to hold"},
		{"a negative delay", workload.Case{Payload: 256}, trial.Canary{Delay: -1}, "more than 0"},
		{"a negative rate", workload.Case{Payload: 256, Batch: 16}, trial.Canary{Rate: -1}, "more than 0"},
	} {
		s := small(tt.c)
		s.Sizes.Canary = tt.y
		_, err := s.Resolve()
		var usage *trial.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}
