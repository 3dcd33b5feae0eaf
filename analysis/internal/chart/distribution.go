package chart

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Distribution draws whole latency distributions: the percentile axis in nines, so that 99 %, 99.9 % and 99.99 % are
// as far apart as they are rare, against the logarithm of the time.
type Distribution struct {
	Title   string
	Caption string
	Source  Source
	Shape   Shape
	Curves  []Curve
	Notes   []string
}

// Curve is the distribution of all messages of some trials together.
type Curve struct {
	Name   string
	Trials int     // whose messages it holds
	N      int64   // messages
	Steps  []Step  // ascending in both
	MaxNs  float64 // NaN: not known
}

// Step says that the share of messages up to Ns is Quantile.
type Step struct {
	Quantile float64 // 0 to 1
	Ns       float64
}

// samplesBeyond is how many messages must lie beyond a percentile before it is believed.
const samplesBeyond = 10

// nines of a quantile: 0.9 is 1, 0.99 is 2.
func nines(q float64) float64 { return -math.Log10(max(1-q, 1e-15)) }

// believed is how many nines n messages tell.
func (c Curve) believed() float64 {
	return max(0, math.Log10(float64(c.N)/samplesBeyond))
}

// end is where the curve ends: at the largest of n.
func (c Curve) end() float64 { return math.Log10(float64(max(c.N, 2))) }

func (c Curve) empty() bool {
	for _, s := range c.Steps {
		if s.Ns > 0 && !math.IsInf(s.Ns, 0) {
			return c.N <= 0
		}
	}
	return true
}

func (f *Distribution) frame() (frame, string) {
	if len(f.Curves) > MostSeries {
		return frame{}, fmt.Sprintf("%d curves, more than the %d that can be told apart", len(f.Curves), MostSeries)
	}
	var ys []float64
	longest := 1.0
	empty, zeros := 0, 0
	fr := frame{title: f.Title, caption: f.Caption, source: f.Source, height: 330}
	fr.caveat, fr.strong = f.Shape.caveat(true)
	for i, c := range f.Curves {
		st := styleOf(i)
		if c.empty() {
			empty++
			fr.legend = append(fr.legend, legendItem{text: c.Name + ": no samples", style: draw.LineStyle{Color: light, Width: 1.6, Dashes: st.dashes}})
			continue
		}
		fr.legend = append(fr.legend, legendItem{text: fmt.Sprintf("%s (n=%s)", c.Name, metric(float64(c.N))), style: st.line(1.6), glyph: st.glyph(true)})
		longest = max(longest, c.end())
		ys = append(ys, c.MaxNs)
		for _, s := range c.Steps {
			if s.Ns <= 0 {
				zeros++
			}
			ys = append(ys, s.Ns)
		}
	}
	if len(ys) == 0 {
		return frame{}, "no latency histogram with samples"
	}
	x := scale{low: 0, high: longest * 1.03, to: 1}
	y := logScale(ys, 0, 1)
	p := axes()
	p.X.Label.Text = "percentile of messages (%, log scale of what lies beyond: each nine is one step)"
	p.Y.Label.Text = fmt.Sprintf("%s (%s, log scale)", f.Shape.quantity(), Nanoseconds.axis())
	p.X.Tick.Marker = plot.ConstantTicks(ninesTicks(x))
	p.Y.Tick.Marker = plot.ConstantTicks(y.ticks(Nanoseconds.tick, 11))
	p.Add(grid(p), onPlot(func(c draw.Canvas) {
		for i, curve := range f.Curves {
			if !curve.empty() {
				curve.draw(c, x, y, styleOf(i))
			}
		}
	}))
	fr.draw = p.Draw
	fr.notes = append(fr.notes, fmt.Sprintf("Solid and dashed up to the last percentile with %d samples beyond it; dotted from there to the slowest message (hollow mark).", samplesBeyond))
	if zeros > 0 {
		fr.notes = append(fr.notes, "Steps at 0 ns cannot stand on a log axis and are left out.")
	}
	if clipped := clippedBelow(f.Curves, y); clipped != "" {
		fr.notes = append(fr.notes, clipped)
	}
	fr.notes = append(fr.notes, f.Notes...)
	low, high := math.MaxInt, 0
	for _, c := range f.Curves {
		if !c.empty() {
			low, high = min(low, c.Trials), max(high, c.Trials)
		}
	}
	fr.n = fmt.Sprintf("n = messages of %s a curve", countOf(high, "valid trial"))
	if low != high {
		fr.n = fmt.Sprintf("n = messages of %d to %s a curve", low, countOf(high, "valid trial"))
	}
	return fr, ""
}

// clippedBelow says that the head of a distribution lies under the axis, which shows nine decades.
func clippedBelow(curves []Curve, y scale) string {
	for _, c := range curves {
		for _, s := range c.Steps {
			if s.Ns > 0 && s.Ns < y.low*(1-1e-9) {
				return fmt.Sprintf("Clipped at the lower edge: the axis shows %d decades, the fastest of %s took %s.", mostDecades, c.Name, duration(s.Ns))
			}
		}
	}
	return ""
}

// ninesTicks labels 0, 50 and the nines, with 10, 20, … within each.
func ninesTicks(x scale) []plot.Tick {
	out := []plot.Tick{{Value: x.at(0), Label: "0"}, {Value: x.at(nines(0.5)), Label: "50"}}
	labels := []string{"90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999", "99.999999", "99.9999999"}
	step := 1
	if x.high > 8 {
		step = 2
	}
	for d := 0; float64(d) <= x.high; d++ {
		if d > 0 && d <= len(labels) {
			t := plot.Tick{Value: x.at(float64(d))}
			if d <= 3 || d%step == 0 {
				t.Label = labels[d-1]
			}
			out = append(out, t)
		}
		for m := 2; m < 10; m++ {
			if at := float64(d) + math.Log10(float64(m)); at <= x.high && !(d == 0 && m == 2) {
				out = append(out, plot.Tick{Value: x.at(at)})
			}
		}
	}
	return out
}

func (c Curve) draw(on draw.Canvas, x, y scale, st seriesStyle) {
	var sure, beyond []vg.Point
	limit, end := c.believed(), c.end()
	for _, s := range c.Steps {
		if s.Ns <= 0 || math.IsNaN(s.Ns) || y.at(s.Ns) < 0 {
			continue
		}
		at := min(nines(s.Quantile), end)
		pt := vg.Point{X: on.X(x.at(at)), Y: on.Y(min(y.at(s.Ns), 1))}
		if at <= limit {
			sure = append(sure, pt)
			continue
		}
		if len(beyond) == 0 && len(sure) > 0 {
			beyond = append(beyond, sure[len(sure)-1])
		}
		beyond = append(beyond, pt)
	}
	strokeLine(on, st.line(1.7), sure)
	strokeLine(on, draw.LineStyle{Color: st.color, Width: 1.1, Dashes: []vg.Length{1.2, 2.2}}, beyond)
	if last := append(sure, beyond...); !math.IsNaN(c.MaxNs) && c.MaxNs > 0 {
		pt := vg.Point{X: on.X(x.at(end)), Y: on.Y(min(y.at(c.MaxNs), 1))}
		if len(last) > 0 && last[len(last)-1] != pt {
			strokeLine(on, draw.LineStyle{Color: st.color, Width: 1.1, Dashes: []vg.Length{1.2, 2.2}}, []vg.Point{last[len(last)-1], pt})
		}
		drawGlyph(on, st.glyph(true), color.Color(st.color), 3, pt.X, pt.Y)
	}
}
