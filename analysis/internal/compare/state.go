package compare

import (
	"fmt"
	"slices"
	"strings"

	"felix/internal/cells"
)

// State is one state of the source, or one arm, that a session holds cells of.
type State struct {
	Commit, Tree, Binary string // "" not known
	Dirty                bool
	Arm                  string
	Cells, Trials        int // cells, and trials in them
}

// String names the state for people.
func (s State) String() string {
	text := "commit " + known(s.Commit, 9)
	if s.Dirty {
		text += "-DIRTY"
	}
	text += fmt.Sprintf(" tree %s binary %s", known(s.Tree, 9), known(s.Binary, 12))
	if s.Arm != "" {
		text = "arm " + s.Arm + ", " + text
	}
	return text
}

func known(id string, n int) string {
	if id == "" {
		return "unknown"
	}
	return id[:min(len(id), n)]
}

// Is reports whether word means the state: its arm, or the beginning of its tree, commit or binary.
func (s State) Is(word string) bool {
	return word != "" && (s.Arm == word || strings.HasPrefix(s.Tree, word) || strings.HasPrefix(s.Commit, word) || strings.HasPrefix(s.Binary, word))
}

// StateOf is the state that the cell was measured of.
func StateOf(c *cells.Cell) State {
	s := State{Dirty: c.Build.Dirty != nil && *c.Build.Dirty, Arm: c.Arm}
	for to, from := range map[*string]*string{&s.Commit: c.Build.Commit, &s.Tree: c.Build.TreeDigest, &s.Binary: c.Build.BinarySHA256} {
		if from != nil {
			*to = *from
		}
	}
	return s
}

// States lists the states that the cells are of, in order of appearance. Cells whose trials left no result have none
// of their own, unless all are so.
func States(list []cells.Cell) []State {
	var out []State
	add := func(c *cells.Cell) {
		s := StateOf(c)
		i := slices.IndexFunc(out, func(o State) bool {
			o.Cells, o.Trials = 0, 0
			return o == s
		})
		if i < 0 {
			i = len(out)
			out = append(out, s)
		}
		out[i].Cells++
		out[i].Trials += len(c.Trials)
	}
	for i := range list {
		if !empty(&list[i]) {
			add(&list[i])
		}
	}
	if len(out) == 0 {
		for i := range list {
			add(&list[i])
		}
	}
	return out
}

// Of keeps the cells of one state.
func Of(list []cells.Cell, s State) []cells.Cell {
	s.Cells, s.Trials = 0, 0
	return slices.DeleteFunc(slices.Clone(list), func(c cells.Cell) bool { return StateOf(&c) != s })
}
