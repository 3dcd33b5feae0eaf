package verdict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"felix/internal/runrecord"
)

// Spec is a gate: what is compared and when it fails. The zero value of a field is its default.
type Spec struct {
	Looks        []int    `json:"looks"`           // pairs at each look, ascending, the discarded one not counted; nil = 12, 20, 30
	Alpha        float64  `json:"alpha"`           // of the whole gate, divided by the number of looks; 0 = 0.05
	FailMargin   float64  `json:"fail_margin"`     // a metric fails if it is worse by more than this; 0 = 0.05
	PassMargin   float64  `json:"pass_margin"`     // and passes if it is worse by less than this; 0 = 0.10
	MaxDropped   float64  `json:"max_dropped"`     // largest share of a cell's pairs that may be dropped; 0 = 0.20
	Metrics      []Metric `json:"metrics"`         // gated ones; nil = by each case's kind, as Gated says
	AllowMissing []string `json:"allow_missing"`   // names of metrics or cells that one arm may lack: then they are not judged
	Inconclusive Policy   `json:"on_inconclusive"` // zero = neutral
	Waivers      []Waiver `json:"waivers"`
	// NoiseFloor is what A/A measured here: the sd of d of each metric, the least fail margin it gets.
	NoiseFloor NoiseFloor `json:"noise_floor"`
	// SentinelOptional judges pairs that no sentinel ran beside. Without it, a sentinel missing in more than MaxDropped
	// of the pairs cannot be judged: a guard that is gone is not a guard that saw nothing.
	SentinelOptional bool `json:"sentinel_optional"`
	// Now is the time at which waivers expire or not; it is needed only if there are any.
	Now time.Time `json:"now"`
}

// Defaults.
const (
	DefaultAlpha      = 0.05
	DefaultFailMargin = 0.05
	DefaultPassMargin = 0.10
	DefaultMaxDropped = 0.20
)

// DefaultLooks are the numbers of pairs at which a gate looks.
func DefaultLooks() []int { return []int{12, 20, 30} }

// Resolve returns the spec with every zero decided, or why it cannot be.
func (s Spec) Resolve() (Spec, error) {
	if len(s.Looks) == 0 {
		s.Looks = DefaultLooks()
	}
	for i, n := range s.Looks {
		if n < 1 || i > 0 && n <= s.Looks[i-1] {
			return s, fmt.Errorf("looks %v: want numbers of pairs, each above the one before", s.Looks)
		}
	}
	for _, f := range []struct {
		name     string
		v        *float64
		def, max float64
	}{
		{"alpha", &s.Alpha, DefaultAlpha, 0.5},
		{"fail_margin", &s.FailMargin, DefaultFailMargin, 10},
		{"pass_margin", &s.PassMargin, DefaultPassMargin, 10},
		{"max_dropped", &s.MaxDropped, DefaultMaxDropped, 0.9},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if !(*f.v > 0 && *f.v <= f.max) {
			return s, fmt.Errorf("%s %v: want more than 0 and at most %v", f.name, *f.v, f.max)
		}
	}
	if s.PassMargin < s.FailMargin {
		return s, fmt.Errorf("pass_margin %v below fail_margin %v: what fails would pass", s.PassMargin, s.FailMargin)
	}
	for i, m := range s.Metrics {
		if err := m.gateError(); err != nil {
			return s, err
		}
		if slices.Contains(s.Metrics[:i], m) {
			return s, fmt.Errorf("metric %s is named twice", m)
		}
	}
	if int(s.Inconclusive) >= len(policies) {
		return s, fmt.Errorf("on_inconclusive %v: want %s", s.Inconclusive, oneOf(policies))
	}
	if err := s.NoiseFloor.check(); err != nil {
		return s, err
	}
	return s, s.checkWaivers()
}

// level is what each look may spend.
func (s *Spec) level() float64 { return s.Alpha / float64(len(s.Looks)) }

// maxMinPairs bounds the search: 2^-1074 is the smallest number there is.
const maxMinPairs = 1074

// MinPairs returns the fewest pairs at which a look over m tests can reject, ceil(log2(L m / alpha)): the smallest
// p-value of n pairs is 2^-n, and Holm multiplies it by m. It fails for a spec that cannot be.
func (s Spec) MinPairs(m int) (int, error) {
	s, err := s.Resolve()
	if err != nil {
		return 0, err
	}
	return s.minPairs(m), nil
}

func (s *Spec) minPairs(m int) int {
	n := 1
	for n < maxMinPairs && math.Ldexp(1, -n)*float64(max(1, m)) > s.level() {
		n++
	}
	return n
}

// Feasible reports, before anything is run, whether a gate of so many cells can fail at all: an error says how many
// pairs its last look needs. It counts two metrics a cell, or as many as are named; FeasibleTests knows better where
// the cases are known.
func (s Spec) Feasible(cells int) error {
	if cells < 1 {
		return errors.New("no cells: there is nothing to judge")
	}
	per := len(s.Metrics)
	if per == 0 {
		per = 2
	}
	return s.FeasibleTests(cells * per)
}

// FeasibleTests is Feasible for m = gated metrics x cells, as Tests counts them.
func (s Spec) FeasibleTests(m int) error {
	s, err := s.Resolve()
	if err != nil {
		return err
	}
	return s.feasible(m)
}

func (s *Spec) feasible(m int) error {
	if m < 1 {
		return errors.New("no gated metric: there is nothing to judge")
	}
	last := s.Looks[len(s.Looks)-1]
	if need := s.minPairs(m); last < need {
		return fmt.Errorf("this gate cannot fail: needs %d pairs, and its last look has %d (alpha %v over %d looks and %d tests)",
			need, last, s.Alpha, len(s.Looks), m)
	}
	return nil
}

// Tests returns m, the gated metrics of all the cases together. A case that has none is an error that names it.
func (s Spec) Tests(cases []runrecord.Case) (m int, err error) {
	for i := range cases {
		n := len(Gated(s.Metrics, &cases[i]))
		if n == 0 {
			return 0, fmt.Errorf("%s: %w", cases[i].Key, errNothingGated)
		}
		m += n
	}
	return m, nil
}

var errNothingGated = errors.New("no gated metric: percentiles of batches and the rate of single messages are not gated, and payload 0 has no bytes")

// NoiseFloor is the sd of d in an A/A run by FloorKey, or by metric alone for cells that it does not know.
type NoiseFloor map[string]float64

// FloorKey names a metric of a cell.
func FloorKey(cell string, m Metric) string { return cell + ": " + string(m) }

// At returns the floor of a metric in a cell, 0 if none is known.
func (f NoiseFloor) At(cell string, m Metric) float64 {
	if sd, ok := f[FloorKey(cell, m)]; ok {
		return sd
	}
	return f[string(m)]
}

func (f NoiseFloor) check() error {
	for key, sd := range f {
		if !(sd >= 0) || math.IsInf(sd, 0) {
			return fmt.Errorf("noise floor of %s: %v: want an sd of log ratios, 0 or more", key, sd)
		}
	}
	return nil
}

// positive takes what a ratio can be made of.
func positive(v *float64) (float64, bool) {
	if v == nil || !(*v > 0) || math.IsInf(*v, 0) {
		return 0, false
	}
	return *v, true
}
