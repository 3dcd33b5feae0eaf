package main

import (
	"bytes"
	"fmt"
)

// trialSpace is what has to be free before a trial: far more than its record and the files beside it take, so that a
// disk that fills up stops the matrix between two trials.
const trialSpace = 4 << 20

// room fails if the disk has no room for a trial.
func (s *sitting) room() error {
	free, known := freeSpace(s.Dir)
	if !known || free >= trialSpace {
		return nil
	}
	return s.diskFull(fmt.Errorf("%.1f MB left, and a trial may need %d MB", float64(free)/1e6, trialSpace/1_000_000))
}

// full fails if a trial left no record because the disk is full: that is no result of the system under test.
func (s *sitting) full(e *ending) error {
	if err := s.room(); err != nil {
		return err
	}
	if bytes.Contains(e.output, []byte("no space left on device")) {
		return s.diskFull(fmt.Errorf("the trial in flight could not write: %s", lastWords(e.output)))
	}
	return nil
}

// noSpace gives an error of writing its way out, if it is that of a full disk.
func (s *sitting) noSpace(err error) error {
	if isNoSpace(err) {
		return s.diskFull(err)
	}
	return err
}

func (s *sitting) diskFull(err error) error {
	return &hinted{fmt.Errorf("%s: the disk is full: %w", s.Dir, err), "what is recorded is safe; make space, then " + s.resumeHint()}
}
