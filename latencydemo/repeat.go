package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"felix/internal/runrecord"
	"felix/internal/trial"
)

// sequence is --repeat: trials of one case, one after another. Every one is printed and recorded as it ends.
type sequence struct {
	o      *options
	plan   *trial.Plan
	stdout io.Writer
	stderr io.Writer
	text   io.Writer // trials and statistics: stdout, or stderr if the records are there

	trials []*runrecord.Record // nil: it failed and left none
}

func newSequence(o *options, plan *trial.Plan, stdout, stderr io.Writer) *sequence {
	s := &sequence{o: o, plan: plan, stdout: stdout, stderr: stderr, text: stdout}
	if o.jsonToStdout() {
		s.text = &prefixWriter{w: stderr}
	}
	return s
}

// run runs the trials, then says what they have in common. A trial that fails is counted and the sequence goes on;
// it ends early when ctx does, when trials cannot be run as things stand, and when records cannot be kept.
func (s *sequence) run(ctx context.Context) int {
	code := exitValid
	for i := 1; i <= s.o.repeat && ctx.Err() == nil; i++ {
		out, err := s.trial(ctx)
		impossible := isUsage(err)
		if err != nil && !hasToldWhy(err) {
			fail(s.stderr, err)
		}
		if impossible && i == 1 {
			return exitUsage // and nothing to say about trials
		}
		if i == 1 {
			s.head()
		}
		if err != nil {
			code = exitInvalid
			fmt.Fprintf(s.text, "%-11s FAILED: %v\n", trialLabel(i), err)
			s.trials = append(s.trials, nil)
			if impossible {
				break
			}
			continue
		}
		rec := out.Record
		rec.Trial, rec.Order = &i, &i
		rec.Command = s.o.args // the whole sequence; rerun is this trial
		s.trials = append(s.trials, rec)
		printTrial(s.text, i, rec)
		if !rec.Valid {
			code = exitInvalid
		}
		if err := s.o.write(out, s.stdout); err != nil {
			code = failWith(s.stderr, exitInvalid, err)
			break
		}
	}
	if n := len(s.trials); n < s.o.repeat {
		code = exitInvalid
		fmt.Fprintf(s.text, "%-11s after %d of %d trials\n", "ended early", n, s.o.repeat)
	}
	printSequence(s.text, s.plan.Case, s.trials)
	return code
}

func (s *sequence) trial(ctx context.Context) (*trial.Outcome, error) {
	if !s.o.sameProcess {
		r := runner{args: without(s.o.flags, s.o.args, sequenceFlags...), extras: len(s.o.extraDirs("")) > 0, stderr: s.stderr}
		return r.run(ctx)
	}
	return watched(ctx, s.o, s.plan, s.stderr)
}

func (s *sequence) head() {
	how := "each in a fresh runner"
	if s.o.sameProcess {
		how = "all in one runner"
	}
	fmt.Fprintf(s.text, "%-11s %s\n%-11s %d trials, %s\n", "case", s.plan.Case.Key(), "repeat", s.o.repeat, how)
}

// hasToldWhy reports whether the error is of a runner, which has told the cause itself, just above.
func hasToldWhy(err error) bool {
	var ended *endedError
	return errors.As(err, &ended)
}

// isUsage reports whether no trial can be run as things stand.
func isUsage(err error) bool {
	var usage *trial.UsageError
	var ended *endedError
	return errors.As(err, &usage) || errors.As(err, &ended) && ended.isUsage()
}

// prefixWriter puts the command's name before each line. Every write is of whole lines.
type prefixWriter struct{ w io.Writer }

func (p *prefixWriter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if _, err := fmt.Fprintf(p.w, "latencydemo: %s", line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
