package workload_test

import (
	"testing"
	"time"

	"felix/internal/workload"
)

func TestTimerSlack(t *testing.T) {
	for text, want := range map[string]workload.TimerSlack{
		"auto": 0, "50us": workload.TimerSlack(50 * time.Microsecond), "2ms": workload.TimerSlack(2 * time.Millisecond),
	} {
		var s, again workload.TimerSlack
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("Set(%q) = %v, %v, want %v", text, s, err, want)
		}
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%v does not parse to itself: %v, %v", s, again, err)
		}
	}
	var s workload.TimerSlack
	for _, text := range []string{"", "0", "0s", "-1ms", "2", "1s", "101ms", "fast"} {
		if err := s.Set(text); err == nil {
			t.Errorf("Set(%q) taken as %v", text, s)
		}
	}
}

// All but a closed loop of single messages want Go's monitor to sleep, and whoever asks for something gets it.
func TestTimerSlackOfALoad(t *testing.T) {
	for _, tt := range []struct {
		of   workload.Case
		want time.Duration
	}{
		{workload.Case{Payload: 256}, workload.KernelTimerSlack},
		{workload.Case{Payload: 256, Acks: workload.AcksPerMessage, Rate: 1000}, 2 * time.Millisecond},
		{workload.Case{Payload: 256, Batch: 64, Rate: 1000}, 2 * time.Millisecond},
		{workload.Case{Payload: 256, Batch: 64}, 2 * time.Millisecond},
		{workload.Case{Payload: 256, Batch: 64, Acks: workload.AcksPerBatch}, 2 * time.Millisecond},
		{workload.Case{Payload: 256, Batch: 64, Probe: workload.ProbeRelay}, 2 * time.Millisecond},
		{workload.Case{Payload: 256, Probe: workload.ProbeEchoRelay}, workload.KernelTimerSlack},
		{workload.Case{Payload: 256, Batch: 64, TimerSlack: workload.TimerSlack(time.Millisecond)}, time.Millisecond},
	} {
		c, err := tt.of.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := c.EffectiveTimerSlack(); got != tt.want {
			t.Errorf("%s: %v, want %v", c.Key(), got, tt.want)
		}
	}
	if _, err := (workload.Case{Payload: 256, TimerSlack: workload.TimerSlack(time.Second)}).Resolve(); err == nil {
		t.Error("a slack of 1 s was taken")
	}
}
