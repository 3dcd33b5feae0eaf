package aggregate

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"felix/analysis/internal/load"
	"felix/internal/cells"
	"felix/internal/runrecord"
)

// Writer writes both tables of the records that it is given: runs as they come, cells at the end. Either output may
// be nil. It must not be used by two goroutines at once.
type Writer struct {
	runs    *table[run]
	cells   *table[cell]
	grouper *cells.Grouper
	origins map[string]*origin // by cell id
}

// NewWriter returns a Writer of the format.
func NewWriter(runs, cellsTo io.Writer, format Format) (*Writer, error) {
	w := &Writer{grouper: cells.NewGrouper(), origins: map[string]*origin{}}
	w.grouper.KeepHistograms = cellsTo != nil
	var err error
	if runs != nil {
		if w.runs, err = newTable(runs, format, "runs", runColumns); err != nil {
			return nil, err
		}
	}
	if cellsTo != nil {
		if w.cells, err = newTable(cellsTo, format, "cells", cellColumns); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Add writes the record's row of the runs table and counts it in for its cell.
func (w *Writer) Add(r *load.Record) error {
	id := w.grouper.Add(withSession(r))
	o := w.origins[id]
	if o == nil {
		o = &origin{}
		w.origins[id] = o
	}
	if r.Cell != "" && !slices.Contains(o.names, r.Cell) {
		o.names = append(o.names, r.Cell)
	}
	if s := r.Session.SessionID; !slices.Contains(o.sessions, s) {
		o.sessions = append(o.sessions, s)
	}
	if w.runs == nil {
		return nil
	}
	return w.runs.row(run{Record: r, cellID: id})
}

// withSession gives a record that names no session the one that it lay in.
func withSession(r *load.Record) *runrecord.Record {
	if r.SessionID == nil {
		r.SessionID = &r.Session.SessionID
	}
	return r.Record
}

// Close writes the cells as sort leaves them, out of the order in which they first came, ends both tables and returns
// the cells. What both were written to stays open.
func (w *Writer) Close(sort func([]cells.Cell), say load.Say) ([]cells.Cell, error) {
	all := w.grouper.Cells()
	sort(all)
	if w.cells != nil {
		merged := merge(all, say)
		ceilings := cells.Ceilings(all)
		for i := range all {
			row := cell{Cell: &all[i], origin: w.origins[all[i].ID], endToEnd: merged[i]}
			if c, ok := ceilings[all[i].ID]; ok && !math.IsNaN(c.Share) {
				row.ofRelay = &c.Share
			}
			if err := w.cells.row(row); err != nil {
				return nil, err
			}
		}
		if err := w.cells.close(); err != nil {
			return nil, err
		}
	}
	if w.runs != nil {
		if err := w.runs.close(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// merge adds up the histograms of each cell, on all cores. A cell where that fails has none, and it is said.
func merge(all []cells.Cell, say load.Say) []*runrecord.Distribution {
	merged := make([]*runrecord.Distribution, len(all))
	failed := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		g.Go(func() error {
			if d, err := all[i].EndToEnd(); err != nil {
				failed[i] = fmt.Errorf("cell %s: no merged histogram: %w", all[i].Key, err)
			} else if d.N > 0 {
				merged[i] = &d
			}
			return nil
		})
	}
	_ = g.Wait() // the errors stand in failed, each with its cell
	for _, err := range failed {
		if err != nil {
			say("%v", err)
		}
	}
	return merged
}
