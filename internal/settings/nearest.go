package settings

import (
	"slices"
	"strings"
)

// Nearest returns the candidate with the fewest typing mistakes between it and word
// (insertions, deletions, replacements, exchanged neighbours; case, '-' and '_' are the
// same), or "" if none is near: a suggestion that is off helps nobody. A tie goes to the
// candidate that comes first in the alphabet.
func Nearest(word string, candidates []string) string {
	const slack = 3 // characters of a word for each mistake that is forgiven
	word = fold(word)
	best, bestDistance := "", max(1, len(word)/slack)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(word, fold(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance is the optimal string alignment distance in bytes, or limit if it is not
// below limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before, last []int // rows i-2 and i-1
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := last[j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
		}
	}
	return min(row[len(b)], limit)
}
