package load_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/analysis/internal/load"
	"felix/internal/runrecord"
)

// session writes one with the given lines as its records; none if lines is nil.
func session(t *testing.T, root, id string, kind runrecord.SessionKind, at time.Time, lines []string) *runrecord.Session {
	t.Helper()
	s := &runrecord.Session{SessionID: id, Kind: kind, StartedAt: at}
	if kind == runrecord.SessionKindGrid {
		s.Grid = &runrecord.SessionGrid{Name: "g", Cells: []runrecord.SessionCell{{Name: "one", Key: "payload=1"}, {Name: "two", Key: "payload=2"}}}
	}
	if err := runrecord.WriteSession(filepath.Join(root, id), s); err != nil {
		t.Fatal(err)
	}
	if lines != nil {
		if err := os.WriteFile(s.RecordsPath(), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func line(id string) string {
	return fmt.Sprintf(`{"schema":"felix.run/1","run_id":%q,"case":{"key":"payload=2"},"trial":1}`, id)
}

// said collects remarks.
type said []string

func (s *said) say(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

var at = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func TestReadGoesOn(t *testing.T) {
	root := t.TempDir()
	var torn []string
	for range 25 {
		torn = append(torn, "{")
	}
	sessions := []*runrecord.Session{
		session(t, root, "torn", runrecord.SessionKindGrid, at, append(torn, line("a"), "", line("b"), line("a"), line(""), line(""))),
		session(t, root, "none", runrecord.SessionKindGrid, at, nil),
		session(t, root, "folder", runrecord.SessionKindSingle, at, nil),
		session(t, root, "good", runrecord.SessionKindSingle, at, []string{line("b"), line("c")}),
	}
	if err := os.Mkdir(sessions[2].RecordsPath(), 0o700); err != nil {
		t.Fatal(err)
	}
	var talk said
	var got []string
	tally, err := load.Read(sessions, func(r *load.Record) error {
		got = append(got, fmt.Sprintf("%s:%d:%s:%s", r.Session.SessionID, r.Line, r.RunID, r.Cell))
		return nil
	}, talk.say)
	if err != nil {
		t.Fatal(err)
	}
	// Two records without an id are two records.
	want := []string{"torn:26:a:two", "torn:28:b:two", "torn:30::two", "torn:31::two", "good:2:c:"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if want := (load.Tally{Records: 5, Bad: 25, Duplicates: 2}); tally != want {
		t.Errorf("tally %+v, want %+v", tally, want)
	}
	all := strings.Join(talk, "\n")
	if n := strings.Count(all, ": skipped: "); n != 20 {
		t.Errorf("%d lines were reported one by one, want 20:\n%s", n, all)
	}
	for _, want := range []string{
		"torn/records.jsonl:20: skipped: ", "torn/records.jsonl: 5 more lines skipped", "torn/records.jsonl:29: left out: run a was read before",
		"torn/records.jsonl: 4 records read, 25 lines skipped, 1 repeated record left out", "none/records.jsonl: no records yet",
		"is a directory", "good/records.jsonl:1: left out: run b was read before",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing said of %q:\n%s", want, all)
		}
	}
}

func TestReadStopsOnTheCallersError(t *testing.T) {
	s := session(t, t.TempDir(), "s", runrecord.SessionKindSingle, at, []string{line("a"), line("b")})
	stop := errors.New("enough")
	var talk said
	tally, err := load.Read([]*runrecord.Session{s}, func(*load.Record) error { return stop }, talk.say)
	if !errors.Is(err, stop) || tally.Records != 1 || len(talk) > 0 {
		t.Errorf("Read = %+v, %v, said %q; want %v after 1 record", tally, err, talk, stop)
	}
}

func TestSelect(t *testing.T) {
	root := t.TempDir()
	for i, kind := range []runrecord.SessionKind{runrecord.SessionKindGrid, runrecord.SessionKindGrid, runrecord.SessionKindSingle, runrecord.SessionKindAB} {
		session(t, root, fmt.Sprint("s", i), kind, at.Add(time.Duration(i)*time.Hour), nil)
	}
	if err := os.WriteFile(filepath.Join(root, "broken.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		which, want string
		says        string
	}{
		{"latest", "[s1]", "left out 3 other sessions of "},
		{"all", "[s0 s1 s2 s3]", ""},
		{"s2", "[s2]", "left out 3 other sessions of "},
		{filepath.Join(root, "s3"), "[s3]", "s2, s1, s0"},
		{"s", "[]", ""},
		{"t", "[]", ""},
	} {
		var talk said
		sessions, err := load.Select(root, tt.which, talk.say)
		var got []string
		for _, s := range sessions {
			got = append(got, s.SessionID)
		}
		if fmt.Sprint(got) != tt.want || (err != nil) != (tt.want == "[]") {
			t.Errorf("Select(%q) = %v, %v, want %s", tt.which, got, err, tt.want)
		}
		if all := strings.Join(talk, "\n"); (tt.says == "") != (all == "") || !strings.Contains(all, tt.says) {
			t.Errorf("Select(%q) said %q, want %q", tt.which, all, tt.says)
		}
	}
	if _, err := load.Select(filepath.Join(root, "nowhere"), "all", func(string, ...any) {}); !errors.Is(err, runrecord.ErrNoSession) {
		t.Errorf("Select of nothing: %v, want %v", err, runrecord.ErrNoSession)
	}
}

func TestPlanned(t *testing.T) {
	root := t.TempDir()
	trials := 3
	s := session(t, root, "s", runrecord.SessionKindGrid, at, nil)
	s.Trials = &trials
	p := load.NewPlanned()
	var talk said
	p.Say([]*runrecord.Session{s}, talk.say)
	if want := "[s: 0 of 6 planned trials recorded s: no record of one; two]"; fmt.Sprint(talk) != want {
		t.Errorf("said %v, want %s", talk, want)
	}
	add := func(name, key string, trial int) {
		r := &load.Record{Record: &runrecord.Record{Trial: &trial}, Session: s, Cell: name}
		r.Case.Key = key
		p.Add(r)
	}
	add("one", "payload=1", 1)
	add("one", "payload=1", 1) // a retry of the same
	add("", "payload=9", 1)    // not of the grid
	talk = nil
	p.Say([]*runrecord.Session{s}, talk.say)
	if want := "[s: 1 of 6 planned trials recorded s: no record of two]"; fmt.Sprint(talk) != want {
		t.Errorf("said %v, want %s", talk, want)
	}
	for trial := 1; trial <= 4; trial++ { // one more than planned: a repeat
		add("one", "payload=1", trial)
		add("two", "payload=2", trial)
	}
	talk = nil
	p.Say([]*runrecord.Session{s}, talk.say)
	if len(talk) > 0 {
		t.Errorf("said %v of a whole session", talk)
	}
}
