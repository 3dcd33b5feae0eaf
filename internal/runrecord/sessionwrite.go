package runrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteSession writes dir/session.json, creating dir, and sets s.Schema and s.Dir. It replaces the file of the same
// session in one step, so that a reader, a kill or a full disk never leaves half of it. A directory that holds
// another session, a broken session.json, or records without any is refused with ErrOtherSession; of two writers
// that create at once, one is refused too.
func WriteSession(dir string, s *Session) (err error) {
	content, err := s.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	exists, err := mayWrite(dir, s.SessionID)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, SessionFile+".*.tmp")
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // already renamed, or of no use
	if err := fill(tmp, content); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	path := filepath.Join(dir, SessionFile)
	if exists {
		err = os.Rename(tmp.Name(), path)
	} else if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
		return otherSession(dir, "written just now by another process")
	} else if err != nil {
		err = os.Rename(tmp.Name(), path) // a file system without hard links: no guard against that race there
	}
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	syncDir(dir)
	s.Schema, s.Dir = SessionSchema, dir
	return nil
}

// mayWrite reports whether dir already holds the session of this id, or why it is not that session's to write.
func mayWrite(dir, id string) (exists bool, err error) {
	old, err := ReadSession(dir)
	switch {
	case err == nil && old.SessionID == id:
		return true, nil
	case err == nil:
		return false, otherSession(dir, "session "+old.SessionID)
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w: %w", ErrOtherSession, err)
	}
	if st, err := os.Stat(filepath.Join(dir, RecordsFile)); err == nil && st.Size() > 0 {
		return false, otherSession(dir, RecordsFile+" without a "+SessionFile)
	}
	return false, nil
}

func otherSession(dir, holds string) error {
	return fmt.Errorf("%s: %w: it holds %s", dir, ErrOtherSession, holds)
}

func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the directory's new entry durable, where the system can.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // not every file system syncs directories; the file itself is on disk
		_ = d.Close()
	}
}
