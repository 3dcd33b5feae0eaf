package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/trial"
)

// A trial of --repeat runs in a runner of its own: this binary again, with the same flags but those that concern the
// sequence. It leaves Ctrl-C to its parent, prints its record on stdout, and ends when its parent does.

// wordInterrupt is the line on a runner's stdin that ends its trial in good order.
const wordInterrupt = "interrupt"

// outputFlags say where records go.
var outputFlags = []string{"json", "out", "session"}

// sequenceFlags concern the parent of a runner alone.
var sequenceFlags = append([]string{"repeat", "same-process", "no-wait"}, outputFlags...)

// isRunner reports whether this process runs one trial of somebody's sequence.
func (o *options) isRunner() bool { return o.lockHeld == host.LockHeldStdin }

// obeyParent returns a context that the parent cancels by its word. When stdin ends the parent is gone, and so is
// this process: its roles notice in the same way.
func obeyParent(stdin io.Reader) (context.Context, func()) {
	signal.Ignore(os.Interrupt) // a terminal sends it to the parent too
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx, interrupt := context.WithCancel(ctx)
	go func() {
		lines := bufio.NewScanner(stdin)
		for lines.Scan() {
			if lines.Text() == wordInterrupt {
				interrupt()
			}
		}
		os.Exit(exitInvalid)
	}()
	return ctx, func() {
		interrupt()
		cancel()
	}
}

// without returns args less the flags named, with their values. The args have been parsed: every one is understood.
func without(f *pflag.FlagSet, args []string, names ...string) []string {
	return choose(f, args, func(name string) bool { return !slices.Contains(names, name) })
}

// only returns of args the flags named, with their values.
func only(f *pflag.FlagSet, args []string, names ...string) []string {
	return choose(f, args, func(name string) bool { return slices.Contains(names, name) })
}

// choose returns of args what keep says of the flag's name, or of the word.
func choose(f *pflag.FlagSet, args []string, keep func(name string) bool) []string {
	kept := []string{}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			break // nothing follows: stray words were refused
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		words := args[i : i+1]
		if fl := f.Lookup(name); strings.HasPrefix(args[i], "--") && fl != nil && !hasValue && fl.NoOptDefVal == "" && i+1 < len(args) {
			i++
			words = args[i-1 : i+1]
		}
		if keep(name) {
			kept = append(kept, words...)
		}
	}
	return kept
}

// runner is what it takes to run one trial in a fresh process.
type runner struct {
	args   []string // without sequenceFlags
	extras bool     // the files beside the record are wanted
	stderr io.Writer
}

// endedError is a runner that left no record. It has said why on stderr.
type endedError struct{ err error }

func (e *endedError) Error() string { return "the runner left no record: " + e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// isUsage reports whether the trial could not be run as things stand, as exit code 2 says.
func (e *endedError) isUsage() bool {
	var exit *exec.ExitError
	return errors.As(e.err, &exit) && exit.ExitCode() == exitUsage
}

// run starts the process and waits for its end. A cancelled ctx asks it to end its trial.
func (r *runner) run(ctx context.Context) (*trial.Outcome, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the binary that runs a trial: %w", err)
	}
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"latencydemo"}, r.args...)
	cmd.Args = append(cmd.Args, "--json", "-")
	dir := ""
	if r.extras {
		if dir, err = os.MkdirTemp("", "latencydemo-"); err != nil {
			return nil, fmt.Errorf("files of a trial: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // a temporary directory: what stays is the system's to clean
		cmd.Args = append(cmd.Args, "--out", dir)
	}
	var stdout bytes.Buffer
	cmd.Env = append(os.Environ(), host.LockHeldEnv+"="+host.LockHeldStdin)
	cmd.Stdout, cmd.Stderr = &stdout, r.stderr
	cmd.WaitDelay = 5 * time.Second // its roles hold stderr until they notice that it is gone
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a runner: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a runner: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _, _ = io.WriteString(stdin, wordInterrupt+"\n") }) // ended just now: as wanted
	defer stop()
	ended := cmd.Wait() // not nil for an invalid trial too: its record tells
	line := bytes.TrimSpace(stdout.Bytes())
	if len(line) == 0 {
		return nil, &endedError{cmp.Or(ended, errors.New("exit status 0"))}
	}
	out, err := readOutcome(line, dir)
	if err != nil {
		return nil, &endedError{err}
	}
	return out, nil
}

// readOutcome reads what a runner left: its line, and the files in dir, "" for none.
func readOutcome(line []byte, dir string) (*trial.Outcome, error) {
	rec, err := runrecord.Parse(line)
	if err != nil {
		return nil, fmt.Errorf("its line is none: %w", err)
	}
	out := &trial.Outcome{Record: rec, Extras: map[string][]byte{}}
	if dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if out.Extras[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}
