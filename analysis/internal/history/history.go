// Package history follows the cells of many sessions through time: the medians of each cell and metric in the order of
// the sessions, and where they change. It decides nothing: sessions share no drift control.
package history

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"felix/analysis/internal/compare"
	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/stat"
)

// DefaultLevel is that of the permutation test. A series of about a dozen sessions is the shortest that can reach it.
const DefaultLevel = 0.01

// Sitting is one session with its cells.
type Sitting struct {
	Session *runrecord.Session
	Cells   []cells.Cell
	Names   map[string]string // the grid's names, by case key
}

// Report is the history of every cell and metric.
type Report struct {
	Sessions int
	From, To time.Time // starts of the first and the last
	Level    float64
	Least    int      // points with a figure that a series must have before any change in it can be told at Level
	Series   []Series // changed ones first, then by cell and metric
	Hosts    int
	LeftOut  int // cells of perturbed trials, which are never pooled
}

// Series is one metric of one cell. What sets trials apart, but for what was built and its settings, makes another one.
type Series struct {
	Cell    string // its name in the newest session that has one
	Key     string
	Kind    string // case | raw | relay | echo
	Host    string
	Metric  compare.Metric
	Case    runrecord.Case
	Points  []Point // oldest first; a session that lacks the cell has none
	Changes []Change
}

// Point is what one session measured.
type Point struct {
	Session *runrecord.Session
	Build   runrecord.Build
	Figure  cells.Figure // N = 0: no trial has it
	Invalid int          // trials that ran and may not be believed, and those that failed
	Marks   []cells.Mark
	Config  bool // effective settings differ from those of the point before
	CellID  string
}

// Change is a place where the medians go over to another level.
type Change struct {
	At            int     // index of the first point after it
	P             float64 // of the permutation test
	Before, After float64 // medians of the medians on both sides, up to the next changes
	Ratio         float64 // After / Before
	Worse         bool    // by the metric's direction
}

// Build follows all cells through the sittings, whatever their order. Level is that of the permutation test.
func Build(sittings []Sitting, level float64) *Report {
	sittings = slices.Clone(sittings)
	slices.SortStableFunc(sittings, func(a, b Sitting) int {
		return cmp.Or(a.Session.StartedAt.Compare(b.Session.StartedAt), cmp.Compare(a.Session.SessionID, b.Session.SessionID))
	})
	r := &Report{Sessions: len(sittings), Level: level, Least: stat.ShortestChange(level)}
	if len(sittings) > 0 {
		r.From, r.To = sittings[0].Session.StartedAt, sittings[len(sittings)-1].Session.StartedAt
	}
	at := map[string]int{}
	last := map[string]*cells.Cell{}
	hosts := map[string]bool{}
	for _, s := range sittings {
		for i := range s.Cells {
			c := &s.Cells[i]
			if len(c.Perturbed) > 0 {
				r.LeftOut++
				continue
			}
			hosts[c.Host] = true
			id := seriesID(c)
			for _, m := range compare.Metrics(c) {
				k, known := at[id+m.Name]
				if !known {
					k = len(r.Series)
					at[id+m.Name] = k
					r.Series = append(r.Series, Series{Key: c.Key, Kind: c.Kind, Host: c.Host, Metric: m, Case: c.Case})
				}
				x := &r.Series[k]
				x.Cell = cmp.Or(s.Names[c.Key], x.Cell, c.Key)
				x.Points = append(x.Points, Point{
					Session: s.Session, Build: c.Build, Figure: m.FigureOf(c), Invalid: c.Invalid + c.Failed, Marks: c.Marks, CellID: c.ID,
					Config: last[id] != nil && !sameConfig(last[id].Config, c.Config),
				})
			}
			last[id] = c
		}
	}
	r.Hosts = len(hosts)
	for i := range r.Series {
		r.Series[i].find(level)
	}
	slices.SortStableFunc(r.Series, func(a, b Series) int { return cmp.Compare(min(1, len(b.Changes)), min(1, len(a.Changes))) })
	return r
}

// seriesID is what makes two cells of different sessions the same one.
func seriesID(c *cells.Cell) string {
	words := []string{c.Kind, c.Key, strconv.FormatInt(c.Case.SendWindow, 10), c.Host, string(c.Lossless)}
	for _, k := range sortedKeys(c.Env) {
		words = append(words, k+"="+c.Env[k])
	}
	return strings.Join(append(words, ""), "\x00")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sameConfig compares what both know: a key that is new is none that differs.
func sameConfig(a, b map[string]string) bool {
	for k, v := range a {
		if w, ok := b[k]; ok && v != w {
			return false
		}
	}
	return true
}

// find looks for changes of the medians, on a scale on which a doubling is as far as a halving.
func (s *Series) find(level float64) {
	logs := make([]float64, len(s.Points))
	for i := range s.Points {
		logs[i] = math.Log(s.Points[i].value()) // NaN and infinities are left out
	}
	found := stat.Changes(logs, level)
	from := 0
	for i, c := range found {
		to := len(s.Points)
		if i+1 < len(found) {
			to = found[i+1].At
		}
		before, after := s.level(from, c.At), s.level(c.At, to)
		s.Changes = append(s.Changes, Change{
			At: c.At, P: c.P, Before: before, After: after, Ratio: after / before, Worse: (after < before) == s.Metric.HigherIsBetter,
		})
		from = c.At
	}
}

// level is the median of the medians of some points.
func (s *Series) level(from, to int) float64 {
	var xs []float64
	for i := from; i < to; i++ {
		if v := s.Points[i].value(); v > 0 && !math.IsInf(v, 0) {
			xs = append(xs, v)
		}
	}
	return stat.Median(xs)
}

// value is the point's median; NaN if it has none.
func (p *Point) value() float64 {
	if p.Figure.N == 0 {
		return math.NaN()
	}
	return p.Figure.Median
}

// first and last are the ends of the series that have a value; nil if none has.
func (s *Series) ends() (first, last *Point) {
	for i := range s.Points {
		if p := &s.Points[i]; !math.IsNaN(p.value()) {
			if first == nil {
				first = p
			}
			last = p
		}
	}
	return first, last
}
