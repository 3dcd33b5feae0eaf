package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Levels draws a measure against the levels of a factor, one line a series, both axes logarithmic: latency percentiles
// against payload, the message rate, delivered MB/s. A line breaks where a value is missing.
type Levels struct {
	Title   string
	Caption string // what else the cells have in common
	Source  Source
	Shape   Shape
	Measure string // of the y axis: "delivered"; "" is the time from publish to delivery, as the shape calls it
	Unit    Unit
	Factor  string // of the x axis: "payload"
	XUnit   Unit
	Series  []Series
	Notes   []string
}

// Series is one line. Levels of other series that it lacks are marked as not measured.
type Series struct {
	Name   string
	Points []Point
	Thin   bool // of second rank: drawn without weight
}

// Point is a value at one level.
type Point struct {
	X float64 // 0 has a place of its own, left of the log axis
	Value
}

// bodyHeight is the height of a plot with its axes.
const bodyHeight = vg.Length(300)

// row height of the marks for absent values below the plot.
const absentRow = vg.Length(11)

// levels is a figure being drawn.
type levels struct {
	*Levels
	xs     []float64
	x, y   scale
	hasX0  bool
	absent []int // series with absent values, top to bottom
	floor  float64
	hollow bool
}

const x0At = 0.05 // where level 0 lies

func (l *levels) onlyX0() bool { return l.hasX0 && len(l.xs) == 1 }

func (f *Levels) frame() (frame, string) {
	l := levels{Levels: f}
	if why := l.prepare(); why != "" {
		return frame{}, why
	}
	quantity := f.Measure
	if quantity == "" {
		quantity = f.Shape.quantity()
	}
	p := axes()
	how := "log scale; labels: the levels measured"
	switch {
	case l.onlyX0():
		how = "only 0 was measured, which has no place on a log scale"
	case l.hasX0:
		how = "log scale with a place for 0; labels: the levels measured"
	}
	p.X.Label.Text = fmt.Sprintf("%s (%s, %s)", f.Factor, f.XUnit.axis(), how)
	p.Y.Label.Text = fmt.Sprintf("%s (%s, log scale)", quantity, f.Unit.axis())
	p.X.Tick.Marker = plot.ConstantTicks(l.xTicks(p))
	p.Y.Tick.Marker = plot.ConstantTicks(l.y.ticks(f.Unit.tick, 11))
	p.Add(grid(p), onPlot(l.drawAbsent), onPlot(l.drawSeries))

	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source,
		height: bodyHeight + vg.Length(len(l.absent))*absentRow, draw: p.Draw,
	}
	fr.caveat, fr.strong = f.Shape.caveat(f.Unit == Nanoseconds)
	for i, s := range f.Series {
		st := styleOf(i)
		fr.legend = append(fr.legend, legendItem{text: s.Name, style: st.line(l.weight(s)), glyph: st.glyph(false)})
	}
	fr.n = trials(l.values(), "a point")
	fr.notes = append(l.explain(), f.Notes...)
	return fr, ""
}

// values are those of all trials, once: the percentiles of a cell are of the same trials.
func (l *levels) values() []Value {
	var out []Value
	for i := range l.Series {
		for _, x := range l.xs {
			out = append(out, l.point(i, x))
			if l.Unit == Nanoseconds && i > 0 {
				out[len(out)-1].Invalid = 0
			}
		}
	}
	return out
}

func (l *levels) weight(s Series) vg.Length {
	if s.Thin {
		return 1
	}
	return 1.6
}

// prepare finds the levels and the ranges.
func (l *levels) prepare() string {
	if len(l.Series) > MostSeries {
		return fmt.Sprintf("%d series, more than the %d that can be told apart", len(l.Series), MostSeries)
	}
	levelSet := map[float64]bool{}
	var ys []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			levelSet[p.X] = true
			if p.absence() == present {
				ys = append(ys, p.Median, p.Low, p.High)
				l.hollow = l.hollow || p.Doubtful
			}
		}
	}
	if len(ys) == 0 {
		return l.whyEmpty()
	}
	for x := range levelSet {
		l.xs = append(l.xs, x)
	}
	slices.Sort(l.xs)
	l.hasX0 = l.xs[0] <= 0
	from := 0.06
	if l.hasX0 {
		from = 0.15
	}
	var positive []float64
	for _, x := range l.xs {
		if x > 0 {
			positive = append(positive, x)
		}
	}
	l.x = scale{low: 1, high: 10, from: from, to: 0.94, log: true}
	switch len(positive) {
	case 0:
	case 1:
		l.x = scale{low: positive[0] / 10, high: positive[0] * 10, from: from, to: 0.94, log: true}
	default:
		l.x = scale{low: positive[0], high: positive[len(positive)-1], from: from, to: 0.94, log: true}
	}
	for i := range l.Series {
		if slices.ContainsFunc(l.xs, func(x float64) bool { return l.point(i, x).absence() != present }) {
			l.absent = append(l.absent, i)
		}
	}
	rows := vg.Length(len(l.absent)) * absentRow
	if rows > 0 {
		l.floor = float64((rows + 4) / (bodyHeight + rows - 45)) // of the data area, about
	}
	l.y = logScale(ys, l.floor, 1)
	return ""
}

// point returns a series' value at a level; an empty one if it has none.
func (l *levels) point(series int, x float64) Value {
	for _, p := range l.Series[series].Points {
		if p.X == x {
			return p.Value
		}
	}
	return Value{Median: math.NaN()}
}

func (l *levels) xAt(x float64) float64 {
	switch {
	case l.onlyX0():
		return 0.5
	case x <= 0:
		return x0At
	}
	return l.x.at(x)
}

// xTicks labels the levels, as far as there is room, and marks 1 to 9 of each decade.
func (l *levels) xTicks(p *plot.Plot) []plot.Tick {
	var out []plot.Tick
	end := math.Inf(-1)
	const room = 480 // points of the data area, about
	for _, x := range l.xs {
		label := l.XUnit.tick(x)
		if x <= 0 {
			label = "0"
		}
		half := float64(p.X.Tick.Label.Width(label))/2/room + 0.006
		at := l.xAt(x)
		if at-half < end {
			out = append(out, plot.Tick{Value: at})
			continue
		}
		out = append(out, plot.Tick{Value: at, Label: label})
		end = at + half
	}
	if l.onlyX0() {
		return out
	}
	minor := scale{low: l.x.low / 1.6, high: l.x.high * 1.6, log: true}
	for _, v := range minor.within(tickLevels[2]) {
		if at := l.x.at(v); at > 0 && at < 1 && (!l.hasX0 || at > x0At+0.04) {
			out = append(out, plot.Tick{Value: at})
		}
	}
	return out
}

// dodge moves the i-th series aside, so that intervals do not hide each other.
func (l *levels) dodge(i int) vg.Length {
	n := len(l.Series)
	return (vg.Length(i) - vg.Length(n-1)/2) * min(3.2, 16/vg.Length(max(n, 1)))
}

func (l *levels) drawSeries(c draw.Canvas) {
	if l.hasX0 && !l.onlyX0() {
		l.drawBreak(c)
	}
	for i, s := range l.Series {
		st := styleOf(i)
		var run []vg.Point
		for _, x := range l.xs {
			v := l.point(i, x)
			if v.absence() != present || x <= 0 || l.beyond(v.Median) { // nor to 0, which has no place on the scale
				strokeLine(c, st.line(l.weight(s)), run)
				run = nil
			} else {
				run = append(run, vg.Point{X: c.X(l.xAt(x)) + l.dodge(i), Y: c.Y(l.clamp(v.Median))})
			}
		}
		strokeLine(c, st.line(l.weight(s)), run)
	}
	for i := range l.Series {
		st := styleOf(i)
		for _, x := range l.xs {
			if v := l.point(i, x); v.absence() == present {
				l.drawPoint(c, st, c.X(l.xAt(x))+l.dodge(i), v)
			}
		}
	}
}

// beyond reports whether a value lies outside the axis.
func (l *levels) beyond(v float64) bool {
	at := l.y.at(v)
	return math.IsInf(v, 0) || at < l.floor-1e-9 || at > 1+1e-9
}

func (l *levels) clamp(v float64) float64 {
	return min(max(l.y.at(v), l.floor), 1)
}

func (l *levels) drawPoint(c draw.Canvas, st seriesStyle, x vg.Length, v Value) {
	sty := draw.LineStyle{Color: st.color, Width: 1}
	below := l.beyond(v.Low) && l.beyond(v.High) && l.y.at(v.High) < 0.5
	if !math.IsNaN(v.Low) && !math.IsNaN(v.High) && !below {
		low, high := c.Y(l.clamp(v.Low)), c.Y(l.clamp(v.High))
		c.StrokeLine2(sty, x, low, x, high)
		for _, end := range []struct {
			v  float64
			y  vg.Length
			up vg.Length
		}{{v.Low, low, -1}, {v.High, high, 1}} {
			if l.beyond(end.v) {
				drawArrow(c, st.color, x, end.y, end.up)
			} else {
				c.StrokeLine2(sty, x-2.5, end.y, x+2.5, end.y)
			}
		}
	}
	if l.beyond(v.Median) {
		up := vg.Length(1)
		if l.y.at(v.Median) < l.floor {
			up = -1
		}
		y := c.Y(l.clamp(v.Median))
		drawArrow(c, st.color, x, y, up)
		labelWords.in(st.color).draw(c, x+6, y-up*7-labelWords.middle(), left, l.Unit.text(v.Median))
		return
	}
	drawGlyph(c, st.glyph(v.Doubtful), st.color, 3.1, x, c.Y(l.y.at(v.Median)))
}

// drawArrow points out of the plot, its tip at y.
func drawArrow(c draw.Canvas, clr color.Color, x, y, up vg.Length) {
	c.FillPolygon(clr, []vg.Point{{X: x, Y: y}, {X: x - 3, Y: y - up*6}, {X: x + 3, Y: y - up*6}})
}

// drawBreak parts the place of level 0 from the log axis.
func (l *levels) drawBreak(c draw.Canvas) {
	x := c.X((x0At + l.x.from) / 2)
	c.StrokeLine2(draw.LineStyle{Color: light, Width: 0.8, Dashes: []vg.Length{2, 2}}, x, c.Min.Y, x, c.Max.Y)
}

// drawAbsent draws a row below the plot for each series that lacks values.
func (l *levels) drawAbsent(c draw.Canvas) {
	if len(l.absent) == 0 {
		return
	}
	base := c.Y(l.floor)
	c.FillPolygon(fainter, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: base - 2}, {X: c.Min.X, Y: base - 2}})
	c.StrokeLine2(draw.LineStyle{Color: light, Width: 0.8}, c.Min.X, base-2, c.Max.X, base-2)
	for row, i := range l.absent {
		st := styleOf(i)
		y := base - 2 - absentRow*(vg.Length(row)+0.5)
		drawGlyph(c, st.glyph(false), st.color, 2.4, c.Min.X+5, y)
		for _, x := range l.xs {
			a := l.point(i, x).absence()
			if a == present {
				continue
			}
			boldWords.in(st.color).draw(c, c.X(l.xAt(x)), y-boldWords.middle(), centre, absences[a].mark)
		}
	}
}
