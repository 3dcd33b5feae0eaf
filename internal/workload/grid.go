package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DefaultTrials is how many trials of each cell a grid has that does not say.
const DefaultTrials = 5

const maxTrials = 1000

// Grid is a set of cells that are measured together, several trials each.
type Grid struct {
	Name   string `json:"name"`
	Why    string `json:"why"`    // what it can show
	Trials int    `json:"trials"` // of each cell
	Cells  []Cell `json:"cells"`  // in the order of the file
	// Digest names what is measured: SHA-256, in hex, of every cell's key and sizes. Neither the order of the cells
	// nor the number of trials is part of it.
	Digest string `json:"digest"`

	spec  *gridSpec  // nil for a grid that was not parsed
	cells []expanded // those of spec that Cells came from
}

// Cell is one case of a grid.
type Cell struct {
	Name   string `json:"name"`             // unique in its grid: the levels of the factors that the grid varies
	Case   Case   `json:"case"`             // resolved
	Sizes  Sizes  `json:"sizes"`            // of the grid, with its block's over them
	Preset string `json:"preset,omitempty"` // level of the factor preset; "" = none
	Why    string `json:"why,omitempty"`    // of its block
}

// Flags lists the flags of latencydemo that run the cell.
func (c *Cell) Flags() []string { return append(c.Case.Flags(), c.Sizes.Flags()...) }

var (
	gridKeys  = []string{"why", "trials", "sizes", "levels", "blocks"}
	blockKeys = []string{"why", "sizes", "base", "factors"}
)

// ParseGrid reads a grid; name is its file's, for errors, and without folder and ending the grid's. It may use the
// shared levels beside its own. It is strict: an error is a *settings.Error that names the file, the line, the key
// and the nearest one that exists; a cell that occurs twice and a level that nothing uses are errors too.
//
//	why: what it can show                      # needed
//	trials: 5
//	sizes: {idle_timeout: 10s}                 # of every cell: latencydemo's flags of the same names
//	levels: {preset: {P2: {publishers: 2}}}    # named sets of levels
//	blocks:                                    # needed; each stands for every combination of its levels
//	  - why: what this block adds
//	    sizes: {total: auto}                   # over the grid's
//	    base: {batch: 64}                      # one level each
//	    factors: {preset: [P2], payload: [256, 4096], broker.subscriber_queue_capacity: [8, 512]}
func ParseGrid(name string, data []byte, shared ...Levels) (*Grid, error) {
	d := document{name}
	root, err := d.root(data)
	if err != nil {
		return nil, err
	}
	entries, err := d.mapping(root, "grid", gridKeys)
	if err != nil {
		return nil, err
	}
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	g := &Grid{Name: strings.TrimSuffix(base, path.Ext(base)), Trials: DefaultTrials, spec: &gridSpec{file: name}}
	for _, l := range shared {
		g.spec.levels = g.spec.levels.merge(l)
	}
	var sizes Sizes
	own := Levels{}
	for _, e := range entries {
		switch e.key {
		case "why":
			g.Why, err = d.prose(e)
		case "trials":
			g.Trials, err = d.trials(e)
		case "sizes":
			sizes, err = d.sizes(e.value, sizes)
		case "levels":
			own, err = d.levels(e.value, g.spec.levels)
		}
		if err != nil {
			return nil, err
		}
	}
	g.spec.levels = g.spec.levels.merge(own)
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == "blocks" })
	if i < 0 || g.Why == "" {
		return nil, d.refuse(root, "say in why what the grid can show, and list blocks of factors", "grid: why and blocks are needed")
	}
	blocks, err := d.list(entries[i].value, "blocks")
	if err != nil {
		return nil, err
	}
	for _, n := range blocks {
		b, err := d.block(n, sizes, g.spec.levels)
		if err != nil {
			return nil, err
		}
		g.spec.blocks = append(g.spec.blocks, b)
	}
	if err := g.spec.unused(own); err != nil {
		return nil, err
	}
	return g, g.build(false)
}

func (d document) trials(e entry) (int, error) {
	s, err := d.scalar(e.value, e.key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(n) != s || n < 1 || n > maxTrials {
		return 0, d.refuse(e.value, "", "trials %q: want 1 to %d", s, maxTrials)
	}
	return n, nil
}

// build makes the cells anew from the spec.
func (g *Grid) build(merge bool) error {
	cells, err := g.spec.expand(merge)
	if err != nil {
		return err
	}
	for _, f := range g.spec.only {
		if cells, err = g.spec.filtered(cells, f); err != nil {
			return err
		}
	}
	g.cells, g.Cells = cells, make([]Cell, len(cells))
	for i := range cells {
		g.Cells[i] = cells[i].Cell
	}
	g.Digest = Digest(g.Cells)
	return nil
}

// Digest is that of a grid with these cells.
func Digest(cells []Cell) string {
	lines := make([]string, len(cells))
	for i := range cells {
		lines[i] = fmt.Sprintf("%q %q\n", cells[i].Case.Key(), cells[i].Sizes.Flags())
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}
