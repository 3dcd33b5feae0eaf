package cells

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"felix/internal/stat"
)

// Unit is how the numbers of one row are scaled, so that a median, its interval and its worst, or the medians of two
// cells, can be compared by eye.
type Unit struct {
	Name  string // "MB/s", "us"
	per   float64
	kilos bool // 118.0k
}

// UnitOf picks the scale of figures in a unit by one of them, the median or the larger of two.
func UnitOf(name string, median float64) Unit {
	switch name {
	case "B/s":
		return Unit{Name: "MB/s", per: 1e6}
	case "msg/s":
		return Unit{Name: "msg/s", per: 1, kilos: true}
	case "ns":
		switch {
		case !(median >= 10e6): // none, too
			return Unit{Name: "us", per: 1e3}
		case median < 1e9:
			return Unit{Name: "ms", per: 1e6}
		}
		return Unit{Name: "s", per: 1e9}
	}
	return Unit{Name: name, per: 1}
}

func unitFor(f Figure) Unit { return UnitOf(f.Unit, f.Median) }

// Number prints one value in the unit, without its name: three or four digits, "n/a" for none.
func (u Unit) Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "n/a"
	}
	v /= u.per
	if u.kilos {
		switch {
		case math.Abs(v) >= 10e6:
			return decimals(v/1e6) + "M"
		case math.Abs(v) >= 10e3:
			return decimals(v/1e3) + "k"
		}
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return decimals(v)
}

// Ratio prints a ratio so that a difference of 0.1 % shows.
func Ratio(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "n/a"
	case v >= 0.1 && v < 10:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// PValue prints a p-value; "-" where there is none.
func PValue(p float64) string {
	switch {
	case math.IsNaN(p):
		return "-"
	case p < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// decimals prints three or four digits, and large numbers whole.
func decimals(v float64) string {
	switch a := math.Abs(v); {
	case a == 0 || a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// bare prints the median without its unit, and of how many trials if not of all that are valid.
func bare(f Figure, valid int) string {
	return of(f, valid, unitFor(f).Number(f.Median))
}

// withUnit prints the median as "182 us", and of how many trials if not of all that are valid.
func withUnit(f Figure, valid int) string {
	return of(f, valid, unitFor(f).Number(f.Median)+" "+unitFor(f).Name)
}

func of(f Figure, valid int, text string) string {
	switch f.N {
	case 0:
		return "n/a"
	case valid:
		return text
	}
	return fmt.Sprintf("%s (n=%d)", text, f.N)
}

// interval prints the median, its unit and its interval; a star says that the interval is the range.
func interval(f Figure) string {
	if f.N == 0 {
		return "n/a"
	}
	u := unitFor(f)
	text := fmt.Sprintf("%s %s", u.Number(f.Median), u.Name)
	if f.N == 1 {
		return text // a trial alone has no interval
	}
	text += fmt.Sprintf(" [%s, %s]", u.Number(f.Low), u.Number(f.High))
	if f.Coverage < Level {
		text += "*"
	}
	return text
}

// spread prints a ratio.
func spread(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "n/a"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// share prints "1/5 [1-72 %]".
func share(s stat.Share) string {
	if s.N == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%d/%d [%.0f-%.0f %%]", s.K, s.N, 100*s.Low, 100*s.High)
}

// samples prints how many values a figure has, and of how many trials if some lack it.
func samples(f Figure, valid int) string {
	if f.N == valid {
		return strconv.Itoa(valid)
	}
	return fmt.Sprintf("%d of %d", f.N, valid)
}

// verdict prints whether the cell may be published and what goes with it. Caveats that every cell has are said once,
// above the table.
func (c *Cell) verdict(common []Mark) string {
	text := "yes"
	if !c.Publishable {
		text = "no: " + joinMarks(c.Marks, nil)
	}
	if caveats := joinMarks(c.Caveats, common); caveats != "" {
		text += " (" + caveats + ")"
	}
	return text
}

func joinMarks(marks, without []Mark) string {
	var words []string
	for _, m := range marks {
		if !slices.Contains(without, m) {
			words = append(words, string(m))
		}
	}
	return strings.Join(words, " ")
}
