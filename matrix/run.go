package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/presets"
)

func runCommand(args []string, stdout, stderr io.Writer) int {
	o, err := parseRun(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, runHelp())
		return exitValid
	}
	if err != nil {
		return fail(stderr, err)
	}
	s, err := prepare(o)
	if err != nil {
		return fail(stderr, err)
	}
	if o.dryRun {
		if err := dryRun(stdout, o, s); err != nil {
			return fail(stderr, err)
		}
		return exitValid
	}
	r := &runner{o: o, sitting: s, stdout: stdout, stderr: stderr}
	stop, release := watchSignals(r.say)
	defer release()
	r.stop = stop
	code, err := r.run()
	if err != nil {
		return fail(stderr, err)
	}
	return code
}

// prepare resolves grid and session as far as that is possible without writing anything.
func prepare(o *runOptions) (*sitting, error) {
	if o.resume && o.grid == "" {
		return findSitting(o, nil)
	}
	g, err := loadGrid(o)
	if err != nil {
		return nil, err
	}
	if o.resume {
		return findSitting(o, g)
	}
	if o.bin != "" {
		if err := checkBinary("--bin", o.bin); err != nil {
			return nil, err
		}
	}
	if o.sessionDir != "" && !o.dryRun {
		if err := vacant(o.sessionDir); err != nil {
			return nil, err
		}
	}
	return newSitting(o, g), nil
}

// dryRun prints the plan; of a resumed session what is left of it.
func dryRun(w io.Writer, o *runOptions, s *sitting) error {
	if s.resumed {
		if err := s.ledger.read(s.Session, func(error) {}); err != nil {
			return err
		}
	}
	p := s.plan(o)
	p.write(w, o, s.order, s.seed)
	return nil
}

func (s *sitting) plan(o *runOptions) *plan {
	p := newPlan(s.grid, presets.Model(), s.trials, s.order, s.seed, o.cooldown, s.ledger.done)
	p.fit(o.budget)
	return p
}

// runner runs a session.
type runner struct {
	*sitting
	o              *runOptions
	stop           stops
	stdout, stderr io.Writer

	began time.Time
	plan  *plan
	show  *progress
	shown atomic.Pointer[progress] // show, while it lasts, for say
}

// say prints a line for whoever watches. It may be called by several goroutines.
func (r *runner) say(text string) {
	if p := r.shown.Load(); p != nil {
		p.line(text)
		return
	}
	fmt.Fprintf(r.stderr, "matrix: %s\n", text)
}

// run does everything from the locks to the table. The error is that the session cannot be used or written; what
// happened to trials is in the exit code.
func (r *runner) run() (code int, err error) {
	release, err := r.hold(r.stop.soft)
	if err != nil {
		return 0, err
	}
	defer release()
	unlock, err := host.Lock(r.stop.soft, !r.o.noWait, r.say)
	if err != nil {
		r.abandon()
		if errors.Is(err, host.ErrLocked) {
			return 0, usagef("leave --no-wait out to wait for it", "%w", err)
		}
		return 0, err
	}
	defer unlock()
	if err := r.open(); err != nil {
		r.abandon()
		if r.stop.soft.Err() != nil {
			return 0, errors.New("interrupted before anything was measured")
		}
		return 0, r.noSpace(err)
	}
	if file := r.o.sessionFile; file != "" {
		if err := os.WriteFile(file, []byte(r.Dir+"\n"), 0o644); err != nil {
			return 0, usagef("give a file that can be written", "--session-file: %w", err)
		}
	}
	r.began = time.Now()
	r.plan = r.sitting.plan(r.o)
	fmt.Fprintf(r.stderr, "session    %s\n", r.Dir)
	r.plan.write(r.stderr, r.o, r.order, r.seed)
	if r.plan.dropped > 0 {
		if err := r.note(fmt.Sprintf("budget %v: the last %d of %d trials of every cell were dropped before the start", r.o.budget, r.plan.dropped, r.trials)); err != nil {
			return 0, r.noSpace(err)
		}
	}
	r.show = newProgress(r.stderr, r.plan, r.ledger)
	r.shown.Store(r.show)
	err = errors.Join(r.measure(), r.end())
	r.shown.Store(nil)
	r.show.close()
	switch {
	case err != nil:
		r.summary()
		return 0, r.noSpace(err)
	case r.stop.hard.Err() != nil:
		return r.summary(), nil
	}
	if err := r.table(); err != nil {
		return 0, err
	}
	return r.summary(), nil
}

// open makes the session, or takes it up again.
func (r *runner) open() error {
	ctx := r.stop.soft
	if r.resumed {
		if err := r.take(r.say); err != nil {
			return err
		}
		if len(r.Notes) > 0 || r.EndedAt != nil {
			r.EndedAt = nil
			if err := runrecord.WriteSession(r.Dir, r.Session); err != nil {
				return err
			}
		}
	} else {
		if err := vacant(r.Dir); err != nil { // somebody may have come first while we waited
			return err
		}
		b, err := provideBinary(ctx, r.o, r.sitting, r.say)
		if err != nil {
			return err
		}
		if r.known, err = preflight(ctx, r.executable(), r.grid); err != nil {
			return err
		}
		return r.begin(b)
	}
	var err error
	r.known, err = preflight(ctx, r.executable(), r.grid)
	return err
}

// abandon takes back what a new session has left, if it never came to exist.
func (r *runner) abandon() {
	if _, err := os.Stat(filepath.Join(r.Dir, runrecord.SessionFile)); r.resumed || !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, name := range []string{binaryFile, gridFile, lockFile} {
		_ = os.Remove(filepath.Join(r.Dir, name)) // may not be there yet
	}
	_ = os.Remove(r.Dir) // unless it holds something else
}

// measure runs the planned blocks and then the repeats of noisy trials. It returns nil when it was told to stop.
func (r *runner) measure() error {
	for i, b := range r.plan.blocks {
		if i > 0 && r.overBudget(b) {
			left := len(r.plan.blocks) - i
			text := fmt.Sprintf("budget %v: %s are used, and one more trial of every cell takes about %s: the last %d of %d trials of every cell are dropped",
				r.o.budget, about(time.Since(r.began)), about(r.plan.cost(b)), left, r.trials)
			r.say(text)
			r.show.drop(r.plan.blocks[i:])
			if err := r.note(text); err != nil {
				return err
			}
			break
		}
		for _, s := range b {
			if err := r.fill(s); err != nil || r.stop.soft.Err() != nil {
				return err
			}
		}
	}
	return r.repeatNoisy()
}

// overBudget reports whether one more block would pass the budget, by what trials really take on this machine. It is
// asked between blocks only, so that all cells keep the same number of trials.
func (r *runner) overBudget(b block) bool {
	return r.o.budget > 0 && time.Since(r.began)+r.plan.cost(b) > r.o.budget
}

// repeatRule is what --repeat-noisy does, stated where it is done.
const repeatRule = "repeats of noisy trials: a trial that was measured in noise only is measured again, at most %d times; every record is kept, and the noise of the machine decides, never the figure"

func (r *runner) repeatNoisy() error {
	random := rand.New(rand.NewPCG(r.seed, 0)) // no block has number 0
	for round := 0; ; round++ {
		var again []slot
		for t := 1; t <= r.trials; t++ {
			for c := range r.grid.Cells {
				if s := (slot{c, t}); r.ledger.noisy(s, r.o.repeatNoisy) {
					again = append(again, s)
				}
			}
		}
		if len(again) == 0 {
			return nil
		}
		if round == 0 {
			text := fmt.Sprintf(repeatRule, r.o.repeatNoisy)
			r.say(text)
			if err := r.note(text); err != nil {
				return err
			}
		}
		if cost := r.plan.cost(again); r.o.budget > 0 && time.Since(r.began)+cost > r.o.budget {
			r.say(fmt.Sprintf("budget %v: no time is left to repeat %d noisy trials", r.o.budget, len(again)))
			return nil
		}
		random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		r.show.more(again)
		for _, s := range again {
			if _, err := r.attempt(s); err != nil || r.stop.soft.Err() != nil {
				return err
			}
		}
	}
}

// fill attempts a slot until it needs no further attempt, or until we are told to stop.
func (r *runner) fill(s slot) error {
	for !r.ledger.done(s) {
		rec, err := r.attempt(s)
		if err != nil || rec == nil || r.stop.soft.Err() != nil {
			return err
		}
		if out := outcomeOf(rec); out.failed && !r.ledger.done(s) {
			r.say(fmt.Sprintf("%s, trial %d: trying again, attempt %d of %d", r.grid.Cells[s.cell].Name, s.trial, r.ledger.attempt(s), r.ledger.retries+1))
		}
	}
	return nil
}

// attempt runs one trial in a fresh process and appends its record. Without an error and without a record it was told
// to stop before there was anything to record.
func (r *runner) attempt(s slot) (*runrecord.Record, error) {
	c := &r.grid.Cells[s.cell]
	pause(r.stop.soft, r.o.cooldown)
	waitQuiet(r.stop.soft, r.o.waitQuiet, r.say)
	if r.stop.soft.Err() != nil {
		return nil, nil
	}
	if err := r.room(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(r.inFlight()); err != nil { // of a trial that was killed with its matrix
		return nil, fmt.Errorf("clear what an unfinished trial left: %w", err)
	}
	t := task{slot: s, attempt: r.ledger.attempt(s), timeout: r.timeout(s)}
	t.args = append(trialFlags(c, s.trial), "--json", "-", "--out", r.inFlight())
	r.show.start(s)
	e, err := child{binary: r.executable(), args: t.args, env: childEnv(), timeout: t.timeout}.run(r.stop)
	if err != nil {
		return nil, r.noSpace(err)
	}
	rec, err := r.finish(t, e, r.stop.soft.Err() != nil)
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := runrecord.Append(r.RecordsPath(), rec); err != nil {
		return nil, r.noSpace(err)
	}
	if err := r.ledger.add(r.SessionID, rec); err != nil {
		return nil, err
	}
	out := outcomeOf(rec)
	if !out.failed && !out.interrupted {
		r.plan.model.Observe(c, e.took)
	}
	r.show.finish(s, rec, e, r.ledger.done(s))
	return rec, nil
}

// timeout of a trial: far above what it should take, because a slow mode is a result and not a failure.
func (r *runner) timeout(s slot) time.Duration {
	if r.o.timeout > 0 {
		return r.o.timeout
	}
	return max(2*time.Minute, 4*r.plan.model.Trial(&r.grid.Cells[s.cell]).Round(time.Second))
}

// childEnv tells latencydemo that we hold the machine's lock for it.
func childEnv() []string { return append(os.Environ(), host.LockHeldEnv+"="+host.LockHeld) }

// summary says how it went and returns the exit code.
func (r *runner) summary() int {
	t := r.ledger.totals()
	planned := r.trials * len(r.grid.Cells)
	left := planned - t.valid - t.invalid - t.failed
	text := fmt.Sprintf("%d of %d trials recorded: %d valid, %d invalid, %d failed, %d noisy", planned-left, planned, t.valid, t.invalid, t.failed, t.noisy)
	if r.ledger.failed > 0 {
		text += fmt.Sprintf("; %d of %d attempts failed (%s %%)", r.ledger.failed, r.ledger.attempts, strconv.FormatFloat(100*float64(r.ledger.failed)/float64(r.ledger.attempts), 'f', 1, 64))
	}
	r.say(text)
	r.say("session " + r.SessionID + " in " + r.Dir)
	interrupted := r.stop.soft.Err() != nil
	if left > 0 {
		r.say(r.resumeHint())
	}
	if interrupted && left > 0 || t.invalid > 0 || t.failed > 0 {
		return exitInvalid
	}
	return exitValid
}
