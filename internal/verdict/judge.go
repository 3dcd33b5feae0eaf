package verdict

import (
	"fmt"
	"slices"

	"felix/internal/stat"
)

// Judge decides at one look, the index into Spec.Looks, as if no look before it had decided: it takes the first pairs of
// each cell, as many as the look has. At the last look, and beyond it, nothing continues.
//
// The order of the questions matters. What cannot be compared is never judged; a different bench is inconclusive before
// anything it measured counts; trials invalid only in head are a regression before the dropped pairs are too many; and
// where the sentinel moved, the machine did it.
func Judge(spec Spec, cells []Cell, look int) Verdict { return judgeAt(spec, cells, look, false) }

func judgeAt(spec Spec, cells []Cell, look int, brief bool) Verdict {
	spec, v, err := begin(spec)
	if err != nil {
		return v
	}
	if look < 0 {
		return v.cannot(fmt.Sprintf("look %d: want 0 or more", look))
	}
	look = min(look, len(spec.Looks)-1)
	planned := spec.Looks[look]
	es, decided := v.admit(&spec, cells, planned)
	if decided {
		return v
	}
	for i := range es {
		if n := len(es[i].pairs); n < planned {
			return v.cannot(fmt.Sprintf("%s: %d pairs of the %d that look %d has", es[i].cell.Name, n, planned, look+1))
		}
	}
	v.Look, v.Pairs = look+1, planned
	v.judge(&spec, es, v.Look == v.Looks, brief)
	return v
}

// Broken is the verdict on input that no gate can be made of.
func Broken(spec Spec, err error) Verdict {
	_, v, specErr := begin(spec)
	if specErr != nil {
		return v
	}
	return v.cannot(err.Error())
}

// begin resolves the spec and opens the verdict; with an error it is that of a gate that cannot be.
func begin(spec Spec) (Spec, Verdict, error) {
	resolved, err := spec.Resolve()
	v := Verdict{
		Looks: len(resolved.Looks), Alpha: resolved.Alpha, FailMargin: resolved.FailMargin, PassMargin: resolved.PassMargin,
		Inconclusive: resolved.Inconclusive,
	}
	if err != nil {
		return resolved, v.cannot(err.Error()), err
	}
	v.Level = resolved.level()
	return resolved, v, nil
}

// cannot is the verdict where there is none.
func (v *Verdict) cannot(reasons ...string) Verdict {
	v.Outcome = CannotJudge
	v.Reasons = append(v.Reasons, reasons...)
	return *v
}

// admit does everything that comes before statistics. Decided means that the verdict stands.
func (v *Verdict) admit(s *Spec, cells []Cell, planned int) (es []examined, decided bool) {
	both, notes, err := s.common(cells)
	v.Notes = append(v.Notes, notes...)
	if err != nil {
		v.cannot(err.Error())
		return nil, true
	}
	for _, c := range both {
		es = append(es, s.examine(c, planned))
	}
	v.setDrops(es)
	for i := range es {
		if len(es[i].gated) == 0 {
			v.cannot(fmt.Sprintf("%s: %v", es[i].cell.Name, errNothingGated))
			return nil, true
		}
		v.Tests += len(es[i].gated)
	}
	if err := s.feasible(v.Tests); err != nil {
		v.cannot(err.Error())
		return nil, true
	}
	if v.compare(s, es) {
		return nil, true
	}
	if reason, yes := headInvalid(es); yes {
		v.Outcome, v.Reasons = Fail, append(v.Reasons, reason)
		return nil, true
	}
	if dropped := s.tooManyDropped(es, planned); len(dropped) > 0 {
		v.cannot(dropped...)
		return nil, true
	}
	return es, false
}

func (v *Verdict) setDrops(es []examined) {
	v.Dropped = nil
	for i := range es {
		v.Dropped = append(v.Dropped, es[i].drops)
	}
}

// compare ends the verdict where the trials, whatever their figures, are not comparable.
func (v *Verdict) compare(s *Spec, es []examined) (decided bool) {
	if reasons := s.ineligible(es); len(reasons) > 0 {
		v.cannot(reasons...)
		return true
	}
	reason, notes := benchDiffers(es)
	v.Notes = append(v.Notes, notes...)
	if reason != "" {
		v.Outcome, v.Reasons = Inconclusive, append(v.Reasons, reason)
		return true
	}
	return false
}

func (a *ArmDrops) none() bool { return a.Invalid+a.Failed+a.Interrupted+a.Missing == 0 }

// judge is the statistics. Brief leaves out what only a reader of the verdict needs, if it is to continue.
func (v *Verdict) judge(s *Spec, es []examined, last, brief bool) {
	all, notes, errs := s.gatedSeries(es)
	v.Notes = append(v.Notes, notes...)
	if len(errs) > 0 {
		v.cannot(errs...)
		return
	}
	v.test(s, all)
	sentinels, ended := v.sentinel(s, es)
	for i := range es {
		v.Modes = append(v.Modes, s.modeOf(&es[i]))
	}
	if !ended && last {
		ended = v.tooFew(s)
	}
	if !ended {
		v.decide(last)
	}
	if brief && v.Outcome == Continue {
		return
	}
	for i := range all {
		all[i].describe(&v.Metrics[i])
		s.mde(&v.Metrics[i], v.Tests)
	}
	for i := range sentinels {
		sentinels[i].describeSentinel(&v.Sentinels[i])
	}
	for _, x := range shownSeries(es) {
		v.Shown = append(v.Shown, x.result())
	}
	switch {
	case ended:
		v.sentinelReasons()
	case v.Outcome != Continue:
		v.explain(s)
		v.settle(s)
	}
}

// test asks the questions of every metric, and corrects for their number.
func (v *Verdict) test(s *Spec, all []series) {
	v.Tests = len(all)
	raw := make([]float64, len(all))
	for i := range all {
		r := all[i].blank()
		s.test(&all[i], &r)
		raw[i] = float64(r.PWorseRaw)
		v.Metrics = append(v.Metrics, r)
	}
	for i, p := range stat.Holm(raw) {
		v.Metrics[i].PWorse = Number(p)
	}
}

// sentinel judges what no commit changes. Ended means that the verdict stands: inconclusive, or not to be judged.
func (v *Verdict) sentinel(s *Spec, es []examined) (all []*series, ended bool) {
	all, missing, pairs := sentinelSeries(es)
	for _, x := range all {
		r := s.testSentinel(x)
		v.Sentinels = append(v.Sentinels, r)
		ended = ended || r.Moved
	}
	if ended {
		v.Outcome = Inconclusive
		return all, true
	}
	if s.tooMany(missing, pairs) {
		text := fmt.Sprintf("no sentinel ran beside %d of %d pairs: whether the machine moved is not known", missing, pairs)
		if !s.SentinelOptional {
			v.cannot(text)
			return all, true
		}
		v.Notes = append(v.Notes, text)
	}
	return all, false
}

func (v *Verdict) sentinelReasons() {
	for i := range v.Sentinels {
		if r := &v.Sentinels[i]; r.Moved {
			v.Reasons = append(v.Reasons, r.String())
		}
	}
}

// tooFew ends the last look if so few pairs are left that it could not fail.
func (v *Verdict) tooFew(s *Spec) (ended bool) {
	need := s.minPairs(v.Tests)
	for i := range v.Metrics {
		if r := &v.Metrics[i]; r.N < need {
			v.cannot(fmt.Sprintf("%s: %d pairs are left: this gate cannot fail: needs %d", FloorKey(r.Cell, r.Metric), r.N, need))
			ended = true
		}
	}
	return ended
}

// decide turns p-values into outcomes.
func (v *Verdict) decide(last bool) {
	undecided := Continue
	if last {
		undecided = Inconclusive
	}
	failed, passed := false, true
	for i := range v.Metrics {
		r := &v.Metrics[i]
		switch {
		case float64(r.PWorse) <= v.Level:
			r.Outcome, failed = Fail, true
		case float64(r.PLess) <= v.Level:
			r.Outcome = Pass
		default:
			r.Outcome, passed = undecided, false
		}
	}
	for i := range v.Modes {
		failed = failed || v.Modes[i].Regression
	}
	switch {
	case failed:
		v.Outcome = Fail
	case passed:
		v.Outcome = Pass
	default:
		v.Outcome = undecided
	}
}

// explain gives the reasons of a verdict that stands.
func (v *Verdict) explain(s *Spec) {
	for i := range v.Metrics {
		if r := &v.Metrics[i]; r.Outcome == Fail {
			v.Reasons = append(v.Reasons, fmt.Sprintf("%s, beyond %s (p=%.2g at level %.3g, Holm over %d)",
				r.String(), percent(r.FailMargin), r.PWorse, v.Level, v.Tests))
		}
	}
	for i := range v.Modes {
		if r := &v.Modes[i]; r.Regression {
			v.Reasons = append(v.Reasons, "a new slow mode: "+r.String())
		}
	}
	if v.Outcome == Pass {
		v.Reasons = append(v.Reasons, fmt.Sprintf("all %d metrics are less than %s worse, or than what their waiver accepts, each at level %.3g, n=%d pairs",
			v.Tests, percent(s.PassMargin), v.Level, v.Pairs))
	}
}

// settle does what only a verdict that stands can: name what stayed open, and look for waivers that nothing needed.
func (v *Verdict) settle(s *Spec) {
	for i := range v.Metrics {
		r := &v.Metrics[i]
		if r.Outcome == Continue {
			r.Outcome = Inconclusive
		}
		if v.Outcome == Inconclusive && r.Outcome == Inconclusive {
			v.Reasons = append(v.Reasons, fmt.Sprintf("%s: neither beyond %s (p=%.2g) nor within %s (p=%.2g); sd %s, minimum detectable effect %s",
				r.String(), percent(r.FailMargin), r.PWorse, percent(r.PassMargin), r.PLess, percent3(float64(r.SD)), percent3(float64(r.MDE))))
		}
	}
	var unused []string
	for i := range s.Waivers {
		w := &s.Waivers[i]
		at := slices.IndexFunc(v.Metrics, func(r MetricResult) bool { return r.Cell == w.Cell && r.Metric == w.Metric })
		switch {
		case at < 0:
			unused = append(unused, fmt.Sprintf("waiver of %s: the gate judges no such metric", FloorKey(w.Cell, w.Metric)))
		case v.Metrics[at].Unneeded:
			unused = append(unused, fmt.Sprintf("waiver of %s is not used: the metric passes without it: remove it", FloorKey(w.Cell, w.Metric)))
		}
	}
	switch {
	case len(unused) == 0:
	case v.Outcome == Fail: // a regression elsewhere is the louder news
		v.Notes = append(v.Notes, unused...)
	default:
		v.cannot(unused...)
	}
}
