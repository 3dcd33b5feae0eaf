package compare

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"felix/internal/cells"
)

// Schema is the version of the JSON document.
const Schema = "felix.compare/1"

// field is one column of the CSV, and one member of a row in JSON. What is not known is an empty field, or null.
type field struct {
	name string
	of   func(c *Comparison, r *Row) any
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

func word(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// fields stay: some are added at the end, none renamed.
var fields = func() []field {
	list := []field{
		{"base", func(c *Comparison, _ *Row) any { return c.Base.Label }},
		{"head", func(c *Comparison, _ *Row) any { return c.Head.Label }},
		{"paired_by", func(c *Comparison, _ *Row) any { return word(c.Factor) }},
		{"cell", func(_ *Comparison, r *Row) any { return r.Cell }},
		{"key", func(_ *Comparison, r *Row) any { return r.Key }},
		{"metric", func(_ *Comparison, r *Row) any { return r.Metric.Name }},
		{"unit", func(_ *Comparison, r *Row) any { return r.Metric.Unit }},
		{"better", func(_ *Comparison, r *Row) any {
			if r.Metric.HigherIsBetter {
				return "higher"
			}
			return "lower"
		}},
		{"finding", func(_ *Comparison, r *Row) any { return string(r.Finding) }},
		{"why", func(_ *Comparison, r *Row) any { return word(r.Why) }},
		{"ratio", func(_ *Comparison, r *Row) any { return number(r.Ratio) }},
		{"ratio_low", func(_ *Comparison, r *Row) any { return number(r.Interval.Low) }},
		{"ratio_high", func(_ *Comparison, r *Row) any { return number(r.Interval.High) }},
		{"coverage", func(_ *Comparison, r *Row) any { return number(r.Interval.Coverage) }},
		{"enough", func(_ *Comparison, r *Row) any { return r.Enough }},
		{"pairs", func(c *Comparison, r *Row) any {
			if !c.Paired() {
				return nil
			}
			return r.N
		}},
		{"pairs_dropped", func(c *Comparison, r *Row) any {
			if !c.Paired() {
				return nil
			}
			return r.Dropped
		}},
		{"p_two_sided", func(_ *Comparison, r *Row) any { return number(r.P) }},
		{"p_more_slow", func(_ *Comparison, r *Row) any { return number(r.SlowP) }},
	}
	for _, side := range []struct {
		prefix string
		of     func(*Row) *Arm
	}{{"base_", func(r *Row) *Arm { return &r.Base }}, {"head_", func(r *Row) *Arm { return &r.Head }}} {
		count := func(name string, of func(*Arm) int) field {
			return field{side.prefix + name, func(_ *Comparison, r *Row) any { return of(side.of(r)) }}
		}
		figure := func(name string, of func(*cells.Figure) float64) field {
			return field{side.prefix + name, func(_ *Comparison, r *Row) any { return number(of(&side.of(r).Figure)) }}
		}
		list = append(list,
			field{side.prefix + "cell_id", func(_ *Comparison, r *Row) any { return side.of(r).CellID }},
			count("n", func(a *Arm) int { return len(a.values) }),
			figure("median", func(f *cells.Figure) float64 { return f.Median }),
			figure("low", func(f *cells.Figure) float64 { return f.Low }),
			figure("high", func(f *cells.Figure) float64 { return f.High }),
			figure("spread", func(f *cells.Figure) float64 { return f.Spread }),
			count("valid", func(a *Arm) int { return a.Valid }),
			count("invalid", func(a *Arm) int { return a.Invalid }),
			count("failed", func(a *Arm) int { return a.Failed }),
			count("interrupted", func(a *Arm) int { return a.Interrupted }),
			count("noisy", func(a *Arm) int { return a.Noisy }),
			count("slow", func(a *Arm) int { return a.Slow }),
			count("slow_of", func(a *Arm) int { return a.SlowOf }),
			field{side.prefix + "marks", func(_ *Comparison, r *Row) any {
				var marks []string
				for _, m := range side.of(r).Marks {
					marks = append(marks, string(m))
				}
				for _, m := range side.of(r).Caveats {
					marks = append(marks, string(m))
				}
				return word(strings.Join(marks, "; "))
			}})
	}
	return list
}()

// WriteCSV writes a line a row, in the order of the report, under one line of names.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := make([]string, len(fields))
	for i, f := range fields {
		head[i] = f.name
	}
	if err := out.Write(head); err != nil {
		return err
	}
	line := make([]string, len(fields))
	for _, c := range r.Comparisons {
		for i := range c.Rows {
			for j, f := range fields {
				line[j] = cells.CSVText(f.of(c, &c.Rows[i]))
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteJSON writes the report as one document.
func (r *Report) WriteJSON(w io.Writer) error {
	type missing struct {
		Cell string `json:"cell"`
		Key  string `json:"key"`
		Why  string `json:"why"`
	}
	type side struct {
		Label     string  `json:"label"`
		SessionID *string `json:"session_id"`
		Is        string  `json:"is"`
	}
	type comparison struct {
		Base        side             `json:"base"`
		Head        side             `json:"head"`
		PairedBy    *string          `json:"paired_by"`
		How         string           `json:"how"`
		Differences []string         `json:"differences"`
		SharedCell  string           `json:"shared"`
		Rows        []map[string]any `json:"rows"`
		Missing     []missing        `json:"missing"`
	}
	sideOf := func(s *Side) side {
		out := side{Label: s.Label, Is: describe(s)}
		if s.Session != nil {
			out.SessionID = &s.Session.SessionID
		}
		return out
	}
	doc := struct {
		Schema      string       `json:"schema"`
		Comparisons []comparison `json:"comparisons"`
		Best        []string     `json:"best"`
	}{Schema: Schema, Comparisons: []comparison{}, Best: append([]string{}, r.Best...)}
	for _, c := range r.Comparisons {
		out := comparison{
			Base: sideOf(&c.Base), Head: sideOf(&c.Head), How: c.How(), Differences: append([]string{}, c.Differences...),
			SharedCell: c.Shared, Rows: []map[string]any{}, Missing: []missing{},
		}
		if c.Paired() {
			out.PairedBy = &c.Factor
		}
		for i := range c.Rows {
			row := map[string]any{}
			for _, f := range fields {
				row[f.name] = f.of(c, &c.Rows[i])
			}
			out.Rows = append(out.Rows, row)
		}
		for _, m := range c.Missing {
			out.Missing = append(out.Missing, missing(m))
		}
		doc.Comparisons = append(doc.Comparisons, out)
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
