package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/broker/service"
)

const usage = `Usage: brokerd [flags]

Runs a Felix broker until SIGTERM or SIGINT. Settings come from the defaults, the YAML
file, FELIX_* variables and flags; the later wins.

`

// maxTimerSlack is more than any timer of a broker may be late.
const maxTimerSlack = 100 * time.Millisecond

// usageError is a command line that cannot be run.
type usageError struct{ what, hint string }

func (e *usageError) Error() string { return e.what }

// command is a command line.
type command struct {
	service.Request
	help       string // if not empty, to be printed instead of running
	version    bool
	timerSlack time.Duration // 0: as it is
}

// parse reads the flags.
func parse(args []string) (c command, err error) {
	r := &c.Request
	fs := pflag.NewFlagSet("brokerd", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {} // the error and its hint are said by run
	fs.StringVar(&r.Dev, "dev", "", "make a certificate, key and token (24 h), write them to `DIR`, and print the latencydemo command")
	fs.StringArrayVar(&r.Streams, "stream", nil, "register `T/N/S`: tenant, namespace, stream; repeatable (with --dev and none: "+service.DefaultDevStream+")")
	fs.StringArrayVar(&r.Caches, "cache", nil, "register `T/N/C`: tenant, namespace, cache; repeatable")
	fs.StringVar(&r.Config, "config", "", "read settings from this YAML `FILE` (else from the one that FELIX_BROKER_CONFIG names)")
	fs.StringArrayVar(&r.Sets, "set", nil, "set `KEY=VALUE`; repeatable")
	fs.StringVar(&r.QUICBind, "quic-bind", "", "listen on `HOST:PORT` (UDP); port 0 takes any")
	fs.StringVar(&r.MetricsBind, "metrics-bind", "", "admin HTTP on `HOST:PORT`, loopback only; port 0 takes any")
	fs.DurationVar(&c.timerSlack, "timer-slack", 0, "how late the kernel may wake a thread (Linux), as `2ms` where throughput counts; 0: as whoever starts brokerd has it, as a rule 50us")
	fs.BoolVar(&c.version, "version", false, "print the identity of this build as JSON, and nothing else")
	err = fs.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		c.help = usage + fs.FlagUsages()
		return c, nil
	case err != nil:
		return c, &usageError{oneLine(err), flagHint(fs, err)}
	case fs.NArg() > 0:
		return c, &usageError{fmt.Sprintf("stray word %q", fs.Arg(0)), "brokerd takes flags only: brokerd --help lists them"}
	}
	for _, f := range []string{"dev", "config", "quic-bind", "metrics-bind"} {
		if fs.Changed(f) && fs.Lookup(f).Value.String() == "" {
			return c, &usageError{"--" + f + " without a value", "give it one, or leave it out"}
		}
	}
	if c.timerSlack < 0 || c.timerSlack > maxTimerSlack {
		return c, &usageError{fmt.Sprintf("--timer-slack %v", c.timerSlack), fmt.Sprintf("want 0 to %v; 2ms suits a throughput", maxTimerSlack)}
	}
	for _, scope := range slices.Concat(r.Streams, r.Caches) {
		if scope == "" {
			return c, &usageError{"--stream or --cache without a value", "name a scope, as t1/default/latency"}
		}
	}
	return c, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// flagHint names the flag that was probably meant.
func flagHint(fs *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := service.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return "brokerd --help lists the flags"
}
