package runrecord

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Latest is the word for the newest grid session.
const Latest = "latest"

// The ways of not finding a session; both are wrapped in an error that lists what there is.
var (
	ErrNoSession        = errors.New("no such session")
	ErrAmbiguousSession = errors.New("several sessions match")
)

// Sessions lists the sessions in the directories directly below root, newest first. Directories that look like
// sessions but cannot be read, or hold records without a session.json, are in broken, by name; others are not
// mentioned. A root that does not exist holds none.
func Sessions(root string) (sessions []*Session, broken []*SessionError, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if st, err := os.Stat(dir); err != nil || !st.IsDir() { // through a link too
			continue
		}
		s, err := ReadSession(dir)
		if err == nil {
			sessions = append(sessions, s)
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			if _, statErr := os.Stat(filepath.Join(dir, RecordsFile)); statErr != nil {
				continue
			}
		}
		var bad *SessionError
		if errors.As(err, &bad) {
			broken = append(broken, bad)
		}
	}
	slices.SortStableFunc(sessions, func(a, b *Session) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.SessionID, a.SessionID))
	})
	return sessions, broken, nil
}

// FindSession finds one session below root. which is "latest" (the newest of kind grid), a session id or the
// beginning of one, its short id, the beginning of its directory's name, or the path of a session's directory
// anywhere. What Sessions found broken on the way is returned with it, since a broken directory may be newer than
// the latest that can be read; it is nil if which is a path.
func FindSession(root, which string) (*Session, []*SessionError, error) {
	if which == "" {
		return nil, nil, fmt.Errorf("%w: give an id or the beginning of one, %q, or a directory", ErrNoSession, Latest)
	}
	if strings.ContainsRune(filepath.ToSlash(which), '/') || which == "." || which == ".." {
		s, err := ReadSession(which)
		return s, nil, err
	}
	sessions, broken, err := Sessions(root)
	if err != nil {
		return nil, nil, err
	}
	if which == Latest {
		i := slices.IndexFunc(sessions, func(s *Session) bool { return s.Kind == SessionKindGrid })
		if i < 0 {
			return nil, broken, fmt.Errorf("%w: no grid session in %s%s", ErrNoSession, root, thereAre(sessions))
		}
		return sessions[i], broken, nil
	}
	matches := match(sessions, which)
	switch len(matches) {
	case 1:
		return matches[0], broken, nil
	case 0:
		for _, b := range broken {
			if strings.HasPrefix(filepath.Base(b.Dir), which) {
				return nil, broken, b
			}
		}
		if s, err := ReadSession(which); err == nil { // a directory here
			return s, nil, nil
		}
		return nil, broken, fmt.Errorf("%w: %q in %s%s", ErrNoSession, which, root, thereAre(sessions))
	}
	return nil, broken, fmt.Errorf("%w: %q is the beginning of %s", ErrAmbiguousSession, which, list(matches))
}

// match returns the sessions that which can mean. A whole name is that session, however many others begin with it.
func match(sessions []*Session, which string) []*Session {
	var begin []*Session
	for _, s := range sessions {
		name := filepath.Base(s.Dir)
		if which == s.SessionID || which == name {
			return []*Session{s}
		}
		if strings.HasPrefix(s.SessionID, which) || strings.HasPrefix(name, which) || which == ShortID(s.SessionID) {
			begin = append(begin, s)
		}
	}
	return begin
}

func thereAre(sessions []*Session) string {
	if len(sessions) == 0 {
		return ", which holds no session"
	}
	return "; there is " + list(sessions)
}

// list names sessions, newest first, a few at most.
func list(sessions []*Session) string {
	const most = 5
	var names []string
	for i, s := range sessions {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(sessions)-most))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s, %s)", s.SessionID, s.Kind, filepath.Base(s.Dir)))
	}
	return strings.Join(names, ", ")
}
