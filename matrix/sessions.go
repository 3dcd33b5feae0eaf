package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/runrecord"
	"felix/internal/settings"
)

// sessionsOptions are the flags of matrix sessions.
type sessionsOptions struct {
	results string
	yes     bool
}

func newSessionsFlags(o *sessionsOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet("matrix sessions", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetOutput(io.Discard)
	f.StringVar(&o.results, "results", "results", "directory in which sessions lie")
	f.BoolVar(&o.yes, "yes", false, "remove without a question")
	return f
}

func sessionsHelp() string {
	return `matrix sessions lists, shows and removes sessions.

usage: matrix sessions list [--results DIR]
       matrix sessions show ID [--results DIR]
       matrix sessions remove ID... [--yes]

ID is a session's id or its beginning, its short id (the last 8 digits), the beginning of its directory's name, a
directory, or "latest", the newest session of a grid.

` + newSessionsFlags(&sessionsOptions{}).FlagUsages()
}

const sessionsHint = "matrix sessions --help shows the commands"

func sessionsCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &sessionsOptions{}
	f := newSessionsFlags(o)
	err := parseFlags(f, args, "matrix sessions")
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, sessionsHelp())
		return exitValid
	}
	if err != nil {
		return fail(stderr, err)
	}
	what, ids := f.Arg(0), []string{}
	if f.NArg() > 1 {
		ids = f.Args()[1:]
	}
	switch {
	case f.Changed("yes") && what != "remove":
		err = usagef("leave it out", "--yes answers the question of remove")
	case what == "list" && len(ids) == 0:
		err = listSessions(o, stdout, stderr)
	case what == "show" && len(ids) == 1:
		err = showSession(o, ids[0], stdout, stderr)
	case what == "remove" && len(ids) > 0:
		err = removeSessions(o, ids, stdin, stdout)
	case what == "list" || what == "show" || what == "remove":
		err = usagef(sessionsHint, "%s: %d ids given", what, len(ids))
	case what == "":
		err = usagef(sessionsHint, "sessions: want list, show or remove")
	default:
		hint := sessionsHint
		if near := settings.Nearest(what, []string{"list", "show", "remove"}); near != "" {
			hint = "did you mean " + near + "?"
		}
		err = usagef(hint, "sessions %s: want list, show or remove", what)
	}
	if err != nil {
		return fail(stderr, err)
	}
	return exitValid
}

func listSessions(o *sessionsOptions, stdout, stderr io.Writer) error {
	all, broken, err := runrecord.Sessions(o.results)
	if err != nil {
		return usagef("--results names the directory in which sessions lie", "%w", err)
	}
	tellBroken(stderr, broken)
	if len(all) == 0 {
		fmt.Fprintf(stderr, "matrix: no session in %s\n", o.results)
		return nil
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\tstarted\tkind\tgrid\trecords\tplanned\tsize\tdirectory")
	for _, s := range all {
		grid, planned := "-", "-"
		if s.Grid != nil {
			grid = s.Grid.Name
		}
		if n := plannedTrials(s); n > 0 {
			planned = fmt.Sprint(n)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f MB\t%s\n", runrecord.ShortID(s.SessionID), s.StartedAt.Local().Format("2006-01-02 15:04"),
			s.Kind, grid, lines(s.RecordsPath()), planned, float64(sizeOf(s.Dir))/1e6, s.Dir)
	}
	return w.Flush()
}

func tellBroken(stderr io.Writer, broken []*runrecord.SessionError) {
	for _, b := range broken {
		fmt.Fprintf(stderr, "matrix: %v\n", b)
	}
}

func plannedTrials(s *runrecord.Session) int {
	if s.Grid == nil || s.Trials == nil {
		return 0
	}
	return *s.Trials * len(s.Grid.Cells)
}

// lines counts the lines of a file, which for a list is near enough to its records.
func lines(name string) string {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "0"
	}
	if err != nil {
		return "?"
	}
	defer f.Close()
	n := 0
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		part, err := r.ReadSlice('\n')
		if len(part) > 0 && part[len(part)-1] == '\n' {
			n++
		}
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Sprint(n)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return "?"
		}
	}
}

// sizeOf sums the files below a directory, as far as they can be read.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // never fails: what cannot be read is left out
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

func findOne(o *sessionsOptions, id string) (*runrecord.Session, []*runrecord.SessionError, error) {
	s, broken, err := runrecord.FindSession(o.results, id)
	if err != nil {
		return nil, broken, usagef("matrix sessions list shows the sessions", "%w", err)
	}
	return s, broken, nil
}

func showSession(o *sessionsOptions, id string, stdout, stderr io.Writer) error {
	s, broken, err := findOne(o, id)
	tellBroken(stderr, broken)
	if err != nil {
		return err
	}
	show := func(name, format string, args ...any) {
		fmt.Fprintf(stdout, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	show("session", "%s", s.SessionID)
	show("directory", "%s (%.1f MB)", s.Dir, float64(sizeOf(s.Dir))/1e6)
	show("kind", "%s", s.Kind)
	show("started", "%s", s.StartedAt.Local().Format(time.RFC3339))
	switch {
	case s.EndedAt != nil:
		show("ended", "%s", s.EndedAt.Local().Format(time.RFC3339))
	case s.Kind == runrecord.SessionKindSingle:
		show("ended", "never: latencydemo --session may add to it at any time")
	default:
		show("ended", "not: under way, or killed")
	}
	if s.Grid != nil {
		show("grid", "%s (%s), %d cells", s.Grid.Name, shortDigest(s.Grid.Digest), len(s.Grid.Cells))
	}
	if s.Order != nil {
		order := *s.Order
		if s.Seed != nil {
			order += fmt.Sprintf(", seed %d", *s.Seed)
		}
		show("order", "%s", order)
	}
	show("host", "%s", s.Host.Fingerprint)
	show("build", "%s", buildText(&s.Build))
	if s.BinarySHA256 != nil {
		show("binary", "%s", *s.BinarySHA256)
	}
	if len(s.Command) > 0 {
		show("command", "%s", strings.Join(s.Command, " "))
	}
	for _, n := range s.Notes {
		show("note", "%s", n)
	}
	if err := showRecords(s, show, stderr); err != nil {
		return err
	}
	return writeTable(stdout, s, func(error) {}) // told by showRecords
}

func showRecords(s *runrecord.Session, show func(name, format string, args ...any), stderr io.Writer) error {
	var records, valid, invalid, failed, interrupted int
	err := readRecords(s, func(_ int, r *runrecord.Record) {
		records++
		switch o := outcomeOf(r); {
		case o.interrupted:
			interrupted++
		case o.failed:
			failed++
		case o.valid:
			valid++
		default:
			invalid++
		}
	}, func(err error) { fmt.Fprintf(stderr, "matrix: %v\n", err) })
	if err != nil {
		return err
	}
	of := ""
	if n := plannedTrials(s); n > 0 {
		of = fmt.Sprintf(" for %d planned trials", n)
	}
	show("records", "%d%s: %d valid, %d invalid, %d failed, %d interrupted", records, of, valid, invalid, failed, interrupted)
	return nil
}

func buildText(b *runrecord.Build) string {
	word := func(s *string) string {
		if s == nil {
			return "unknown"
		}
		return shortDigest(*s)
	}
	text := "commit " + word(b.Commit)
	if b.Dirty != nil && *b.Dirty {
		text += " DIRTY"
	}
	return text + " tree " + word(b.TreeDigest) + " bench " + word(b.BenchDigest)
}

// removeSessions deletes sessions, each after a question of its own. All ids are looked up before the first is deleted.
func removeSessions(o *sessionsOptions, ids []string, stdin io.Reader, stdout io.Writer) error {
	var found []*runrecord.Session
	for _, id := range ids {
		s, _, err := findOne(o, id)
		if err != nil {
			return err
		}
		found = append(found, s)
	}
	answers := bufio.NewReader(stdin)
	for _, s := range found {
		if !o.yes {
			fmt.Fprintf(stdout, "remove session %s, %s, with %s records (%.1f MB)? [y/N] ", s.SessionID, s.Dir, lines(s.RecordsPath()), float64(sizeOf(s.Dir))/1e6)
			answer, _ := answers.ReadString('\n') // the end of the input is a no
			fmt.Fprintln(stdout)
			if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
				return fmt.Errorf("%s is left as it is", s.Dir)
			}
		}
		if err := removeSession(s); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "removed %s\n", s.Dir)
	}
	return nil
}

func removeSession(s *runrecord.Session) error {
	release, held, err := holdDir(filepath.Join(s.Dir, lockFile))
	if err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	if !held {
		return usagef("stop it first", "session %s: a matrix is at work in it", s.Dir)
	}
	defer release()
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	return nil
}
