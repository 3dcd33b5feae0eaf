package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/settings"
)

// The orders of trials.
const (
	orderRandom = "random"
	orderListed = "listed"
)

// runOptions are the flags of matrix run as given.
type runOptions struct {
	grid        string
	set, only   []string
	trials      int
	sessionDir  string
	results     string
	resume      bool
	order       string
	seed        uint64
	timeout     time.Duration // 0: four times the estimate
	cooldown    time.Duration
	waitQuiet   time.Duration
	budget      time.Duration // 0: none
	retries     int
	repeatNoisy int
	noWait      bool
	dryRun      bool
	bin         string
	sessionFile string

	flags *pflag.FlagSet
	args  []string
}

func newRunFlags(o *runOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet("matrix run", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetOutput(io.Discard)
	f.StringVar(&o.grid, "grid", "", "name of a built-in grid, or a YAML file")
	f.StringArrayVar(&o.set, "set", nil, "factor=level[,level…] in every block of the grid; repeatable")
	f.StringArrayVar(&o.only, "only", nil, "keep the cells with factor=level[,level…]; repeatable")
	f.IntVar(&o.trials, "trials", 0, "trials of every cell (default: what the grid says)")
	f.StringVar(&o.sessionDir, "session-dir", "", "directory of the session (default: a new one in --results)")
	f.StringVar(&o.results, "results", "results", "directory in which sessions lie")
	f.StringVar(&o.sessionFile, "session-file", "", "file to which the session's directory is written once it exists, for whatever comes after")
	f.BoolVar(&o.resume, "resume", false, "go on with the session: its own binary, what is recorded is skipped")
	f.StringVar(&o.order, "order", orderRandom, "random: trial 1 of all cells in random order, then trial 2 …; listed: the same, cells as listed")
	f.Uint64Var(&o.seed, "seed", 0, "of the random order (default: a new one, which the session records)")
	f.DurationVar(&o.timeout, "timeout", 0, "after which a trial is killed with all its processes (default: 4 times its estimate, at least 2m)")
	f.DurationVar(&o.cooldown, "cooldown", 500*time.Millisecond, "pause before each trial")
	f.DurationVar(&o.waitQuiet, "wait-quiet", 0, "wait up to this long, before each trial, until the machine is quiet (default: do not wait)")
	f.DurationVar(&o.budget, "budget", 0, "time for everything; drops trials, of all cells alike, never cells")
	f.IntVar(&o.retries, "retries", 2, "further attempts at a trial that failed, that is, crashed, hung or left no record")
	f.IntVar(&o.repeatNoisy, "repeat-noisy", 0, "at the end, further trials of a cell for its noisy ones, at most this many a cell; all are kept")
	f.BoolVar(&o.noWait, "no-wait", false, "fail when another measurement is running, instead of waiting")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the cells and the estimated duration, run nothing")
	f.StringVar(&o.bin, "bin", "", "a latencydemo to measure with (default: built from this checkout)")
	o.flags = f
	return f
}

func runHelp() string {
	return `matrix run runs every cell of a grid, several trials each, and ends with a table.

usage: matrix run --grid NAME|FILE [flags]
       matrix run --resume [--session-dir DIR] [flags]

` + newRunFlags(&runOptions{}).FlagUsages() + `
The first Ctrl-C lets the trial in flight drain, records it and says how to resume; the second quits at once.
An interrupted trial, and one that failed with attempts left, is run again by --resume; every record is kept.
`
}

// parseRun reads the flags of matrix run strictly.
func parseRun(args []string) (*runOptions, error) {
	o := &runOptions{args: args}
	f := newRunFlags(o)
	if err := parseFlags(f, args, "matrix run"); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, usagef("every option starts with --; matrix run --help lists them", "stray word %q", f.Arg(0))
	}
	if o.order != orderRandom && o.order != orderListed {
		return nil, usagef("random is the default", "--order %q: want %s or %s", o.order, orderRandom, orderListed)
	}
	for _, n := range []struct {
		name     string
		v, least int
	}{{"trials", o.trials, 1}, {"retries", o.retries, 0}, {"repeat-noisy", o.repeatNoisy, 0}} {
		if f.Changed(n.name) && n.v < n.least {
			return nil, usagef("leave it out for the default", "--%s %d: want at least %d", n.name, n.v, n.least)
		}
	}
	for _, d := range []struct {
		name string
		v    time.Duration
		zero bool
	}{{"timeout", o.timeout, false}, {"budget", o.budget, false}, {"cooldown", o.cooldown, true}, {"wait-quiet", o.waitQuiet, true}} {
		if f.Changed(d.name) && (d.v < 0 || d.v == 0 && !d.zero) {
			return nil, usagef("durations look like 500ms, 10s, 2h", "--%s %v: want more than 0", d.name, d.v)
		}
	}
	switch {
	case o.grid == "" && !o.resume:
		return nil, usagef("--grid NAME is one of "+gridNames()+"; or a YAML file", "no grid given")
	case o.grid == "" && (len(o.set) > 0 || len(o.only) > 0):
		return nil, usagef("name the grid as well, or leave them out: the session knows its own", "--set and --only change a grid, and --grid names none")
	case o.resume && o.bin != "":
		return nil, usagef("leave --bin out", "--resume uses the session's own binary")
	case o.resume && o.dryRun && o.sessionDir == "":
		return nil, usagef("add --session-dir DIR", "--resume --dry-run needs the session named")
	}
	for name, empty := range map[string]bool{"session-dir": o.sessionDir == "", "results": o.results == "", "bin": o.bin == "", "session-file": o.sessionFile == "", "grid": o.grid == ""} {
		if f.Changed(name) && empty {
			return nil, usagef("matrix run --help lists the flags", "--%s is empty", name)
		}
	}
	if !f.Changed("seed") {
		o.seed = rand.Uint64N(1 << 32) // short enough to be typed
	}
	return o, nil
}

// parseFlags parses, and hints at the nearest flag.
func parseFlags(f *pflag.FlagSet, args []string, command string) error {
	err := f.Parse(args)
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var names []string
	f.VisitAll(func(fl *pflag.Flag) { names = append(names, fl.Name) })
	hint := command + " --help lists the flags"
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "--")
		name, _, _ = strings.Cut(name, "=")
		if !ok || name == "" || f.Lookup(name) != nil {
			continue
		}
		if near := settings.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
		break
	}
	return usagef(hint, "%w", err)
}
