package chart

import (
	"fmt"
	"strings"
)

// whyEmpty says what there is instead of values.
func (l *levels) whyEmpty() string {
	kinds := map[absence]int{}
	for _, s := range l.Series {
		for _, p := range s.Points {
			kinds[p.absence()]++
		}
	}
	var parts []string
	for _, a := range []absence{isZero, isNaN, allInvalid, unmeasured} {
		if kinds[a] > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", countOf(kinds[a], "value"), absences[a].meaning))
		}
	}
	if len(parts) == 0 {
		return "no cells"
	}
	return strings.Join(parts, "; ")
}

// explain says what the marks of this picture are, before anything is drawn.
func (l *levels) explain() []string {
	notes := []string{}
	var marks []string
	kinds := map[absence]bool{}
	for i := range l.Series {
		for _, x := range l.xs {
			kinds[l.point(i, x).absence()] = true
		}
	}
	for _, a := range []absence{isZero, isNaN, allInvalid, unmeasured} {
		if kinds[a] {
			marks = append(marks, fmt.Sprintf("%s %s", absences[a].mark, absences[a].meaning))
		}
	}
	bars := "Bars: 95 % interval of the median over trials (their range where n < 6)."
	if l.hollow {
		bars += " Hollow: not publishable (too few trials, noise or spread)."
	}
	notes = append(notes, bars)
	if len(marks) > 0 {
		notes = append(notes, "Below the plot, no values of the axis: "+strings.Join(marks, "; ")+".")
	}
	return append(notes, l.clipped()...)
}

// clipped lists what lies beyond the axis.
func (l *levels) clipped() []string {
	var out []string
	for i, s := range l.Series {
		for _, x := range l.xs {
			v := l.point(i, x)
			if v.absence() != present {
				continue
			}
			switch where := fmt.Sprintf("%s at %s", s.Name, l.XUnit.tick(x)); {
			case l.beyond(v.Median):
				out = append(out, fmt.Sprintf("%s is %s", where, l.Unit.text(v.Median)))
			case l.beyond(v.Low) || l.beyond(v.High):
				out = append(out, fmt.Sprintf("the interval of %s is %s to %s", where, l.Unit.text(v.Low), l.Unit.text(v.High)))
			}
		}
	}
	const most = 4
	if n := len(out); n > most {
		out = append(out[:most], fmt.Sprintf("%d more", n-most))
	}
	if len(out) == 0 {
		return nil
	}
	return []string{"Clipped at the axis (arrows): " + strings.Join(out, "; ") + "."}
}
