package workload

import (
	"fmt"
	"strings"
	"time"
)

// TimerSlack is how late the kernel may wake a sleeping thread of any process of a trial; 0 is auto, see
// Case.EffectiveTimerSlack.
type TimerSlack time.Duration

const (
	// KernelTimerSlack is what Linux gives a process that asks for nothing.
	KernelTimerSlack = 50 * time.Microsecond
	// longTimerSlack lets Go's monitor thread sleep for 2 ms where it asks for 20 us: it looks for goroutines that run
	// or wait in the kernel for too long, every 80 us or so in each busy process. See docs/performance.md.
	longTimerSlack = 2 * time.Millisecond
	maxTimerSlack  = 100 * time.Millisecond
)

// EffectiveTimerSlack decides auto: 2 ms. Only a closed loop of single messages keeps the kernel's 50 us: in the middle
// of every one of them a processor falls asleep and has to be woken, and the monitor happens to keep it awake.
func (c Case) EffectiveTimerSlack() time.Duration {
	switch {
	case c.TimerSlack != 0:
		return time.Duration(c.TimerSlack)
	case c.Load == LoadClosed && !c.Throughput():
		return KernelTimerSlack
	}
	return longTimerSlack
}

func (t TimerSlack) String() string {
	if t == 0 {
		return "auto"
	}
	return strings.Replace(time.Duration(t).String(), "µ", "u", 1)
}

// Set parses auto or a duration.
func (t *TimerSlack) Set(s string) error {
	if s == "auto" {
		*t = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxTimerSlack {
		return fmt.Errorf("%q: want auto, or more than 0 and at most %v", s, maxTimerSlack)
	}
	*t = TimerSlack(d)
	return nil
}

// Type is shown in a flag's usage.
func (t TimerSlack) Type() string { return "auto|DURATION" }

func (t TimerSlack) MarshalText() ([]byte, error)     { return []byte(t.String()), nil }
func (t *TimerSlack) UnmarshalText(text []byte) error { return t.Set(string(text)) }
