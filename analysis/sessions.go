package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"felix/analysis/internal/load"
	"felix/internal/cells"
	"felix/internal/runrecord"
)

// source is which records a command reads.
type source struct {
	session string
	results string
}

func (s *source) flags(f *pflag.FlagSet) {
	f.StringVar(&s.session, "session", runrecord.Latest,
		"latest (the newest grid session), all, an id or the beginning of one, the beginning of a directory's name, or the path of a session's directory")
	f.StringVar(&s.results, "results", "results", "directory of the sessions")
}

// find returns the sessions that are meant. What was left out is said.
func (s *source) find(say load.Say) ([]*runrecord.Session, error) {
	sessions, err := load.Select(s.results, s.session, say)
	if errors.Is(err, runrecord.ErrNoSession) || errors.Is(err, runrecord.ErrAmbiguousSession) {
		return nil, &usageError{err, "--session latest, all, or as much of an id as names one session; --results DIR where they lie elsewhere"}
	}
	return sessions, err
}

// read gives every record to each and returns the sessions. What was read, and what was left out, is said; nothing to
// read is an error.
func (s *source) read(each func(*load.Record) error, say load.Say) ([]*runrecord.Session, error) {
	sessions, err := s.find(say)
	if err != nil {
		return nil, err
	}
	return sessions, readSessions(sessions, each, say)
}

// errNoRecord is the error of sessions without any record.
var errNoRecord = errors.New("no record could be read")

// readSessions gives every record of the sessions to each, and says what they are and what was left out.
func readSessions(sessions []*runrecord.Session, each func(*load.Record) error, say load.Say) error {
	for _, session := range sessions {
		say("%s", load.Describe(session))
	}
	planned := load.NewPlanned()
	tally, err := load.Read(sessions, func(r *load.Record) error {
		planned.Add(r)
		return each(r)
	}, say)
	if err != nil {
		return err
	}
	if tally.Records == 0 {
		return errNoRecord
	}
	planned.Say(sessions, say)
	return nil
}

// sayFigures tells what the cells' figures are made of.
func sayFigures(all []cells.Cell, say load.Say) {
	var valid, invalid, failed, interrupted, superseded int
	for i := range all {
		c := &all[i]
		valid += c.N
		invalid += c.Invalid
		failed += c.Failed
		interrupted += c.Interrupted
		superseded += c.Superseded
	}
	text := fmt.Sprintf("%d cells of %d valid trials", len(all), valid)
	for _, out := range []struct {
		n    int
		what string
	}{{invalid, "invalid"}, {failed, "failed"}, {interrupted, "interrupted"}, {superseded, "noisy and repeated"}} {
		if out.n > 0 {
			text += fmt.Sprintf(", %d %s", out.n, out.what)
		}
	}
	if out := invalid + failed + interrupted + superseded; out > 0 {
		text += fmt.Sprintf(": %d in no figure", out)
	}
	say("%s", text)
}

// inGridOrder sorts the cells of a session as its grid lists them; the cells of several sessions stay as they came.
func inGridOrder(all []cells.Cell, sessions []*runrecord.Session) {
	if len(sessions) != 1 || sessions[0].Grid == nil {
		return
	}
	var keys []string
	for _, c := range sessions[0].Grid.Cells {
		keys = append(keys, c.Key)
	}
	cells.InOrder(all, keys)
}

// gridNames are what the sessions' grids call their cells, by case key, but for a key with two names.
func gridNames(sessions []*runrecord.Session) map[string]string {
	names := map[string]string{}
	twice := map[string]bool{}
	for _, s := range sessions {
		if s.Grid == nil {
			continue
		}
		for _, c := range s.Grid.Cells {
			if name, ok := names[c.Key]; ok && name != c.Name {
				twice[c.Key] = true
			}
			names[c.Key] = c.Name
		}
	}
	for key := range twice {
		delete(names, key)
	}
	return names
}
