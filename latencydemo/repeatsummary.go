package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"

	"felix/internal/runrecord"
	"felix/internal/stat"
	"felix/internal/workload"
)

// level is that of every interval, and 1 - level that of the one test.
const level = 0.95

func trialLabel(i int) string { return fmt.Sprintf("trial %d", i) }

// printTrial is the line of one trial of several: what it measured and whether that can be believed. A bare median
// of trials would hide a slow mode.
func printTrial(w io.Writer, i int, r *runrecord.Record) {
	printTrialAs(w, fmt.Sprintf("%-11s", trialLabel(i)), r)
}

// printTrialAs is printTrial under another label.
func printTrialAs(w io.Writer, label string, r *runrecord.Record) {
	var figures string
	if x := r.Rates; r.Case.Throughput() {
		figures = "delivered n/a"
		if x.DeliveredMsgsPerSec != nil && x.DeliveredBytesPerSec != nil {
			figures = fmt.Sprintf("delivered %8s msg/s  %7s MB/s", thousands(*x.DeliveredMsgsPerSec), mb(*x.DeliveredBytesPerSec))
		}
	} else {
		figures = "p50 n/a"
		if d := r.Latency.EndToEnd; d != nil {
			figures = fmt.Sprintf("p50 %s  p99 %s  n=%d", quantile(d.P50Ns, d.N), quantile(d.P99Ns, d.N), d.N)
		}
		if r.Latency.Kind == workload.KindQueueingDelay {
			figures = "queueing delay " + figures
		}
	}
	verdict := "valid"
	switch {
	case r.Interrupted:
		verdict = "INTERRUPTED"
	case !r.Valid:
		verdict = "INVALID"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s   %s   size %s   %s", label, figures, verdict, r.SizeGrade, noiseText(r.Host.Noise))
	if len(r.Perturbed) > 0 {
		fmt.Fprintf(&b, "   perturbed by %s", strings.Join(r.Perturbed, ", "))
	}
	b.WriteByte('\n')
	if !r.Interrupted {
		for _, reason := range r.Reasons {
			fmt.Fprintf(&b, "%*s INVALID RUN %s\n", len(label), "", reason)
		}
	}
	fmt.Fprint(w, b.String())
}

func noiseText(n *runrecord.Noise) string {
	if n == nil || n.Grade == "" {
		return "noise unknown"
	}
	text := n.Grade
	if n.Grade != "quiet" && n.OthersCPU != nil && n.Steal != nil {
		text += fmt.Sprintf(" (others %.0f %%, steal %.0f %%)", 100**n.OthersCPU, 100**n.Steal)
	}
	return text
}

// series is one figure over the valid trials, in the order in which they ran.
type series struct {
	name   string
	values []float64
	format func(float64) string
	unit   string
	rate   bool // more is better
}

// printSequence says what the trials have in common, and what tells them apart. Only valid ones count.
func printSequence(w io.Writer, c workload.Case, trials []*runrecord.Record) {
	var valid []*runrecord.Record
	for _, r := range trials {
		if r != nil && r.Valid {
			valid = append(valid, r)
		}
	}
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	for _, text := range countWarnings(trials) {
		line("warning", "%s", text)
	}
	left := ""
	if n := len(trials) - len(valid); n > 0 {
		left = fmt.Sprintf("; %d left out of what follows", n)
	}
	line("valid", "%d of %d trials%s", len(valid), len(trials), left)
	all := figuresOf(c, valid)
	for _, x := range all {
		if len(x.values) == 0 {
			line(x.name, "n/a: no valid trial has it")
			continue
		}
		line(x.name, "%s", x.medianText())
	}
	// The rest is about the first figure: the rate, or the p50.
	if x := all[0]; len(x.values) > 0 {
		line("spread", "%s", x.spreadText())
		line("slow modes", "%s", x.slowText())
		line("position", "%s", x.positionText())
	}
	fmt.Fprint(w, b.String())
}

// countWarnings says each warning once, as the first trial gave it, and how many trials gave it. Those that differ
// only in figures are one.
func countWarnings(trials []*runrecord.Record) []string {
	var order, texts []string
	count := map[string]int{}
	for _, r := range trials {
		if r == nil {
			continue
		}
		for _, text := range r.Warnings {
			key := strings.Map(func(c rune) rune {
				if unicode.IsDigit(c) || c == '.' {
					return -1
				}
				return c
			}, text)
			if count[key]++; count[key] == 1 {
				order, texts = append(order, key), append(texts, text)
			}
		}
	}
	for i, key := range order {
		texts[i] = fmt.Sprintf("%s (%d of %d trials)", texts[i], min(count[key], len(trials)), len(trials))
	}
	return texts
}

func figuresOf(c workload.Case, valid []*runrecord.Record) []series {
	take := func(x series, of func(*runrecord.Record) *float64) series {
		for _, r := range valid {
			if v := of(r); v != nil {
				x.values = append(x.values, *v)
			}
		}
		return x
	}
	if c.Throughput() {
		if c.Payload == 0 { // of stamps alone the bytes say nothing
			return []series{take(series{name: "delivered", format: thousands, unit: " msg/s", rate: true}, func(r *runrecord.Record) *float64 { return r.Rates.DeliveredMsgsPerSec })}
		}
		return []series{take(series{name: "delivered", format: mb, unit: " MB/s", rate: true}, func(r *runrecord.Record) *float64 { return r.Rates.DeliveredBytesPerSec })}
	}
	latency := func(v float64) string { return duration(int64(math.Round(v))) }
	percentile := func(of func(*runrecord.Distribution) *int64) func(*runrecord.Record) *float64 {
		return func(r *runrecord.Record) *float64 {
			if r.Latency.EndToEnd == nil {
				return nil
			}
			ns := of(r.Latency.EndToEnd)
			if ns == nil {
				return nil
			}
			v := float64(*ns)
			return &v
		}
	}
	return []series{
		take(series{name: "p50", format: latency}, percentile(func(d *runrecord.Distribution) *int64 { return d.P50Ns })),
		take(series{name: "p99", format: latency}, percentile(func(d *runrecord.Distribution) *int64 { return d.P99Ns })),
	}
}

func (x series) medianText() string {
	median, iv, ok := stat.MedianInterval(x.values, level)
	worst := slices.Max(x.values)
	if x.rate {
		worst = slices.Min(x.values)
	}
	how := "interval"
	if !ok {
		how = "range, too few trials for 95 %"
	}
	return fmt.Sprintf("median %s%s  [%s, %s] n=%d (%s: holds the true median in %.1f %% of such sequences)   slowest %s",
		x.format(median), x.unit, x.format(iv.Low), x.format(iv.High), len(x.values), how, 100*iv.Coverage, x.format(worst))
}

func (x series) spreadText() string {
	s := stat.Spread(x.values)
	if math.IsNaN(s) {
		return fmt.Sprintf("n/a (n=%d)", len(x.values))
	}
	return fmt.Sprintf("p90/p10 = %.2f  n=%d", s, len(x.values))
}

func (x series) slowText() string {
	rates, of := x.values, "the rates'"
	if !x.rate {
		of = "the speeds'"
		rates = make([]float64, len(x.values))
		for i, v := range x.values {
			rates[i] = 1 / max(v, 1) // of a nanosecond at least
		}
	}
	s := stat.SlowModes(rates)
	return fmt.Sprintf("%d of %d trials: %.0f %%  [%.0f, %.0f] at 95 %% (slow: below 1/%.1f of %s 90th percentile)", s.K, s.N, 100*s.Share, 100*s.Low, 100*s.High, stat.SlowFactor, of)
}

// positionText says whether the place in the sequence explains the figure, as it does when trials heat up, wear or
// fill what the next one meets.
func (x series) positionText() string {
	what := x.name
	if x.rate {
		what = "rate"
	}
	rho, p := stat.SpearmanPosition(x.values)
	n := len(x.values)
	if math.IsNaN(p) {
		return fmt.Sprintf("cannot be told: fewer than two different values (n=%d)", n)
	}
	figures := fmt.Sprintf("(Spearman's rho %+.2f, p=%s, n=%d)", rho, pText(p), n)
	switch {
	case n < fewestForPosition:
		return fmt.Sprintf("cannot be told from fewer than %d trials %s", fewestForPosition, figures)
	case p >= 1-level:
		return fmt.Sprintf("does not explain the %s %s", what, figures)
	case (rho < 0) == x.rate:
		return fmt.Sprintf("EXPLAINS the %s: the later the slower %s", what, figures)
	}
	return fmt.Sprintf("EXPLAINS the %s: the later the faster %s", what, figures)
}

// fewestForPosition is the first n at which the exact test can reach 5 %: 2/5! = 0.017, 2/4! = 0.083.
const fewestForPosition = 5

func pText(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
