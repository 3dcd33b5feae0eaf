package cells

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"felix/internal/stat"
)

// unit is how the numbers of one row are scaled, so that a median, its interval and its worst can be compared.
type unit struct {
	name  string
	per   float64
	kilos bool // 118.0k
}

// unitFor picks the unit of a figure by its median.
func unitFor(f Figure) unit {
	switch f.Unit {
	case "B/s":
		return unit{name: "MB/s", per: 1e6}
	case "msg/s":
		return unit{name: "msg/s", per: 1, kilos: true}
	case "ns":
		switch {
		case !(f.Median >= 10e6): // none, too
			return unit{name: "us", per: 1e3}
		case f.Median < 1e9:
			return unit{name: "ms", per: 1e6}
		}
		return unit{name: "s", per: 1e9}
	}
	return unit{name: f.Unit, per: 1}
}

// number prints one value in the unit, without its name.
func (u unit) number(v float64) string {
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
	return of(f, valid, unitFor(f).number(f.Median))
}

// withUnit prints the median as "182 us", and of how many trials if not of all that are valid.
func withUnit(f Figure, valid int) string {
	return of(f, valid, unitFor(f).number(f.Median)+" "+unitFor(f).name)
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
	text := fmt.Sprintf("%s %s", u.number(f.Median), u.name)
	if f.N == 1 {
		return text // a trial alone has no interval
	}
	text += fmt.Sprintf(" [%s, %s]", u.number(f.Low), u.number(f.High))
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
