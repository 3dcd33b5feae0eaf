package compare

import (
	"maps"
	"math"
	"slices"

	"felix/internal/cells"
	"felix/internal/stat"
)

// paired compares the two cells in pairs: trials of one block.
func (p *pair) paired(o ByOptions) []Row {
	why := p.notJudged()
	var rows []Row
	for i, m := range Metrics(p.base) {
		r := Row{Cell: p.name, Key: p.base.Key, Metric: m, Main: i == 0, Base: armOf(p.base, m), Head: armOf(p.head, m), P: math.NaN(), SlowP: math.NaN()}
		ds, dropped := pairsOf(p.base, p.head, m, o.Block)
		r.N, r.Dropped = len(ds), dropped
		estimate, iv, ok := stat.HodgesLehmann(ds, cells.Level)
		r.Ratio, r.Enough = math.Exp(estimate), ok
		r.Interval = stat.Interval{Low: math.Exp(iv.Low), High: math.Exp(iv.High), Coverage: iv.Coverage}
		if why == "" && len(ds) > 0 {
			r.P = stat.SignedRank(ds, 0).TwoSided
		}
		r.modes(why == "" && o.Factor == armFactor) // levels are different by themselves
		r.find(why)
		rows = append(rows, r)
	}
	return rows
}

// pairsOf returns log(head/base) of every block that both have a value of, and how many blocks were lost because one
// has none.
func pairsOf(base, head *cells.Cell, m Metric, block map[string]int) (ds []float64, dropped int) {
	values := func(c *cells.Cell) (of map[int]float64, blocks map[int]bool) {
		of, blocks = map[int]float64{}, map[int]bool{}
		for i := range c.Trials {
			t := &c.Trials[i]
			at, ok := block[t.RunID]
			if !ok {
				continue
			}
			blocks[at] = true
			x, ok := m.value(t)
			if _, had := of[at]; ok && x > 0 && !had { // of a logarithm there is none at 0
				of[at] = x
			}
		}
		return of, blocks
	}
	b, inBase := values(base)
	h, inHead := values(head)
	maps.Copy(inBase, inHead)
	for _, at := range slices.Sorted(maps.Keys(inBase)) {
		x, ok1 := b[at]
		y, ok2 := h[at]
		if ok1 && ok2 {
			ds = append(ds, math.Log(y/x))
		} else {
			dropped++
		}
	}
	return ds, dropped
}
