package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// frame is everything around the plot: what it shows, how it is to be read, and where its numbers come from.
type frame struct {
	title   string
	caption string // what the marks are
	caveat  string // of the load shape
	strong  bool   // a caveat that must not be missed
	legend  []legendItem
	notes   []string
	source  Source
	n       string // what the figures are made of
	height  vg.Length
	draw    func(draw.Canvas)
}

// legendItem explains one mark: a line, a glyph, or both.
type legendItem struct {
	text  string
	style draw.LineStyle // no line if its width is 0
	glyph draw.GlyphDrawer
	fill  bool // a patch of the colour instead
}

const (
	margin    = vg.Length(12)
	lineSpan  = vg.Length(20) // of a line in the legend
	legendGap = vg.Length(14)
)

// block is text of one kind.
type block struct {
	words words
	lines []string
	after vg.Length // space below
}

func (b block) size() vg.Length {
	if len(b.lines) == 0 {
		return 0
	}
	return vg.Length(len(b.lines))*b.words.line() + b.after
}

// laidOut is a frame whose text is broken into lines, and so its height known.
type laidOut struct {
	frame
	above, below []block
	rows         [][]legendItem
}

func (f frame) layout() *laidOut {
	inner := width - 2*margin
	caveatStyle := caveatWords
	if f.strong {
		caveatStyle = strongWords
	}
	l := &laidOut{frame: f}
	l.above = []block{
		{titleWords, titleWords.wrap(f.title, inner), 1},
		{captionWords, captionWords.wrap(f.caption, inner), 1},
		{caveatStyle, caveatStyle.wrap(f.caveat, inner), 3},
	}
	var used vg.Length
	for _, item := range f.legend {
		w := item.width()
		if len(l.rows) == 0 || used+w > inner {
			l.rows, used = append(l.rows, nil), 0
		}
		l.rows[len(l.rows)-1] = append(l.rows[len(l.rows)-1], item)
		used += w + legendGap
	}
	for _, note := range f.notes {
		l.below = append(l.below, block{noteWords, noteWords.wrap(note, inner), 0})
	}
	source := f.source.String()
	if f.n != "" {
		source += " · " + f.n
	}
	l.below = append(l.below, block{smallWords.in(black), smallWords.wrap(source, inner), 0})
	return l
}

func (i legendItem) width() vg.Length {
	w := legendWords.width(i.text) + 5
	switch {
	case i.style.Width > 0:
		return w + lineSpan
	case i.glyph != nil || i.fill:
		return w + 10
	}
	return w
}

// Gaps between legend and plot, and between plot and notes.
const (
	aboveGap = vg.Length(5)
	belowGap = vg.Length(7)
)

func (l *laidOut) size() vg.Length {
	h := 2*margin + l.height + aboveGap + belowGap + vg.Length(len(l.rows))*(legendWords.line()+2)
	for _, b := range l.above {
		h += b.size()
	}
	for _, b := range l.below {
		h += b.size()
	}
	return h
}

// drawOn draws everything; the canvas has the layout's size.
func (l *laidOut) drawOn(c draw.Canvas) {
	c.SetColor(white)
	c.Fill(c.Rectangle.Path())
	// A border, so that the picture has an edge on a white page.
	c.SetLineStyle(draw.LineStyle{Color: faint, Width: 1})
	c.Stroke(draw.Crop(c, 0.5, -0.5, 0.5, -0.5).Rectangle.Path())

	y := c.Max.Y - margin
	for _, b := range l.above {
		y = b.draw(c, y)
	}
	for _, row := range l.rows {
		x := c.Min.X + margin
		for _, item := range row {
			item.draw(c, x, y-legendWords.face.Font.Size)
			x += item.width() + legendGap
		}
		y -= legendWords.line() + 2
	}
	y -= aboveGap
	body := c
	body.Min.X, body.Max.X = c.Min.X+margin, c.Max.X-margin
	body.Max.Y, body.Min.Y = y, y-l.height
	l.draw(body)
	y -= l.height + belowGap
	for _, b := range l.below {
		y = b.draw(c, y)
	}
}

// draw writes the lines below y and returns where the next block begins.
func (b block) draw(c draw.Canvas, y vg.Length) vg.Length {
	for i, line := range b.lines {
		b.words.draw(c, c.Min.X+margin, y-b.words.face.Font.Size-vg.Length(i)*b.words.line(), left, line)
	}
	return y - b.size()
}

// draw draws one item with its baseline at y.
func (i legendItem) draw(c draw.Canvas, x, y vg.Length) {
	mid := y + legendWords.middle()
	switch {
	case i.style.Width > 0:
		c.StrokeLine2(i.style, x, mid, x+lineSpan, mid)
		if i.glyph != nil {
			drawGlyph(c, i.glyph, i.style.Color, 2.8, x+lineSpan/2, mid)
		}
		x += lineSpan
	case i.fill:
		c.FillPolygon(i.style.Color, []vg.Point{{X: x, Y: mid - 4}, {X: x + 8, Y: mid - 4}, {X: x + 8, Y: mid + 4}, {X: x, Y: mid + 4}})
		x += 10
	case i.glyph != nil:
		drawGlyph(c, i.glyph, i.style.Color, 2.8, x+4, mid)
		x += 10
	}
	legendWords.draw(c, x+5, y, left, i.text)
}

// axes returns a plot of 0 to 1 by 0 to 1 in the house's look, without a legend or title of its own.
func axes() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.Color, a.Width = light, 0.8
		a.Tick.Color, a.Tick.Width, a.Tick.Length = light, 0.8, 5
		a.Tick.Label = labelWords.style(a.Tick.Label)
		a.Label.TextStyle = labelWords.in(grey).style(a.Label.TextStyle)
		a.Label.Padding = 3
		a.Tick.Marker = plot.ConstantTicks(nil)
	}
	return p
}

// onPlot draws on the data area of a plot.
type onPlot func(c draw.Canvas)

// Plot makes it a plotter.
func (f onPlot) Plot(c draw.Canvas, _ *plot.Plot) { f(c) }

// grid draws a line at every labelled tick of both axes.
func grid(p *plot.Plot) onPlot {
	return func(c draw.Canvas) {
		sty := draw.LineStyle{Color: faint, Width: 0.7}
		for _, t := range p.Y.Tick.Marker.Ticks(0, 1) {
			if !t.IsMinor() {
				c.StrokeLine2(sty, c.Min.X, c.Y(t.Value), c.Max.X, c.Y(t.Value))
			}
		}
		for _, t := range p.X.Tick.Marker.Ticks(0, 1) {
			if !t.IsMinor() {
				c.StrokeLine2(sty, c.X(t.Value), c.Min.Y, c.X(t.Value), c.Max.Y)
			}
		}
	}
}

func strokeLine(c draw.Canvas, sty draw.LineStyle, pts []vg.Point) {
	if len(pts) > 1 {
		c.StrokeLines(sty, pts)
	}
}
