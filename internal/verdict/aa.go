package verdict

import (
	"fmt"

	"felix/internal/stat"
)

// AAResult is what a gate makes of two arms that are the same.
type AAResult struct {
	Gates      []Verdict  `json:"gates"`  // one after another, each of its own pairs
	Judged     int        `json:"judged"` // of them
	FalseFails int        `json:"false_fails"`
	Rate       Rate       `json:"rate"` // false fails of those judged; Low and High are Clopper-Pearson's, 95 %
	Floors     []Floor    `json:"floors"`
	NoiseFloor NoiseFloor `json:"noise_floor"` // the same for Spec: by cell and metric, and the largest by metric
	Outcome    Outcome    `json:"outcome"`     // of all: fail if any gate failed, pass if all passed
	Reasons    []string   `json:"reasons"`
}

// Floor is the noise of one metric of one cell over all pairs.
type Floor struct {
	Cell   string `json:"cell"`
	Metric Metric `json:"metric"`
	N      int    `json:"n"`
	SD     Number `json:"sd"`    // of d
	Ratio  Number `json:"ratio"` // head/base, which should be 1
	Low    Number `json:"low"`
	High   Number `json:"high"`
}

// AA judges pairs of equal arms: as many gates as there are pairs for, each of as many pairs as the last look has, and
// what is left over is in the noise floor alone; with fewer pairs than one gate, the one that can be. Spec.NoiseFloor
// is not used, since it is what is measured here.
func AA(spec Spec, cells []Cell) AAResult {
	spec.NoiseFloor = nil
	resolved, v, err := begin(spec)
	if err != nil {
		return AAResult{Outcome: CannotJudge, Reasons: v.Reasons}
	}
	r := AAResult{NoiseFloor: NoiseFloor{}}
	size := resolved.Looks[len(resolved.Looks)-1]
	for from, pairs := 0, completePairs(cells); from == 0 || from+size <= pairs; from += size {
		part := cells
		if pairs > size {
			part = slicePairs(cells, from, from+size)
		}
		r.Gates = append(r.Gates, Gate(spec, part))
	}
	r.Judged, r.FalseFails, r.Rate = FalseFails(r.Gates)
	r.outcome()
	r.floors(&resolved, cells)
	return r
}

// FalseFails counts the gates of equal arms that failed, of those that were judged at all, with the exact 95 % interval.
func FalseFails(gates []Verdict) (judged, failed int, rate Rate) {
	for i := range gates {
		switch gates[i].Outcome {
		case Fail:
			failed++
			judged++
		case Pass, Inconclusive, Continue:
			judged++
		}
	}
	return judged, failed, share(failed, judged)
}

// slicePairs returns the cells with their complete pairs from one to before another, in order.
func slicePairs(cells []Cell, from, to int) []Cell {
	var out []Cell
	for i := range cells {
		c := cells[i]
		all := c.complete()
		c.Pairs = nil
		for k := from; k < min(to, len(all)); k++ {
			c.Pairs = append(c.Pairs, *all[k])
		}
		out = append(out, c)
	}
	return out
}

func (r *AAResult) outcome() {
	passed := 0
	for i := range r.Gates {
		g := &r.Gates[i]
		switch g.Outcome {
		case CannotJudge:
			r.Reasons = append(r.Reasons, g.Reasons...)
		case Pass:
			passed++
		case Inconclusive:
			r.Reasons = append(r.Reasons, g.Reasons...)
		}
	}
	switch {
	case r.Judged == 0:
		r.Outcome = CannotJudge
	case r.FalseFails > 0:
		r.Outcome = Fail
		r.Reasons = append(r.Reasons, fmt.Sprintf("%d of %d gates of equal arms failed", r.FalseFails, r.Judged))
	case passed == len(r.Gates):
		r.Outcome = Pass
	case r.Judged < len(r.Gates):
		r.Outcome = CannotJudge
	default:
		r.Outcome = Inconclusive
	}
}

func (r *AAResult) floors(s *Spec, cells []Cell) {
	for i := range cells {
		e := s.examine(&cells[i], -1)
		for _, m := range e.gated {
			x := take(&e, m)
			sd := stat.StandardDeviation(x.ds)
			estimate, iv, _ := stat.HodgesLehmann(x.ds, intervalLevel)
			f := Floor{Cell: x.cell, Metric: m, N: len(x.ds), SD: Number(sd)}
			f.Ratio, f.Low, f.High = ratio(x.sign, estimate, iv)
			r.Floors = append(r.Floors, f)
			if sd >= 0 { // NaN of fewer than two pairs
				r.NoiseFloor[FloorKey(x.cell, m)] = sd
				r.NoiseFloor[string(m)] = max(sd, r.NoiseFloor[string(m)])
			}
		}
	}
}
