package export

import (
	"fmt"
	"math"

	"felix/internal/workload"
)

// TrackerEntry is one of github-action-benchmark's "customBiggerIsBetter" and "customSmallerIsBetter".
type TrackerEntry struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Range string  `json:"range,omitempty"`
	Extra string  `json:"extra,omitempty"`
}

// Tracker returns the medians of every cell by direction: a tracker takes one direction a file. Their intervals are in
// range; n, what stands against a figure, and where it comes from are in extra.
func (s *Set) Tracker() (bigger, smaller []TrackerEntry) {
	names := s.names()
	for i := range s.Cells {
		c := &s.Cells[i]
		for _, m := range metricsOf(c) {
			f := m.figure(c)
			if f.N == 0 || !known(f.Median) {
				continue
			}
			unit, per := trackerUnit(m.unit)
			e := TrackerEntry{Name: names[i] + " " + m.name, Unit: unit, Value: significant(f.Median / per)}
			if f.N > 1 && known(f.Low) && known(f.High) {
				e.Range = fmt.Sprintf("[%g, %g]", significant(f.Low/per), significant(f.High/per))
			}
			e.Extra = fmt.Sprintf("n=%d", f.N)
			if !c.Publishable {
				e.Extra += "\nnot publishable:"
				for _, mark := range c.Marks {
					e.Extra += " " + string(mark)
				}
			}
			if c.Case.LatencyKind() == workload.KindQueueingDelay && !m.higher && !c.Throughput {
				e.Extra += "\n" + quantity(c)
			}
			e.Extra += "\n" + sourceText(c)[2:] + "\nhost " + orUnknown(&c.Host)
			if m.higher {
				bigger = append(bigger, e)
			} else {
				smaller = append(smaller, e)
			}
		}
	}
	return bigger, smaller
}

// trackerUnit is a unit that people read, and how much of the recorded one it is.
func trackerUnit(unit string) (string, float64) {
	switch unit {
	case "B/s":
		return "MB/s", 1e6
	case "cpu-sec/GB":
		return "CPU s/GB", 1
	case "msgs/s":
		return "msg/s", 1
	}
	return "us", 1e3 // the times
}

// significant cuts to six digits: a tracker prints all that it gets.
func significant(v float64) float64 {
	if v == 0 || !known(v) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	if scale > 1 {
		return math.Round(v*scale) / scale
	}
	return math.Round(v)
}
