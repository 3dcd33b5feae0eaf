package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"felix/internal/cells"
)

// ByOptions says how levels are compared.
type ByOptions struct {
	Factor  string
	Against string // the level that the others are held against; "" is the first one of the cells
	// Block is which pass over the grid a trial was part of, by run id: trials of one block are pairs. A trial without
	// one is in no pair.
	Block map[string]int
}

// By compares the levels of a factor inside one session: every level with the reference, in pairs of the same block.
// Best says, per group of cells that differ in the factor alone, which level is best, if one can be named.
func By(session Side, o ByOptions) (comparisons []*Comparison, best []string, err error) {
	groups, levels, err := grouped(session, o.Factor)
	if err != nil {
		return nil, nil, err
	}
	against := o.Against
	if against == "" {
		against = levels[0]
	}
	if !slices.Contains(levels, against) {
		return nil, nil, fmt.Errorf("no cell has %s=%s: there is %s", o.Factor, against, strings.Join(levels, ", "))
	}
	for _, level := range levels {
		if level == against {
			continue
		}
		c := &Comparison{Factor: o.Factor, Base: session, Head: session}
		c.Base.Label, c.Head.Label = o.Factor+"="+against, o.Factor+"="+level
		var pairs []pair
		for _, g := range groups {
			b, h := g.at[against], g.at[level]
			switch {
			case b == nil && h == nil:
			case b == nil:
				c.Missing = append(c.Missing, Missing{g.name, h.Key, g.why(against, c.Base.Label)})
			case h == nil:
				c.Missing = append(c.Missing, Missing{g.name, b.Key, g.why(level, c.Head.Label)})
			default:
				p := pair{g.name, b, h}
				pairs = append(pairs, p)
				c.Rows = append(c.Rows, p.paired(o)...)
			}
		}
		c.Differences = append(factorsDiffer(pairs, o.Factor), differences(pairs)...)
		c.finish()
		comparisons = append(comparisons, c)
	}
	for _, g := range groups {
		if line := g.best(levels, against, o); line != "" {
			best = append(best, line)
		}
	}
	return comparisons, best, nil
}

// group is the cells that differ in the factor alone.
type group struct {
	name  string
	at    map[string]*cells.Cell // by level
	twice map[string]bool        // levels with two cells: none of them is at
}

func (g *group) why(level, label string) string {
	if g.twice[level] {
		return "two cells of other settings at " + label
	}
	return "not at " + label
}

// grouped parts the cells by everything but the factor, and lists its levels in the order of the cells.
func grouped(s Side, factor string) (groups []*group, levels []string, err error) {
	byRest := map[string]*group{}
	drop := []string{factor}
	if factor == armFactor {
		drop = append(drop, armFactors(s)...)
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		level, ok := levelOf(c, s.Names, factor)
		if !ok {
			continue
		}
		if !slices.Contains(levels, level) {
			levels = append(levels, level)
		}
		name := without(nameOf(c, s, s), drop...)
		rest := strings.Join([]string{
			name, strconv.FormatBool(c.Throughput), strconv.FormatBool(queueing(c)), c.Host, strings.Join(c.Perturbed, "+"),
		}, "\x00")
		if factor != armFactor { // arms may be of other variables
			rest += "\x00" + c.Arm + "\x00" + envWithout(c.Env, factor)
		}
		g := byRest[rest]
		if g == nil {
			g = &group{name: name, at: map[string]*cells.Cell{}, twice: map[string]bool{}}
			byRest[rest] = g
			groups = append(groups, g)
		}
		if g.at[level] != nil || g.twice[level] {
			g.twice[level] = true
			delete(g.at, level)
			continue
		}
		g.at[level] = c
	}
	if len(levels) < 2 {
		varying := varying(s)
		if len(varying) == 0 {
			return nil, nil, fmt.Errorf("%s has one level in this session, and no other factor varies", factor)
		}
		return nil, nil, fmt.Errorf("%s does not vary in this session: want one of %s", factor, strings.Join(varying, ", "))
	}
	return groups, levels, nil
}

// best names the level whose main metric is best, but only if its paired interval excludes 1 against its neighbours
// and against the reference: the best of many levels is otherwise mostly the luckiest one.
func (g *group) best(levels []string, against string, o ByOptions) string {
	levels = slices.DeleteFunc(slices.Clone(levels), func(l string) bool { return g.at[l] == nil })
	if len(levels) < 2 {
		return ""
	}
	levels = inOrder(levels)
	m := Metrics(g.at[levels[0]])[0]
	top := -1
	for i, l := range levels {
		median := m.figure(g.at[l]).Median
		if math.IsNaN(median) {
			continue
		}
		if top < 0 || (median > m.figure(g.at[levels[top]]).Median) == m.HigherIsBetter {
			top = i
		}
	}
	if top < 0 {
		return ""
	}
	of := ""
	if g.name != "" {
		of = " of " + g.name
	}
	var rivals []string
	for _, i := range []int{top - 1, top + 1, slices.Index(levels, against)} {
		if i >= 0 && i < len(levels) && i != top && !slices.Contains(rivals, levels[i]) {
			rivals = append(rivals, levels[i])
		}
	}
	for _, rival := range rivals {
		p := pair{base: g.at[rival], head: g.at[levels[top]]}
		if r := p.paired(o)[0]; r.Finding != Better {
			return fmt.Sprintf("no best %s%s: %s has the best median %s, but is not told from %s in n=%d pairs", o.Factor, of, levels[top], m.Label, rival, r.N)
		}
	}
	return fmt.Sprintf("best %s%s: %s, by %s; better in pairs than %s", o.Factor, of, levels[top], m.Label, strings.Join(rivals, " and "))
}

// inOrder sorts levels that are numbers; neighbours are then the next ones.
func inOrder(levels []string) []string {
	numbers := map[string]float64{}
	for _, l := range levels {
		v, err := strconv.ParseFloat(l, 64)
		if err != nil {
			return levels
		}
		numbers[l] = v
	}
	return slices.SortedFunc(slices.Values(levels), func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
}
