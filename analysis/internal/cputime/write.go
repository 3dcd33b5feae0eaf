package cputime

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"felix/internal/cells"
)

// Schema is the version of the JSON document.
const Schema = "felix.cpu/1"

// WriteText writes the table for a terminal, figures to the right.
func (r *Report) WriteText(w io.Writer) error {
	rows := r.rows()
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = cells.Clean(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.about())
	for _, row := range rows {
		fmt.Fprintf(&b, "%-*s", widths[0], row[0])
		for i, text := range row[1:] {
			fmt.Fprintf(&b, "   %*s", widths[i+1], text)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the same as a table.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### CPU time\n\n%s\n\n", r.about())
	for i, row := range r.rows() {
		for k := range row {
			row[k] = strings.ReplaceAll(cells.Clean(row[k]), "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| --- |%s\n", strings.Repeat(" ---: |", len(row)-1))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cellLine is a cell for other programs.
type cellLine struct {
	Process  string   `json:"process"`
	Group    Group    `json:"group"`
	Samples  int64    `json:"samples"`
	CPUNs    int64    `json:"cpu_ns"`
	Share    float64  `json:"share"`        // of the process
	SecPerGB *float64 `json:"cpu_s_per_gb"` // null if not asked for
}

func (r *Report) cells() []cellLine {
	var out []cellLine
	for _, p := range r.columns() {
		for _, g := range Groups {
			s := p.Spent[g]
			c := cellLine{Process: p.Name, Group: g, Samples: s.Samples, CPUNs: int64(s.CPU), Share: share(s.CPU, p.CPU)}
			if r.RunBytes > 0 {
				perGB := r.perGB(s.CPU)
				c.SecPerGB = &perGB
			}
			out = append(out, c)
		}
	}
	return out
}

// WriteCSV writes a line a cell, the columns of the sum included.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"process", "group", "samples", "cpu_ns", "share", "cpu_s_per_gb"}) // Flush tells
	for _, l := range r.cells() {
		perGB := ""
		if l.SecPerGB != nil {
			perGB = strconv.FormatFloat(*l.SecPerGB, 'g', -1, 64)
		}
		_ = c.Write([]string{l.Process, string(l.Group), strconv.FormatInt(l.Samples, 10), strconv.FormatInt(l.CPUNs, 10),
			strconv.FormatFloat(l.Share, 'g', -1, 64), perGB})
	}
	c.Flush()
	return c.Error()
}

// WriteJSON writes one document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	var bytes *int64
	if r.RunBytes > 0 {
		bytes = &r.RunBytes
	}
	return e.Encode(struct {
		Schema   string     `json:"schema"`
		Runs     int        `json:"runs"`
		RunBytes *int64     `json:"run_bytes"`
		Cells    []cellLine `json:"cells"`
	}{Schema, r.Runs, bytes, r.cells()})
}
