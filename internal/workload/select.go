package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"felix/internal/settings"
)

// Select changes the grid as --set factor=level[,level] and --only factor=level[,level] do, all at once.
//
// A set makes a factor have these levels in every block, in place of those that the block has, or of the default.
// Cells that become the same are one. An only keeps the cells that have one of its levels; several narrow further. A
// level that no cell has is an error that lists those there are. Combinations that cannot be are no error as long as
// an only leaves them out. On an error, a *settings.Error, the grid is as it was.
func (g *Grid) Select(set, only []string) error {
	if len(set)+len(only) == 0 {
		return nil
	}
	was := g.spec
	err := g.choose(set, only)
	if err == nil {
		err = g.build(true)
	}
	if err != nil {
		g.spec = was
	}
	return err
}

// Set is Select of one --set.
func (g *Grid) Set(assignment string) error { return g.Select([]string{assignment}, nil) }

// Only is Select of one --only.
func (g *Grid) Only(selection string) error { return g.Select(nil, []string{selection}) }

// choose writes the selections into a new spec.
func (g *Grid) choose(set, only []string) error {
	for _, text := range set {
		factor, levels, err := g.selection("--set", text)
		if err != nil {
			return err
		}
		f := factorSpec{name: factor, where: "--set " + text}
		for _, l := range levels {
			if err := g.spec.levels.check(factor, l); err != nil {
				return flagError(f.where, err)
			}
			if err := f.add(l, g.spec.levels); err != nil {
				return flagError(f.where, err)
			}
		}
		g.spec = g.spec.with(f)
	}
	for _, text := range only {
		factor, levels, err := g.selection("--only", text)
		if err != nil {
			return err
		}
		next := *g.spec
		next.only = append(slices.Clone(next.only), filter{factor, levels})
		g.spec = &next
	}
	return nil
}

// with returns the spec with the factor in every block.
func (s *gridSpec) with(f factorSpec) *gridSpec {
	next := *s
	next.blocks = slices.Clone(s.blocks)
	for i := range next.blocks {
		b := &next.blocks[i]
		b.factors = slices.Clone(b.factors)
		if j := slices.IndexFunc(b.factors, func(x factorSpec) bool { return x.name == f.name }); j >= 0 {
			b.factors[j] = f
		} else {
			b.factors = append(b.factors, f)
		}
	}
	return &next
}

// filtered keeps the cells of one --only.
func (s *gridSpec) filtered(cells []expanded, f filter) ([]expanded, error) {
	found := map[string]bool{} // the filter's levels that cells have
	matches := s.matcher(f)
	kept := slices.DeleteFunc(slices.Clone(cells), func(c expanded) bool {
		want, ok := matches(s.shown(&c, f.factor))
		found[want] = found[want] || ok
		return !ok
	})
	for _, want := range f.levels {
		if found[want] {
			continue
		}
		var there []string
		for i := range cells {
			if l := s.shown(&cells[i], f.factor); l != "" && !slices.Contains(there, l) {
				there = append(there, l)
			}
		}
		if len(there) == 0 {
			return nil, flagError(f.where(), fmt.Errorf("no cell has the factor %s", f.factor))
		}
		return nil, flagError(f.where(), errors.New(nearest(fmt.Sprintf("no cell has %s=%s: there are %s", f.factor, want, strings.Join(there, ", ")), want, there)))
	}
	return kept, nil
}

// matcher returns a function that says which of the filter's levels a cell's level is, however both are spelled.
func (s *gridSpec) matcher(f filter) func(level string) (want string, ok bool) {
	wants := map[string]string{} // meaning -> the filter's spelling
	for _, l := range f.levels {
		wants[s.levels.canonical(f.factor, l)] = l
	}
	meanings := map[string]string{} // many cells, few levels
	return func(level string) (string, bool) {
		meaning, known := meanings[level]
		if !known {
			meaning = s.levels.canonical(f.factor, level)
			meanings[level] = meaning
		}
		want, ok := wants[meaning]
		return want, ok
	}
}

// selection splits factor=level[,level] and checks that the factor exists.
func (g *Grid) selection(flag, text string) (factor string, levels []string, err error) {
	flag += " " + text
	if g.spec == nil {
		return "", nil, flagError(flag, errors.New("the cells of this grid are fixed: it was not read from a grid file"))
	}
	factor, list, ok := strings.Cut(text, "=")
	if !ok || factor == "" || list == "" {
		return "", nil, flagError(flag, errors.New("want factor=level[,level]"))
	}
	if err := g.spec.levels.checkName(factor); err != nil {
		return "", nil, flagError(flag, err)
	}
	meanings := map[string]bool{}
	for l := range strings.SplitSeq(list, ",") {
		l = strings.TrimSpace(l)
		meaning := g.spec.levels.canonical(factor, l)
		if l == "" || meanings[meaning] {
			return "", nil, flagError(flag, errors.New("an empty level, or one level twice"))
		}
		meanings[meaning] = true
		levels = append(levels, l)
	}
	return factor, levels, nil
}

func flagError(flag string, err error) error {
	return &settings.Error{Where: flag, What: err.Error(), Hint: "matrix run --dry-run lists the cells of a grid"}
}
