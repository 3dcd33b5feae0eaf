package gate

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"felix/internal/verdict"
)

// Result is what a gate came to: Two of base and head, Arms of three arms and more. As JSON it is the verdict.
type Result interface {
	ExitCode() int
	// Headline is the result in one line, and Why the sentences behind it.
	Headline() string
	Why() (verdict.Outcome, []string)
	WriteText(w io.Writer) error
	WriteMarkdown(w io.Writer) error
}

// Two is the verdict on head against base.
type Two struct{ *verdict.Verdict }

// Headline is gate.Headline.
func (t Two) Headline() string { return Headline(t.Verdict) }

// Why returns outcome and reasons.
func (t Two) Why() (verdict.Outcome, []string) { return t.Outcome, t.Reasons }

// WriteText is gate.WriteText.
func (t Two) WriteText(w io.Writer) error { return WriteText(w, t.Verdict) }

// WriteMarkdown is gate.WriteMarkdown.
func (t Two) WriteMarkdown(w io.Writer) error { return WriteMarkdown(w, t.Verdict) }

// Arms is the verdict on every two of several arms.
type Arms struct{ *verdict.ArmsVerdict }

// Headline is the verdict in one line.
func (a Arms) Headline() string {
	fail := "FAIL: an arm is worse than the first"
	if len(a.ArmsVerdict.Arms) > 0 {
		fail = "FAIL: an arm is worse than " + a.ArmsVerdict.Arms[0]
	}
	return headline(a.Outcome, fail, a.Look, a.Looks, a.Pairs, "rounds of "+strings.Join(a.ArmsVerdict.Arms, ", "))
}

// Why returns outcome and reasons.
func (a Arms) Why() (verdict.Outcome, []string) { return a.Outcome, a.Reasons }

// WriteText writes the verdict for people: a line a metric of every two arms.
func (a Arms) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s (exit code %d)\n", a.Headline(), a.ExitCode())
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "  - %s\n", r)
	}
	if rows := a.rows(); len(rows) > 1 {
		fmt.Fprintf(&b, "\n%s\n", a.title())
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush() // to memory
	}
	for _, line := range a.remarks() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteMarkdown writes the same for a step's summary, below 900 KiB.
func (a Arms) WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s\n\n", escape(a.Headline()))
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "- %s\n", escape(r))
	}
	if rows := a.rows(); len(rows) > 1 {
		markdownTable(&b, a.title(), rows)
	}
	b.WriteByte('\n')
	for _, line := range a.remarks() {
		if b.Len() > maxMarkdown {
			b.WriteString("\nleft out: further remarks\n")
			break
		}
		fmt.Fprintf(&b, "- %s\n", escape(line))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (a Arms) title() string {
	return fmt.Sprintf("every two arms, the second against the first; p_worse and p_better are Holm's over %d, each look at level %.3g", a.Tests, a.Level)
}

func (a Arms) rows() [][]string {
	rows := [][]string{{"arms", "cell", "metric", "first", "second", "ratio", "95 % interval", "n", "sd", "MDE", "p_worse", "p_better", "finding"}}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		for k := range c.Metrics {
			m := &c.Metrics[k].Result
			rows = append(rows, []string{
				c.B + " / " + c.A, m.Cell, string(m.Metric), figure(m.BaseMedian, m.Unit), figure(m.HeadMedian, m.Unit), ratio(m.Ratio),
				fmt.Sprintf("[%s, %s]", ratio(m.Low), ratio(m.High)), fmt.Sprint(m.N), share(m.SD), share(m.MDE),
				number(m.PWorse, "%.2g"), number(c.Metrics[k].PBetter, "%.2g"), c.Metrics[k].Finding.String(),
			})
		}
	}
	return rows
}

// remarks are those of every comparison, each said once.
func (a Arms) remarks() []string {
	var out []string
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		for _, line := range remarks(&c.Verdict) {
			out = append(out, fmt.Sprintf("%s / %s: %s", c.B, c.A, line))
		}
	}
	return out
}
