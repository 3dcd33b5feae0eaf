package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"felix/internal/settings"
)

// maxCells bounds a grid: at a second a trial, a day of five trials each.
const maxCells = 10_000

// gridSpec is a grid as it was written; expand makes the cells of it.
type gridSpec struct {
	file   string
	levels Levels
	blocks []blockSpec
	only   []filter
}

// blockSpec is one block: every combination of its factors' levels.
type blockSpec struct {
	line    int // of the file
	why     string
	sizes   Sizes
	factors []factorSpec // base first, each with one level; the first varies slowest
}

type factorSpec struct {
	name     string
	levels   []string
	meanings map[string]string // canonical -> level
	where    string
}

// filter is one --only.
type filter struct {
	factor string
	levels []string
}

func (f filter) where() string { return "--only " + f.factor + "=" + strings.Join(f.levels, ",") }

// expanded is a cell with what was said about it.
type expanded struct {
	Cell
	block  int
	stated map[string]string // factor as written, named ones too -> level as written
}

// leftOut reports whether an --only leaves out a combination that cannot be, by a level that it states itself.
func (s *gridSpec) leftOut(c *expanded) bool {
	return slices.ContainsFunc(s.only, func(f filter) bool {
		level, stated := c.stated[f.factor]
		_, kept := s.matcher(f)(level)
		return stated && !kept
	})
}

// expand makes the cells of every block and names them. Two that are the same case are an error, unless merge is set
// and their sizes are the same too: then the first stands for both.
func (s *gridSpec) expand(merge bool) ([]expanded, error) {
	total := 0
	for i := range s.blocks {
		n := 1
		for _, f := range s.blocks[i].factors {
			n *= len(f.levels)
			if n > maxCells {
				break
			}
		}
		if total += n; total > maxCells {
			return nil, &settings.Error{Where: s.where(i), What: fmt.Sprintf("more than %d cells", maxCells), Hint: "give factors fewer levels"}
		}
	}
	var cells []expanded
	byKey := map[string]int{}
	for i := range s.blocks {
		err := s.combine(i, func(stated []assignment) error {
			c, err := s.cell(i, stated)
			if err != nil && s.leftOut(&c) {
				return nil
			}
			if err != nil {
				return err
			}
			key := c.Case.Key()
			first, twice := byKey[key]
			switch {
			case !twice:
				byKey[key] = len(cells)
				cells = append(cells, c)
			case !merge:
				return &settings.Error{Where: s.where(i), What: fmt.Sprintf("a cell occurs twice, first in the block of line %d: %s", s.blocks[cells[first].block].line, key), Hint: "every case once: leave the level out of one of the blocks"}
			case !slices.Equal(cells[first].Sizes.Flags(), c.Sizes.Flags()):
				return &settings.Error{Where: s.where(i), What: fmt.Sprintf("two blocks come to one cell with different sizes: %s", key), Hint: "write a grid file for it"}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	s.name(cells)
	return cells, nil
}

func (s *gridSpec) where(block int) string {
	return fmt.Sprintf("%s:%d", s.file, s.blocks[block].line)
}

// combine calls each with every combination of the block's levels, the last factor varying fastest.
func (s *gridSpec) combine(block int, each func([]assignment) error) error {
	factors := s.blocks[block].factors
	chosen := make([]assignment, len(factors))
	var descend func(i int) error
	descend = func(i int) error {
		if i == len(factors) {
			return each(chosen)
		}
		for _, level := range factors[i].levels {
			chosen[i] = assignment{factors[i].name, level, factors[i].where}
			if err := descend(i + 1); err != nil {
				return err
			}
		}
		return nil
	}
	return descend(0)
}

var flagOfError = regexp.MustCompile(`^--([a-z-]+) `)

// cell resolves one combination.
func (s *gridSpec) cell(block int, chosen []assignment) (expanded, error) {
	b := &s.blocks[block]
	e := expanded{Cell: Cell{Case: Case{Payload: DefaultPayload}, Sizes: b.sizes, Why: b.why}, block: block, stated: map[string]string{}}
	setBy := map[string]assignment{} // factor -> what decided it
	for _, a := range chosen {
		e.stated[a.factor] = a.level
	}
	for _, a := range chosen {
		set := []assignment{a}
		if named := s.levels.named[a.factor]; named != nil {
			set = named[a.level]
			if a.factor == "preset" {
				e.Preset = a.level
			}
		}
		for _, x := range set {
			if first, twice := setBy[x.factor]; twice {
				return e, &settings.Error{Where: a.where, What: fmt.Sprintf("%s is decided twice: by %s=%s and by %s=%s", x.factor, first.factor, first.level, a.factor, a.level), Hint: "leave one of them out of the block"}
			}
			setBy[x.factor] = a
			if err := apply(&e.Case, x.factor, x.level); err != nil {
				return e, &settings.Error{Where: x.where, What: fmt.Sprintf("%s: %v", x.factor, err)}
			}
		}
	}
	resolved, err := e.Case.Resolve()
	if err != nil {
		// Where the factor that the error is about was given, if it was.
		where, words := s.where(block), []string{}
		if m := flagOfError.FindStringSubmatch(err.Error() + " "); m != nil {
			if a, ok := setBy[strings.ReplaceAll(m[1], "-", "_")]; ok {
				where = a.where
			}
		}
		for _, a := range chosen {
			words = append(words, a.factor+"="+a.level)
		}
		return e, &settings.Error{Where: where, What: fmt.Sprintf("cell %s: %v", strings.Join(words, " "), err), Hint: "move it to a block of its own, with the levels that can be"}
	}
	e.Case = resolved
	return e, nil
}

// name gives every cell the levels of the factors that the grid varies, in the order in which they were first stated.
// What no file states cannot differ but through what one does, so that names are unique.
func (s *gridSpec) name(cells []expanded) {
	var order []string
	for _, b := range s.blocks {
		for _, f := range b.factors {
			if !slices.Contains(order, f.name) {
				order = append(order, f.name)
			}
		}
	}
	order = slices.DeleteFunc(order, func(factor string) bool {
		return !slices.ContainsFunc(cells, func(c expanded) bool { return s.shown(&c, factor) != s.shown(&cells[0], factor) })
	})
	for i := range cells {
		var words []string
		for _, factor := range order {
			if level := s.shown(&cells[i], factor); level != "" {
				words = append(words, factor+"="+level)
			}
		}
		cells[i].Name = strings.Join(words, " ")
		if len(words) == 0 {
			cells[i].Name = cells[i].Case.Key()
		}
	}
}

// shown is the cell's level of a factor, "" if it has none.
func (s *gridSpec) shown(c *expanded, factor string) string {
	if s.levels.named[factor] != nil {
		return c.stated[factor]
	}
	level, _ := levelOf(&c.Case, factor)
	return level
}
