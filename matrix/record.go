package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// task is one attempt at a slot.
type task struct {
	slot
	attempt int
	timeout time.Duration
	args    []string
}

// errNothing: the trial ended on our word before it had anything to record.
var errNothing = errors.New("interrupted before anything was measured")

// finish makes the record of an ended child: its own, with the place in the session filled in, or one in its place. What
// it wrote beside the record moves to runs/<run_id>/. The error is a disk that is full, or errNothing.
func (s *sitting) finish(t task, e *ending, stopped bool) (*runrecord.Record, error) {
	c := &s.grid.Cells[t.cell]
	r := e.rec
	switch {
	case r == nil && (e.quit || stopped && !e.timedOut):
		return nil, errNothing
	case r == nil:
		if err := s.full(e); err != nil {
			return nil, err
		}
		r = s.substitute(t, e, fmt.Sprintf("%s: %s", e.how(t.timeout), e.noRecord))
	case r.Case.Key != c.Case.Key():
		r = s.substitute(t, e, fmt.Sprintf("%s: its record is of another case: %s", e.how(t.timeout), r.Case.Key))
	case e.timedOut, e.broker != "", r.Valid && e.exitCode != 0:
		text := "after its record: " + e.how(t.timeout)
		r.Valid, r.Error = false, &text
		r.Reasons = append(r.Reasons, text)
	}
	trial, order := t.trial, s.ledger.records+1
	r.SessionID, r.Trial, r.Order = &s.SessionID, &trial, &order
	if err := s.keepFiles(r, e); err != nil {
		return nil, err
	}
	return r, nil
}

// substitute is the record of a child that left none: how it ended, the end of its output, and whatever is known without
// it, so that it is counted with the trials of its cell.
func (s *sitting) substitute(t task, e *ending, what string) *runrecord.Record {
	c := &s.grid.Cells[t.cell]
	text := fmt.Sprintf("no result: attempt %d of %d: %s", t.attempt, s.ledger.retries+1, what)
	if last := lastWords(e.output); last != "" {
		text += "\n" + last
	}
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: runrecord.NewSessionID(), StartedAt: e.startedAt.UTC(), DurationNs: int64(e.took),
		Kind: c.Case.Kind(), Command: t.args, Env: measuredEnv(os.Environ()), Rerun: rerun(t.args),
		Build: s.Build, Host: s.Host, Reasons: []string{"no result: " + e.how(t.timeout)}, Error: &text,
		SizeGrade: string(workload.GradeNone), Perturbed: []string{}, Warnings: []string{}, Stages: []runrecord.Stage{}, Trimmed: []string{}, Files: []runrecord.File{},
	}
	r.Latency.Kind, r.Latency.Inflight = c.Case.LatencyKind(), c.Case.Inflight
	r.Case, r.Lossless, r.Config = s.known[t.cell].describe(c, t.trial)
	if known := s.ledger.sample[t.cell]; known != nil {
		seed := r.Case.Seed
		r.Case, r.Lossless, r.Build = known.Case, known.Lossless, known.Build
		r.Case.Seed = seed
		if len(known.Config.Broker) > 0 { // summaries may leave it out
			r.Config = known.Config
		}
	}
	return r
}

// lastWords are the ends of an output, short enough for a record: a crash says what it is at the beginning, everything
// else at the end. All that was kept lies beside the record.
func lastWords(output []byte) string {
	const most = 2 << 10
	text := strings.TrimSpace(strings.ToValidUTF8(string(output), "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most/2], "") + "\n…\n" + strings.ToValidUTF8(text[len(text)-most/2:], "")
	}
	return text
}

const outputFile = "output.txt"

// keepFiles names what lies beside the record. Of a trial that is not valid it is also what the trial said.
func (s *sitting) keepFiles(r *runrecord.Record, e *ending) error {
	from, to := s.inFlight(), s.RunDir(r.RunID)
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep what the trial wrote: %w", err)
	}
	_ = os.Remove(to) // if it is empty
	if r.Valid || len(e.output) == 0 {
		return nil
	}
	file, err := runrecord.WriteBeside(to, outputFile, e.output)
	if err != nil {
		return s.noSpace(err)
	}
	r.Files = append(r.Files, file)
	return nil
}

func (s *sitting) inFlight() string { return filepath.Join(s.Dir, runrecord.RunsDir, inFlightName) }

// rerun is a shell line that runs the same again.
func rerun(args []string) string {
	words := []string{binaryFile}
	for _, a := range args {
		if strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%") != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
