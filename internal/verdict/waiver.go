package verdict

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Waiver accepts that one metric of one cell got worse, up to a ceiling and until a day. Then the metric fails if it is
// worse than the ceiling, and passes if it is less worse. One that has expired is an error, and so is one that nothing
// needed: accepted regressions do not pile up unseen.
type Waiver struct {
	Metric  Metric    `json:"metric"`
	Cell    string    `json:"cell"`
	Ceiling float64   `json:"ceiling"` // 0.25: up to 25 % worse; above the pass margin
	Reason  string    `json:"reason"`
	Expiry  time.Time `json:"expiry"` // from this moment on it is an error
}

func (s *Spec) checkWaivers() error {
	for i, w := range s.Waivers {
		name := FloorKey(w.Cell, w.Metric)
		switch {
		case w.Cell == "" || w.Metric == "":
			return fmt.Errorf("waiver %d: want a cell and a metric", i+1)
		case w.Metric.gateError() != nil:
			return fmt.Errorf("waiver of %s: %w", name, w.Metric.gateError())
		case w.Reason == "":
			return fmt.Errorf("waiver of %s: want a reason", name)
		case !(w.Ceiling > s.PassMargin && w.Ceiling <= 100):
			return fmt.Errorf("waiver of %s: ceiling %v: want more than the pass margin, %v", name, w.Ceiling, s.PassMargin)
		case w.Expiry.IsZero():
			return fmt.Errorf("waiver of %s: want an expiry", name)
		case s.Now.IsZero():
			return errors.New("waivers: the time is not known, so that whether they have expired is not")
		case !s.Now.Before(w.Expiry):
			return fmt.Errorf("waiver of %s expired on %s: renew it or remove it (%s)", name, w.Expiry.Format(time.DateOnly), w.Reason)
		}
		if slices.ContainsFunc(s.Waivers[:i], func(x Waiver) bool { return x.Cell == w.Cell && x.Metric == w.Metric }) {
			return fmt.Errorf("waiver of %s: there are two", name)
		}
	}
	return nil
}

// waiver returns what was accepted of a metric, nil for nothing.
func (s *Spec) waiver(cell string, m Metric) *Waiver {
	for i := range s.Waivers {
		if w := &s.Waivers[i]; w.Cell == cell && w.Metric == m {
			return w
		}
	}
	return nil
}
