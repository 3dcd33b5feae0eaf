package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// ledger is what the records of the session say of its slots. It is read from the file when a session is opened and
// kept up with every record that is appended, so that a resumed matrix and one that was never stopped decide alike.
type ledger struct {
	cells   map[string]int // case key -> index in the grid
	retries int

	bySlot   map[slot]*slotState
	records  int
	attempts int // records, but for interrupted ones
	failed   int // of the attempts
	// sample is the last record of a cell that a trial left itself: it knows what matrix does not.
	sample map[int]*runrecord.Record
}

// slotState is what became of one slot.
type slotState struct {
	records  int
	measured int // records of trials that ran to their end, valid or not
	failed   int // crashed, hung, no record
	repeats  int // attempts after the first measured one
	valid    bool
	quiet    bool // one of the measured ones was not noisy
}

// outcome is what counts of one record.
type outcome struct{ valid, failed, interrupted, noisy bool }

func outcomeOf(r *runrecord.Record) outcome {
	noisy := r.Host.Noise != nil && (r.Host.Noise.Grade == string(host.Noisy) || r.Host.Noise.Grade == string(host.Contaminated))
	// A trial that was measured has no error, valid or not: an invalid one is a result, a failed one is none.
	return outcome{valid: r.Valid, failed: r.Error != nil && !r.Interrupted, interrupted: r.Interrupted, noisy: noisy}
}

func newLedger(g *workload.Grid, retries int) *ledger {
	l := &ledger{cells: map[string]int{}, retries: retries, bySlot: map[slot]*slotState{}, sample: map[int]*runrecord.Record{}}
	for i := range g.Cells {
		l.cells[g.Cells[i].Case.Key()] = i
	}
	return l
}

// read takes in the records of a session. Lines that are none, a torn last one above all, were not recorded: they are
// told to bad and not counted.
func (l *ledger) read(s *runrecord.Session, bad func(error)) error {
	return readRecords(s, func(line int, r *runrecord.Record) {
		if err := l.add(s.SessionID, r); err != nil {
			bad(fmt.Errorf("%s:%d: not counted: %w", s.RecordsPath(), line, err))
		}
	}, bad)
}

// readRecords reads a session's records as summaries. No file is no records.
func readRecords(s *runrecord.Session, each func(line int, r *runrecord.Record), bad func(error)) error {
	f, err := os.Open(s.RecordsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the session: %w", err)
	}
	defer f.Close()
	return runrecord.ReadSummaries(f, s.RecordsPath(), func(line int, r *runrecord.Record) error {
		each(line, r)
		return nil
	}, func(e *runrecord.SyntaxError) { bad(e) })
}

// add counts one record. The error is that it is not of this session.
func (l *ledger) add(sessionID string, r *runrecord.Record) error {
	cell, known := l.cells[r.Case.Key]
	switch {
	case r.SessionID == nil || *r.SessionID != sessionID:
		return errors.New("a record of another session")
	case !known:
		return fmt.Errorf("no cell of the grid: %s", r.Case.Key)
	case r.Trial == nil:
		return errors.New("it has no trial")
	}
	s := slot{cell, *r.Trial}
	state := l.bySlot[s]
	if state == nil {
		state = &slotState{}
		l.bySlot[s] = state
	}
	o := outcomeOf(r)
	state.records++
	l.records++
	if o.interrupted {
		return nil
	}
	l.attempts++
	if state.measured > 0 {
		state.repeats++
	}
	if o.failed {
		state.failed++
		l.failed++
		return nil
	}
	state.measured++
	state.valid = o.valid
	state.quiet = state.quiet || !o.noisy
	l.sample[cell] = r
	return nil
}

// done reports whether a slot needs no further attempt: it was measured, valid or not, or failed as often as it may.
// A trial that was interrupted is recorded, and neither.
func (l *ledger) done(s slot) bool {
	state := l.bySlot[s]
	return state != nil && (state.measured > 0 || state.failed > l.retries)
}

// attempt returns the number of the slot's next attempt, from 1.
func (l *ledger) attempt(s slot) int {
	if state := l.bySlot[s]; state != nil {
		return state.failed + state.measured + 1
	}
	return 1
}

// noisy reports whether a slot was measured in noise only, and may be repeated once more.
func (l *ledger) noisy(s slot, most int) bool {
	state := l.bySlot[s]
	return state != nil && state.measured > 0 && !state.quiet && state.repeats < most
}

// totals counts slots by what became of them.
type totals struct{ valid, invalid, failed, interrupted, noisy int }

func (l *ledger) totals() totals {
	var t totals
	for s, state := range l.bySlot {
		switch {
		case state.measured > 0 && state.valid:
			t.valid++
		case state.measured > 0:
			t.invalid++
		case l.done(s):
			t.failed++
		default:
			t.interrupted++
		}
		if state.measured > 0 && !state.quiet {
			t.noisy++
		}
	}
	return t
}
