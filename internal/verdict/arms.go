package verdict

import (
	"fmt"
	"math"
	"slices"

	"felix/internal/stat"
)

// Finding is what two arms are to each other in one metric.
type Finding uint8

// The findings.
const (
	Undecided Finding = iota // neither different nor alike for certain
	Worse                    // the second arm is worse than the first by more than the fail margin
	Better                   // better by more than that
	Alike                    // within the pass margin both ways
)

var findings = []string{"undecided", "worse", "better", "alike"}

func (f Finding) String() string { return textOf(findings, int(f)) }

// MarshalText is String.
func (f Finding) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads a finding.
func (f *Finding) UnmarshalText(text []byte) error {
	i, err := parse("finding", findings, string(text))
	*f = Finding(i)
	return err
}

// ArmsVerdict judges every two of several arms.
type ArmsVerdict struct {
	Outcome     Outcome      `json:"outcome"` // fail: some arm is worse than the first one named
	Reasons     []string     `json:"reasons"`
	Arms        []string     `json:"arms"`
	Comparisons []Comparison `json:"comparisons"` // (1st, 2nd), (1st, 3rd), … (2nd, 3rd) …

	Look         int     `json:"look"`
	Looks        int     `json:"looks"`
	Pairs        int     `json:"pairs"`
	Tests        int     `json:"tests"` // the family of Holm: metrics x cells x comparisons x 2 directions
	Level        float64 `json:"level"`
	Inconclusive Policy  `json:"on_inconclusive"`
}

// ExitCode is the outcome's, but for an inconclusive one, where the policy decides.
func (v *ArmsVerdict) ExitCode() int { return v.Inconclusive.ExitCode(v.Outcome) }

// Comparison is two of the arms. Base and head in what it holds are A and B.
type Comparison struct {
	A       string      `json:"a"`
	B       string      `json:"b"`
	Verdict Verdict     `json:"verdict"` // of B against A: its reasons, notes, modes, sentinels and drops; p-values are corrected over all comparisons
	Metrics []ArmMetric `json:"metrics"`
}

// ArmMetric is one metric of two arms. In Result, PWorse is corrected over both directions and all comparisons.
type ArmMetric struct {
	Result  MetricResult `json:"result"`
	PBetter Number       `json:"p_better"`
	PMore   Number       `json:"p_more"` // of "less than the pass margin better", uncorrected
	Finding Finding      `json:"finding"`
}

// JudgeArms compares every two of the arms at one look, as Judge does two. The first arm named is what the others are
// held against: one that is worse than it fails the whole; between the others a difference is a finding. The whole
// passes when every metric of every two arms is worse, better or alike for certain. Waivers are not taken: they are of
// gates.
func JudgeArms(spec Spec, arms []string, cells []ArmCell, look int) ArmsVerdict {
	spec, begun, err := begin(spec)
	v := ArmsVerdict{Arms: arms, Looks: begun.Looks, Level: begun.Level, Inconclusive: begun.Inconclusive}
	if err != nil {
		return v.cannot(begun.Reasons...)
	}
	switch {
	case len(arms) < 2:
		return v.cannot(fmt.Sprintf("%d arms: want two or more", len(arms)))
	case len(spec.Waivers) > 0:
		return v.cannot("waivers are of gates: a comparison of arms has none")
	case look < 0:
		return v.cannot(fmt.Sprintf("look %d: want 0 or more", look))
	}
	for i, arm := range arms {
		if arm == "" || slices.Contains(arms[:i], arm) {
			return v.cannot(fmt.Sprintf("arms %q: want different names", arms))
		}
	}
	look = min(look, len(spec.Looks)-1)
	v.Look, v.Pairs = look+1, spec.Looks[look]
	v.compareAll(&spec, cells)
	if len(v.Reasons) == 0 {
		v.decide()
	}
	return v
}

// GateArms replays the looks as Gate does.
func GateArms(spec Spec, arms []string, cells []ArmCell) ArmsVerdict {
	resolved, _, err := begin(spec)
	if err != nil || len(arms) < 2 {
		return JudgeArms(spec, arms, cells, 0)
	}
	pairs := -1
	for i := range arms {
		for k := range i {
			var two []Cell
			for c := range cells {
				two = append(two, cells[c].Between(arms[k], arms[i]))
			}
			if n := completePairs(two); pairs < 0 || n < pairs {
				pairs = n
			}
		}
	}
	v := ArmsVerdict{Outcome: Continue}
	for look, n := range resolved.Looks {
		if look > 0 && n > pairs {
			v.Outcome = Inconclusive
			v.Reasons = append(v.Reasons, fmt.Sprintf("the rounds end after look %d of %d", v.Look, v.Looks))
			return v
		}
		if v = JudgeArms(spec, arms, cells, look); v.Outcome != Continue {
			return v
		}
	}
	return v
}

// BrokenArms is the verdict on input that no comparison of the arms can be made of.
func BrokenArms(spec Spec, arms []string, reasons ...string) ArmsVerdict {
	_, begun, _ := begin(spec)
	v := ArmsVerdict{Arms: arms, Looks: begun.Looks, Level: begun.Level, Inconclusive: begun.Inconclusive}
	return v.cannot(append(begun.Reasons, reasons...)...)
}

func (v *ArmsVerdict) cannot(reasons ...string) ArmsVerdict {
	v.Outcome = CannotJudge
	v.Reasons = append(v.Reasons, reasons...)
	return *v
}

// compareAll examines every two arms and tests their metrics; a reason means that the whole cannot be judged.
func (v *ArmsVerdict) compareAll(s *Spec, cells []ArmCell) {
	var raw []float64 // worse and better by turns
	for i := range v.Arms {
		for j := i + 1; j < len(v.Arms); j++ {
			c := Comparison{A: v.Arms[i], B: v.Arms[j]}
			_, c.Verdict, _ = begin(*s)
			c.Verdict.Look, c.Verdict.Pairs = v.Look, v.Pairs
			var two []Cell
			for k := range cells {
				two = append(two, cells[k].Between(c.A, c.B))
			}
			es, decided := c.Verdict.admit(s, two, v.Pairs)
			if !decided {
				for k := range es {
					if n := len(es[k].pairs); n < v.Pairs {
						c.Verdict.cannot(fmt.Sprintf("%s: %d rounds of the %d that look %d has", es[k].cell.Name, n, v.Pairs, v.Look))
						decided = true
					}
				}
			}
			if !decided {
				raw = append(raw, c.test(s, es)...)
			}
			if c.Verdict.Outcome == CannotJudge && len(c.Verdict.Reasons) > 0 {
				for _, reason := range c.Verdict.Reasons {
					v.cannot(fmt.Sprintf("%s against %s: %s", c.B, c.A, reason))
				}
			}
			v.Comparisons = append(v.Comparisons, c)
		}
	}
	if len(v.Reasons) > 0 {
		return
	}
	v.Tests = len(raw)
	if v.Tests > 0 {
		if err := s.feasible(v.Tests); err != nil {
			v.cannot(err.Error())
			return
		}
	}
	adjusted := stat.Holm(raw)
	for i := range v.Comparisons {
		for k := range v.Comparisons[i].Metrics {
			m := &v.Comparisons[i].Metrics[k]
			m.Result.PWorse, m.PBetter = Number(adjusted[0]), Number(adjusted[1])
			adjusted = adjusted[2:]
			s.mde(&m.Result, v.Tests)
		}
	}
}

// test fills the comparison with tests in both directions, and returns their p-values for Holm: worse, better, worse, …
func (c *Comparison) test(s *Spec, es []examined) (raw []float64) {
	all, notes, errs := s.gatedSeries(es)
	c.Verdict.Notes = append(c.Verdict.Notes, notes...)
	if len(errs) > 0 {
		c.Verdict.cannot(errs...)
		return nil
	}
	c.Verdict.Outcome = Continue
	sentinels, ended := c.Verdict.sentinel(s, es)
	for i := range sentinels {
		sentinels[i].describeSentinel(&c.Verdict.Sentinels[i])
	}
	if ended {
		c.Verdict.sentinelReasons()
		return nil
	}
	for i := range es {
		c.Verdict.Modes = append(c.Verdict.Modes, s.modeOf(&es[i]))
	}
	for _, x := range shownSeries(es) {
		c.Verdict.Shown = append(c.Verdict.Shown, x.result())
	}
	for i := range all {
		x := &all[i]
		m := ArmMetric{Result: x.result()}
		s.test(x, &m.Result)
		m.PMore = Number(stat.SignedRank(x.ds, -math.Log1p(m.Result.PassMargin)).Greater)
		c.Metrics = append(c.Metrics, m)
		raw = append(raw, float64(m.Result.PWorseRaw), stat.SignedRank(x.ds, -math.Log1p(m.Result.FailMargin)).Less)
	}
	return raw
}

// decide turns p-values into findings, and those into the outcome.
func (v *ArmsVerdict) decide() {
	last := v.Look == v.Looks
	open, failed, moved := false, false, false
	for i := range v.Comparisons {
		c := &v.Comparisons[i]
		against := fmt.Sprintf("%s against %s: ", c.B, c.A)
		switch c.Verdict.Outcome {
		case Fail: // invalid only in B
			if c.A == v.Arms[0] {
				failed = true
			}
			for _, reason := range c.Verdict.Reasons {
				v.Reasons = append(v.Reasons, against+reason)
			}
			continue
		case Inconclusive:
			moved = true
			for _, reason := range c.Verdict.Reasons {
				v.Reasons = append(v.Reasons, against+reason)
			}
			continue
		}
		worse := false
		c.Verdict.Outcome = Pass
		for k := range c.Metrics {
			m := &c.Metrics[k]
			m.find(v.Level)
			switch m.Finding {
			case Worse:
				worse = true
			case Undecided:
				c.Verdict.Outcome = Continue
				if last {
					c.Verdict.Outcome = Inconclusive
					v.Reasons = append(v.Reasons, fmt.Sprintf("%s%s: undecided (minimum detectable effect %s)", against, m.Result.String(), percent3(float64(m.Result.MDE))))
				}
				open = true
			}
		}
		for k := range c.Verdict.Modes {
			if r := &c.Verdict.Modes[k]; r.Regression {
				worse = true
				c.Verdict.Reasons = append(c.Verdict.Reasons, "a new slow mode: "+r.String())
			}
		}
		for k := range c.Metrics {
			if m := &c.Metrics[k]; m.Finding != Undecided && m.Finding != Alike {
				c.Verdict.Reasons = append(c.Verdict.Reasons, fmt.Sprintf("%s, for certain (p=%.2g, Holm over %d)",
					m.Result.String(), min(m.Result.PWorse, m.PBetter), v.Tests))
			}
		}
		if worse {
			c.Verdict.Outcome = Fail
			if c.A == v.Arms[0] {
				failed = true
			}
		}
		for _, reason := range c.Verdict.Reasons {
			v.Reasons = append(v.Reasons, against+reason)
		}
	}
	switch {
	case moved:
		v.Outcome = Inconclusive
	case open && !last: // an arm that is worse is worse at the next look too, and the other arms get their answer
		v.Outcome = Continue
	case failed:
		v.Outcome = Fail
	case open:
		v.Outcome = Inconclusive
	default:
		v.Outcome = Pass
	}
}

func (m *ArmMetric) find(level float64) {
	r := &m.Result
	switch {
	case float64(r.PWorse) <= level:
		m.Finding, r.Outcome = Worse, Fail
	case float64(m.PBetter) <= level:
		m.Finding, r.Outcome = Better, Pass
	case float64(r.PLess) <= level && float64(m.PMore) <= level:
		m.Finding, r.Outcome = Alike, Pass
	default:
		m.Finding, r.Outcome = Undecided, Inconclusive
	}
}
