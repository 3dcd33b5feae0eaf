package measure

import "time"

// clockTries is how often the base is read; the read with the tightest bracket is kept. One read
// can be preempted between its two brackets, five in a row hardly can.
const clockTries = 5

// Clock tells the time in nanoseconds of the machine's monotonic clock, so that stamps of two
// processes of one machine can be subtracted. A system call per message would cost 1.4 us; Clock
// makes a few at start and then counts on with the runtime's own monotonic clock, at 0.03 us.
//
// Between processes the error is at most the sum of both BaseErrorNs. Clocks of different machines
// have nothing in common.
type Clock struct {
	start  time.Time // the moment that base belongs to
	base   int64
	bound  int64
	source string
}

// ClockCheck says how far a Clock can be trusted.
type ClockCheck struct {
	// BaseErrorNs bounds the error of the base: half the time that passed around the read.
	BaseErrorNs int64 `json:"base_error_ns"`
	// DriftNs is the machine's clock, read again, minus the Clock: what went wrong since start.
	DriftNs int64 `json:"drift_ns"`
	// CheckErrorNs bounds the error of DriftNs's own read.
	CheckErrorNs int64 `json:"check_error_ns"`
	// Source is the clock that the base was read from.
	Source string `json:"source"`
}

// NewClock returns a Clock that starts now.
func NewClock() *Clock {
	start, base, bound := readBracketed()
	return &Clock{start: start, base: base, bound: bound, source: clockSource}
}

// Now returns nanoseconds on the machine's monotonic clock. It may be called by any goroutine.
func (c *Clock) Now() int64 {
	return c.base + int64(time.Since(c.start))
}

// At returns t, which must carry a monotonic reading (time.Now does), on this clock.
func (c *Clock) At(t time.Time) int64 {
	return c.base + int64(t.Sub(c.start))
}

// Check reads the machine's clock again and compares.
func (c *Clock) Check() ClockCheck {
	at, raw, bound := readBracketed()
	return ClockCheck{
		BaseErrorNs:  c.bound,
		DriftNs:      raw - c.At(at),
		CheckErrorNs: bound,
		Source:       c.source,
	}
}

// readBracketed reads the machine's clock between two readings of the runtime's, and returns the
// midpoint of those, the value, and half the bracket.
func readBracketed() (mid time.Time, value, bound int64) {
	bound = -1
	for range clockTries {
		before := time.Now()
		v := monotonicNs()
		width := time.Since(before)
		if half := int64(width / 2); bound < 0 || half < bound {
			mid, value, bound = before.Add(width/2), v, half
		}
	}
	return mid, value, bound
}
