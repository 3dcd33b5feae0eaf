package compare

import (
	"maps"
	"slices"

	"felix/internal/cells"
)

// Fold adds trials that left no result to the cell that they were of: without a result there are no effective settings,
// so that they stand in a cell of their own, and a session that crashes would look like one that has fewer trials. It
// leaves them where the cell is not certain.
func Fold(list []cells.Cell) []cells.Cell {
	measured := map[string][]int{}
	out := slices.Clone(list)
	for i := range out {
		if !empty(&out[i]) {
			k := out[i].Arm + "\x00" + caseOf(&out[i])
			measured[k] = append(measured[k], i)
		}
	}
	folded := map[int]bool{}
	for i := range out {
		c := &out[i]
		if !empty(c) {
			continue
		}
		if at := measured[c.Arm+"\x00"+caseOf(c)]; len(at) == 1 {
			into := &out[at[0]]
			into.Failed += c.Failed
			into.Interrupted += c.Interrupted
			into.Trials = append(slices.Clone(into.Trials), c.Trials...)
			into.Reasons = maps.Clone(into.Reasons)
			if into.Reasons == nil {
				into.Reasons = map[string]int{}
			}
			for reason, n := range c.Reasons {
				into.Reasons[reason] += n
			}
			if c.Failed > 0 && !slices.Contains(into.Marks, cells.MarkFailed) {
				into.Marks = append(slices.Clone(into.Marks), cells.MarkFailed)
				into.Publishable = false
			}
			folded[i] = true
		}
	}
	var kept []cells.Cell
	for i := range out {
		if !folded[i] {
			kept = append(kept, out[i])
		}
	}
	return kept
}

// empty reports whether no trial of the cell ran to its end.
func empty(c *cells.Cell) bool { return c.N == 0 && c.Invalid == 0 && c.Superseded == 0 }
