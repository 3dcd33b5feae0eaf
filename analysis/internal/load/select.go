// Package load finds the sessions that were asked for and reads their records, one by one, saying what it left out:
// other sessions, broken ones, lines that are no records, records that belong elsewhere or were read before.
package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"felix/internal/runrecord"
)

// All is the word for every session.
const All = "all"

// Say takes one remark for people, a line without its end.
type Say func(format string, args ...any)

// Select returns the sessions below root that which names: "latest" (the newest grid session), "all", or whatever
// runrecord.FindSession takes. All come oldest first. What is left out is said.
func Select(root, which string, say Say) ([]*runrecord.Session, error) {
	if which == All {
		sessions, broken, err := runrecord.Sessions(root)
		if err != nil {
			return nil, err
		}
		sayBroken(say, broken)
		if len(sessions) == 0 {
			return nil, fmt.Errorf("%w in %s", runrecord.ErrNoSession, root)
		}
		slices.Reverse(sessions)
		return sessions, nil
	}
	s, broken, err := runrecord.FindSession(root, which)
	if err != nil {
		return nil, err
	}
	sayBroken(say, broken)
	if others := others(root, s); len(others) > 0 {
		say("left out %s of %s: %s", count(len(others), "other session"), root, names(others))
	}
	return []*runrecord.Session{s}, nil
}

func sayBroken(say Say, broken []*runrecord.SessionError) {
	for _, b := range broken {
		say("left out: %v", b)
	}
}

// others lists the sessions below root but for the chosen one, newest first; none if that lies elsewhere.
func others(root string, chosen *runrecord.Session) []*runrecord.Session {
	sessions, _, err := runrecord.Sessions(root)
	if err != nil {
		return nil // the chosen one was found elsewhere
	}
	i := slices.IndexFunc(sessions, func(s *runrecord.Session) bool { return same(s.Dir, chosen.Dir) })
	if i < 0 {
		return nil
	}
	return slices.Delete(sessions, i, i+1)
}

func same(a, b string) bool {
	aInfo, aErr := os.Stat(a)
	bInfo, bErr := os.Stat(b)
	return aErr == nil && bErr == nil && os.SameFile(aInfo, bInfo)
}

func names(sessions []*runrecord.Session) string {
	const most = 3
	var b strings.Builder
	for i, s := range sessions {
		if i == most {
			fmt.Fprintf(&b, ", %d more", len(sessions)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(filepath.Base(s.Dir))
	}
	return b.String()
}

// Describe says in a line what a session is.
func Describe(s *runrecord.Session) string {
	var b strings.Builder
	b.WriteString(filepath.Base(s.Dir))
	if s.Grid != nil {
		fmt.Fprintf(&b, ": grid %s, %s", s.Grid.Name, count(len(s.Grid.Cells), "cell"))
		if s.Trials != nil {
			fmt.Fprintf(&b, " x %s", count(*s.Trials, "trial"))
		}
	} else {
		fmt.Fprintf(&b, ": kind %s", s.Kind)
	}
	fmt.Fprintf(&b, ", started %s", s.StartedAt.UTC().Format("2006-01-02 15:04 UTC"))
	if s.EndedAt == nil && s.Kind != runrecord.SessionKindSingle {
		b.WriteString(", not ended")
	}
	return b.String()
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
