package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sorter puts cells together that make one picture: the same in everything but the factor on the x axis and, where
// there is one, the factor that makes the series.
type sorter struct {
	cells  []Cell
	varies []string // factors with more than one level, in order of first appearance
	levels map[string][]string
	x      string // the factor on the x axis
}

const payloadFactor = "payload"

func newSorter(cells []Cell) *sorter {
	s := &sorter{cells: cells, levels: map[string][]string{}, x: payloadFactor}
	var order []string
	for _, c := range cells {
		for _, f := range c.Factors {
			if !slices.Contains(order, f.Name) {
				order = append(order, f.Name)
			}
		}
	}
	for _, name := range order {
		for _, c := range cells {
			if level := c.level(name); !slices.Contains(s.levels[name], level) {
				s.levels[name] = append(s.levels[name], level)
			}
		}
		if len(s.levels[name]) > 1 {
			s.varies = append(s.varies, name)
		}
	}
	if !slices.Contains(s.varies, payloadFactor) {
		most := 1
		for _, name := range s.varies {
			if n := len(s.levels[name]); n > most && s.numeric(name) {
				s.x, most = name, n
			}
		}
	}
	if s.x == rateFactor {
		// The rate is in every shape of an open loop, and would keep the points of one curve apart.
		s.cells = slices.Clone(cells)
		for i := range s.cells {
			if s.cells[i].Offered > 0 {
				s.cells[i].Shape.Load = "open loops"
			}
		}
	}
	return s
}

// level returns the cell's level of a factor; "" if it has none.
func (c Cell) level(name string) string {
	for _, f := range c.Factors {
		if f.Name == name {
			return f.Level
		}
	}
	return ""
}

func (s *sorter) numeric(name string) bool {
	for _, level := range s.levels[name] {
		if v, err := strconv.ParseFloat(level, 64); err != nil || v < 0 || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func (s *sorter) xOf(c Cell) float64 {
	if s.x == payloadFactor {
		return float64(c.Payload)
	}
	v, err := strconv.ParseFloat(c.level(s.x), 64)
	if err != nil {
		return 0
	}
	return v
}

func (s *sorter) xUnit() Unit {
	if s.x == payloadFactor {
		return Bytes
	}
	return Count
}

// text names a cell by the factors that vary, but for some; all names it by every factor.
func (s *sorter) text(c Cell, all bool, without ...string) string {
	var parts []string
	for _, f := range c.Factors {
		if (all || slices.Contains(s.varies, f.Name)) && !slices.Contains(without, f.Name) && f.Level != "" {
			parts = append(parts, f.Name+"="+f.Level)
		}
	}
	return strings.Join(parts, " ")
}

// group is some cells of one picture.
type group struct {
	name    string // by the factors that vary between pictures
	caption string // by all that the cells have in common
	cells   []Cell
}

// groups puts cells together that agree in source, shape and all factors but some.
func (s *sorter) groups(pick func(Cell) bool, without ...string) []*group {
	var out []*group
	byKey := map[string]*group{}
	for _, c := range s.cells {
		if !pick(c) {
			continue
		}
		name := s.text(c, false, without...)
		key := fmt.Sprintf("%s\x00%s\x00%v\x00%v", s.text(c, true, without...), c.Source, c.Shape, c.Throughput)
		g := byKey[key]
		if g == nil {
			g = &group{name: name, caption: s.text(c, true, without...)}
			byKey[key] = g
			out = append(out, g)
		}
		g.cells = append(g.cells, c)
	}
	return out
}

func every(Cell) bool { return true }

// latencies adds the percentiles against x, and the whole distributions of the same cells.
func (s *sorter) latencies(g *gallery) {
	for _, gr := range s.groups(every, s.x) {
		first := gr.cells[0]
		times := "Latency"
		if first.Shape.Queueing {
			times = "Queueing delay"
		}
		f := &Levels{
			Title: times + " percentiles against " + s.x, Caption: gr.caption, Source: first.Source, Shape: first.Shape,
			Unit: Nanoseconds, Factor: s.x, XUnit: s.xUnit(),
		}
		for _, p := range []struct {
			name   string
			of     func(Cell) Value
			pooled bool
		}{
			{"p50", func(c Cell) Value { return c.P50 }, false},
			{"p90", func(c Cell) Value { return c.P90 }, true},
			{"p99", func(c Cell) Value { return c.P99 }, false},
			{"p99.9", func(c Cell) Value { return c.P999 }, true},
		} {
			name, any := p.name+" (median of trials)", false
			if p.pooled {
				name = p.name + " (all messages)"
			}
			line := Series{Name: name, Thin: p.pooled}
			for _, c := range gr.cells {
				v := p.of(c)
				any = any || v.absence() == present
				line.Points = append(line.Points, Point{s.xOf(c), v})
			}
			if any || !p.pooled {
				f.Series = append(f.Series, line)
			}
		}
		g.add("latency", gr.name, f.Title, f)
		s.distributions(g, gr, times)
	}
}

// distributions adds one picture of a group's curves, a curve for each x.
func (s *sorter) distributions(g *gallery, gr *group, times string) {
	var curves []Curve
	for _, c := range gr.cells {
		if c.Curve == nil {
			continue
		}
		curve := *c.Curve
		curve.Name = s.x + "=" + c.level(s.x)
		curves = append(curves, curve)
	}
	part := 0
	for some := range slices.Chunk(curves, MostSeries) {
		f := &Distribution{
			Title: "Whole distribution: " + strings.ToLower(times[:1]) + times[1:], Caption: gr.caption,
			Source: gr.cells[0].Source, Shape: gr.cells[0].Shape, Curves: some,
		}
		name := gr.name
		if part++; part > 1 {
			name = fmt.Sprintf("%s part %d", name, part)
		}
		g.add("distribution", name, f.Title, f)
	}
}

// seriesFactor is the factor that makes the lines of a rate chart: the one with the most levels that one picture can
// tell apart.
func (s *sorter) seriesFactor() string {
	best := ""
	for _, name := range s.varies {
		if n := len(s.levels[name]); name != s.x && n <= MostSeries && (best == "" || n > len(s.levels[best])) {
			best = name
		}
	}
	return best
}

// rates adds the message rate of all cells and the delivered MB/s of those that measure throughput.
func (s *sorter) rates(g *gallery) {
	by := s.seriesFactor()
	for _, k := range []struct {
		kind, title string
		unit        Unit
		pick        func(Cell) bool
		of          func(Cell) Value
	}{
		{"rate", "Messages delivered per second", MsgsPerSec, every, func(c Cell) Value { return c.MsgsPerSec }},
		{"throughput", "Delivered MB/s", BytesPerSec, func(c Cell) bool { return c.Throughput && c.Payload > 0 }, func(c Cell) Value { return c.BytesPerSec }},
	} {
		for _, gr := range s.groups(k.pick, s.x, by) {
			first := gr.cells[0]
			f := &Levels{
				Title: k.title + " against " + s.x, Caption: gr.caption, Source: first.Source, Shape: first.Shape,
				Measure: "delivered, all subscribers", Unit: k.unit, Factor: s.x, XUnit: s.xUnit(),
			}
			if k.unit == BytesPerSec && slices.ContainsFunc(s.cells, func(c Cell) bool { return c.Throughput && c.Payload == 0 }) {
				f.Notes = append(f.Notes, "payload=0 carries nothing but the bench's own stamp: it has no MB/s, and is left out here.")
			}
			for _, c := range gr.cells {
				name := "all"
				if by != "" {
					name = by + "=" + c.level(by)
				}
				i := slices.IndexFunc(f.Series, func(l Series) bool { return l.Name == name })
				if i < 0 {
					i = len(f.Series)
					f.Series = append(f.Series, Series{Name: name})
				}
				f.Series[i].Points = append(f.Series[i].Points, Point{s.xOf(c), k.of(c)})
			}
			g.add(k.kind, gr.name, f.Title, f)
		}
	}
}

// trials adds every trial of every cell, as many cells a picture as it holds.
func (s *sorter) trials(g *gallery) {
	for _, k := range []struct {
		kind    string
		title   string
		measure string
		unit    Unit
		higher  string
		pick    func(Cell) bool
		of      func(Cell) Value
	}{
		{"trials-throughput", "Every trial: delivered MB/s", "delivered, all subscribers", BytesPerSec, "better",
			func(c Cell) bool { return c.Throughput && c.Payload > 0 }, func(c Cell) Value { return c.BytesPerSec }},
		{"trials-rate", "Every trial: messages delivered per second", "delivered, all subscribers", MsgsPerSec, "better",
			func(c Cell) bool { return c.Throughput && c.Payload == 0 }, func(c Cell) Value { return c.MsgsPerSec }},
		{"trials-latency", "Every trial: median latency", "p50 end-to-end latency", Nanoseconds, "worse",
			func(c Cell) bool { return !c.Throughput }, func(c Cell) Value { return c.P50 }},
	} {
		for _, gr := range s.groupsBySource(k.pick) {
			part, parts := 0, (len(gr)+MostRows-1)/MostRows
			for some := range slices.Chunk(gr, MostRows) {
				part++
				f := &Trials{
					Title: k.title, Caption: common(some), Source: some[0].Source, Shape: some[0].Shape,
					Measure: k.measure, Unit: k.unit, HigherIs: k.higher,
				}
				name := ""
				if parts > 1 {
					f.Title = fmt.Sprintf("%s (%d of %d)", f.Title, part, parts)
					name = fmt.Sprintf("part %02d", part)
				}
				own := newSorter(some)
				for _, c := range some {
					row := TrialRow{Name: own.text(c, false), Value: k.of(c), Dots: c.Trials, Slow: c.Slow, Marks: c.Marks}
					if row.Name == "" {
						row.Name = own.text(c, true, "")
					}
					f.Rows = append(f.Rows, row)
				}
				g.add(k.kind, name, f.Title, f)
			}
		}
	}
}

// groupsBySource puts cells together that share source and shape.
func (s *sorter) groupsBySource(pick func(Cell) bool) [][]Cell {
	var out [][]Cell
	for _, c := range s.cells {
		if !pick(c) {
			continue
		}
		i := slices.IndexFunc(out, func(g []Cell) bool { return g[0].Source == c.Source && g[0].Shape == c.Shape })
		if i < 0 {
			i = len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// common names what all cells share, if there are several.
func common(cells []Cell) string {
	if len(cells) < 2 {
		return ""
	}
	s := newSorter(cells)
	return s.text(cells[0], true, s.varies...)
}
