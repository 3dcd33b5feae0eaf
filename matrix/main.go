// Command matrix runs every cell of a grid, several trials each, and ends with a table.
//
// Each trial is a fresh latencydemo process; the trials of all cells are interleaved in random order, so that a machine
// that drifts drifts for all of them alike. Every record is on disk before the next trial begins: a matrix that is
// killed loses the trial in flight and nothing else, and --resume goes on where it stopped.
//
// Exit codes of run and sessions: 0 every trial is valid; 1 it ran, but some trial is invalid or failed, or it was
// interrupted; 2 usage, a grid or a session that cannot be used. Of ab and aa: 0 pass, 1 a regression, 2 cannot judge,
// 3 inconclusive.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"felix/internal/answer"
	"felix/internal/settings"
)

const (
	exitValid   = 0
	exitInvalid = 1
	exitUsage   = 2
)

func main() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const helpText = `matrix runs every cell of a grid, several trials each, and ends with a table.

usage: matrix run --grid NAME|FILE [flags]
       matrix ab --base REF|BIN [--head REF|BIN] | --head-set k=v,… | --arm NAME:k=v,… … [flags]
       matrix aa [--base REF|BIN] [flags]
       matrix sessions list | show ID | remove ID...

  matrix run --grid quick                        a few minutes, then the table
  matrix run --grid fast --dry-run               cells and estimated duration, nothing is run
  matrix run --grid fast --only preset=P1_hash   some of its cells
  matrix run --resume --session-dir DIR          goes on where it was stopped
  matrix ab --base main                          is this checkout worse than main? (ab --help, aa --help)
  matrix ab --base main --bench head             the same, where the bench itself has changed
  matrix sessions show latest                    what the newest session holds

exit codes: 0 valid; 1 ran, but invalid, failed or interrupted; 2 usage, grid or session
of ab and aa: 0 pass; 1 a regression; 2 cannot judge; 3 inconclusive
`

// Main is the command without the process. An answer that could not be printed is none: a full disk must not pass for a
// plan, a table or a verdict.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := answer.To(stdout)
	code := command(args, stdin, out, stderr)
	if err := out.Err(); err != nil && code == exitValid {
		code = fail(stderr, fmt.Errorf("print: %w", err))
		if args[0] == "ab" || args[0] == "aa" {
			code = exitCannotJudge
		}
	}
	return code
}

func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return fail(stderr, usagef("matrix --help shows the commands", "no command given: want run or sessions"))
	}
	switch args[0] {
	case "run":
		return runCommand(args[1:], stdout, stderr)
	case "ab", "aa":
		return abCommand(args[1:], args[0] == "aa", stdout, stderr)
	case "sessions":
		return sessionsCommand(args[1:], stdin, stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprintf(stdout, "%s\nflags of run:\n%s\nflags of sessions:\n%s", helpText, newRunFlags(&runOptions{}).FlagUsages(), newSessionsFlags(&sessionsOptions{}).FlagUsages())
		return exitValid
	}
	hint := "matrix --help shows the commands"
	if near := settings.Nearest(strings.TrimLeft(args[0], "-"), []string{"run", "ab", "aa", "sessions", "help"}); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fail(stderr, usagef(hint, "no command %q: want run or sessions", args[0]))
}

// usageError is a mistake in what was asked for: exit code 2.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// hinted is a failure at run time with a way out: exit code 1.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// fail prints the error and its hint, one line each, and returns the exit code.
func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "matrix: %v\n", err)
	hint, code := "", exitInvalid
	var usage *usageError
	var way *hinted
	switch {
	case errors.As(err, &usage):
		hint, code = usage.hint, exitUsage
	case errors.As(err, &way):
		hint = way.hint
	}
	if hint != "" {
		fmt.Fprintf(stderr, "matrix: hint: %s\n", hint)
	}
	return code
}
