package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// finish sorts the rows and names the cells by what tells them apart.
func (c *Comparison) finish() {
	slices.SortStableFunc(c.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.size(), a.size()))
	})
	c.Shared = c.shorten()
}

// rank puts first what is sure, then what may be, then what is not judged, and last what has no ratio.
func (r *Row) rank() int {
	switch r.Finding {
	case Worse, Better:
		return 0
	case Unclear, Few:
		return 1
	case NotJudged:
		return 2
	}
	return 3
}

// size is how large a row is at least: of a sure one the end of its interval that lies nearer to no difference, so
// that a large difference of wide interval does not go before a smaller one that is known better. Of another one it
// is the ratio's own distance. Both are logarithms, so that a half is as large as a double.
func (r *Row) size() float64 {
	v := math.Abs(math.Log(r.Ratio))
	if r.rank() == 0 {
		v = min(math.Abs(math.Log(r.Interval.Low)), math.Abs(math.Log(r.Interval.High)))
	}
	if math.IsNaN(v) {
		return -1
	}
	return v
}

// shorten takes out of the cells' names the words that all have, and returns those.
func (c *Comparison) shorten() string {
	var names []*string
	for i := range c.Rows {
		names = append(names, &c.Rows[i].Cell)
	}
	for i := range c.Missing {
		names = append(names, &c.Missing[i].Cell)
	}
	if len(names) == 0 {
		return ""
	}
	shared := strings.Fields(*names[0])
	same := true
	for _, name := range names {
		words := strings.Fields(*name)
		same = same && *name == *names[0]
		shared = slices.DeleteFunc(shared, func(w string) bool { return !slices.Contains(words, w) })
	}
	if same {
		return "" // one cell: its name is all there is
	}
	for _, name := range names {
		words := slices.DeleteFunc(strings.Fields(*name), func(w string) bool { return slices.Contains(shared, w) })
		*name = strings.Join(words, " ")
		if *name == "" {
			*name = "(no more)"
		}
	}
	return strings.Join(shared, " ")
}
