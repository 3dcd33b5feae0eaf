package cells

import "slices"

// InOrder sorts cells as keys lists their cases, which is how a grid names them and not the random order in which a
// session runs them. Cells of the same case, and those of cases that are not listed, which go last, stay as they are.
func InOrder(cells []Cell, keys []string) {
	place := make(map[string]int, len(keys))
	for i, key := range keys {
		if _, twice := place[key]; !twice {
			place[key] = i
		}
	}
	at := func(c Cell) int {
		if i, ok := place[c.Key]; ok {
			return i
		}
		return len(keys)
	}
	slices.SortStableFunc(cells, func(a, b Cell) int { return at(a) - at(b) })
}
