package compare

import (
	"fmt"
	"math"
	"strconv"

	"felix/internal/cells"
)

// medians prints both medians and their unit: "483", "471", "MB/s".
func (r *Row) medians() (base, head, unit string) {
	b, h := r.Base.Figure.Median, r.Head.Figure.Median
	larger := math.Max(b, h)
	if math.IsNaN(larger) {
		larger = math.Max(zeroNaN(b), zeroNaN(h))
	}
	u := cells.UnitOf(r.Metric.Unit, larger)
	return u.Number(b), u.Number(h), u.Name
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// ratioText is the ratio with its interval; a star says that n is too small for the level.
func (r *Row) ratioText() string {
	if math.IsNaN(r.Ratio) {
		return "n/a"
	}
	text := cells.Ratio(r.Ratio)
	if math.IsNaN(r.Interval.Low) || math.IsNaN(r.Interval.High) || min(r.trials()) < 2 {
		return text // a trial alone has no interval
	}
	text += fmt.Sprintf(" [%s, %s]", cells.Ratio(r.Interval.Low), cells.Ratio(r.Interval.High))
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

// slowText is "0/5 1/5", base and head; "-" where the row is not of the cell's main metric.
func (r *Row) slowText() string {
	if !r.Main || r.Base.SlowOf == 0 && r.Head.SlowOf == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d/%d %d/%d", r.Base.Slow, r.Base.SlowOf, r.Head.Slow, r.Head.SlowOf)
	if !math.IsNaN(r.SlowP) && r.Head.Slow > r.Base.Slow {
		text += " p=" + cells.PValue(r.SlowP)
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
