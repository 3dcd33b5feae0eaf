package load_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"felix/analysis/internal/load"
	"felix/internal/runrecord"
)

func built(id, commit, tree, arm string) string {
	if arm != "" {
		arm = fmt.Sprintf(`,"arm":%q`, arm)
	}
	return fmt.Sprintf(`{"schema":"felix.run/1","run_id":%q,"build":{"commit":%q,"tree_digest":%q}%s}`, id, commit, tree, arm)
}

func TestName(t *testing.T) {
	root := t.TempDir()
	const a, b, c, d = "a000000000000000000000000000000000000000", "b000000000000000000000000000000000000000", "c000000000000000000000000000000000000000", "c0000001"
	grid, ab := runrecord.SessionKindGrid, runrecord.SessionKindAB
	session(t, root, "one", grid, at, []string{built("1", a, "t1", ""), built("2", a, "t1", "")})
	session(t, root, "two", ab, at.Add(time.Hour), []string{built("3", b, "t2", "base"), built("4", c, "t3", "head")})
	session(t, root, "three", grid, at.Add(2*time.Hour), []string{built("5", b, "t2", ""), "{torn", built("6", b, "t4", "")})
	session(t, root, "four", grid, at.Add(3*time.Hour), nil)
	for _, tt := range []struct {
		word, session, state string
		err                  string
	}{
		{word: "one", session: "one"},
		{word: "latest", session: "four"},
		{word: "one@t1", session: "one", state: "t1"},
		{word: "two@head", session: "two", state: "head"},
		{word: a[:7], session: "one", state: "t1"},
		{word: a, session: "one", state: "t1"},
		{word: c[:8], session: "two", state: "head"},
		{word: b[:7], err: "commit b000000 was measured 3 times: three@t2 (three, commit b00000000); three@t4 (three, commit b00000000); two@base (two, commit b00000000)"},
		{word: b[:6], err: "no such session"}, // too short to be a commit
		{word: d, err: "nor is it a commit that a session measured"},
		{word: "one@", err: "no such session"},
		{word: "@t1", err: "no such session"},
		{word: "nope@t1", err: "no such session"},
		{word: "--all", err: "no such session"}, // no option of git's
		{word: "", err: "no such session"},
	} {
		got, err := load.Name(root, tt.word, func(string, ...any) {})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Name(%q) = %+v, %v; want an error with %q", tt.word, got, err, tt.err)
			}
			continue
		}
		if err != nil || got.Session.SessionID != tt.session || got.State != tt.state {
			t.Errorf("Name(%q) = %+v, %v; want %s@%s", tt.word, got, err, tt.session, tt.state)
		}
	}
	var several *load.SeveralError
	if _, err := load.Name(root, b, func(string, ...any) {}); !errors.As(err, &several) {
		t.Errorf("Name of a commit measured twice: %v, want a *SeveralError", err)
	}
}

func TestFull(t *testing.T) {
	long := strings.TrimSuffix(line("long"), "}") + `,"command":["` + strings.Repeat("x", 3<<20) + `"],"intervals":[{"at_ns":7}]}`
	s := session(t, t.TempDir(), "s", runrecord.SessionKindGrid, at, []string{"\xef\xbb\xbf" + line("a") + "\r", "{torn", long, "", line("last")})
	got, err := load.Full(s, []int{1, 3, 5, 3})
	if err != nil || len(got) != 3 || got[1].RunID != "a" || got[3].RunID != "long" || got[5].RunID != "last" {
		t.Fatalf("%d records, %v", len(got), err)
	}
	if len(got[3].Intervals) != 1 || got[3].Intervals[0].AtNs != 7 {
		t.Errorf("intervals %v: not the whole record", got[3].Intervals)
	}
	if got, err := load.Full(s, nil); err != nil || len(got) != 0 {
		t.Errorf("nothing asked for: %v, %v", got, err)
	}
	for _, lines := range [][]int{{2}, {4}, {6}, {0}} {
		if got, err := load.Full(s, lines); err == nil {
			t.Errorf("line %v: %v, want an error", lines, got)
		}
	}
	if err := os.Remove(s.RecordsPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Full(s, []int{1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}
