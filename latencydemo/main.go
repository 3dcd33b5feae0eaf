// Command latencydemo runs one case over real QUIC, once or with --repeat several times, and prints what can be
// believed of it.
//
// Exit codes: 0 the run is valid, every one of them with --repeat; 1 it ran, but is invalid, failed or was interrupted
// (the record is written all the same); 2 usage, settings, no broker, or with --no-wait another measurement.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"felix/internal/answer"
	"felix/internal/build"
	"felix/internal/host"
	"felix/internal/trial"
	"felix/internal/workload"
)

const (
	exitValid   = 0
	exitInvalid = 1
	exitUsage   = 2
)

func main() {
	// A binary that can write a heap profile samples allocations in every run: only with --pprof heap it shall.
	runtime.MemProfileRate = 0
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Main is the command without the process: tests run it under testscript.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, isRole := trial.Role(args, stdin, stdout, stderr); isRole {
		return code
	}
	if os.Getenv(host.LockHeldEnv) == host.LockHeldStdin {
		ctx, stop := obeyParent(stdin)
		defer stop()
		return run(ctx, args, stdout, stderr)
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
	out := answer.To(stdout)
	o, err := parseFlags(args, os.Environ())
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(out, helpText())
		return answered(exitValid, out, stderr)
	case err != nil:
		return fail(stderr, err)
	case o.version:
		fmt.Fprintln(out, versionText(build.Identify("")))
		return answered(exitValid, out, stderr)
	}
	if o.isRunner() {
		args = without(o.flags, args, outputFlags...) // its parent's affair, and no part of the trial
	}
	plan, err := o.spec(args, stderr).Resolve()
	if err != nil {
		return fail(stderr, err)
	}
	if !o.dryRun {
		plan.Warnings = append(plan.Warnings, takeTimerSlack(plan.Case)...)
	}
	var held *contest
	if o.against != workload.ProbeNone {
		if held, err = newContest(o, plan.Case, out, stderr); err != nil {
			return fail(stderr, err)
		}
	}
	if o.dryRun {
		var b strings.Builder // one write: a reader that has seen enough, as head has, must not end the program by a signal
		printPlan(&b, plan)
		if held != nil {
			fmt.Fprintf(&b, "against    %s\n", held.probe.Key())
		}
		fmt.Fprint(out, b.String())
		return answered(exitValid, out, stderr)
	}
	if err := o.checkOutputs(); err != nil {
		return fail(stderr, err)
	}
	release, err := o.lock(ctx, stderr)
	if err != nil {
		return fail(stderr, err)
	}
	defer release()
	if slices.Contains(plan.Warnings, trial.NotLossless) && !o.isRunner() {
		fmt.Fprintf(stderr, "latencydemo: warning: %s\n", trial.NotLossless) // before anything is measured
	}
	if held != nil {
		return answered(held.run(ctx), out, stderr)
	}
	if o.repeat > 1 {
		return answered(newSequence(o, plan, out, stderr).run(ctx), out, stderr)
	}
	return answered(once(ctx, o, plan, out, stderr), out, stderr)
}

// answered is the exit code of what ended with code. Nobody has been answered who could not be told.
func answered(code int, out *answer.Writer, stderr io.Writer) int {
	if err := out.Err(); err != nil {
		return max(code, failWith(stderr, exitInvalid, fmt.Errorf("print: %w", err)))
	}
	return code
}

// takeTimerSlack gives this process, and those that it will start, the timer slack of the case. It may start the program
// anew. Where the slack cannot be had that is a warning, if the case asks for it.
func takeTimerSlack(c workload.Case) (warnings []string) {
	err := host.WithTimerSlack(c.EffectiveTimerSlack())
	if err != nil && c.TimerSlack != 0 {
		return []string{fmt.Sprintf("--timer-slack %v has no effect: %v", c.TimerSlack, err)}
	}
	return nil
}

// once runs the plan and shows its record.
func once(ctx context.Context, o *options, plan *trial.Plan, stdout, stderr io.Writer) int {
	outcome, err := watched(ctx, o, plan, stderr)
	if err != nil {
		return fail(stderr, err)
	}
	rec, code := outcome.Record, exitValid
	if !rec.Valid {
		code = exitInvalid
	}
	unwritten := o.write(outcome, stdout)
	switch { // a record that cannot be written must not take the summary with it
	case !o.jsonToStdout():
		printSummary(stdout, rec)
	case !o.isRunner():
		printVerdict(stderr, rec)
	}
	if unwritten != nil {
		return failWith(stderr, exitInvalid, unwritten)
	}
	return code
}

// watched runs the plan under the eyes of whoever sits at the terminal.
func watched(ctx context.Context, o *options, plan *trial.Plan, stderr io.Writer) (*trial.Outcome, error) {
	if !o.jsonToStdout() || o.isRunner() {
		stop := watch(plan, stderr)
		defer stop()
	}
	return trial.Run(ctx, plan)
}

// lock takes the machine, unless a parent of ours holds it. What cannot be had is a *trial.UsageError.
func (o *options) lock(ctx context.Context, stderr io.Writer) (release func(), err error) {
	if o.lockHeld != "" {
		return func() {}, nil
	}
	release, err = host.Lock(ctx, !o.noWait, func(text string) { fmt.Fprintf(stderr, "latencydemo: %s\n", text) })
	switch {
	case err == nil || ctx.Err() != nil:
		return release, err
	case errors.Is(err, host.ErrLocked):
		return nil, usageError("without --no-wait it waits for the other's end", "%w", err)
	}
	return nil, usageError("set TMPDIR to a directory that can be written", "%w", err)
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
