package workload

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"felix/internal/settings"
)

// block reads one block of a grid; sizes are the grid's.
func (d document) block(n *yaml.Node, sizes Sizes, levels Levels) (blockSpec, error) {
	b := blockSpec{line: n.Line, sizes: sizes}
	entries, err := d.mapping(n, "block", blockKeys)
	if err != nil {
		return b, err
	}
	for _, key := range []string{"base", "factors"} { // base first, whatever their order
		for _, e := range entries {
			if e.key != key {
				continue
			}
			if b.factors, err = d.factors(e, b.factors, levels); err != nil {
				return b, err
			}
		}
	}
	for _, e := range entries {
		switch e.key {
		case "why":
			b.why, err = d.prose(e)
		case "sizes":
			b.sizes, err = d.sizes(e.value, sizes)
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// factors reads base, one level each, or factors, a list of levels each, and adds them to those of the block.
func (d document) factors(of entry, have []factorSpec, levels Levels) ([]factorSpec, error) {
	entries, err := d.mapping(of.value, of.key, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := levels.checkName(e.key); err != nil {
			return nil, d.refuse(e.at, "the factors are latencydemo's flags with underscores, named levels, and broker.KEY, client.KEY, transport.KEY", "%s: %v", of.key, err)
		}
		if slices.ContainsFunc(have, func(f factorSpec) bool { return f.name == e.key }) {
			return nil, d.refuse(e.at, "leave it out of one of them", "%s is in base and in factors", e.key)
		}
		values := []*yaml.Node{e.value}
		if of.key == "factors" {
			if values, err = d.list(e.value, e.key); err != nil {
				return nil, err
			}
		}
		f := factorSpec{name: e.key, where: d.at(e.at)}
		for _, v := range values {
			if err := d.level(&f, v, levels); err != nil {
				return nil, err
			}
		}
		have = append(have, f)
	}
	return have, nil
}

// level adds one level to the factor. One that means the same as another of them has no effect, so it is refused.
func (d document) level(f *factorSpec, n *yaml.Node, levels Levels) error {
	text, err := d.scalar(n, f.name)
	if err != nil {
		return err
	}
	if err := levels.check(f.name, text); err != nil {
		return d.refuse(n, "", "%v", err)
	}
	if err := f.add(text, levels); err != nil {
		return d.refuse(n, "leave one of them out", "%v", err)
	}
	return nil
}

// add appends a level that was checked; one that is there already, however it is spelled, is an error.
func (f *factorSpec) add(text string, levels Levels) error {
	meaning := levels.canonical(f.name, text)
	if other, twice := f.meanings[meaning]; twice {
		return fmt.Errorf("%s: %s and %s are one level", f.name, other, text)
	}
	if f.meanings == nil {
		f.meanings = map[string]string{}
	}
	f.meanings[meaning] = text
	f.levels = append(f.levels, text)
	return nil
}

// unused finds a level of the grid's own that no block uses.
func (s *gridSpec) unused(own Levels) error {
	for _, factor := range own.Factors() {
		for _, level := range own.Of(factor) {
			used := slices.ContainsFunc(s.blocks, func(b blockSpec) bool {
				return slices.ContainsFunc(b.factors, func(f factorSpec) bool { return f.name == factor && slices.Contains(f.levels, level) })
			})
			if !used {
				where := own.named[factor][level][0].where
				return &settings.Error{Where: where, What: fmt.Sprintf("levels: %s %s is used by no block", factor, level), Hint: "use it, or leave it out"}
			}
		}
	}
	return nil
}

// Lint finds a factor without effect. resolve says what is really run for a cell, without the spelling of the
// request: every effective setting and factor. Two cells of a block that differ in one factor must come to something
// different. The error names the factor, its block and both levels.
func (g *Grid) Lint(resolve func(*Cell) (string, error)) error {
	if g.spec == nil {
		return nil
	}
	type rest struct {
		block  int
		factor string
		others string
	}
	seen := map[rest]map[string]*expanded{}
	for i := range g.cells {
		c := &g.cells[i]
		effective, err := resolve(&c.Cell)
		if err != nil {
			return &settings.Error{Where: g.spec.where(c.block), What: fmt.Sprintf("cell %s: %v", c.Name, err)}
		}
		for _, f := range g.spec.blocks[c.block].factors {
			var others []string
			for _, o := range g.spec.blocks[c.block].factors {
				if o.name != f.name {
					others = append(others, o.name+"="+c.stated[o.name])
				}
			}
			r := rest{c.block, f.name, strings.Join(others, " ")}
			if seen[r] == nil {
				seen[r] = map[string]*expanded{}
			}
			if twin := seen[r][effective]; twin != nil {
				return &settings.Error{Where: f.where, What: fmt.Sprintf("%s has no effect: %s and %s run the same%s", f.name, twin.stated[f.name], c.stated[f.name], with(r.others)), Hint: "leave the factor out of the block, or give it levels that differ"}
			}
			seen[r][effective] = c
		}
	}
	return nil
}

// with names what else a cell has, and nothing where there is nothing else.
func with(others string) string {
	if others == "" {
		return ""
	}
	return " with " + others
}
