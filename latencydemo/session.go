package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"felix/internal/runrecord"
)

// checkSession finds before a run what would refuse its record after it. The directory exists.
func checkSession(dir string) error {
	_, err := runrecord.ReadSession(dir)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return usageError("give a new directory, or one that holds a session", "--session: %w", err)
	}
	if st, err := os.Stat(filepath.Join(dir, runrecord.RecordsFile)); err == nil && st.Size() > 0 {
		return usageError("give a new directory, or one that holds a session", "--session %s: %s without a %s: whose records are they?", dir, runrecord.RecordsFile, runrecord.SessionFile)
	}
	return nil
}

// joinSession makes the record one of the session in dir. Where there is none yet, the record begins one: its build
// and its host are the session's.
func joinSession(dir string, rec *runrecord.Record, args []string) error {
	s, err := runrecord.ReadSession(dir)
	if errors.Is(err, fs.ErrNotExist) {
		s = &runrecord.Session{
			SessionID: runrecord.NewSessionID(), Kind: runrecord.SessionKindSingle, StartedAt: rec.StartedAt,
			Host: rec.Host, Build: rec.Build, BinarySHA256: rec.Build.BinarySHA256, Command: append([]string{"latencydemo"}, args...),
			Notes: []string{},
		}
		s.Host.Noise = nil // that of a trial
		if err = runrecord.WriteSession(dir, s); errors.Is(err, runrecord.ErrOtherSession) {
			s, err = runrecord.ReadSession(dir) // begun by another command meanwhile
		}
	}
	if err != nil {
		return err
	}
	rec.SessionID = &s.SessionID
	return nil
}
