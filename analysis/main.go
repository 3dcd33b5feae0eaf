// Command analysis turns the records of sessions into tables, charts and comparisons, for people and for other
// programs. It measures nothing.
//
// Exit codes: 0, also when some of the input could not be read, which stderr says; 2 usage, or nothing could be read.
// Those of gate: 0 pass, 1 a regression, 2 cannot judge, 3 inconclusive.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"felix/internal/answer"
)

const (
	exitOK    = 0
	exitUsage = 2
)

func main() {
	// A reader that has seen enough, as head has, closes its end: the write then fails with EPIPE instead of ending the
	// process by a signal.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// command is one of the things that analysis does.
type command struct {
	name, args, does string
	run              func(args []string, stdout io.Writer, say func(string, ...any)) error
}

func commands() []command {
	return []command{
		{"table", "[--session latest|all|ID|DIR] [--format text|md]", "prints the cells of a session as a table", runTable},
		{"compare", "BASE HEAD [HEAD…] | [SESSION] --by FACTOR", "holds sessions or commits against each other, or the levels of a factor", runCompare},
		{"history", "[SESSION…] [--grid NAME] [--last N]", "follows the cells of many sessions through time and marks where they change", runHistory},
		{"charts", "[--session latest|all|ID|DIR] [--out DIR] [--format svg,png]", "draws a session's pictures", runCharts},
		{"export", "[--bench FILE] [--hgrm DIR] [--hlog FILE] [--tracker DIR]", "writes formats of other tools: benchstat, HdrHistogram, a tracker", runExport},
		{"aggregate", "[--runs FILE] [--cells FILE] [--format csv|json]", "writes runs and cells for other programs", runAggregate},
		{"cpu", "FILE|DIR… [--per-gb] [--format text|md|csv|json]", "says what the CPU time in the profiles of a run was spent on", runCPU},
		{"gate", "[SESSION] [--gate FILE] [--format text|md|json|junit|github]", "judges the pairs of a matrix ab again", runGate},
	}
}

func run(args []string, stdout, stderr io.Writer) int {
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "analysis: "+format+"\n", args...) }
	out := answer.To(stdout)
	err := dispatch(args, out, say)
	if err == nil {
		err = out.Err()
	}
	var usage *usageError
	var verdict verdictCode
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK
	case errors.As(err, &verdict):
		return int(verdict)
	case errors.As(err, &usage):
		say("%v", err)
		say("hint: %s", usage.hint)
	default:
		say("%v", err)
	}
	return exitUsage
}

func dispatch(args []string, stdout io.Writer, say func(string, ...any)) error {
	if len(args) == 0 {
		return &usageError{errors.New("no command"), "analysis --help"}
	}
	switch args[0] {
	case "help", "-h", "--help":
		fmt.Fprint(stdout, helpText())
		return nil
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		return &usageError{fmt.Errorf("%q: want one of %s", args[0], strings.Join(names, ", ")), "analysis --help"}
	}
	return all[i].run(args[1:], stdout, say)
}

func helpText() string {
	var b strings.Builder
	b.WriteString("analysis turns the records of sessions into tables, charts and comparisons. It measures nothing.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  analysis %s %s\n      %s; --help has its flags\n", c.name, c.args, c.does)
	}
	b.WriteString("\nstdout is data; stderr says what was read and what was left out. Exit codes: 0, also when some of the input\n" +
		"could not be read; 2 usage, or nothing could be read. Of gate: 0 pass, 1 a regression, 2 cannot judge, 3 inconclusive.\n")
	return b.String()
}

// usageError is a command line that cannot be meant, with what to do next.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// parse parses the flags of a command that takes nothing else. It is done if help was asked for, and given.
func parse(f *pflag.FlagSet, args []string, about string, stdout io.Writer) (done bool, err error) {
	done, err = parseWords(f, args, about, stdout)
	if err == nil && !done && f.NArg() > 0 {
		err = &usageError{fmt.Errorf("%q: want flags only", f.Arg(0)), fmt.Sprintf("analysis %s --help", f.Name())}
	}
	return done, err
}

// parseWords is parse for a command that takes words too, which are then f.Args.
func parseWords(f *pflag.FlagSet, args []string, about string, stdout io.Writer) (done bool, err error) {
	f.SetOutput(io.Discard) // errors are told by run
	f.SortFlags = false
	f.Usage = func() {}
	err = f.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(stdout, "%s\n\n%s", about, f.FlagUsages())
		return true, nil
	}
	if err != nil {
		return false, &usageError{err, fmt.Sprintf("analysis %s --help", f.Name())}
	}
	return false, nil
}
