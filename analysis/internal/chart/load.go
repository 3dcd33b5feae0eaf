package chart

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Load draws what open loops at several rates came to. As a plateau: what was delivered, how late, and what was dropped
// where, against what was offered. As a load curve: the latency against what was offered, and against what was
// delivered, which is where a system that saturates turns up.
type Load struct {
	Title   string
	Caption string
	Source  Source
	Shape   Shape
	Curve   bool // a load curve; else the plateau
	Points  []LoadPoint
	Notes   []string
}

// LoadPoint is one rate.
type LoadPoint struct {
	Offered     float64 // messages/s of all publishers
	Subscribers int     // that each of them is for
	Delivered   Value   // messages/s of all subscribers
	P50, P99    Value
	Dropped     [4]Value // of what was expected, in %: ingress, subscriber queue, writer, client
}

// droppedAt names the checkpoints of LoadPoint.Dropped.
var droppedAt = [4]string{"ingress (3, 4)", "subscriber queue (5)", "writer (6)", "client (7)"}

// loadPanel is one stretch of the picture, with an x axis of its own.
type loadPanel struct {
	panel
	xName  string
	points [][]loadMark // by line
}

type loadMark struct {
	x float64
	v Value
}

func (f *Load) panels() []loadPanel {
	line := func(of func(LoadPoint) Value, x func(LoadPoint) float64) (marks []loadMark) {
		for _, p := range f.Points {
			marks = append(marks, loadMark{x(p), of(p)})
		}
		slices.SortStableFunc(marks, func(a, b loadMark) int { return compareFloat(a.x, b.x) })
		return marks
	}
	offered := func(p LoadPoint) float64 { return p.Offered }
	delivered := func(p LoadPoint) float64 { return p.Delivered.Median }
	latency := func(name, xName string, x func(LoadPoint) float64) loadPanel {
		return newLoadPanel(panel{name: f.Shape.quantity() + name, unit: Nanoseconds, log: true}, xName, []string{"p99", "p50"},
			line(func(p LoadPoint) Value { return p.P99 }, x), line(func(p LoadPoint) Value { return p.P50 }, x))
	}
	if f.Curve {
		return []loadPanel{
			latency(" against what was offered", "offered (msg/s, log scale)", offered),
			latency(" against what was delivered", "delivered to all subscribers (msg/s, log scale)", delivered),
		}
	}
	whole := func(p LoadPoint) Value {
		v := p.Offered * float64(p.Subscribers)
		return Value{Median: v, Low: math.NaN(), High: math.NaN(), N: 1}
	}
	out := []loadPanel{
		newLoadPanel(panel{name: "delivered to all subscribers", unit: MsgsPerSec, log: true}, "", []string{"delivered", "offered"},
			line(func(p LoadPoint) Value { return p.Delivered }, offered), line(whole, offered)),
		latency("", "", offered),
	}
	drops := newLoadPanel(panel{name: "dropped", unit: Percent}, "offered (msg/s, log scale)", nil)
	for i, name := range droppedAt {
		drops.lines = append(drops.lines, panelLine{name: name})
		drops.points = append(drops.points, line(func(p LoadPoint) Value { return p.Dropped[i] }, offered))
	}
	drops.fill()
	return append(out, drops)
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func newLoadPanel(p panel, xName string, names []string, points ...[]loadMark) loadPanel {
	l := loadPanel{panel: p, xName: xName, points: points}
	for _, name := range names {
		l.lines = append(l.lines, panelLine{name: name})
	}
	l.fill()
	return l
}

// fill gives the panel's scale every value and interval that it has to hold.
func (l *loadPanel) fill() {
	for i, marks := range l.points {
		for _, m := range marks {
			if !l.drawn(m.v) {
				continue
			}
			for _, v := range []float64{m.v.Median, m.v.Low, m.v.High} {
				l.lines[i].pts = append(l.lines[i].pts, [2]float64{m.x, v})
			}
		}
	}
}

// drawn reports whether a value has a place: on a linear axis 0 has one.
func (l *loadPanel) drawn(v Value) bool {
	a := v.absence()
	return a == present || a == isZero && !l.log
}

func (f *Load) frame() (frame, string) {
	rates := map[float64]bool{}
	for _, p := range f.Points {
		if p.Delivered.absence() == present {
			rates[p.Offered] = true
		}
	}
	if len(rates) < 2 {
		return frame{}, "fewer than two rates were measured"
	}
	panels := slices.DeleteFunc(f.panels(), func(l loadPanel) bool { return !l.known() })
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source,
		height: vg.Length(len(panels)) * (panelHeight + 24), draw: func(c draw.Canvas) { drawLoad(c, panels) },
	}
	if f.Curve {
		fr.height += 60
	}
	fr.caveat, fr.strong = f.Shape.caveat(true)
	var values []Value
	hollow := false
	for _, p := range f.Points {
		values = append(values, p.Delivered)
		hollow = hollow || p.Delivered.Doubtful
	}
	fr.n = trials(values, "a point")
	fr.notes = append(fr.notes, "A point is the median of the valid trials at one rate, its line the interval of that median. Latency is of what was delivered.")
	if hollow {
		fr.notes = append(fr.notes, "Hollow: not to be quoted (too few trials, noise or spread).")
	}
	fr.notes = append(fr.notes, f.Notes...)
	return fr, ""
}

// xScale covers the places of all marks.
func (l *loadPanel) xScale() scale {
	var xs []float64
	for _, marks := range l.points {
		for _, m := range marks {
			xs = append(xs, m.x)
		}
	}
	s := logScale(xs, 0.03, 0.97)
	return s
}

func drawLoad(c draw.Canvas, panels []loadPanel) {
	plots := make([][]*plot.Plot, len(panels))
	for i := range panels {
		l := &panels[i]
		p := axes()
		x, y := l.xScale(), l.scale()
		p.X.Tick.Marker = plot.ConstantTicks(x.ticks(MsgsPerSec.tick, 11))
		p.X.Label.Text = l.xName
		p.Y.Tick.Marker = plot.ConstantTicks(y.ticks(l.tick(), 4))
		p.Add(grid(p), onPlot(func(c draw.Canvas) { l.drawMarks(c, x, y) }))
		plots[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: 18, PadTop: 16, PadRight: 14}
	for i, row := range plot.Align(plots, tiles, c) {
		plots[i][0].Draw(row[0])
		panels[i].header(c, plots[i][0].DataCanvas(row[0]))
	}
}

func (l *loadPanel) drawMarks(c draw.Canvas, x, y scale) {
	place := func(v float64) vg.Length { return c.Y(min(max(y.at(v), 0), 1)) }
	for i, marks := range slices.Backward(l.points) { // the first line lies on top
		st := styleOf(i)
		var run []vg.Point
		for _, m := range marks {
			if !l.drawn(m.v) || math.IsNaN(m.x) {
				strokeLine(c, st.line(1.3), run)
				run = nil
				continue
			}
			run = append(run, vg.Point{X: c.X(x.at(m.x)), Y: place(m.v.Median)})
		}
		strokeLine(c, st.line(1.3), run)
	}
	for i, marks := range slices.Backward(l.points) {
		st := styleOf(i)
		for _, m := range marks {
			if !l.drawn(m.v) || math.IsNaN(m.x) {
				continue
			}
			at := c.X(x.at(m.x))
			if !math.IsNaN(m.v.Low) && !math.IsNaN(m.v.High) {
				c.StrokeLine2(draw.LineStyle{Color: st.color, Width: 1}, at, place(m.v.Low), at, place(m.v.High))
			}
			drawGlyph(c, st.glyph(m.v.Doubtful), st.color, 2.6, at, place(m.v.Median))
		}
	}
}

// rateFactor is what load pictures are drawn against.
const rateFactor = "rate"

// loads adds a plateau for cells marked overload, and a load curve, of every group of open loops that differ in their
// rate alone.
func (s *sorter) loads(g *gallery) {
	open := func(c Cell) bool { return c.Offered > 0 }
	for _, gr := range s.loadGroups(open) {
		first := gr.cells[0]
		var points []LoadPoint
		for _, c := range gr.cells {
			points = append(points, LoadPoint{Offered: c.Offered, Subscribers: c.Subscribers, Delivered: c.MsgsPerSec, P50: c.P50, P99: c.P99, Dropped: c.Dropped})
		}
		shape := first.Shape
		shape.Load = "open loops"
		if first.Overload {
			f := &Load{Title: "Overload plateau: delivered, latency and drops against what was offered", Caption: gr.caption, Source: first.Source, Shape: shape, Points: points}
			g.add("overload", gr.name, f.Title, f)
		}
		f := &Load{Title: "Load curve: latency against offered and delivered rate", Caption: gr.caption, Source: first.Source, Shape: shape, Points: points, Curve: true}
		g.add("load", gr.name, f.Title, f)
	}
}

// loadGroups puts open loops together that agree in everything but the rate; one alone makes no curve.
func (s *sorter) loadGroups(pick func(Cell) bool) []*group {
	var out []*group
	byKey := map[string]*group{}
	for _, c := range s.cells {
		if !pick(c) {
			continue
		}
		key := fmt.Sprintf("%s\x00%s\x00%v\x00%v", s.text(c, true, rateFactor), c.Source, c.Overload, c.Shape.Queueing)
		g := byKey[key]
		if g == nil {
			g = &group{name: s.text(c, false, rateFactor), caption: s.text(c, true, rateFactor)}
			byKey[key] = g
			out = append(out, g)
		}
		g.cells = append(g.cells, c)
	}
	return slices.DeleteFunc(out, func(g *group) bool { return len(g.cells) < 2 })
}
