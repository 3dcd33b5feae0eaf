package chart

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Trials draws every trial as a dot, a row a cell, in the order they ran from top to bottom of the row; beside them the
// median with its interval, and which trials were in a slow mode. A median never stands alone.
type Trials struct {
	Title    string
	Caption  string
	Source   Source
	Shape    Shape
	Measure  string // "delivered", "p50"
	Unit     Unit
	HigherIs string // "better" or "worse"
	Rows     []TrialRow
	Notes    []string
}

// MostRows is how many rows one picture holds.
const MostRows = 22

// TrialRow is one cell.
type TrialRow struct {
	Name  string
	Value // of the valid trials
	Dots  []Dot
	Slow  string // the share of slow trials with its interval: "slow 1/5 [1 %, 72 %]"; "" if none was slow
	Marks string // what stands against publishing: "n<5, noisy"
}

// Dot is one trial.
type Dot struct {
	Value float64 // NaN: it has no figure
	Kind  DotKind
}

// DotKind is how a trial is to be taken.
type DotKind int

// The kinds.
const (
	DotValid      DotKind = iota
	DotNoisy              // valid, but the machine did something else
	DotSlow               // valid, and in a slow mode
	DotSuperseded         // valid but noisy, and repeated: in no figure
	DotInvalid            // may not be believed: in no figure
	DotFailed             // left no figure
)

var dotLooks = []struct {
	glyph glyph
	clr   color.NRGBA
	text  string
}{
	DotValid:      {glyph{shape: circle}, blue, "valid"},
	DotNoisy:      {glyph{shape: circle, hollow: true}, blue, "valid, machine noisy"},
	DotSlow:       {glyph{shape: triangleDown}, vermillion, "valid, slow mode"},
	DotSuperseded: {glyph{shape: square, hollow: true}, light, "noisy and repeated, in no figure"},
	DotInvalid:    {glyph{shape: cross}, black, "invalid, in no figure"},
	DotFailed:     {glyph{shape: cross}, light, "failed or interrupted, no figure"},
}

func (f *Trials) frame() (frame, string) {
	if len(f.Rows) > MostRows {
		return frame{}, fmt.Sprintf("%d rows, more than the %d of one picture", len(f.Rows), MostRows)
	}
	var xs []float64
	kinds := map[DotKind]bool{}
	var values []Value
	drawn, without := 0, 0
	for _, r := range f.Rows {
		values = append(values, r.Value)
		if r.absence() == present {
			xs = append(xs, r.Low, r.High)
		}
		for _, d := range r.Dots {
			kinds[d.Kind] = true
			if d.Value > 0 && !math.IsInf(d.Value, 0) {
				xs = append(xs, d.Value)
				drawn++
			} else {
				without++
			}
		}
	}
	if drawn == 0 {
		if without > 0 {
			return frame{}, fmt.Sprintf("%s, none with a figure above 0", countOf(without, "trial"))
		}
		return frame{}, "no trials"
	}
	var texts []rowText
	for _, r := range f.Rows {
		texts = append(texts, r.text(f.Unit))
	}
	l := layoutRows(texts)
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source, height: l.size(), n: trials(values, "a row"),
	}
	fr.caveat, fr.strong = f.Shape.caveat(f.Unit == Nanoseconds)
	for k, look := range dotLooks {
		if kinds[DotKind(k)] {
			fr.legend = append(fr.legend, legendItem{text: look.text, style: draw.LineStyle{Color: look.clr}, glyph: look.glyph})
		}
	}
	fr.legend = append(fr.legend, legendItem{text: "median", style: draw.LineStyle{Color: black, Width: 1.6}},
		legendItem{text: "its 95 % interval", style: draw.LineStyle{Color: band}, fill: true})
	fr.notes = append(fr.notes, "Within a row the first trial is on top, the last at the bottom. The interval is the range where n < 6.")
	if f.HigherIs != "" {
		fr.notes[0] += " Higher is " + f.HigherIs + "."
	}
	if without > 0 {
		fr.notes = append(fr.notes, "Left of the axis: how many trials have no figure (×), or 0, which has no place on a log axis.")
	}
	fr.notes = append(fr.notes, f.clipped(logScale(xs, 0, 1))...)
	fr.notes = append(fr.notes, f.Notes...)
	fr.draw = func(c draw.Canvas) { f.draw(c, l, xs, without > 0) }
	return fr, ""
}

func (f *Trials) clipped(x scale) []string {
	var out []string
	for _, r := range f.Rows {
		for _, d := range r.Dots {
			if d.Value > 0 && x.at(d.Value) < -1e-9 || math.IsInf(d.Value, 1) {
				out = append(out, fmt.Sprintf("%s of %s", f.Unit.text(d.Value), r.Name))
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []string{"Clipped at the edge (arrows): " + strings.Join(out, "; ") + "."}
}

// text is what stands beside the row.
func (r TrialRow) text(u Unit) rowText {
	var figure string
	switch r.absence() {
	case present:
		figure = fmt.Sprintf("%s  n=%d", u.text(r.Median), r.N)
	case isZero:
		figure = fmt.Sprintf("0  n=%d", r.N)
	case allInvalid:
		figure = fmt.Sprintf("all %d invalid", r.Invalid)
	case isNaN:
		figure = fmt.Sprintf("n/a  n=%d", r.N)
	default:
		figure = "not measured"
	}
	return rowText{
		left:  []styled{{labelWords, r.Name}},
		right: []styled{{labelWords, figure}, {smallWords.in(warning), r.Slow}, {smallWords, r.Marks}},
	}
}

const zeroGutter = 0.1 // left of the axis, for trials without a place on it

func (f *Trials) draw(c draw.Canvas, l rowLayout, xs []float64, gutter bool) {
	from := 0.0
	if gutter {
		from = zeroGutter
	}
	x := logScale(xs, from, 1)
	p := axes()
	p.X.Label.Text = fmt.Sprintf("%s (%s, log scale)", f.Measure, f.Unit.axis())
	p.X.Tick.Marker = plot.ConstantTicks(x.ticks(f.Unit.tick, 7))
	p.Y.Width, p.Y.Tick.Length = 0, 0
	p.Add(onPlot(l.stripes), grid(p), onPlot(func(c draw.Canvas) {
		if gutter {
			at := c.X(from * 0.9)
			c.StrokeLine2(draw.LineStyle{Color: light, Width: 0.8, Dashes: []vg.Length{2, 2}}, at, c.Min.Y, at, c.Max.Y)
		}
		for i, r := range f.Rows {
			top, mid, bottom := l.span(c, i)
			r.draw(c, x, top, mid, bottom)
			l.write(c, i)
		}
	}))
	p.Draw(draw.Crop(c, l.left, -l.right, 0, 0))
}

func (r TrialRow) draw(c draw.Canvas, x scale, top, mid, bottom vg.Length) {
	const pad, inset = 6, 2.5
	if r.absence() == present {
		at := func(v float64) vg.Length { return c.X(min(max(x.at(v), x.from), 1)) }
		if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
			low, high := at(r.Low)-0.5, at(r.High)+0.5
			c.FillPolygon(band, []vg.Point{{X: low, Y: top - inset}, {X: high, Y: top - inset}, {X: high, Y: bottom + inset}, {X: low, Y: bottom + inset}})
		}
		c.StrokeLine2(draw.LineStyle{Color: black, Width: 1.6}, at(r.Median), top-inset, at(r.Median), bottom+inset)
	}
	zeros, lost := 0, 0
	for i, d := range r.Dots {
		y := mid
		if n := len(r.Dots); n > 1 {
			y = top - pad - (top-bottom-2*pad)*vg.Length(i)/vg.Length(n-1)
		}
		look := dotLooks[d.Kind]
		switch at := x.at(d.Value); {
		case d.Value == 0 && d.Kind != DotFailed:
			zeros++
		case !(d.Value > 0):
			lost++
		case at < x.from-1e-9 || at > 1+1e-9:
			drawSideArrow(c, look.clr, c.X(min(max(at, x.from), 1)), y, at > 1)
		default:
			drawGlyph(c, look.glyph, look.clr, 2.5, c.X(at), y)
		}
	}
	// How many of each have no place on the axis; one mark each would hide the others.
	var text string
	switch {
	case zeros > 0 && lost > 0:
		text = fmt.Sprintf("%s %s", times(zeros, "0"), times(lost, absences[allInvalid].mark))
	case zeros > 0:
		text = times(zeros, "0")
	case lost > 0:
		text = times(lost, absences[allInvalid].mark)
	}
	boldWords.draw(c, c.X(x.from*0.45), mid-boldWords.middle(), centre, text)
}

func times(n int, mark string) string {
	if n == 1 {
		return mark
	}
	return fmt.Sprintf("%s (%d)", mark, n)
}

// drawSideArrow points out of the plot, its tip at x.
func drawSideArrow(c draw.Canvas, clr color.NRGBA, x, y vg.Length, toRight bool) {
	back := vg.Length(6)
	if toRight {
		back = -6
	}
	c.FillPolygon(clr, []vg.Point{{X: x, Y: y}, {X: x + back, Y: y + 3}, {X: x + back, Y: y - 3}})
}
