package main

import (
	"io"

	"felix/internal/cells"
	"felix/internal/runrecord"
)

// table ends the session on stdout: the cells of all its records, as analysis table prints them. Lines that are no
// records were told when the session was taken up.
func (r *runner) table() error { return writeTable(r.stdout, r.Session, func(error) {}) }

func writeTable(w io.Writer, s *runrecord.Session, bad func(error)) error {
	g := cells.NewGrouper()
	n := 0
	err := readRecords(s, func(_ int, rec *runrecord.Record) {
		g.Add(rec)
		n++
	}, bad)
	if err != nil || n == 0 {
		return err
	}
	names := map[string]string{}
	if s.Grid != nil {
		for _, c := range s.Grid.Cells {
			names[c.Key] = c.Name
		}
	}
	return cells.Table{Cells: g.Cells(), Names: names}.Write(w)
}
