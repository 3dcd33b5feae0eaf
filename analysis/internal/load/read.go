package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"

	"felix/internal/runrecord"
)

// Record is a record with where it came from. It is a summary: see runrecord.ReadSummaries for what is left out.
type Record struct {
	*runrecord.Record
	Session *runrecord.Session
	Line    int    // in the session's records, from 1
	Cell    string // what the session's grid calls the record's case; "" if it has no name there
}

// Where names the record's line, for a remark.
func (r *Record) Where() string { return fmt.Sprintf("%s:%d", r.Session.RecordsPath(), r.Line) }

// Tally is what Read did.
type Tally struct {
	Records    int // given to each
	Bad        int // lines that are no record of a schema known here
	Strangers  int // records of another session than the one they lay in
	Duplicates int // records that were read before
}

// mostLines is how many bad lines of one file are reported one by one.
const mostLines = 20

// Read gives every record of the sessions to each, in the order of the files. It goes on after a line or a file that
// cannot be read and says so; a session whose records are missing or empty is said as well. The error is the first
// that each returned.
func Read(sessions []*runrecord.Session, each func(*Record) error, say Say) (Tally, error) {
	rd := reader{each: each, say: say, seen: map[uuid.UUID]struct{}{}, seenOdd: map[string]struct{}{}}
	for _, s := range sessions {
		if err := rd.session(s); err != nil {
			return rd.total, err
		}
	}
	return rd.total, nil
}

type reader struct {
	each  func(*Record) error
	say   Say
	total Tally
	// Run ids that went by: 16 bytes for each well-formed one, since there may be a hundred thousand.
	seen    map[uuid.UUID]struct{}
	seenOdd map[string]struct{}
}

// callerError is an error of each, which ends the reading; every other one ends a file.
type callerError struct{ err error }

func (e *callerError) Error() string { return e.err.Error() }

func (rd *reader) session(s *runrecord.Session) error {
	var t Tally
	path := s.RecordsPath()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		rd.say("%s: no records yet", path)
		return nil
	}
	if err != nil {
		rd.say("%v", err)
		return nil
	}
	defer f.Close()
	cells := map[string]string{} // case key -> name
	if s.Grid != nil {
		for _, c := range s.Grid.Cells {
			cells[c.Key] = c.Name
		}
	}
	err = runrecord.ReadSummaries(f, path, func(line int, r *runrecord.Record) error {
		switch {
		case r.SessionID != nil && *r.SessionID != s.SessionID:
			t.Strangers++
			if t.Strangers == 1 {
				rd.say("%s:%d: left out: a record of session %s", path, line, *r.SessionID)
			}
			return nil
		case rd.again(r.RunID):
			t.Duplicates++
			if t.Duplicates == 1 {
				rd.say("%s:%d: left out: run %s was read before", path, line, r.RunID)
			}
			return nil
		}
		t.Records++
		if err := rd.each(&Record{Record: r, Session: s, Line: line, Cell: cells[r.Case.Key]}); err != nil {
			return &callerError{err}
		}
		return nil
	}, func(e *runrecord.SyntaxError) {
		if t.Bad++; t.Bad <= mostLines {
			rd.say("%v", e)
		}
	})
	rd.sayTally(path, t)
	rd.total.Records += t.Records
	rd.total.Bad += t.Bad
	rd.total.Strangers += t.Strangers
	rd.total.Duplicates += t.Duplicates
	var caller *callerError
	if errors.As(err, &caller) {
		return caller.err
	}
	if err != nil {
		rd.say("%v: what stands before was read", err)
	}
	return nil
}

func (rd *reader) sayTally(path string, t Tally) {
	if t.Bad > mostLines {
		rd.say("%s: %d more lines skipped", path, t.Bad-mostLines)
	}
	var left []string
	if t.Bad > 0 {
		left = append(left, count(t.Bad, "line")+" skipped")
	}
	if t.Strangers > 0 {
		left = append(left, count(t.Strangers, "record")+" of other sessions left out")
	}
	if t.Duplicates > 0 {
		left = append(left, count(t.Duplicates, "repeated record")+" left out")
	}
	switch {
	case len(left) > 0:
		rd.say("%s: %s read, %s", path, count(t.Records, "record"), strings.Join(left, ", "))
	case t.Records == 0:
		rd.say("%s: no records yet", path)
	}
}

// again reports whether a run id went by before. Records without one are never the same.
func (rd *reader) again(id string) bool {
	if id == "" {
		return false
	}
	if u, err := uuid.Parse(id); err == nil {
		_, again := rd.seen[u]
		rd.seen[u] = struct{}{}
		return again
	}
	_, again := rd.seenOdd[id]
	rd.seenOdd[id] = struct{}{}
	return again
}
