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

// Forest draws a comparison: for every cell and metric the ratio of two arms with its interval, the line of no
// difference, and the margins on the side that is worse for the metric.
type Forest struct {
	Title      string
	Caption    string // how it was compared: "paired, 20 pairs"; "unpaired sessions share no drift control"
	Source     Source // of the head
	BaseSource Source
	Base, Head string // names of the arms
	Shape      Shape
	FailMargin float64 // 0.05: worse by more than that fails; 0 draws none
	PassMargin float64 // 0.10: less worse than that passes; 0 draws none
	Rows       []ForestRow
	Notes      []string
}

// ForestRow is one metric of one cell.
type ForestRow struct {
	Cell, Metric   string
	HigherIsBetter bool
	Ratio          float64 // head / base; NaN: not known
	Low, High      float64 // its interval; NaN: none
	N              int     // pairs, or the smaller number of trials
	Judgement      Judgement
	Note           string // "new slow mode", "missing in head", …
}

// Judgement of a row.
type Judgement int

// The judgements.
const (
	NotJudged Judgement = iota
	Pass
	Fail
	Inconclusive
)

// looks of a judgement; the word is printed beside the row as well.
var judgementLooks = []struct {
	glyph glyph
	clr   color.NRGBA
	text  color.NRGBA
	word  string
}{
	NotJudged:    {glyph{shape: circle}, black, black, ""},
	Pass:         {glyph{shape: circle}, blue, blue, "pass"},
	Fail:         {glyph{shape: square}, vermillion, warning, "FAIL"},
	Inconclusive: {glyph{shape: diamond, hollow: true}, grey, grey, "inconclusive"},
}

// ratios beyond this are clipped, in both directions.
const mostRatio = 10.0

func (f *Forest) frame() (frame, string) {
	if len(f.Rows) > MostRows {
		return frame{}, fmt.Sprintf("%d rows, more than the %d of one picture", len(f.Rows), MostRows)
	}
	n := 0
	kinds := map[Judgement]bool{}
	for _, r := range f.Rows {
		if r.known() {
			n++
			kinds[r.Judgement] = true
		}
	}
	if n == 0 {
		if len(f.Rows) > 0 {
			return frame{}, fmt.Sprintf("%s, none with a ratio", countOf(len(f.Rows), "row"))
		}
		return frame{}, "nothing was compared"
	}
	var texts []rowText
	for _, r := range f.Rows {
		texts = append(texts, r.text())
	}
	l := layoutRows(texts)
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source,
		height: l.size(), draw: func(c draw.Canvas) { f.draw(c, l) },
	}
	fr.caveat, fr.strong = f.Shape.caveat(false)
	for j, look := range judgementLooks {
		if kinds[Judgement(j)] && look.word != "" {
			fr.legend = append(fr.legend, legendItem{text: look.word, style: draw.LineStyle{Color: look.clr}, glyph: look.glyph})
		}
	}
	fr.legend = append(fr.legend, legendItem{text: "95 % interval", style: draw.LineStyle{Color: black, Width: 1.6}})
	if f.FailMargin > 0 {
		fr.legend = append(fr.legend, legendItem{text: fmt.Sprintf("worse by more than %s: fails", percent(f.FailMargin)), style: draw.LineStyle{Color: badZone}, fill: true})
	}
	if f.PassMargin > 0 {
		fr.legend = append(fr.legend, legendItem{text: fmt.Sprintf("worse by %s: must be excluded to pass", percent(f.PassMargin)), style: draw.LineStyle{Color: vermillion, Width: 0.9, Dashes: []vg.Length{2, 2}}})
	}
	fr.notes = append(fr.notes, fmt.Sprintf("Base of the ratio: %s (%s). The line at 1 is no difference.", f.Base, f.BaseSource))
	if clipped := f.clipped(); clipped != "" {
		fr.notes = append(fr.notes, clipped)
	}
	fr.notes = append(fr.notes, f.Notes...)
	low, high := math.MaxInt, 0
	for _, r := range f.Rows {
		if r.known() {
			low, high = min(low, r.N), max(high, r.N)
		}
	}
	fr.n = fmt.Sprintf("n = %d a row", high)
	if low != high {
		fr.n = fmt.Sprintf("n = %d to %d a row", low, high)
	}
	return fr, ""
}

func percent(share float64) string { return number(100*share) + " %" }

func (r ForestRow) known() bool { return r.Ratio > 0 && !math.IsInf(r.Ratio, 0) }

// scale covers the ratios and the margins, symmetric enough that 1 is inside.
func (f *Forest) scale() scale {
	low, high := 0.85, 1/0.85
	for _, r := range f.Rows {
		if !r.known() {
			continue
		}
		for _, v := range []float64{r.Ratio, r.Low, r.High} {
			if v > 0 && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	low, high = max(low, 1/mostRatio), min(high, mostRatio)
	air := math.Pow(high/low, 0.04)
	return scale{low: low / air, high: high * air, to: 1, log: true}
}

func (f *Forest) clipped() string {
	x := f.scale()
	for _, r := range f.Rows {
		if !r.known() {
			continue
		}
		for _, v := range []float64{r.Ratio, r.Low, r.High} {
			if at := x.at(v); !math.IsNaN(v) && (at < 0 || at > 1) {
				return "Arrows: clipped at the edge of the axis; the numbers stand on the right."
			}
		}
	}
	return ""
}

// text is what stands beside the row.
func (r ForestRow) text() rowText {
	var first, second string
	if !r.known() {
		first = "n/a"
		if r.Ratio == 0 {
			first = "0"
		}
	} else {
		first = ratioText(r.Ratio)
		if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
			first += fmt.Sprintf(" [%s, %s]", ratioText(r.Low), ratioText(r.High))
		}
	}
	first += fmt.Sprintf("  n=%d", r.N)
	second = judgementLooks[r.Judgement].word
	if r.Note != "" {
		if second != "" {
			second += ": "
		}
		second += r.Note
	}
	return rowText{
		left:  []styled{{labelWords, r.Cell}, {smallWords, r.metricText()}},
		right: []styled{{labelWords, first}, {smallWords.in(judgementLooks[r.Judgement].text), second}},
	}
}

// ratioText prints a ratio so that a difference of 0.1 % shows.
func ratioText(v float64) string {
	if v >= 0.1 && v < 10 {
		return fmt.Sprintf("%.3f", v)
	}
	return number(v)
}

// metricText names the metric with its direction.
func (r ForestRow) metricText() string {
	if r.HigherIsBetter {
		return r.Metric + " (higher is better)"
	}
	return r.Metric + " (lower is better)"
}

func (f *Forest) draw(c draw.Canvas, l rowLayout) {
	x := f.scale()
	p := axes()
	p.X.Label.Text = fmt.Sprintf("%s / %s (ratio, log scale)", f.Head, f.Base)
	p.X.Tick.Marker = plot.ConstantTicks(x.ticks(ratioTick, 7))
	p.Y.Width, p.Y.Tick.Length = 0, 0
	p.Add(onPlot(func(c draw.Canvas) {
		l.stripes(c)
		for i, r := range f.Rows {
			top, _, bottom := l.span(c, i)
			f.drawZone(c, x, r, top, bottom)
		}
	}), grid(p), onPlot(func(c draw.Canvas) {
		for i, r := range f.Rows {
			top, _, bottom := l.span(c, i)
			f.drawPassMargin(c, x, r, top, bottom)
		}
		c.StrokeLine2(draw.LineStyle{Color: black, Width: 1.2}, c.X(x.at(1)), c.Min.Y, c.X(x.at(1)), c.Max.Y)
		for i, r := range f.Rows {
			_, mid, _ := l.span(c, i)
			r.draw(c, x, mid)
			l.write(c, i)
		}
	}))
	p.Draw(draw.Crop(c, l.left, -l.right, 0, 0))
}

func ratioTick(v float64) string {
	if v >= 0.1 && v < 10 {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
	}
	return number(v)
}

// worse is the ratio at which the row's metric is worse by the margin.
func (r ForestRow) worse(by float64) float64 {
	if r.HigherIsBetter {
		return 1 / (1 + by)
	}
	return 1 + by
}

// drawZone shades what fails, on the side that is worse for this metric.
func (f *Forest) drawZone(c draw.Canvas, x scale, r ForestRow, top, bottom vg.Length) {
	edge := c.Max.X
	if r.HigherIsBetter {
		edge = c.Min.X
	}
	if at := x.at(r.worse(f.FailMargin)); f.FailMargin > 0 && at > 0 && at < 1 {
		c.FillPolygon(badZone, []vg.Point{{X: c.X(at), Y: top}, {X: edge, Y: top}, {X: edge, Y: bottom}, {X: c.X(at), Y: bottom}})
	}
}

// drawPassMargin marks what the interval must exclude to pass.
func (f *Forest) drawPassMargin(c draw.Canvas, x scale, r ForestRow, top, bottom vg.Length) {
	if at := x.at(r.worse(f.PassMargin)); f.PassMargin > 0 && at > 0 && at < 1 {
		c.StrokeLine2(draw.LineStyle{Color: vermillion, Width: 0.9, Dashes: []vg.Length{2, 2}}, c.X(at), bottom, c.X(at), top)
	}
}

func (r ForestRow) draw(c draw.Canvas, x scale, mid vg.Length) {
	if !r.known() {
		return
	}
	look := judgementLooks[r.Judgement]
	clamp := func(v float64) float64 { return min(max(x.at(v), 0), 1) }
	if !math.IsNaN(r.Low) && !math.IsNaN(r.High) {
		c.StrokeLine2(draw.LineStyle{Color: look.clr, Width: 1.6}, c.X(clamp(r.Low)), mid, c.X(clamp(r.High)), mid)
		for _, v := range []float64{r.Low, r.High} {
			if at := x.at(v); at < 0 || at > 1 {
				drawSideArrow(c, look.clr, c.X(clamp(v)), mid, at > 1)
			} else {
				c.StrokeLine2(draw.LineStyle{Color: look.clr, Width: 1.2}, c.X(at), mid-3, c.X(at), mid+3)
			}
		}
	}
	if at := x.at(r.Ratio); at < 0 || at > 1 {
		drawSideArrow(c, look.clr, c.X(clamp(r.Ratio)), mid, at > 1)
		return
	}
	drawGlyph(c, look.glyph, look.clr, 3.4, c.X(x.at(r.Ratio)), mid)
}
