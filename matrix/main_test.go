//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"felix/internal/racetest"
	"felix/internal/runrecord"
)

// asCommand makes the test binary behave as matrix, so that signals meet a real process. Copied into a session it is
// called latencydemo, and behaves as a trial that does what FAKE says; asked for its --version it is one by any name.
const asCommand = "MATRIX_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == brokerFile:
		os.Exit(fakeBroker(os.Args[1:]))
	case filepath.Base(os.Args[0]) == binaryFile, slices.Equal(os.Args[1:], []string{"--version"}):
		os.Exit(fakeTrial(os.Args[1:]))
	case os.Getenv(asCommand) != "":
		main()
	}
	racetest.EndAtOnce()
	testscript.Main(noLeaks{m}, map[string]func(){"matrix": main})
}

type noLeaks struct{ m *testing.M }

func (n noLeaks) Run() int {
	code := n.m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// The manual of the command, as scripts. $FAKE is a trial that obeys the variable FAKE, $ROOT the checkout.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			e.Setenv("FAKE_BIN", executable(t))
			e.Setenv(racetest.Env, os.Getenv(racetest.Env))
			for _, v := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS"} {
				value, err := exec.Command("go", "env", v).Output()
				if err != nil {
					return err
				}
				e.Setenv(v, strings.TrimSpace(string(value)))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitCode},
	})
}

// exitCode N ARGS… runs matrix and wants that exit code. Exit codes are the point: "! exec" takes any failure. An
// error of usage says one line and one hint, and nothing on stdout.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N ARGS…")
	}
	got := "0"
	err := ts.Exec("matrix", args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("matrix %v: exit code %s (%v), want %s\n%s%s", args[1:], got, err, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
	if got == "2" {
		lines := strings.Split(strings.TrimRight(ts.ReadFile("stderr"), "\n"), "\n")
		n := len(lines)
		if ts.ReadFile("stdout") != "" || n < 2 || !strings.HasPrefix(lines[n-2], "matrix: ") || !strings.HasPrefix(lines[n-1], "matrix: hint: ") {
			ts.Fatalf("matrix %v: want a line and a hint on stderr:\n%s%s", args[1:], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// bench is a directory with grids and room for sessions, and an environment in which matrix holds no lock of others.
type bench struct {
	t   *testing.T
	dir string
	env []string
}

func newBench(t *testing.T, env ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"tmp", "state"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "FAKE_STATE="+filepath.Join(dir, "state"), asCommand+"=1")
	return &bench{t: t, dir: dir, env: append(all, env...)}
}

// grid writes a grid of cells that differ in payload, and returns its file.
func (b *bench) grid(trials int, payloads ...int) string {
	b.t.Helper()
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(payloads), " ", ", "), "[]")
	text := fmt.Sprintf("why: a test\ntrials: %d\nsizes: {total: 100, idle_timeout: 1s}\nblocks:\n  - why: a test\n    factors: {payload: [%s]}\n", trials, list)
	file := filepath.Join(b.dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// command is matrix run with the fake trial.
func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(executable(b.t), append([]string{"run", "--cooldown", "0"}, args...)...)
	cmd.Env, cmd.Dir = b.env, b.dir
	return cmd
}

// run runs matrix to its end.
func (b *bench) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	cmd := b.command(args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// records reads a session's records; torn counts the lines that are none.
func (b *bench) records(dir string) (records []*runrecord.Record, torn int) {
	b.t.Helper()
	f, err := os.Open(filepath.Join(dir, runrecord.RecordsFile))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	err = runrecord.Read(f, "records", func(r *runrecord.Record) error {
		records = append(records, r)
		return nil
	}, func(*runrecord.SyntaxError) { torn++ })
	if err != nil {
		b.t.Fatal(err)
	}
	return records, torn
}

// once fails unless the records hold every trial of every payload exactly once, each valid.
func once(t *testing.T, records []*runrecord.Record, trials int, payloads ...int) {
	t.Helper()
	seen := map[[2]int]int{}
	ids := map[string]bool{}
	for _, r := range records {
		if !r.Valid || r.Trial == nil || r.SessionID == nil {
			t.Errorf("record of payload %d: valid %v, trial %v, session %v", r.Case.Payload, r.Valid, r.Trial, r.SessionID)
			continue
		}
		if ids[r.RunID] {
			t.Errorf("run %s is recorded twice", r.RunID)
		}
		ids[r.RunID] = true
		seen[[2]int{r.Case.Payload, *r.Trial}]++
	}
	for _, p := range payloads {
		for trial := 1; trial <= trials; trial++ {
			if n := seen[[2]int{p, trial}]; n != 1 {
				t.Errorf("payload %d, trial %d: %d records, want 1", p, trial, n)
			}
			delete(seen, [2]int{p, trial})
		}
	}
	if len(seen) > 0 {
		t.Errorf("records that nobody planned: %v", seen)
	}
}

func wantMatch(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("no %q in:\n%s", pattern, text)
	}
}

// within returns a channel that fires when a test has waited long enough.
func within(d time.Duration) <-chan time.Time { return time.After(d) }

// waitFor waits until a file exists.
func waitFor(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := within(20 * time.Second)
	for {
		if st, err := os.Stat(name); err == nil && st.Size() > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s after 20 s", name)
		}
	}
}
