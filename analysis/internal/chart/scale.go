package chart

import (
	"math"

	"gonum.org/v1/plot"
)

// Axes are drawn on plots whose own ranges are 0 to 1; a scale puts values there. That leaves room beside the values
// for marks that are none.

// scale maps values to a part of an axis.
type scale struct {
	low, high float64 // values at the ends
	from, to  float64 // where those lie, 0 to 1
	log       bool
}

// at returns where v lies; outside the range beyond from and to.
func (s scale) at(v float64) float64 {
	f := func(x float64) float64 { return x }
	if s.log {
		f = func(x float64) float64 { return math.Log10(max(x, math.SmallestNonzeroFloat64)) }
	}
	return s.from + (f(v)-f(s.low))/(f(s.high)-f(s.low))*(s.to-s.from)
}

// most decades that an axis shows: what lies further below the largest value is clipped, and says so.
const mostDecades = 9

// logScale covers the values that a log axis can show, with some air.
func logScale(values []float64, from, to float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 1, 10
	}
	low = max(low, high/math.Pow(10, mostDecades))
	air := max(math.Pow(high/low, 0.06), 1.08)
	low, high = low/air, high*air
	if high/low > 4 {
		low, high = niceBelow(low), niceAbove(high)
	}
	return scale{low: low, high: high, from: from, to: to, log: true}
}

// niceBelow and niceAbove are the nearest of 1, 2 and 5 times a power of ten.
func niceBelow(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*p <= v*(1+1e-9) {
			return m * p
		}
	}
	return p
}

func niceAbove(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// linearScale runs from 0 to a little over the largest value.
func linearScale(values []float64, from, to float64) scale {
	high := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			high = max(high, v)
		}
	}
	if high == 0 {
		high = 1
	}
	return scale{low: 0, high: high * 1.08, from: from, to: to}
}

// ticks of a scale: at most the given number of labels, and minor ticks between them.
func (s scale) ticks(text func(float64) string, most int) []plot.Tick {
	majors, minors := s.linearTicks(most)
	if s.log {
		majors, minors = s.logTicks(most)
	}
	var out []plot.Tick
	labelled := map[float64]bool{}
	for _, v := range majors {
		out = append(out, plot.Tick{Value: s.at(v), Label: text(v)})
		labelled[v] = true
	}
	for _, v := range minors {
		if !labelled[v] {
			out = append(out, plot.Tick{Value: s.at(v)})
		}
	}
	return out
}

// digits of each level of ticks within a decade, coarse to fine.
var tickLevels = [][]float64{{1}, {1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}

// logTicks labels decades and, where fewer than three of them are in the range, 1, 2 and 5 or 1 to 9 of each; minors
// are always the 1 to 9. A range of less than half a decade is so nearly linear that it gets a linear axis' steps.
func (s scale) logTicks(most int) (majors, minors []float64) {
	if s.high/s.low < 3 {
		return s.linearTicks(most)
	}
	level := 0
	for level+1 < len(tickLevels) && len(s.within(tickLevels[level])) < 3 {
		if len(s.within(tickLevels[level+1])) > most {
			break
		}
		level++
	}
	majors = s.within(tickLevels[level])
	for n := 2; len(majors) > most; n++ { // many decades: every n-th
		var thin []float64
		for _, v := range s.within(tickLevels[0]) {
			if int(math.Round(math.Log10(v)))%n == 0 {
				thin = append(thin, v)
			}
		}
		majors = thin
	}
	return majors, s.within(tickLevels[2])
}

// within lists the digits' values of every decade that lie in the range.
func (s scale) within(digits []float64) []float64 {
	var out []float64
	for e := int(math.Floor(math.Log10(s.low))); e <= int(math.Ceil(math.Log10(s.high))); e++ {
		p := math.Pow(10, math.Abs(float64(e)))
		for _, d := range digits {
			v := d * p
			if e < 0 {
				v = d / p // not d * 10^-e, which is no decimal number
			}
			if v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	return out
}

func (s scale) linearTicks(most int) (majors, minors []float64) {
	step := niceAbove((s.high - s.low) / float64(4*most))
	for math.Floor(s.high/step*(1+1e-9))-math.Ceil(s.low/step*(1-1e-9))+1 > float64(most) {
		step = niceAbove(step * 1.5)
	}
	for i := int(math.Ceil(s.low / step)); float64(i)*step <= s.high*(1+1e-9); i++ {
		majors = append(majors, float64(i)*step)
	}
	minor := step / 5
	if math.Mod(math.Round(step/math.Pow(10, math.Floor(math.Log10(step)+1e-9))), 5) == 2 {
		minor = step / 2
	}
	for i := int(math.Ceil(s.low / minor)); float64(i)*minor <= s.high*(1+1e-9); i++ {
		if v := float64(i) * minor; math.Abs(math.Remainder(v, step)) > minor/2 {
			minors = append(minors, v)
		}
	}
	return majors, minors
}
