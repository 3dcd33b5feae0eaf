package compare

import (
	"fmt"
	"math"
	"strconv"

	"felix/internal/cells"
)

// scale is how both medians of a row are printed, so that they can be compared by eye.
type scale struct {
	name string
	per  float64
}

func scaleOf(unit string, larger float64) scale {
	switch {
	case unit == "B/s":
		return scale{"MB/s", 1e6}
	case unit == "msg/s" && larger >= 10e6:
		return scale{"M msg/s", 1e6}
	case unit == "msg/s" && larger >= 10e3:
		return scale{"k msg/s", 1e3}
	case unit == "ns" && larger >= 10e9:
		return scale{"s", 1e9}
	case unit == "ns" && larger >= 10e6:
		return scale{"ms", 1e6}
	case unit == "ns":
		return scale{"us", 1e3}
	}
	return scale{unit, 1}
}

// medians prints both medians and their unit: "483", "471", "MB/s".
func (r *Row) medians() (base, head, unit string) {
	b, h := r.Base.Figure.Median, r.Head.Figure.Median
	larger := math.Max(b, h)
	if math.IsNaN(larger) {
		larger = math.Max(zeroNaN(b), zeroNaN(h))
	}
	s := scaleOf(r.Metric.Unit, larger)
	return digits(b / s.per), digits(h / s.per), s.name
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// digits prints three or four digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "n/a"
	case a == 0 || a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// ratio prints a ratio so that a difference of 0.1 % shows.
func ratio(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "n/a"
	case v >= 0.1 && v < 10:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// ratioText is the ratio with its interval; a star says that n is too small for the level.
func (r *Row) ratioText() string {
	if math.IsNaN(r.Ratio) {
		return "n/a"
	}
	text := ratio(r.Ratio)
	if math.IsNaN(r.Interval.Low) || math.IsNaN(r.Interval.High) || min(r.trials()) < 2 {
		return text // a trial alone has no interval
	}
	text += fmt.Sprintf(" [%s, %s]", ratio(r.Interval.Low), ratio(r.Interval.High))
	if !r.Enough {
		text += "*"
	}
	return text
}

// trials is how many values stand behind the row at least: pairs, or the smaller side.
func (r *Row) trials() int {
	if r.N > 0 || r.Dropped > 0 {
		return r.N
	}
	return min(len(r.Base.values), len(r.Head.values))
}

// nText is "5/5", base and head, or of pairs "12 (1 dropped)".
func (r *Row) nText(paired bool) string {
	if !paired {
		return fmt.Sprintf("%d/%d", len(r.Base.values), len(r.Head.values))
	}
	if r.Dropped > 0 {
		return fmt.Sprintf("%d (-%d)", r.N, r.Dropped)
	}
	return strconv.Itoa(r.N)
}

func pText(p float64) string {
	switch {
	case math.IsNaN(p):
		return "-"
	case p < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// slowText is "0/5 1/5", base and head; "-" where the row is not of the cell's main metric.
func (r *Row) slowText() string {
	if !r.Main || r.Base.SlowOf == 0 && r.Head.SlowOf == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d/%d %d/%d", r.Base.Slow, r.Base.SlowOf, r.Head.Slow, r.Head.SlowOf)
	if !math.IsNaN(r.SlowP) && r.Head.Slow > r.Base.Slow {
		text += " p=" + pText(r.SlowP)
	}
	return text
}

// remarks is what stands against the row's figures: why it is not judged, and each side's validity.
func (r *Row) remarks() []string {
	var out []string
	if r.Why != "" {
		out = append(out, r.Why)
	}
	base, head := r.Base.remarks(), r.Head.remarks()
	switch {
	case base == head && base != "":
		out = append(out, "both: "+base)
	default:
		if base != "" {
			out = append(out, "base: "+base)
		}
		if head != "" {
			out = append(out, "head: "+head)
		}
	}
	return out
}

func (a *Arm) remarks() string {
	text := ""
	add := func(n int, what string) {
		if n > 0 {
			text += fmt.Sprintf(", %d %s", n, what)
		}
	}
	add(a.Invalid, "invalid")
	add(a.Failed, "failed")
	add(a.Interrupted, "interrupted")
	add(a.Noisy, "noisy")
	add(a.Superseded, "repeated")
	for _, marks := range [][]cells.Mark{a.Marks, a.Caveats} {
		for _, m := range marks {
			switch m {
			case cells.MarkInvalid, cells.MarkFailed, cells.MarkNoisy, cells.CaveatInterrupted:
				continue // said with its number
			case cells.CaveatDirty, cells.CaveatNoBuild:
				continue // said of the side
			}
			text += ", " + string(m)
		}
	}
	if text == "" {
		return ""
	}
	return text[2:]
}
