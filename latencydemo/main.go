// Command latencydemo runs one case once over real QUIC and prints what can be believed of it.
//
// Exit codes: 0 the run is valid; 1 it ran, but is invalid, failed or was interrupted (the record is written all
// the same); 2 usage, settings or no broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"felix/internal/build"
	"felix/internal/trial"
)

const (
	exitValid   = 0
	exitInvalid = 1
	exitUsage   = 2
)

func main() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Main is the command without the process: tests run it under testscript.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, isRole := trial.Role(args, stdin, stdout, stderr); isRole {
		return code
	}
	ctx, stop := interruptible(stderr)
	defer stop()
	return run(ctx, args, stdout, stderr)
}

// interruptible returns a context that the first Ctrl-C (or SIGTERM) cancels: the run drains and is recorded. The
// second ends the process at once; its roles end by themselves when their stdin closes.
func interruptible(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					os.Exit(exitInvalid)
				}
				fmt.Fprintln(stderr, "latencydemo: interrupted: draining and writing the record; once more quits at once")
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, os.Environ())
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, helpText())
		return exitValid
	case err != nil:
		return fail(stderr, err)
	case o.version:
		fmt.Fprintln(stdout, versionText(build.Identify("")))
		return exitValid
	}
	plan, err := o.spec(args, stderr).Resolve()
	if err != nil {
		return fail(stderr, err)
	}
	if o.dryRun {
		printPlan(stdout, plan)
		return exitValid
	}
	if err := o.checkOutputs(); err != nil {
		return fail(stderr, err)
	}
	if !o.jsonToStdout() {
		stop := watch(plan, stderr)
		defer stop()
	}
	outcome, err := trial.Run(ctx, plan)
	if err != nil {
		return fail(stderr, err)
	}
	rec := outcome.Record
	if err := o.write(outcome, stdout); err != nil {
		return failWith(stderr, exitInvalid, err)
	}
	if !o.jsonToStdout() {
		printSummary(stdout, rec)
	} else {
		printVerdict(stderr, rec)
	}
	if !rec.Valid {
		return exitInvalid
	}
	return exitValid
}

// fail prints one clear line and a hint, and tells usage from failure.
func fail(stderr io.Writer, err error) int {
	var usage *trial.UsageError
	if errors.As(err, &usage) {
		return failWith(stderr, exitUsage, err)
	}
	if errors.Is(err, context.Canceled) {
		return failWith(stderr, exitInvalid, errors.New("interrupted before anything was measured"))
	}
	return failWith(stderr, exitInvalid, err)
}

func failWith(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "latencydemo: %v\n", err)
	var usage *trial.UsageError
	if errors.As(err, &usage) && usage.Hint != "" {
		fmt.Fprintf(stderr, "latencydemo: hint: %s\n", usage.Hint)
	}
	return code
}
