// Command brokerd runs a Felix broker until it is told to stop: SIGTERM and SIGINT drain it,
// a second one ends the drain. Everything it says goes to stderr.
//
// With --dev DIR it makes its own certificate, key and token, writes them to DIR and prints
// the latencydemo command that measures it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"felix/broker/service"
	"felix/internal/answer"
	"felix/internal/build"
	"felix/internal/host"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run returns 0 after a complete drain, 1 when something was discarded or failed on the way,
// and 2 when the broker could not be started as it was told to.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	c, err := parse(args)
	switch {
	case err != nil:
		return fail(stderr, 2, err)
	case c.help != "" || c.version:
		out := answer.To(stdout)
		instead(out, c)
		if err := out.Err(); err != nil {
			return fail(stderr, 1, err)
		}
		return 0
	}
	if c.timerSlack > 0 {
		if err := host.WithTimerSlack(c.timerSlack); err != nil {
			return fail(stderr, 2, &usageError{fmt.Sprintf("--timer-slack %v: %v", c.timerSlack, err), "leave --timer-slack out"})
		}
	}
	c.Environ = environ
	o, dev, err := c.Options()
	if err != nil {
		return fail(stderr, 2, err)
	}
	o.LimitMemory = true
	o.Logger = slog.New(slog.NewTextHandler(prefixed{stderr}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))

	ctx, hard, stop := signals(ctx, stderr)
	defer stop()
	started := false
	report, err := service.Run(ctx, o, func(s *service.Service, r service.Ready) {
		started = true
		if c.timerSlack > 0 {
			say(stderr, "timer slack %v", c.timerSlack)
		}
		announce(stderr, s, r, dev)
	}, hard)
	switch {
	case err != nil && !started:
		return fail(stderr, 2, err)
	case err != nil:
		return fail(stderr, 1, err)
	case !report.Drained:
		say(stderr, "stopped before the drain was complete: %d deliveries discarded on close", report.DiscardedOnClose)
		return 1
	}
	say(stderr, "drained in %.1f s: 0 deliveries discarded on close", report.Took.Seconds())
	return 0
}

// instead prints what was asked for instead of a broker.
func instead(out *answer.Writer, c command) {
	if c.help != "" {
		fmt.Fprint(out, c.help)
		return
	}
	_ = json.NewEncoder(out).Encode(build.Identify("")) // of text alone: only the writing can fail, which out remembers
}

// signals ends ctx at the first SIGTERM or SIGINT and closes hard at the second. stop gives
// the signals back and waits.
func signals(ctx context.Context, stderr io.Writer) (_ context.Context, hard <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan os.Signal, 2)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT)
	second, quit, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; n < 2; n++ {
			select {
			case sig := <-got:
				if n == 0 {
					say(stderr, "%v: draining (once more to stop at once)", sig)
					cancel()
				} else {
					say(stderr, "%v: stopping at once", sig)
					close(second)
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, second, func() {
		signal.Stop(got)
		close(quit)
		<-done
		cancel()
	}
}

func announce(stderr io.Writer, s *service.Service, r service.Ready, dev *service.Dev) {
	say(stderr, "listening on %s, admin %s", r.Addr, r.AdminURL)
	if limit := os.Getenv("GOMEMLIMIT"); limit != "" {
		say(stderr, "memory limit %s, from GOMEMLIMIT", limit)
	} else {
		say(stderr, "%s", s.Memory())
	}
	for _, w := range r.Warnings {
		say(stderr, "warning: %s", w)
	}
	if dev != nil {
		say(stderr, "development certificate and token (24 h) are in %s; measure this broker with:", dev.Dir)
		// On a line of its own and without a prefix, to be copied.
		fmt.Fprintln(stderr, dev.Command(r))
	}
}

// fail prints one line and, where there is one, a hint.
func fail(stderr io.Writer, code int, err error) int {
	say(stderr, "%v", err)
	hint := service.Hint(err)
	var usage *usageError
	if errors.As(err, &usage) {
		hint = usage.hint
	}
	if hint == "" && code == 2 {
		hint = "brokerd --help lists the flags"
	}
	if hint != "" {
		say(stderr, "hint: %s", hint)
	}
	return code
}

func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "brokerd: "+format+"\n", args...)
}

// prefixed puts the command's name before each line of the logger, which writes line by line.
type prefixed struct{ w io.Writer }

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.w.Write(append([]byte("brokerd: "), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
