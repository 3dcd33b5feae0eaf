package chart

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Timeline draws one run over its seconds, panel below panel on one time axis: rates, latency, backlog, and what the
// busiest connection did meanwhile (congestion window, round trip, MTU, loss).
type Timeline struct {
	Title   string
	Caption string
	Source  Source
	Shape   Shape
	Trial   string // which run: "trial 3, valid"
	Unit    Unit   // of the rates: BytesPerSec, or MsgsPerSec at payload 0
	Slices  []Slice
	Conn    string // name of the busiest connection; "" not known
	Samples []ConnSample
	Notes   []string
}

// Slice is one interval of the measure phase. NaN is a number that nobody has.
type Slice struct {
	AtSeconds            float64 // its end
	Seconds              float64 // its width
	Published, Delivered float64 // rates, in the unit; delivered over all subscribers
	P50Ns, P99Ns         float64
	BacklogBytes         float64 // of the slowest subscriber, at its end
}

// ConnSample is the connection at one moment. NaN is a number that nobody has.
type ConnSample struct {
	AtSeconds                float64
	CwndBytes, MTUBytes      float64
	RTTSmoothedNs, RTTMinNs  float64
	PacketsLost, PacketsSent float64 // since the mark
	LostSpurious             bool    // PacketsLost went down: some were not lost after all
}

// panel is one stretch of the picture.
type panel struct {
	name  string
	unit  Unit
	log   bool
	lines []panelLine
	steps bool // values hold from one sample to the next
	tight bool // a linear axis that does not begin at 0
}

type panelLine struct {
	name string
	pts  [][2]float64 // seconds, value; NaN breaks the line
	area bool
}

const panelHeight = vg.Length(84)

func (f *Timeline) panels() []panel {
	slices := func(of func(Slice) float64) (pts [][2]float64) {
		for _, s := range f.Slices {
			pts = append(pts, [2]float64{s.AtSeconds - s.Seconds/2, of(s)})
		}
		return pts
	}
	samples := func(of func(ConnSample) float64) (pts [][2]float64) {
		for _, s := range f.Samples {
			pts = append(pts, [2]float64{s.AtSeconds, of(s)})
		}
		return pts
	}
	var lost [][2]float64
	for i, s := range f.Samples {
		if i > 0 {
			was := f.Samples[i-1]
			lost = append(lost, [2]float64{was.AtSeconds, s.PacketsLost - was.PacketsLost})
		}
	}
	if n := len(lost); n > 0 { // each value holds until the next sample, the last one too
		lost = append(lost, [2]float64{f.Samples[n].AtSeconds, lost[n-1][1]})
	}
	return []panel{
		{name: "rate", unit: f.Unit, lines: []panelLine{
			{name: "delivered (all subscribers)", pts: slices(func(s Slice) float64 { return s.Delivered })},
			{name: "published", pts: slices(func(s Slice) float64 { return s.Published })},
		}},
		{name: f.Shape.quantity(), unit: Nanoseconds, log: true, lines: []panelLine{
			{name: "p99", pts: slices(func(s Slice) float64 { return s.P99Ns })},
			{name: "p50", pts: slices(func(s Slice) float64 { return s.P50Ns })},
		}},
		{name: "backlog of the slowest subscriber", unit: Bytes, lines: []panelLine{
			{name: "", area: true, pts: slices(func(s Slice) float64 { return s.BacklogBytes })},
		}},
		{name: "congestion window", unit: Bytes, lines: []panelLine{
			{name: "", pts: samples(func(s ConnSample) float64 { return s.CwndBytes })},
		}},
		{name: "round trip", unit: Nanoseconds, log: true, lines: []panelLine{
			{name: "smoothed", pts: samples(func(s ConnSample) float64 { return s.RTTSmoothedNs })},
			{name: "minimum", pts: samples(func(s ConnSample) float64 { return s.RTTMinNs })},
		}},
		{name: "MTU", unit: Bytes, steps: true, tight: true, lines: []panelLine{
			{name: "", pts: samples(func(s ConnSample) float64 { return s.MTUBytes })},
		}},
		{name: "packets lost between samples", unit: Count, steps: true, lines: []panelLine{
			{name: "", area: true, pts: lost},
		}},
	}
}

// known reports whether a panel has anything to draw: a value that its axis can hold.
func (p panel) known() bool {
	for _, l := range p.lines {
		for _, pt := range l.pts {
			if !math.IsNaN(pt[1]) && !math.IsInf(pt[1], 0) && (!p.log || pt[1] > 0) {
				return true
			}
		}
	}
	return false
}

func (f *Timeline) frame() (frame, string) {
	var shown []panel
	var missing []string
	for _, p := range f.panels() {
		if p.known() {
			shown = append(shown, p)
		} else {
			missing = append(missing, p.name)
		}
	}
	if len(shown) == 0 {
		return frame{}, "no time line was recorded"
	}
	var end float64
	for _, s := range f.Slices {
		end = max(end, s.AtSeconds)
	}
	if end == 0 {
		for _, s := range f.Samples {
			end = max(end, s.AtSeconds)
		}
	}
	if end == 0 {
		return frame{}, "the time line has no length"
	}
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source,
		height: vg.Length(len(shown))*panelHeight + 30, n: "n = 1 trial",
	}
	fr.caveat, fr.strong = f.Shape.caveat(true)
	if f.Trial != "" {
		fr.n += ": " + f.Trial
	}
	if f.Conn != "" {
		fr.notes = append(fr.notes, "Congestion window, round trip, MTU and loss are those of the busiest connection end, "+f.Conn+".")
	}
	fr.notes = append(fr.notes, "Time counts from the first measured message. A gap in a line is an interval with too few samples, or none.")
	if len(missing) > 0 {
		fr.notes = append(fr.notes, "Not recorded in this run: "+strings.Join(missing, ", ")+".")
	}
	if f.tookBack() {
		fr.notes = append(fr.notes, "Loss below 0: packets taken for lost arrived after all.")
	}
	fr.notes = append(fr.notes, f.Notes...)
	fr.draw = func(c draw.Canvas) { drawPanels(c, shown, end) }
	return fr, ""
}

func (f *Timeline) tookBack() bool {
	for i := 1; i < len(f.Samples); i++ {
		if f.Samples[i].PacketsLost < f.Samples[i-1].PacketsLost {
			return true
		}
	}
	return false
}

func drawPanels(c draw.Canvas, panels []panel, end float64) {
	x := scale{low: 0, high: end, to: 1}
	plots := make([][]*plot.Plot, len(panels))
	for i, pn := range panels {
		p := axes()
		p.X.Tick.Marker = plot.ConstantTicks(x.ticks(number, 11))
		if i < len(panels)-1 { // one axis for all: the others keep the grid only
			p.X.Tick.Label.Color = white
			p.X.Tick.Label.Font.Size = 0.1
			p.X.Tick.Length = 2
		} else {
			p.X.Label.Text = "time (s, linear scale)"
		}
		y := pn.scale()
		p.Y.Tick.Marker = plot.ConstantTicks(y.ticks(pn.tick(), 4))
		p.Add(grid(p), onPlot(func(c draw.Canvas) { pn.draw(c, x, y) }))
		plots[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: 18, PadTop: 16, PadRight: 14}
	for i, row := range plot.Align(plots, tiles, c) {
		plots[i][0].Draw(row[0])
		data := plots[i][0].DataCanvas(row[0])
		panels[i].header(c, data)
	}
}

func (p panel) values() []float64 {
	var ys []float64
	for _, l := range p.lines {
		for _, pt := range l.pts {
			ys = append(ys, pt[1])
		}
	}
	return ys
}

func (p panel) scale() scale {
	if p.log {
		return logScale(p.values(), 0, 1)
	}
	s := linearScale(p.values(), 0, 1)
	if p.tight {
		s.low, s.high = math.Inf(1), s.high/1.08
		for _, v := range p.values() {
			if !math.IsNaN(v) {
				s.low = min(s.low, v)
			}
		}
		s.low, s.high = s.low-max(0.02*s.high, 20), s.high+max(0.02*s.high, 20)
		return s
	}
	for _, v := range p.values() {
		if v < s.low && !math.IsInf(v, 0) {
			s.low = v * 1.08
		}
	}
	return s
}

// tick is how the panel's axis is labelled.
func (p panel) tick() func(float64) string {
	if p.unit == BytesPerSec || p.unit == Nanoseconds {
		return p.unit.tick
	}
	if p.unit == Bytes {
		return func(v float64) string {
			if v == 0 || math.Abs(v) < 1e3 || p.tight {
				return counted(int64(math.Round(v))) + " B"
			}
			return metric(v) + "B"
		}
	}
	return func(v float64) string {
		if p.unit == Count && v != math.Trunc(v) {
			return "" // there are no half packets: a minor tick
		}
		return metric(v)
	}
}

// axis says the panel's unit and scale.
func (p panel) axis() string {
	how := "linear scale"
	switch {
	case p.log:
		how = "log scale"
	case p.tight:
		how = "linear scale, not from 0"
	}
	switch p.unit {
	case Bytes:
		return "unit at each tick, " + how
	case Count:
		return "packets, " + how
	}
	return p.unit.axis() + ", " + how
}

// header stands over the panel: what it shows, in which unit, and its lines.
func (p panel) header(c, data draw.Canvas) {
	y := data.Max.Y + 4.5
	x := data.Min.X // the highest label of the axis stands left of it
	boldWords.draw(c, x, y, left, p.name)
	x += boldWords.width(p.name) + 5
	text := "(" + p.axis() + ")"
	smallWords.draw(c, x, y, left, text)
	x += smallWords.width(text) + 14
	if len(p.lines) < 2 {
		return
	}
	for i, l := range p.lines {
		item := legendItem{text: l.name, style: styleOf(i).line(1.5)}
		item.draw(c, x, y)
		x += item.width() + legendGap
	}
}

func (p panel) draw(c draw.Canvas, x, y scale) {
	if y.low < 0 {
		c.StrokeLine2(draw.LineStyle{Color: light, Width: 0.8}, c.Min.X, c.Y(y.at(0)), c.Max.X, c.Y(y.at(0)))
	}
	for i, l := range p.lines {
		st := styleOf(i)
		var run []vg.Point
		flush := func() {
			if l.area && len(run) > 1 {
				base := c.Y(y.at(max(0, y.low)))
				area := append([]vg.Point{{X: run[0].X, Y: base}}, run...)
				c.FillPolygon(areaFill, append(area, vg.Point{X: run[len(run)-1].X, Y: base}))
			}
			if len(run) == 1 {
				drawGlyph(c, st.glyph(false), st.color, 1.8, run[0].X, run[0].Y)
			}
			strokeLine(c, st.line(1.3), run)
			run = nil
		}
		for _, pt := range l.pts {
			v := pt[1]
			if math.IsNaN(v) || math.IsInf(v, 0) || p.log && v <= 0 || pt[0] < x.low {
				flush()
				continue
			}
			at := vg.Point{X: c.X(min(x.at(pt[0]), 1)), Y: c.Y(min(max(y.at(v), 0), 1))}
			if p.steps && len(run) > 0 {
				run = append(run, vg.Point{X: at.X, Y: run[len(run)-1].Y})
			}
			if x.at(pt[0]) > 1 {
				break
			}
			run = append(run, at)
		}
		flush()
	}
}
