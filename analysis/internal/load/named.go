package load

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"felix/internal/runrecord"
)

// Named is one session, and which of its states of the source is meant.
type Named struct {
	Session *runrecord.Session
	State   string // the beginning of a commit, tree or binary, or an arm; "" is whatever the session holds
}

// SeveralError says that a commit was measured in several sessions or states.
type SeveralError struct {
	Commit string
	List   []string // each as it can be asked for, and what it is
}

func (e *SeveralError) Error() string {
	return fmt.Sprintf("commit %s was measured %d times: %s", e.Commit, len(e.List), strings.Join(e.List, "; "))
}

// Name finds the session that a word means: whatever runrecord.FindSession takes; that with @STATE behind it; or a
// commit, by the beginning of its id or by what git calls it here (HEAD, a branch, a tag), if one session alone
// measured it, in one state. Several are a *SeveralError. It reads the records of those sessions whose session.json
// does not say what was built.
func Name(root, which string, say Say) (Named, error) {
	n, err := nameSession(root, which, say)
	if err == nil || !errors.Is(err, runrecord.ErrNoSession) {
		return n, err
	}
	commit := which
	if !commitID.MatchString(which) {
		if commit = revision(which); commit == "" {
			return Named{}, fmt.Errorf("%w; it is no commit that git knows here either", err)
		}
		say("%s is commit %s", which, commit[:min(len(commit), 12)])
	}
	n, found, findErr := ofCommit(root, commit, say)
	switch {
	case findErr != nil:
		return Named{}, findErr
	case !found && commit == which:
		return Named{}, fmt.Errorf("%w; nor is it a commit that a session measured", err)
	case !found:
		return Named{}, fmt.Errorf("%w: none in %s measured commit %s (%s)", runrecord.ErrNoSession, root, commit[:min(len(commit), 12)], which)
	}
	return n, nil
}

func nameSession(root, which string, say Say) (Named, error) {
	s, broken, err := runrecord.FindSession(root, which)
	if err == nil {
		sayBroken(say, broken)
		return Named{Session: s}, nil
	}
	at := strings.LastIndexByte(which, '@')
	if at <= 0 || at == len(which)-1 || !errors.Is(err, runrecord.ErrNoSession) {
		return Named{}, err
	}
	s, broken, atErr := runrecord.FindSession(root, which[:at])
	if atErr != nil {
		return Named{}, atErr
	}
	sayBroken(say, broken)
	return Named{Session: s, State: which[at+1:]}, nil
}

// Abbreviations of fewer digits are of a word that happens to look like one.
var commitID = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// revision asks git for the commit that a name stands for in this directory; "" if it knows none.
func revision(name string) string {
	if strings.HasPrefix(name, "-") {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", name+"^{commit}").Output()
	if err != nil {
		return ""
	}
	if id := strings.TrimSpace(string(out)); commitID.MatchString(id) {
		return id
	}
	return ""
}

// measured is one state that one session measured.
type measured struct {
	session           *runrecord.Session
	commit, tree, arm string
	dirty             bool
}

// ofCommit finds the one session and state of a commit.
func ofCommit(root, commit string, say Say) (Named, bool, error) {
	sessions, broken, err := runrecord.Sessions(root)
	if err != nil {
		return Named{}, false, err
	}
	sayBroken(say, broken)
	var all []measured
	for _, s := range sessions {
		for _, m := range statesOf(s) {
			if strings.HasPrefix(m.commit, commit) {
				all = append(all, m)
			}
		}
	}
	if len(all) == 0 {
		return Named{}, false, nil
	}
	if len(all) > 1 {
		e := &SeveralError{Commit: commit}
		for _, m := range all {
			e.List = append(e.List, m.String())
		}
		return Named{}, false, e
	}
	return Named{all[0].session, all[0].state()}, true, nil
}

// state is how the state is asked for inside its session.
func (m measured) state() string {
	if m.arm != "" {
		return m.arm
	}
	if m.tree != "" {
		return m.tree
	}
	return m.commit
}

func (m measured) String() string {
	state := m.state()
	if m.arm == "" {
		state = state[:min(len(state), 12)]
	}
	text := fmt.Sprintf("%s@%s (%s, commit %s", runrecord.ShortID(m.session.SessionID), state, filepath.Base(m.session.Dir), m.commit[:min(len(m.commit), 9)])
	if m.dirty {
		text += "-DIRTY"
	}
	return text + ")"
}

// statesOf lists what a session measured. Its session.json says it, but for an A/B, which has two builds, and sessions
// of one sitting after another.
func statesOf(s *runrecord.Session) []measured {
	if s.Build.Commit != nil && s.Kind == runrecord.SessionKindGrid {
		return []measured{stateOf(s, &s.Build, nil)}
	}
	var out []measured
	_, _ = Read([]*runrecord.Session{s}, func(r *Record) error { // each returns no error
		if r.Build.Commit != nil {
			if m := stateOf(s, &r.Build, r.Arm); !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
		return nil
	}, func(string, ...any) {}) // what is read in the end is read again, with remarks
	return out
}

func stateOf(s *runrecord.Session, b *runrecord.Build, arm *string) measured {
	m := measured{session: s, commit: *b.Commit, dirty: b.Dirty != nil && *b.Dirty}
	if b.TreeDigest != nil {
		m.tree = *b.TreeDigest
	}
	if arm != nil {
		m.arm = *arm
	}
	return m
}
