package history

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"felix/internal/cells"
	"felix/internal/runrecord"
)

// Schema is the version of the JSON document.
const Schema = "felix.history/1"

// caveat goes with every history.
const caveat = "Sessions share no drift control, and the test takes them for independent: what changes here may be the machine. matrix ab measures pairs and decides."

// about says what the history is made of.
func (r *Report) about() string {
	text := fmt.Sprintf("%s from %s to %s, %d series; change points by E-divisive on the medians, permutation p at most %v",
		count(r.Sessions, "session"), r.From.UTC().Format("2006-01-02 15:04"), r.To.UTC().Format("2006-01-02 15:04 UTC"), len(r.Series), r.Level)
	if r.Hosts > 1 {
		text += fmt.Sprintf("; %d hosts, each with series of its own", r.Hosts)
	}
	if r.LeftOut > 0 {
		text += fmt.Sprintf("; %d cells with perturbing instruments left out", r.LeftOut)
	}
	return text
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// commit names what a point was built from.
func commit(b *runrecord.Build) string {
	if b.Commit == nil {
		return "unknown"
	}
	text := (*b.Commit)[:min(9, len(*b.Commit))]
	if b.Dirty != nil && *b.Dirty {
		text += "-DIRTY"
	}
	return text
}

// rows is the table: a line a series and, below it, one for each change.
func (r *Report) rows() [][]string {
	rows := [][]string{{"cell", "metric", "sessions", "first", "latest", "n", "changes"}}
	for i := range r.Series {
		s := &r.Series[i]
		first, last := s.ends()
		row := []string{s.Cell, s.Metric.Label, fmt.Sprint(len(s.Points)), "n/a", "n/a", "0", "none"}
		if first != nil {
			u := cells.UnitOf(s.Metric.Unit, math.Max(first.Figure.Median, last.Figure.Median))
			row[3], row[4] = u.Number(first.Figure.Median)+" "+u.Name, u.Number(last.Figure.Median)+" "+u.Name
			row[5] = fmt.Sprintf("%d", last.Figure.N)
		}
		switch n := s.figures(); {
		case len(s.Changes) > 0:
			row[6] = s.text(&s.Changes[0])
		case n < r.Least:
			row[6] = fmt.Sprintf("n/a: %d of the %d sessions that the clearest change needs", n, r.Least)
		}
		rows = append(rows, row)
		for k := range s.Changes {
			if k > 0 {
				rows = append(rows, []string{"", "", "", "", "", "", s.text(&s.Changes[k])})
			}
		}
	}
	return rows
}

// figures is how many sessions have a figure.
func (s *Series) figures() int {
	n := 0
	for i := range s.Points {
		if v := s.Points[i].value(); !math.IsNaN(v) && !math.IsInf(v, 0) {
			n++
		}
	}
	return n
}

// text is a change in words: when, at which commit, by how much, how sure.
func (s *Series) text(c *Change) string {
	before, after := &s.Points[c.At-1], &s.Points[c.At]
	u := cells.UnitOf(s.Metric.Unit, math.Max(c.Before, c.After))
	how := "better"
	if c.Worse {
		how = "worse"
	}
	text := fmt.Sprintf("%s %s: %s -> %s %s, x%s (%s), p=%s", after.Session.StartedAt.UTC().Format("2006-01-02"), commit(&after.Build),
		u.Number(c.Before), u.Number(c.After), u.Name, cells.Ratio(c.Ratio), how, cells.PValue(c.P))
	if from := commit(&before.Build); from != commit(&after.Build) {
		text += ", before: " + from
	}
	if after.Config {
		text += ", other settings"
	}
	return text
}

// WriteText writes a line a series.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.about(), caveat)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range r.rows() {
		for i := range row {
			row[i] = cells.Clean(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // to memory
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the same as a table.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### History\n\n%s\n\n%s\n\n", cells.Escape(r.about()), cells.Escape(caveat))
	for i, row := range r.rows() {
		for k := range row {
			row[k] = cells.Escape(cells.Clean(row[k]))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// field is one column of the CSV, and one member of a point in JSON. What is not known is an empty field, or null.
type field struct {
	name string
	of   func(s *Series, i int) any
}

// fields stay: some are added at the end, none renamed.
var fields = []field{
	{"cell", func(s *Series, _ int) any { return s.Cell }},
	{"key", func(s *Series, _ int) any { return s.Key }},
	{"kind", func(s *Series, _ int) any { return s.Kind }},
	{"host", func(s *Series, _ int) any { return s.Host }},
	{"metric", func(s *Series, _ int) any { return s.Metric.Name }},
	{"unit", func(s *Series, _ int) any { return s.Metric.Unit }},
	{"better", func(s *Series, _ int) any {
		if s.Metric.HigherIsBetter {
			return "higher"
		}
		return "lower"
	}},
	{"session_id", func(s *Series, i int) any { return s.Points[i].Session.SessionID }},
	{"session", func(s *Series, i int) any { return filepath.Base(s.Points[i].Session.Dir) }},
	{"started_at", func(s *Series, i int) any { return s.Points[i].Session.StartedAt.UTC().Format("2006-01-02T15:04:05Z") }},
	{"commit", func(s *Series, i int) any {
		if c := s.Points[i].Build.Commit; c != nil {
			return *c
		}
		return nil
	}},
	{"dirty", func(s *Series, i int) any {
		if d := s.Points[i].Build.Dirty; d != nil {
			return *d
		}
		return nil
	}},
	{"cell_id", func(s *Series, i int) any { return s.Points[i].CellID }},
	{"n", func(s *Series, i int) any { return s.Points[i].Figure.N }},
	{"invalid", func(s *Series, i int) any { return s.Points[i].Invalid }},
	{"median", func(s *Series, i int) any { return number(s.Points[i].value()) }},
	{"low", func(s *Series, i int) any { return number(s.Points[i].Figure.Low) }},
	{"high", func(s *Series, i int) any { return number(s.Points[i].Figure.High) }},
	{"marks", func(s *Series, i int) any {
		var words []string
		for _, m := range s.Points[i].Marks {
			words = append(words, string(m))
		}
		if len(words) == 0 {
			return nil
		}
		return strings.Join(words, "; ")
	}},
	{"settings_differ", func(s *Series, i int) any { return s.Points[i].Config }},
	{"change_ratio", func(s *Series, i int) any {
		if c := s.changeAt(i); c != nil {
			return number(c.Ratio)
		}
		return nil
	}},
	{"change_p", func(s *Series, i int) any {
		if c := s.changeAt(i); c != nil {
			return number(c.P)
		}
		return nil
	}},
	{"change_worse", func(s *Series, i int) any {
		if c := s.changeAt(i); c != nil {
			return c.Worse
		}
		return nil
	}},
}

// changeAt is the change that begins with a point, nil if there is none.
func (s *Series) changeAt(i int) *Change {
	for k := range s.Changes {
		if s.Changes[k].At == i {
			return &s.Changes[k]
		}
	}
	return nil
}

// number is a figure to nine digits: what lies beyond is not measured, and differs between processors.
func number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 9, 64), 64)
	if err != nil {
		return nil // never: it was just written
	}
	return v
}

// WriteCSV writes a line a point, oldest first within its series, under one line of names.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(fields))
	for i, f := range fields {
		line[i] = f.name
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for k := range r.Series {
		for i := range r.Series[k].Points {
			for j, f := range fields {
				line[j] = cells.CSVText(f.of(&r.Series[k], i))
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteJSON writes the history as one document.
func (r *Report) WriteJSON(w io.Writer) error {
	doc := struct {
		Schema   string           `json:"schema"`
		Sessions int              `json:"sessions"`
		Level    float64          `json:"level"`
		Caveat   string           `json:"caveat"`
		Points   []map[string]any `json:"points"`
	}{Schema, r.Sessions, r.Level, caveat, []map[string]any{}}
	for k := range r.Series {
		for i := range r.Series[k].Points {
			point := map[string]any{}
			for _, f := range fields {
				point[f.name] = f.of(&r.Series[k], i)
			}
			doc.Points = append(doc.Points, point)
		}
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
