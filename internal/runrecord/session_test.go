package runrecord_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"felix/internal/runrecord"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func gridSession(id string, at time.Time) *runrecord.Session {
	trials, order, seed := 5, "random", uint64(7)
	return &runrecord.Session{
		SessionID: id, Kind: runrecord.SessionKindGrid, StartedAt: at, Trials: &trials, Order: &order, Seed: &seed,
		Grid:    &runrecord.SessionGrid{Name: "quick", Digest: "d1", Cells: []runrecord.SessionCell{{Name: "payload=0", Key: "payload=0 batch=1"}}},
		Host:    runrecord.Host{Fingerprint: "f", Facts: json.RawMessage(`{"cores":2}`)},
		Command: []string{"matrix", "run", "--only", "encoding=<json>"},
	}
}

func write(t *testing.T, dir string, s *runrecord.Session) *runrecord.Session {
	t.Helper()
	if err := runrecord.WriteSession(dir, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSessionComesBackAsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "session")
	want := write(t, dir, gridSession(runrecord.NewSessionID(), noon))
	got, err := runrecord.ReadSession(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Facts come back indented.
	if string(got.Host.Facts) == "" {
		t.Error("the host's facts are gone")
	}
	got.Host.Facts = want.Host.Facts
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Dir != dir || got.RecordsPath() != filepath.Join(dir, "records.jsonl") || got.RunDir("r") != filepath.Join(dir, "runs", "r") {
		t.Errorf("paths: %s, %s, %s", got.Dir, got.RecordsPath(), got.RunDir("r"))
	}
	text, err := os.ReadFile(filepath.Join(dir, "session.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"schema": "felix.session/1"`, `"kind": "grid"`, `"ended_at": null`, `"encoding=<json>"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("session.json lacks %s:\n%s", part, text)
		}
	}
}

func TestWriteSessionReplacesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	s := write(t, dir, gridSession("a", noon))
	ended := noon.Add(time.Hour)
	s.EndedAt = &ended
	write(t, dir, s)
	if err := runrecord.WriteSession(dir, gridSession("b", noon)); !errors.Is(err, runrecord.ErrOtherSession) || !strings.Contains(err.Error(), "session a") {
		t.Errorf("a second session in one directory: %v", err)
	}
	got, err := runrecord.ReadSession(dir)
	if err != nil || got.SessionID != "a" || got.EndedAt == nil || !got.EndedAt.Equal(ended) {
		t.Errorf("after all that: %+v, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	loose := t.TempDir()
	if err := runrecord.Append(filepath.Join(loose, "records.jsonl"), record("x")); err != nil {
		t.Fatal(err)
	}
	if err := runrecord.WriteSession(loose, gridSession("c", noon)); !errors.Is(err, runrecord.ErrOtherSession) {
		t.Errorf("records of nobody were adopted: %v", err)
	}
	broken := t.TempDir()
	writeFile(t, filepath.Join(broken, "session.json"), "{")
	if err := runrecord.WriteSession(broken, gridSession("d", noon)); !errors.Is(err, runrecord.ErrOtherSession) {
		t.Errorf("a broken session.json was overwritten: %v", err)
	}
	if err := runrecord.WriteSession(t.TempDir(), &runrecord.Session{SessionID: "e", Kind: "grid", StartedAt: noon}); err == nil {
		t.Error("kind grid without a grid was written")
	}
}

func TestOneOfManyCreatorsWins(t *testing.T) {
	dir := t.TempDir()
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = runrecord.WriteSession(dir, gridSession(fmt.Sprint("id", i), noon)) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("both %d and %d created the session", won, i)
		case !errors.Is(err, runrecord.ErrOtherSession):
			t.Error(err)
		}
	}
	if s, err := runrecord.ReadSession(dir); err != nil || won < 0 || s.SessionID != fmt.Sprint("id", won) {
		t.Errorf("winner %d, but the file says %+v, %v", won, s, err)
	}
}

func TestReadSessionRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"torn", `{"schema":"felix.session/1","session_id":"a"`, "unexpected end"},
		{"newer schema", `{"schema":"felix.session/2"}`, `"felix.session/2"`},
		{"no id", `{"schema":"felix.session/1","kind":"single","started_at":"2026-03-01T12:00:00Z"}`, "session_id"},
		{"no time", `{"schema":"felix.session/1","kind":"single","session_id":"a"}`, "started_at"},
		{"no kind", `{"schema":"felix.session/1","session_id":"a","started_at":"2026-03-01T12:00:00Z"}`, "kind"},
		{"unknown kind", `{"schema":"felix.session/1","kind":"pile","session_id":"a","started_at":"2026-03-01T12:00:00Z"}`, "grid, ab or single"},
		{"no grid", `{"schema":"felix.session/1","kind":"grid","session_id":"a","started_at":"2026-03-01T12:00:00Z"}`, "without a grid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "session.json"), tt.text)
			_, err := runrecord.ReadSession(dir)
			var bad *runrecord.SessionError
			if !errors.As(err, &bad) || bad.Dir != dir || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a SessionError with %q", err, tt.want)
			}
		})
	}
	if _, err := runrecord.ReadSession(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	bom := "\xef\xbb\xbf{\r\n\"schema\":\"felix.session/1\",\"kind\":\"single\",\"session_id\":\"a\",\"started_at\":\"2026-03-01T12:00:00Z\",\"later\":1}\r\n"
	if s, err := runrecord.ParseSession([]byte(bom)); err != nil || s.SessionID != "a" {
		t.Errorf("a BOM, CRLF and a field of a later build: %+v, %v", s, err)
	}
}

// root has three grids, a single that is newer, and what else lies about in a results folder.
func sessionsRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	single := gridSession("0199b000-0000-7000-8000-0000000000ff", noon.Add(9*time.Hour))
	single.Kind, single.Grid = runrecord.SessionKindSingle, nil
	for _, s := range []struct {
		dir string
		s   *runrecord.Session
	}{
		{"20260301T120000Z-quick-000000aa", gridSession("0199a000-0000-7000-8000-0000000000aa", noon)},
		{"20260301T130000Z-quick-000000bb", gridSession("0199a111-0000-7000-8000-0000000000bb", noon.Add(time.Hour))},
		{"mine", gridSession("0199a222-0000-7000-8000-0000000000cc", noon.Add(2*time.Hour))},
		{"mine-too", single},
	} {
		write(t, filepath.Join(root, s.dir), s.s)
	}
	writeFile(t, filepath.Join(root, "README.md"), "# results")
	writeFile(t, filepath.Join(root, "notes", "thoughts.txt"), "not a session")
	writeFile(t, filepath.Join(root, "torn", "session.json"), `{"schema":`)
	writeFile(t, filepath.Join(root, "loose", "records.jsonl"), "")
	return root
}

func TestSessionsAreNewestFirst(t *testing.T) {
	sessions, broken, err := runrecord.Sessions(sessionsRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	var names, bad []string
	for _, s := range sessions {
		names = append(names, filepath.Base(s.Dir))
	}
	for _, b := range broken {
		bad = append(bad, filepath.Base(b.Dir))
	}
	if got, want := strings.Join(names, " "), "mine-too mine 20260301T130000Z-quick-000000bb 20260301T120000Z-quick-000000aa"; got != want {
		t.Errorf("sessions %s, want %s", got, want)
	}
	if got, want := strings.Join(bad, " "), "loose torn"; got != want {
		t.Errorf("broken %s, want %s", got, want)
	}
	if sessions, broken, err := runrecord.Sessions(filepath.Join(t.TempDir(), "absent")); err != nil || len(sessions)+len(broken) > 0 {
		t.Errorf("an absent root: %v, %v, %v", sessions, broken, err)
	}
}

func TestFindSession(t *testing.T) {
	root := sessionsRoot(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, gridSession("0199c000-0000-7000-8000-000000000001", noon))
	for _, tt := range []struct {
		name, which, want string // want: the directory, or
		err               string // what the error says
		is                error
	}{
		{"the newest grid, though a single is newer", "latest", "mine", "", nil},
		{"a whole id", "0199a000-0000-7000-8000-0000000000aa", "20260301T120000Z-quick-000000aa", "", nil},
		{"the beginning of an id", "0199a1", "20260301T130000Z-quick-000000bb", "", nil},
		{"a short id", "000000bb", "20260301T130000Z-quick-000000bb", "", nil},
		{"the beginning of a directory's name", "20260301T13", "20260301T130000Z-quick-000000bb", "", nil},
		{"a whole name that begins another", "mine", "mine", "", nil},
		{"a path", elsewhere, "elsewhere", "", nil},
		{"two ids begin so", "0199a", "", "0199a111-0000-7000-8000-0000000000bb (grid, 20260301T130000Z-quick-000000bb)", runrecord.ErrAmbiguousSession},
		{"no id begins so", "ffff", "", `"ffff" in`, runrecord.ErrNoSession},
		{"nothing", "", "", "latest", runrecord.ErrNoSession},
		{"a broken one", "torn", "", "session.json", nil},
		{"a path without a session", filepath.Join(root, "notes"), "", "session.json", fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, broken, err := runrecord.FindSession(root, tt.which)
			if tt.err != "" || tt.is != nil {
				if err == nil || !strings.Contains(err.Error(), tt.err) || tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("got %v, want %q (%v)", err, tt.err, tt.is)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.Base(s.Dir); got != tt.want {
				t.Errorf("found %s, want %s", got, tt.want)
			}
			if tt.which == "latest" && len(broken) != 2 {
				t.Errorf("broken: %v, want two", broken)
			}
		})
	}
	if _, _, err := runrecord.FindSession(t.TempDir(), "latest"); !errors.Is(err, runrecord.ErrNoSession) || !strings.Contains(err.Error(), "no session") {
		t.Errorf("latest of nothing: %v", err)
	}
}

// A name typed in the folder where it lies is that directory, whatever the root is.
func TestFindSessionHere(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "out", gridSession("a", noon))
	if s, _, err := runrecord.FindSession("results", "out"); err != nil || s.SessionID != "a" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestSessionNames(t *testing.T) {
	a, b := runrecord.NewSessionID(), runrecord.NewSessionID()
	if a >= b || len(a) != 36 {
		t.Errorf("%s and %s do not sort by time", a, b)
	}
	at := time.Date(2026, 3, 1, 13, 4, 5, 0, time.FixedZone("", 3600))
	if got, want := runrecord.SessionDirName(at, "../my grid.yml", "0199a111-0000-7000-8000-0000000000bb"), "20260301T120405Z----my-grid-yml-000000bb"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := runrecord.ShortID("abc"); got != "abc" {
		t.Errorf("ShortID of a short id: %s", got)
	}
}

func FuzzParseSession(f *testing.F) {
	b, err := gridSession("seed", noon).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"schema":"felix.session/1","kind":"single","session_id":"a","started_at":"2026-03-01T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := runrecord.ParseSession(b)
		if err != nil {
			return
		}
		once, err := s.Encode()
		if err != nil {
			t.Fatalf("what decodes does not encode: %v", err)
		}
		again, err := runrecord.ParseSession(once)
		if err != nil {
			t.Fatalf("what encodes does not decode: %v\n%s", err, once)
		}
		if twice, err := again.Encode(); err != nil || string(twice) != string(once) {
			t.Fatalf("changes on the way: %v\n%s\n%s", err, once, twice)
		}
	})
}
