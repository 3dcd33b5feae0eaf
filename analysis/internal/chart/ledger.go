package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Ledger draws where a run's messages went: a bar at every station of the path, the stream between them, and what left
// it at which checkpoint.
type Ledger struct {
	Title    string
	Caption  string
	Source   Source
	Shape    Shape
	Trial    string // which run: "trial 3, valid"
	Stations []Station
	Losses   []Loss
	Notes    []string
}

// Station is one place of the path.
type Station struct {
	Name  string
	Count *int64 // nil: not known
	// Whole is what 100 % is here: the messages offered, or from the fanout on the deliveries expected.
	Whole int64
	Unit  string // "messages", "deliveries"
}

// Loss is what left the path between two stations.
type Loss struct {
	Name  string
	After int    // index of the station before it
	Count *int64 // nil: not known; negative: more was counted than is missing
	Whole int64  // as of the station
	Bad   bool   // it has no explanation
}

const (
	barWidth   = vg.Length(15)
	ledgerTop  = vg.Length(42) // for the counts above
	ledgerFull = vg.Length(108)
	ledgerFoot = vg.Length(32) // for the units below
	lossRow    = vg.Length(17) // for each loss
)

func (f *Ledger) frame() (frame, string) {
	known, moved := false, false
	for _, s := range f.Stations {
		known = known || s.Count != nil
		moved = moved || s.Count != nil && *s.Count != 0
	}
	switch {
	case !known:
		return frame{}, "no station of the path was counted"
	case !moved:
		return frame{}, "not one message was sent"
	}
	fr := frame{
		title: f.Title, caption: f.Caption, source: f.Source,
		height: ledgerTop + ledgerFull + ledgerFoot, draw: f.draw, n: "n = 1 trial",
	}
	fr.caveat, fr.strong = f.Shape.caveat(false)
	if n := len(f.lost()); n > 0 {
		fr.height += 8 + vg.Length(n)*lossRow
	}
	if f.Trial != "" {
		fr.n += ": " + f.Trial
	}
	unknown := false
	for _, s := range f.Stations {
		unknown = unknown || s.Count == nil
	}
	fr.notes = append(fr.notes, "Heights are shares of all that was offered, from the fanout on of all deliveries expected; losses are drawn at least a hair wide.")
	if unknown {
		fr.notes = append(fr.notes, "Dashed: not counted in this run, which is not 0.")
	}
	var zero, none []string
	for _, l := range f.Losses {
		if l.Count == nil {
			none = append(none, strings.ToLower(l.Name))
		} else if *l.Count == 0 {
			zero = append(zero, strings.ToLower(l.Name))
		}
	}
	if len(zero) > 0 {
		fr.notes = append(fr.notes, "Counted, and 0: "+joinAnd(zero)+".")
	}
	if len(none) > 0 {
		fr.notes = append(fr.notes, "Not counted in this run: "+joinAnd(none)+".")
	}
	fr.notes = append(fr.notes, f.Notes...)
	return fr, ""
}

func joinAnd(list []string) string {
	text := ""
	for i, s := range list {
		switch {
		case i == 0:
		case i == len(list)-1:
			text += " and "
		default:
			text += ", "
		}
		text += s
	}
	return text
}

func share(count, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(max(float64(count)/float64(whole), 0), 1.25)
}

func (f *Ledger) draw(c draw.Canvas) {
	base := c.Max.Y - ledgerTop - ledgerFull
	step := (c.Max.X - c.Min.X) / vg.Length(len(f.Stations))
	x := func(i int) vg.Length { return c.Min.X + step*(vg.Length(i)+0.5) }
	height := func(s Station) vg.Length {
		if s.Count == nil {
			return ledgerFull
		}
		return ledgerFull * vg.Length(share(*s.Count, s.Whole))
	}
	for i := 0; i+1 < len(f.Stations); i++ {
		a, b := f.Stations[i], f.Stations[i+1]
		if a.Count == nil && b.Count == nil {
			continue
		}
		// What flows on: never more than either side has.
		h := min(height(a), height(b))
		if a.Count == nil || b.Count == nil {
			drawStream(c, faint, x(i)+barWidth/2, x(i+1)-barWidth/2, base+ledgerFull, h)
			continue
		}
		drawStream(c, flowFill, x(i)+barWidth/2, x(i+1)-barWidth/2, base+ledgerFull, h)
	}
	f.drawLosses(c, x, step, base)
	for i, s := range f.Stations {
		h := height(s)
		top := base + ledgerFull
		box := []vg.Point{{X: x(i) - barWidth/2, Y: top}, {X: x(i) + barWidth/2, Y: top}, {X: x(i) + barWidth/2, Y: top - h}, {X: x(i) - barWidth/2, Y: top - h}, {X: x(i) - barWidth/2, Y: top}}
		count, percent := "not counted", ""
		switch {
		case s.Count == nil:
			c.StrokeLines(draw.LineStyle{Color: light, Width: 1, Dashes: []vg.Length{3, 2}}, box)
		case *s.Count == 0:
			count = "0"
			c.StrokeLine2(draw.LineStyle{Color: blue, Width: 1}, box[0].X, top, box[1].X, top)
		default:
			c.FillPolygon(blue, box[:4])
			count, percent = counted(*s.Count), percentOf(*s.Count, s.Whole)
		}
		words := labelWords
		if s.Count == nil {
			words = smallWords
		}
		words.draw(c, x(i), top+5, centre, words.fit(count, step-4))
		boldWords.draw(c, x(i), top+17, centre, s.Name)
		smallWords.draw(c, x(i), top+29, centre, percent)
	}
	f.drawUnits(c, x, base)
}

// drawUnits says under which stations messages are counted, and under which deliveries.
func (f *Ledger) drawUnits(c draw.Canvas, x func(int) vg.Length, base vg.Length) {
	y := c.Min.Y + 4
	for from := 0; from < len(f.Stations); {
		to := from
		for to+1 < len(f.Stations) && f.Stations[to+1].Unit == f.Stations[from].Unit {
			to++
		}
		sty := draw.LineStyle{Color: light, Width: 0.8}
		a, b := x(from)-barWidth, x(to)+barWidth
		c.StrokeLine2(sty, a, y+12, b, y+12)
		c.StrokeLine2(sty, a, y+12, a, y+15)
		c.StrokeLine2(sty, b, y+12, b, y+15)
		text := "counted in " + f.Stations[from].Unit
		if w := f.Stations[from].Whole; w > 0 {
			text += fmt.Sprintf(" (100 %% = %s)", counted(w))
		}
		smallWords.draw(c, (a+b)/2, y, centre, text)
		from = to + 1
	}
}

// counted losses in the order of the path; those of one station in the order given.
func (f *Ledger) lost() []Loss {
	var out []Loss
	for _, l := range f.Losses {
		if l.Count != nil && *l.Count != 0 && l.After >= 0 && l.After < len(f.Stations) {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b Loss) int { return a.After - b.After })
	return out
}

// drawLosses draws what leaves the path downwards, between its station and the next. Each further along the path goes
// deeper and has its text to the left, so that no ribbon crosses a text.
func (f *Ledger) drawLosses(c draw.Canvas, x func(int) vg.Length, step, base vg.Length) {
	used := map[int]vg.Length{} // of a station's bar, from its bottom, by the losses before
	nth := map[int]int{}
	for row, l := range f.lost() {
		clr := orange
		if l.Bad {
			clr = vermillion
		}
		bar := ledgerFull
		if s := f.Stations[l.After]; s.Count != nil {
			bar = ledgerFull * vg.Length(share(*s.Count, s.Whole))
		}
		h := max(1.2, ledgerFull*vg.Length(math.Min(1, math.Abs(float64(*l.Count))/math.Max(1, float64(l.Whole)))))
		bottom := min(base+ledgerFull-bar+used[l.After], base+ledgerFull-1.2)
		top := min(bottom+h, base+ledgerFull)
		used[l.After] += h
		thick := min(h, step*0.2)
		from := x(l.After) + barWidth/2
		right1 := from + 14 + thick + vg.Length(nth[l.After])*(step*0.2+5) // outer edge, going down
		nth[l.After]++
		end := base - 4 - vg.Length(row)*lossRow
		var p vg.Path
		p.Move(vg.Point{X: from, Y: top})
		p.CubeTo(vg.Point{X: right1, Y: top}, vg.Point{X: right1, Y: top}, vg.Point{X: right1, Y: bottom - 12})
		p.Line(vg.Point{X: right1, Y: end})
		p.Line(vg.Point{X: right1 - thick, Y: end})
		p.Line(vg.Point{X: right1 - thick, Y: bottom - 12})
		p.CubeTo(vg.Point{X: right1 - thick, Y: bottom}, vg.Point{X: right1 - thick, Y: bottom}, vg.Point{X: from, Y: bottom})
		p.Close()
		c.SetColor(clr)
		c.Fill(p)
		mid := right1 - thick/2
		c.FillPolygon(clr, []vg.Point{{X: mid - thick/2 - 3, Y: end}, {X: mid + thick/2 + 3, Y: end}, {X: mid, Y: end - 5}})
		text := fmt.Sprintf("%s %s", counted(*l.Count), l.Name)
		at := max(mid+thick/2+3, c.Min.X+boldWords.width(text))
		boldWords.in(lossText(l.Bad)).draw(c, at, end-14.5, right, text)
	}
}

func lossText(bad bool) color.Color {
	if bad {
		return warning
	}
	return lossWords
}

// drawStream fills a band from left to right whose upper edge is at top.
func drawStream(c draw.Canvas, clr color.Color, from, to, top, h vg.Length) {
	c.FillPolygon(clr, []vg.Point{{X: from, Y: top}, {X: to, Y: top}, {X: to, Y: top - h}, {X: from, Y: top - h}})
}

// percentOf never rounds to 100 % or 0 % what is not.
func percentOf(count, whole int64) string {
	if whole <= 0 {
		return ""
	}
	p := 100 * float64(count) / float64(whole)
	switch {
	case count == whole:
		return "100 %"
	case p > 99.99 && p < 100:
		return "> 99.99 %"
	case p > 0 && p < 0.01:
		return "< 0.01 %"
	case p > 99.9 && p < 100:
		return fmt.Sprintf("%.2f %%", math.Floor(p*100)/100)
	}
	return fmt.Sprintf("%.1f %%", p)
}
