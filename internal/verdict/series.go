package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"felix/internal/stat"
)

// intervalLevel is that of the intervals that are printed; the tests have their own.
const intervalLevel = 0.95

// mdePower is how often a gate should see the minimum detectable effect.
const mdePower = 0.8

// series is one metric of one cell over the pairs that have it.
type series struct {
	cell       string
	metric     Metric
	sign       float64 // of log(head/base) for d
	ds         []float64
	base, head []float64
	noBase     int // pairs whose base has no value, and head's
	noHead     int
}

// take reads a metric of the kept pairs.
func take(e *examined, m Metric) series {
	s := series{cell: e.cell.Name, metric: m, sign: -float64(m.Direction())}
	for _, p := range e.kept {
		b, okBase := m.Value(p.Base)
		h, okHead := m.Value(p.Head)
		if !okBase {
			s.noBase++
		}
		if !okHead {
			s.noHead++
		}
		if okBase && okHead {
			s.add(b, h)
		}
	}
	return s
}

func (s *series) add(base, head float64) {
	s.base, s.head = append(s.base, base), append(s.head, head)
	// The difference of logarithms, since a quotient can overflow.
	s.ds = append(s.ds, s.sign*(math.Log(head)-math.Log(base)))
}

// gatedSeries reads the gated metrics of all cells. What one arm lacks, or too many pairs do, is an error, unless it is
// allow-listed: then it is left out and noted.
func (s *Spec) gatedSeries(es []examined) (all []series, notes, errs []string) {
	for i := range es {
		e := &es[i]
		for _, m := range e.gated {
			x := take(e, m)
			n := len(e.kept)
			text := ""
			switch {
			case n == 0:
				text = "no pair is left"
			case x.noBase == n && x.noHead == n:
				text = "no trial has it"
			case x.noHead == n:
				text = "only base has it"
			case x.noBase == n:
				text = "only head has it"
			case s.tooMany(n-len(x.ds), n):
				text = fmt.Sprintf("%d of %d pairs lack it (base %d, head %d)", n-len(x.ds), n, x.noBase, x.noHead)
			default:
				all = append(all, x)
				continue
			}
			name := FloorKey(x.cell, m)
			if slices.Contains(s.AllowMissing, string(m)) || slices.Contains(s.AllowMissing, name) {
				notes = append(notes, fmt.Sprintf("not judged: %s: %s, as allow_missing says", name, text))
			} else {
				errs = append(errs, fmt.Sprintf("%s: %s", name, text))
			}
		}
	}
	if len(all) == 0 && len(errs) == 0 {
		errs = append(errs, "the arms have no gated metric in common: nothing is judged")
	}
	return all, notes, errs
}

// shownSeries reads what is printed and not judged.
func shownSeries(es []examined) []series {
	var all []series
	for i := range es {
		for k := range metrics {
			m := &metrics[k]
			if slices.Contains(es[i].gated, m.name) || !m.gateable(&es[i].cell.Case) {
				continue
			}
			if x := take(&es[i], m.name); len(x.ds) > 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// blank is the result of a series of which nothing is known yet but its length.
func (s *series) blank() MetricResult {
	u := unknown
	return MetricResult{
		Cell: s.cell, Metric: s.metric, Unit: s.metric.Unit(), N: len(s.ds), BaseMedian: u, HeadMedian: u,
		Ratio: u, Low: u, High: u, Coverage: u, Worse: u, SD: u, MDE: u, PWorse: u, PWorseRaw: u, PLess: u,
	}
}

// describe fills the estimates.
func (s *series) describe(r *MetricResult) {
	r.BaseMedian, r.HeadMedian = Number(stat.Median(s.base)), Number(stat.Median(s.head))
	r.SD = Number(stat.StandardDeviation(s.ds))
	estimate, iv, _ := stat.HodgesLehmann(s.ds, intervalLevel)
	r.Worse, r.Coverage = Number(math.Expm1(estimate)), Number(iv.Coverage)
	r.Ratio, r.Low, r.High = ratio(s.sign, estimate, iv)
}

// result is the description of a series that is not tested.
func (s *series) result() MetricResult {
	r := s.blank()
	s.describe(&r)
	return r
}

// ratio takes an estimate of d back to head/base.
func ratio(sign, estimate float64, iv stat.Interval) (r, low, high Number) {
	at := func(d float64) Number { return Number(math.Exp(sign * d)) }
	r, low, high = at(estimate), at(iv.Low), at(iv.High)
	if sign < 0 {
		low, high = high, low
	}
	return r, low, high
}

// test asks the two questions of a gate. Holm has to be applied to PWorseRaw over all tests afterwards.
func (s *Spec) test(x *series, r *MetricResult) {
	r.FailMargin, r.PassMargin = s.margins(x.cell, x.metric)
	if w := s.waiver(x.cell, x.metric); w != nil {
		r.Waived = true
		r.Unneeded = stat.SignedRank(x.ds, math.Log1p(r.PassMargin)).Less <= s.level()
		r.FailMargin, r.PassMargin = w.Ceiling, w.Ceiling
	}
	r.PWorseRaw = Number(stat.SignedRank(x.ds, math.Log1p(r.FailMargin)).Greater)
	r.PLess = Number(stat.SignedRank(x.ds, math.Log1p(r.PassMargin)).Less)
}

// margins of a metric without a waiver. A noise floor raises the margin of an alarm; it never lets more pass.
func (s *Spec) margins(cell string, m Metric) (fail, pass float64) {
	return max(s.FailMargin, s.NoiseFloor.At(cell, m)), s.PassMargin
}

// mde fills the minimum detectable effect at this many pairs, against the strictest level of Holm.
func (s *Spec) mde(r *MetricResult, m int) {
	shift := stat.DetectableShift(r.N, float64(r.SD), s.level()/float64(max(1, m)), mdePower)
	r.MDE = Number(math.Expm1(math.Log1p(r.FailMargin) + shift))
}

// String is the metric in one line: its ratio with interval and n, never alone.
func (r *MetricResult) String() string {
	change := fmt.Sprintf("%s worse", percent3(float64(r.Worse)))
	if r.Worse < 0 {
		// Worse is of the bad direction: what is 0.8 times as bad is 20 % better.
		change = fmt.Sprintf("%s better", percent3(-float64(r.Worse)))
	}
	if math.IsNaN(float64(r.Worse)) {
		change = "not known"
	}
	return fmt.Sprintf("%s: %s head/base %.3f [%.3f, %.3f] n=%d: %s", r.Cell, r.Metric, r.Ratio, r.Low, r.High, r.N, change)
}

func percent3(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// modeOf judges slow modes in a cell: by the delivered rate of a throughput case, by the p50 of a latency case.
func (s *Spec) modeOf(e *examined) ModeResult {
	c := &e.cell.Case
	metric, minPairs := P50, 8
	if e.cell.Throughput {
		metric = DeliveredBytesPerSec
		if c.Payload == 0 {
			metric = DeliveredMsgsPerSec
		}
	}
	x := take(e, metric)
	base, head := speeds(metric, x.base), speeds(metric, x.head)
	limit := stat.SlowLimit(slices.Concat(base, head))
	r := ModeResult{
		Cell: e.cell.Name, N: len(x.ds), Base: below(base, limit), Head: below(head, limit), P: unknown,
		Limit: Number(speeds(metric, []float64{limit})[0]), Unit: metric.Unit(),
	}
	r.Shares = [2]Rate{share(r.Base, r.N), share(r.Head, r.N)}
	if r.N > 0 {
		r.P = Number(stat.FisherExact(r.Head, r.N, r.Base, r.N))
	}
	r.Judged = r.N >= minPairs && metric.info().gateable(c)
	r.Regression = r.Judged && float64(r.P) <= s.level()
	return r
}

// speeds turns values into rates: more is faster. It is its own inverse.
func speeds(m Metric, values []float64) []float64 {
	out := slices.Clone(values)
	if m.Direction() == LowerBetter {
		for i, v := range out {
			out[i] = 1 / v
		}
	}
	return out
}

func below(rates []float64, limit float64) int {
	n := 0
	for _, r := range rates {
		if r < limit {
			n++
		}
	}
	return n
}

func share(k, n int) Rate {
	s := stat.ClopperPearson(k, n, intervalLevel)
	return Rate{Share: Number(s.Share), Low: Number(s.Low), High: Number(s.High)}
}

// String is the modes in one line.
func (r *ModeResult) String() string {
	return fmt.Sprintf("%s: slow trials: head %d of %d, base %d of %d (p=%.2g)", r.Cell, r.Head, r.N, r.Base, r.N, r.P)
}

// sentinelSeries gathers every sentinel over the kept pairs of all cells: it is one machine. Missing says how many of
// the pairs have none.
func sentinelSeries(es []examined) (all []*series, missing, pairs int) {
	byName := map[string]*series{}
	for i := range es {
		for _, p := range es[i].kept {
			pairs++
			known := false
			for _, v := range p.Sentinels {
				b, okBase := positive(&v.Base)
				h, okHead := positive(&v.Head)
				if !okBase || !okHead {
					continue
				}
				known = true
				x := byName[v.Name]
				if x == nil {
					x = &series{cell: v.Name, sign: -1}
					byName[v.Name] = x
					all = append(all, x)
				}
				x.add(b, h)
			}
			if !known {
				missing++
			}
		}
	}
	slices.SortFunc(all, func(a, b *series) int { return strings.Compare(a.cell, b.cell) })
	return all, missing, pairs
}

// testSentinel asks the gate's question both ways: what only head's trials are beside may be faster, too.
func (s *Spec) testSentinel(x *series) SentinelResult {
	margin := math.Log1p(s.FailMargin)
	r := SentinelResult{
		Name: x.cell, N: len(x.ds), Ratio: unknown, Low: unknown, High: unknown, SD: unknown,
		PSlower: Number(stat.SignedRank(x.ds, margin).Greater), PFaster: Number(stat.SignedRank(x.ds, -margin).Less),
	}
	r.Moved = min(float64(r.PSlower), float64(r.PFaster)) <= s.level()
	return r
}

func (s *series) describeSentinel(r *SentinelResult) {
	estimate, iv, _ := stat.HodgesLehmann(s.ds, intervalLevel)
	r.SD = Number(stat.StandardDeviation(s.ds))
	r.Ratio, r.Low, r.High = ratio(s.sign, estimate, iv)
}

// String is the sentinel in one line.
func (r *SentinelResult) String() string {
	return fmt.Sprintf("sentinel %s, which no commit changes, moved: head/base %.3f [%.3f, %.3f] n=%d", r.Name, r.Ratio, r.Low, r.High, r.N)
}
