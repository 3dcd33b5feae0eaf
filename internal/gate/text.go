package gate

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"felix/internal/verdict"
)

// Headline is the verdict in one line.
func Headline(v *verdict.Verdict) string {
	return headline(v.Outcome, "FAIL: a regression", v.Look, v.Looks, v.Pairs, "pairs")
}

func headline(o verdict.Outcome, fail string, look, looks, pairs int, of string) string {
	word := map[verdict.Outcome]string{
		verdict.Pass: "PASS", verdict.Fail: fail, verdict.CannotJudge: "CANNOT JUDGE",
		verdict.Inconclusive: "INCONCLUSIVE", verdict.Continue: "NOT DECIDED YET",
	}[o]
	if look > 0 {
		word += fmt.Sprintf(" at look %d of %d, %d %s", look, looks, pairs, of)
	}
	return word
}

// WriteText writes the verdict for people: outcome, reasons, and every figure with its unit, n and interval.
func WriteText(w io.Writer, v *verdict.Verdict) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s (exit code %d)\n", Headline(v), v.ExitCode())
	for _, r := range v.Reasons {
		fmt.Fprintf(&b, "  - %s\n", r)
	}
	if len(v.Metrics) > 0 {
		fmt.Fprintf(&b, "\ngated, worse is against head; p_worse is Holm's over %d, each look at level %.3g\n", v.Tests, v.Level)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range metricRows(v.Metrics, true) {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush() // to memory
	}
	if len(v.Shown) > 0 {
		b.WriteString("\nshown, never gated\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range metricRows(v.Shown, false) {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush()
	}
	for _, line := range remarks(v) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteMarkdown writes the same for a step's summary on a CI page, below 900 KiB.
func WriteMarkdown(w io.Writer, v *verdict.Verdict) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s\n\n", Headline(v))
	for _, r := range v.Reasons {
		fmt.Fprintf(&b, "- %s\n", escape(r))
	}
	table := func(title string, rows [][]string) { markdownTable(&b, title, rows) }
	if len(v.Metrics) > 0 {
		table(fmt.Sprintf("Gated; p_worse is Holm's over %d, each look at level %.3g", v.Tests, v.Level), metricRows(v.Metrics, true))
	}
	if len(v.Shown) > 0 {
		table("Shown, never gated", metricRows(v.Shown, false))
	}
	b.WriteByte('\n')
	for _, line := range remarks(v) {
		if b.Len() > maxMarkdown {
			b.WriteString("\nleft out: further remarks\n")
			break
		}
		fmt.Fprintf(&b, "- %s\n", escape(line))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// markdownTable writes rows, the first of them the heads, and says what it leaves out.
func markdownTable(b *bytes.Buffer, title string, rows [][]string) {
	fmt.Fprintf(b, "\n%s\n\n", escape(title))
	for i, row := range rows {
		if b.Len() > maxMarkdown {
			fmt.Fprintf(b, "\nleft out: %d more rows\n", len(rows)-i)
			return
		}
		for k := range row {
			row[k] = escape(row[k])
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
}

// maxMarkdown keeps a summary below what CI pages take.
const maxMarkdown = 800 << 10

func escape(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ", "*", "\\*").Replace(s)
}

func metricRows(all []verdict.MetricResult, gated bool) [][]string {
	head := []string{"cell", "metric", "base", "head", "head/base", "95 % interval", "n", "worse", "sd"}
	if gated {
		head = append(head, "MDE", "p_worse", "p_less", "outcome")
	}
	rows := [][]string{head}
	for i := range all {
		m := &all[i]
		row := []string{
			m.Cell, string(m.Metric), figure(m.BaseMedian, m.Unit), figure(m.HeadMedian, m.Unit), ratio(m.Ratio),
			fmt.Sprintf("[%s, %s]", ratio(m.Low), ratio(m.High)), fmt.Sprint(m.N), share(m.Worse), share(m.SD),
		}
		if gated {
			outcome := m.Outcome.String()
			if m.Waived {
				outcome += " (waived)"
			}
			row = append(row, share(m.MDE), number(m.PWorse, "%.2g"), number(m.PLess, "%.2g"), outcome)
		}
		rows = append(rows, row)
	}
	return rows
}

// remarks are modes, sentinels, dropped pairs and notes, a line each.
func remarks(v *verdict.Verdict) []string {
	var out []string
	for i := range v.Modes {
		m := &v.Modes[i]
		judged := ""
		if !m.Judged {
			judged = " (too few to judge)"
		}
		out = append(out, fmt.Sprintf("slow mode  %s: base %d, head %d of %d trials each, p=%s%s", m.Cell, m.Base, m.Head, m.N, number(m.P, "%.2g"), judged))
	}
	for i := range v.Sentinels {
		s := &v.Sentinels[i]
		out = append(out, fmt.Sprintf("sentinel   %s: head/base %s [%s, %s] n=%d, moved: %v", s.Name, ratio(s.Ratio), ratio(s.Low), ratio(s.High), s.N, s.Moved))
	}
	for i := range v.Dropped {
		d := &v.Dropped[i]
		if d.Dropped == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("dropped    %s: %d of %d pairs; base: %s; head: %s", d.Cell, d.Dropped, d.Pairs, orNone(d.Base.String()), orNone(d.Head.String())))
	}
	for _, n := range v.Notes {
		out = append(out, "note       "+n)
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func number(n verdict.Number, format string) string {
	if math.IsNaN(float64(n)) {
		return "n/a"
	}
	return fmt.Sprintf(format, float64(n))
}

// ratio prints a ratio so that a difference of 0.1 % shows, and what is a thousand times smaller is not 0.
func ratio(n verdict.Number) string {
	if x := float64(n); x >= 0.1 && x < 10 {
		return number(n, "%.3f")
	}
	return number(n, "%.3g")
}

func share(n verdict.Number) string {
	if math.IsNaN(float64(n)) {
		return "n/a"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n))
}

// figure prints a value with the unit that people read it in.
func figure(n verdict.Number, unit string) string {
	x := float64(n)
	switch {
	case math.IsNaN(x):
		return "n/a"
	case unit == "ns":
		return fmt.Sprintf("%.1f us", x/1e3)
	case unit == "B/s":
		return fmt.Sprintf("%.1f MB/s", x/1e6)
	}
	return fmt.Sprintf("%.4g %s", x, unit)
}
