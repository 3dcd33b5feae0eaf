package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"felix/internal/runrecord"
)

// refresh is slow on purpose: the bar is drawn while trials measure.
const refresh = time.Second

// progress shows a session under way: a bar on a terminal, else one line for each trial.
type progress struct {
	plan   *plan
	ledger *ledger
	out    io.Writer
	pool   *mpb.Progress // nil: lines
	bar    *mpb.Bar

	left []slot // still to do, the running one first

	mu     sync.Mutex // the bar draws on its own goroutine
	end    time.Time  // when everything should be done
	total  int
	done   int
	now    string // the running trial
	last   string // the figures of the last one
	counts string
}

func newProgress(out io.Writer, p *plan, l *ledger) *progress {
	s := &progress{plan: p, ledger: l, out: out, total: p.done + p.slots(), done: p.done}
	for _, b := range p.blocks {
		s.left = append(s.left, b...)
	}
	s.countUp()
	s.foresee()
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.pool = mpb.New(mpb.WithOutput(f), mpb.WithWidth(24), mpb.WithRefreshRate(refresh))
		// With a total of its own the bar would end for good at that number, and repeats come after it.
		s.bar = s.pool.AddBar(0,
			mpb.PrependDecorators(decor.Any(s.text(func() string { return fmt.Sprintf("%d/%d %s", s.done, s.total, s.now) }))),
			mpb.AppendDecorators(decor.Any(s.text(func() string { return " eta " + s.eta() + "  " + s.last + "  " + s.counts }))))
		s.bar.SetTotal(int64(s.total), false)
		s.bar.SetCurrent(int64(s.done))
	}
	return s
}

func (s *progress) text(of func() string) func(decor.Statistics) string {
	return func(decor.Statistics) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return of()
	}
}

// line prints a line, above the bar if there is one.
func (s *progress) line(text string) {
	var out io.Writer = s.out
	if s.pool != nil {
		out = s.pool
	}
	fmt.Fprintf(out, "matrix: %s\n", text)
}

// foresee estimates the end, by what trials of this session have taken. Called with mu held, or before anybody else
// knows s; the bar only reads the result, because the model is not for two goroutines.
func (s *progress) foresee() { s.end = time.Now().Add(s.plan.cost(s.left)) }

// eta is what is left until then. Called with mu held.
func (s *progress) eta() string { return about(max(0, time.Until(s.end))) }

func (s *progress) start(at slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foresee()
	s.now = fmt.Sprintf("%s trial %d ", s.plan.grid.Cells[at.cell].Name, at.trial)
}

// finish shows one record. filled: its slot needs no further attempt.
func (s *progress) finish(at slot, r *runrecord.Record, e *ending, filled bool) {
	text := s.finished(at, r, e, filled)
	if s.pool == nil || !r.Valid {
		s.line(text)
	}
	if s.bar != nil && filled {
		s.bar.SetCurrent(int64(s.done))
	}
}

func (s *progress) finished(at slot, r *runrecord.Record, e *ending, filled bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if filled && len(s.left) > 0 {
		s.left = s.left[1:]
		s.done++
	}
	s.foresee()
	s.last = figures(r)
	s.countUp()
	words := []string{fmt.Sprintf("[%*d/%d]", len(fmt.Sprint(s.total)), s.done, s.total), s.plan.grid.Cells[at.cell].Name, fmt.Sprintf("trial %d:", at.trial)}
	o := outcomeOf(r)
	switch {
	case o.interrupted:
		words = append(words, "INTERRUPTED")
	case o.failed:
		what, _, _ := strings.Cut(*r.Error, "\n")
		words = append(words, "FAILED: "+what)
	case !o.valid:
		words = append(words, "INVALID: "+strings.Join(r.Reasons, "; "))
	default:
		words = append(words, s.last)
	}
	if r.Host.Noise != nil && o.noisy {
		words = append(words, r.Host.Noise.Grade)
	}
	return strings.Join(append(words, fmt.Sprintf("(%.1f s; eta %s)", e.took.Seconds(), s.eta())), " ")
}

// countUp is called with mu held, or before anybody else knows s.
func (s *progress) countUp() {
	t := s.ledger.totals()
	s.counts = fmt.Sprintf("invalid %d  failed %d  noisy %d", t.invalid, t.failed, t.noisy)
}

// figures are the one or two numbers that a trial of the case is for.
func figures(r *runrecord.Record) string {
	var words []string
	if r.Case.Throughput() {
		if r.Rates.DeliveredMsgsPerSec != nil {
			words = append(words, fmt.Sprintf("%.1fk msg/s", *r.Rates.DeliveredMsgsPerSec/1e3))
		}
		if r.Rates.DeliveredBytesPerSec != nil && r.Case.Payload > 0 {
			words = append(words, fmt.Sprintf("%.1f MB/s", *r.Rates.DeliveredBytesPerSec/1e6))
		}
	} else if d := r.Latency.EndToEnd; d != nil {
		for _, p := range []struct {
			name string
			ns   *int64
		}{{"p50", d.P50Ns}, {"p99", d.P99Ns}} {
			if p.ns != nil {
				words = append(words, fmt.Sprintf("%s %.0f us", p.name, float64(*p.ns)/1e3))
			}
		}
	}
	if r.SizeGrade == "capped" {
		words = append(words, "capped")
	}
	if len(words) == 0 {
		return "no figures"
	}
	return strings.Join(words, "  ")
}

// drop takes blocks out that will not be run.
func (s *progress) drop(blocks []block) {
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	s.change(nil, -n)
}

// more adds repeats.
func (s *progress) more(slots []slot) { s.change(append(s.left, slots...), len(slots)) }

func (s *progress) change(left []slot, by int) {
	s.mu.Lock()
	s.left = left
	s.total += by
	total := s.total
	s.foresee()
	s.mu.Unlock() // the bar takes mu to draw, and answers when it has drawn
	if s.bar != nil {
		s.bar.SetTotal(int64(total), false)
	}
}

// close ends the bar and waits for its goroutines.
func (s *progress) close() {
	if s.pool == nil {
		return
	}
	s.bar.Abort(false)
	s.pool.Wait()
}
