package chart

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Trend draws one measure of one cell through the sessions that measured it, oldest left, evenly spaced, on a log axis.
// A change point is a line across, and the level on either side of it one along.
type Trend struct {
	Title    string
	Caption  string
	Source   Source // of the newest session
	Shape    Shape
	Measure  string // "delivered", "p99"
	Unit     Unit
	HigherIs string // "better" or "worse"
	Points   []TrendPoint
	Changes  []TrendChange
	Notes    []string
}

// TrendPoint is one session.
type TrendPoint struct {
	Label string // what stands below it: "03-01 0941600"
	Value
}

// TrendChange is where the level changes.
type TrendChange struct {
	At            int     // index of the first point after it
	Before, After float64 // levels on both sides, up to the next changes
	Text          string  // "x1.13 worse"
	Worse         bool
}

// trend is a figure being drawn.
type trend struct {
	*Trend
	y     scale
	floor float64
	rows  int // of marks for what has no value: 0 or 1
}

func (f *Trend) frame() (frame, string) {
	t := trend{Trend: f}
	var ys []float64
	var values []Value
	kinds := map[absence]int{}
	hollow := false
	for _, p := range f.Points {
		values = append(values, p.Value)
		kinds[p.absence()]++
		if p.absence() == present {
			ys = append(ys, p.Median, p.Low, p.High)
			hollow = hollow || p.Doubtful
		}
	}
	if len(ys) == 0 {
		return frame{}, emptyTrend(kinds)
	}
	if kinds[present] < len(f.Points) {
		t.rows = 1
		t.floor = float64((absentRow + 4) / (bodyHeight + absentRow - 45))
	}
	t.y = logScale(ys, t.floor, 1)
	measure := f.Measure
	if f.HigherIs != "" {
		measure += ", higher is " + f.HigherIs
	}
	p := axes()
	p.X.Label.Text = "sessions, oldest first, evenly spaced (not to the scale of time)"
	p.Y.Label.Text = fmt.Sprintf("%s (%s, log scale)", measure, f.Unit.axis())
	p.X.Tick.Marker = plot.ConstantTicks(t.xTicks(p))
	p.Y.Tick.Marker = plot.ConstantTicks(t.y.ticks(f.Unit.tick, 11))
	p.Add(grid(p), onPlot(t.drawAbsent), onPlot(t.drawLevels), onPlot(t.drawPoints))
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source, height: bodyHeight + vg.Length(t.rows)*absentRow, draw: p.Draw,
		n: trials(values, "a session"),
	}
	fr.caveat, fr.strong = f.Shape.caveat(f.Unit == Nanoseconds)
	fr.legend = []legendItem{{text: "median of a session", style: styleOf(0).line(1.2), glyph: styleOf(0).glyph(false)}}
	if len(f.Changes) > 0 {
		fr.legend = append(fr.legend,
			legendItem{text: "level between changes", style: levelLine()},
			legendItem{text: "change for the worse", style: changeLine(true)},
			legendItem{text: "for the better", style: changeLine(false)})
	}
	fr.notes = append(t.explain(kinds, hollow), f.Notes...)
	return fr, ""
}

// emptyTrend says what there is instead of values.
func emptyTrend(kinds map[absence]int) string {
	var parts []string
	for _, a := range []absence{isZero, isNaN, allInvalid, unmeasured} {
		if kinds[a] > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", countOf(kinds[a], "session"), absences[a].meaning))
		}
	}
	if len(parts) == 0 {
		return "no sessions"
	}
	return strings.Join(parts, "; ")
}

func (t *trend) explain(kinds map[absence]int, hollow bool) []string {
	bars := "Bars: 95 % interval of the median over trials (their range where n < 6)."
	if hollow {
		bars += " Hollow: not publishable (too few trials, noise or spread)."
	}
	notes := []string{bars}
	var marks []string
	for _, a := range []absence{isZero, isNaN, allInvalid, unmeasured} {
		if kinds[a] > 0 {
			marks = append(marks, fmt.Sprintf("%s %s", absences[a].mark, absences[a].meaning))
		}
	}
	if len(marks) > 0 {
		notes = append(notes, "Below the plot, no values of the axis: "+strings.Join(marks, "; ")+".")
	}
	var clipped []string
	for _, p := range t.Points {
		if p.absence() == present && t.beyond(p.Median) {
			clipped = append(clipped, fmt.Sprintf("%s is %s", p.Label, t.Unit.text(p.Median)))
		}
	}
	if len(clipped) > 0 {
		const most = 4
		if n := len(clipped); n > most {
			clipped = append(clipped[:most], fmt.Sprintf("%d more", n-most))
		}
		notes = append(notes, "Clipped at the axis (arrows): "+strings.Join(clipped, "; ")+".")
	}
	return notes
}

// xAt is where the i-th session lies; between two of them for halves.
func (t *trend) xAt(i float64) float64 {
	if len(t.Points) == 1 {
		return 0.5
	}
	return 0.04 + 0.92*i/float64(len(t.Points)-1)
}

// xTicks labels sessions as far as there is room, the newest and those where something changes before the others.
func (t *trend) xTicks(p *plot.Plot) []plot.Tick {
	const room = 480 // points of the data area, about
	type span struct{ from, to float64 }
	var taken []span
	labels := map[int]string{}
	try := func(i int) {
		half := float64(p.X.Tick.Label.Width(t.Points[i].Label))/2/room + 0.008
		at := t.xAt(float64(i))
		for _, s := range taken {
			if at-half < s.to && at+half > s.from {
				return
			}
		}
		taken = append(taken, span{at - half, at + half})
		labels[i] = t.Points[i].Label
	}
	for _, c := range t.Changes {
		try(c.At)
	}
	try(len(t.Points) - 1)
	for i := range t.Points {
		if labels[i] == "" {
			try(i)
		}
	}
	var out []plot.Tick
	for i := range t.Points {
		out = append(out, plot.Tick{Value: t.xAt(float64(i)), Label: labels[i]})
	}
	return out
}

func (t *trend) beyond(v float64) bool {
	at := t.y.at(v)
	return math.IsInf(v, 0) || at < t.floor-1e-9 || at > 1+1e-9
}

func (t *trend) clamp(v float64) float64 { return min(max(t.y.at(v), t.floor), 1) }

func levelLine() draw.LineStyle {
	return draw.LineStyle{Color: black, Width: 1.1, Dashes: []vg.Length{5, 3}}
}

func changeLine(worse bool) draw.LineStyle {
	if worse {
		return draw.LineStyle{Color: vermillion, Width: 1.4}
	}
	return draw.LineStyle{Color: green, Width: 1.4, Dashes: []vg.Length{2, 2}}
}

// drawLevels draws changes, with what they say above them, and the levels between.
func (t *trend) drawLevels(c draw.Canvas) {
	from := 0.0
	for i, ch := range t.Changes {
		at := float64(ch.At) - 0.5
		x := c.X(t.xAt(at))
		sty := changeLine(ch.Worse)
		c.StrokeLine2(sty, x, c.Y(t.floor), x, c.Max.Y)
		// Neighbours at two heights, so that they do not lie on each other.
		y := c.Max.Y - labelWords.line()*vg.Length(1+i%2)
		align, dx := float64(left), vg.Length(3)
		if t.xAt(at) > 0.75 {
			align, dx = right, -3
		}
		boldWords.in(sty.Color).draw(c, x+dx, y, align, ch.Text)
		t.drawLevel(c, from, at, ch.Before)
		from = at
		if i == len(t.Changes)-1 {
			t.drawLevel(c, at, float64(len(t.Points)-1), ch.After)
		}
	}
}

func (t *trend) drawLevel(c draw.Canvas, from, to, v float64) {
	if !math.IsNaN(v) && !t.beyond(v) {
		c.StrokeLine2(levelLine(), c.X(t.xAt(from)), c.Y(t.y.at(v)), c.X(t.xAt(to)), c.Y(t.y.at(v)))
	}
}

func (t *trend) drawPoints(c draw.Canvas) {
	st := styleOf(0)
	var run []vg.Point
	for i, p := range t.Points {
		if p.absence() != present || t.beyond(p.Median) {
			strokeLine(c, st.line(1.2), run)
			run = nil
			continue
		}
		run = append(run, vg.Point{X: c.X(t.xAt(float64(i))), Y: c.Y(t.y.at(p.Median))})
	}
	strokeLine(c, st.line(1.2), run)
	for i, p := range t.Points {
		if p.absence() != present {
			continue
		}
		x := c.X(t.xAt(float64(i)))
		if !math.IsNaN(p.Low) && !math.IsNaN(p.High) {
			c.StrokeLine2(draw.LineStyle{Color: st.color, Width: 1}, x, c.Y(t.clamp(p.Low)), x, c.Y(t.clamp(p.High)))
		}
		if t.beyond(p.Median) {
			up := vg.Length(1)
			if t.y.at(p.Median) < t.floor {
				up = -1
			}
			drawArrow(c, st.color, x, c.Y(t.clamp(p.Median)), up)
			continue
		}
		drawGlyph(c, st.glyph(p.Doubtful), st.color, 2.8, x, c.Y(t.y.at(p.Median)))
	}
}

// drawAbsent draws a row below the plot for sessions without a value.
func (t *trend) drawAbsent(c draw.Canvas) {
	if t.rows == 0 {
		return
	}
	base := c.Y(t.floor)
	c.FillPolygon(fainter, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: base - 2}, {X: c.Min.X, Y: base - 2}})
	c.StrokeLine2(draw.LineStyle{Color: light, Width: 0.8}, c.Min.X, base-2, c.Max.X, base-2)
	for i, p := range t.Points {
		if a := p.absence(); a != present {
			boldWords.in(styleOf(0).color).draw(c, c.X(t.xAt(float64(i))), base-2-absentRow/2-boldWords.middle(), centre, absences[a].mark)
		}
	}
}
