package chart

import (
	"fmt"
	"math"
	"strings"
)

// Source says where numbers come from. It stands under every picture.
type Source struct {
	Session string // of the measurement
	Commit  string // of what was measured; "" is drawn as unknown
	Dirty   bool   // the working tree was not the commit's
	Host    string // fingerprint; "" is drawn as unknown
}

// String is the line under a picture, without n.
func (s Source) String() string {
	commit := short(orUnknown(s.Commit), 12)
	if s.Dirty {
		commit += " (DIRTY)"
	}
	return fmt.Sprintf("session %s · commit %s · host %s", orUnknown(s.Session), commit, short(orUnknown(s.Host), 20))
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// short cuts what is only an identity anyway, such as a digest.
func short(s string, most int) string {
	if len(s) > most && !strings.ContainsAny(s, " -") {
		return s[:most]
	}
	return s
}

// Shape is how the load was made, which decides what a time from publish to delivery means.
type Shape struct {
	Queueing bool   // the generator itself kept the queues full: times are no latencies
	Load     string // "closed loop, 1 in flight"; "" says nothing
}

// Caveat is the sentence that goes with every figure of the shape.
func (s Shape) Caveat() string {
	text := "latency of single messages"
	if s.Queueing {
		text = "queueing delay (NOT per-message latency): the generator keeps the queues full"
	}
	if s.Load != "" {
		text += " · " + s.Load
	}
	return text
}

// rateCaveat goes with figures of the shape that show no times.
func (s Shape) rateCaveat() string {
	text := "its times are latencies of single messages"
	if s.Queueing {
		text = "its times are queueing delay (NOT per-message latency)"
	}
	if s.Load == "" {
		return text
	}
	return s.Load + " · " + text
}

// caveat chooses between the two; strong is a caveat that must not be missed.
func (s Shape) caveat(times bool) (text string, strong bool) {
	if times {
		return s.Caveat(), s.Queueing
	}
	return s.rateCaveat(), false
}

// quantity names the times of the shape on an axis.
func (s Shape) quantity() string {
	if s.Queueing {
		return "queueing delay"
	}
	return "end-to-end latency"
}

// Value is one measure of one cell over its valid trials.
type Value struct {
	Median    float64 // NaN: not known
	Low, High float64 // interval of the median; NaN: none
	N         int     // valid trials behind it
	Invalid   int     // trials that ran and may not be believed, and those that failed
	Doubtful  bool    // not publishable (too few trials, noise, spread, …): drawn hollow
}

// absence is why a value is not a point on a log axis.
type absence int

const (
	present    absence = iota
	isZero             // 0, or below
	isNaN              // trials were valid, but the measure could not be told
	allInvalid         // no trial was valid
	unmeasured         // no trial at all
)

// marks beside the plot, and what they mean.
var absences = map[absence]struct{ mark, meaning string }{
	isZero:     {"0", "measured, and zero"},
	isNaN:      {"?", "cannot be told (not a number, or too few samples)"},
	allInvalid: {"×", "all trials invalid"},
	unmeasured: {"–", "not measured"},
}

func (v Value) absence() absence {
	switch {
	case v.N == 0 && v.Invalid > 0:
		return allInvalid
	case v.N == 0:
		return unmeasured
	case math.IsNaN(v.Median):
		return isNaN
	case v.Median <= 0:
		return isZero
	}
	return present
}

// trials says n of several values: "n = 5 valid trials a point", and how many were not.
func trials(values []Value, each string) string {
	low, high, invalid := math.MaxInt, 0, 0
	for _, v := range values {
		if v.N > 0 {
			low, high = min(low, v.N), max(high, v.N)
		}
		invalid += v.Invalid
	}
	var text string
	switch {
	case high == 0:
		text = "n = 0 valid trials"
	case low == high:
		text = fmt.Sprintf("n = %s %s", countOf(high, "valid trial"), each)
	default:
		text = fmt.Sprintf("n = %d to %d valid trials %s", low, high, each)
	}
	if invalid > 0 {
		text += fmt.Sprintf(" (%d invalid or failed, in no figure)", invalid)
	}
	return text
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
