// Package compare holds sessions, or the levels of a factor inside one, against each other: per cell and metric the
// ratio of medians with its interval, how many trials stand behind it, and what is against believing it. It decides
// nothing: a verdict needs pairs that ran back to back, which is the gate's business.
package compare

import (
	"fmt"
	"math"
	"slices"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/stat"
)

// Side is what is compared: a session's cells of one build, or those at one level of a factor.
type Side struct {
	Label   string // as it was asked for, or the level
	Session *runrecord.Session
	Cells   []cells.Cell
	Names   map[string]string // the grid's names of its cells, by case key
}

// Comparison is one side against another.
type Comparison struct {
	Base, Head Side
	Factor     string // that is compared by, paired; "" for sessions, which are not paired
	// Differences are sentences about what differs beside the figures, the gravest first.
	Differences []string
	Rows        []Row // in the order of how sure and how large
	Missing     []Missing
	Shared      string // what all cells have in common, "payload=4096 batch=64"; the rows' cells leave it out
}

// Paired reports whether the rows are of pairs.
func (c *Comparison) Paired() bool { return c.Factor != "" }

// Row is one metric of one cell.
type Row struct {
	Cell   string // its name, without what all cells share
	Key    string // of the case, in the base
	Metric Metric
	Main   bool // the cell's main metric, which its modes are of

	Base, Head Arm
	Ratio      float64       // head / base; NaN: not known
	Interval   stat.Interval // of the ratio; NaNs: none
	Enough     bool          // enough trials, or pairs, for the interval's level
	N          int           // pairs; 0 if not paired
	Dropped    int           // pairs without two valid trials, or without the metric in both
	P          float64       // two-sided: Mann-Whitney, or of pairs the signed-rank test; NaN: none
	SlowP      float64       // Fisher's one-sided p of more slow trials in head; NaN: not judged
	Finding    Finding
	Why        string // why it is not judged, or there is no ratio
}

// Arm is one side of a row.
type Arm struct {
	CellID                              string
	Figure                              cells.Figure
	Valid, Invalid, Failed, Interrupted int
	Noisy, Superseded                   int
	Slow, SlowOf                        int // trials below 1/1.5 of the 90th percentile of both sides' speeds, or of its own if not judged or not comparable
	Marks, Caveats                      []cells.Mark
	values                              []float64
}

// Finding is what a row shows, for the eye; it is no verdict.
type Finding string

// The findings.
const (
	Worse     Finding = "worse"       // the interval excludes 1
	Better    Finding = "better"      // the interval excludes 1
	Unclear   Finding = "unclear"     // the interval holds 1
	Few       Finding = "n too small" // for an interval that holds its level
	NotJudged Finding = "not judged"  // hosts differ, say
	NoRatio   Finding = "no ratio"
)

// Missing is a cell that only one side has, or that has no one partner.
type Missing struct {
	Cell, Key string
	Why       string
}

// Metric is what is compared.
type Metric struct {
	Name           string // as the gate names it
	Label          string // for people
	Unit           string
	HigherIsBetter bool
	of             func(*cells.Trial) float64
}

// Metrics are those of a cell: the main one, and what it costs or how it ends. The others are not told apart by trials
// of these sizes: percentiles of a batch, rates of single messages.
func Metrics(c *cells.Cell) []Metric {
	if c.Throughput {
		main := Metric{"delivered_bytes_per_sec", "delivered", "B/s", true, func(t *cells.Trial) float64 { return t.DeliveredBytesPerSec }}
		if c.Case.Payload == 0 {
			main = Metric{"delivered_msgs_per_sec", "delivered", "msg/s", true, func(t *cells.Trial) float64 { return t.DeliveredMsgsPerSec }}
		}
		if c.Case.Payload == 0 { // the stamp alone: CPU per byte of it is nobody's figure
			return []Metric{main}
		}
		return []Metric{main, {"cpu_s_per_gb", "CPU", "s/GB", false, func(t *cells.Trial) float64 { return t.CPUSecondsPerGB }}}
	}
	prefix := ""
	if queueing(c) {
		prefix = "queueing "
	}
	return []Metric{
		{"p50_ns", prefix + "p50", "ns", false, func(t *cells.Trial) float64 { return t.P50Ns }},
		{"p99_ns", prefix + "p99", "ns", false, func(t *cells.Trial) float64 { return t.P99Ns }},
	}
}

// figure is the summary that the cell has of the metric.
func (m Metric) figure(c *cells.Cell) cells.Figure {
	switch m.Name {
	case "cpu_s_per_gb":
		return c.CPUPerGB
	case "p99_ns":
		return c.P99
	}
	return c.Main
}

// used reports whether the trial is part of the cell's figures.
func used(t *cells.Trial) bool { return t.Valid && !t.Superseded }

// value is the trial's, if it has one.
func (m Metric) value(t *cells.Trial) (float64, bool) {
	x := m.of(t)
	return x, used(t) && !math.IsNaN(x) && !math.IsInf(x, 0)
}

func armOf(c *cells.Cell, m Metric) Arm {
	a := Arm{
		CellID: c.ID, Figure: m.figure(c), Valid: c.N, Invalid: c.Invalid, Failed: c.Failed, Interrupted: c.Interrupted,
		Noisy: c.Noisy, Superseded: c.Superseded, Marks: c.Marks, Caveats: c.Caveats,
	}
	for i := range c.Trials {
		if x, ok := m.value(&c.Trials[i]); ok {
			a.values = append(a.values, x)
		}
	}
	return a
}

// Sessions compares two sessions, cell by cell. It fails where they have no cell in common.
func Sessions(base, head Side) (*Comparison, error) {
	c := &Comparison{Base: base, Head: head}
	pairs, missing := match(base, head)
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s and %s have no cell in common", base.Label, head.Label)
	}
	c.Missing = missing
	c.Differences = differences(pairs)
	for _, p := range pairs {
		c.Rows = append(c.Rows, p.rows()...)
	}
	c.finish()
	return c, nil
}

// rows compares the two cells without pairs.
func (p *pair) rows() []Row {
	why := p.notJudged()
	var rows []Row
	for i, m := range Metrics(p.base) {
		r := Row{Cell: p.name, Key: p.base.Key, Metric: m, Main: i == 0, Base: armOf(p.base, m), Head: armOf(p.head, m), P: math.NaN(), SlowP: math.NaN()}
		r.Ratio, r.Interval, r.Enough = stat.RatioOfMedians(r.Base.values, r.Head.values, cells.Level)
		if why == "" && len(r.Base.values) > 0 && len(r.Head.values) > 0 {
			r.P = stat.MannWhitney(r.Head.values, r.Base.values).TwoSided
		}
		r.modes(why == "")
		r.find(why)
		rows = append(rows, r)
	}
	return rows
}

// modes counts the slow trials of both sides, by one limit where the two may be judged together, and tests for more of
// them in head where there are enough to say.
func (r *Row) modes(together bool) {
	const least = 8 // trials a side
	speeds := func(values []float64) []float64 {
		out := make([]float64, 0, len(values))
		for _, v := range values {
			switch {
			case r.Metric.HigherIsBetter:
				out = append(out, v)
			case v > 0:
				out = append(out, 1/v)
			}
		}
		return out
	}
	base, head := speeds(r.Base.values), speeds(r.Head.values)
	slow := func(speeds []float64, limit float64) (k, n int) {
		for _, v := range speeds {
			if v < limit {
				k++
			}
		}
		return k, len(speeds)
	}
	if !together {
		r.Base.Slow, r.Base.SlowOf = slow(base, stat.SlowLimit(base))
		r.Head.Slow, r.Head.SlowOf = slow(head, stat.SlowLimit(head))
		return
	}
	limit := stat.SlowLimit(slices.Concat(base, head))
	r.Base.Slow, r.Base.SlowOf = slow(base, limit)
	r.Head.Slow, r.Head.SlowOf = slow(head, limit)
	if r.Base.SlowOf >= least && r.Head.SlowOf >= least {
		r.SlowP = stat.FisherExact(r.Head.Slow, r.Head.SlowOf, r.Base.Slow, r.Base.SlowOf)
	}
}

// find names what the interval shows.
func (r *Row) find(notJudged string) {
	switch {
	case math.IsNaN(r.Ratio):
		r.Finding, r.Why = NoRatio, r.noRatio()
	case notJudged != "":
		r.Finding, r.Why = NotJudged, notJudged
	case !r.Enough:
		r.Finding = Few
	case r.Interval.Low > 1:
		r.Finding = Worse
		if r.Metric.HigherIsBetter {
			r.Finding = Better
		}
	case r.Interval.High < 1:
		r.Finding = Better
		if r.Metric.HigherIsBetter {
			r.Finding = Worse
		}
	default:
		r.Finding = Unclear
	}
}

func (r *Row) noRatio() string {
	switch b, h := len(r.Base.values), len(r.Head.values); {
	case b == 0 && h == 0:
		return "no valid trial with it on either side"
	case b == 0:
		return "no valid trial with it in base"
	case h == 0:
		return "no valid trial with it in head"
	case r.N == 0 && r.Dropped > 0:
		return "no pair with it on both sides"
	}
	return "the base is zero"
}

// FigureOf is the cell's summary of the metric.
func (m Metric) FigureOf(c *cells.Cell) cells.Figure { return m.figure(c) }
