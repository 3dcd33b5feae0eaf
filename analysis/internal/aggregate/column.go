// Package aggregate writes runs and cells as tables for other programs: one row a run, or one row a cell, in columns
// whose names and meanings stay. Columns are added at the end of their table, never renamed or moved.
package aggregate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Column is what one column holds. A value that is not known is an empty field in CSV and null in JSON, never 0.
type Column struct {
	Name string
	Type string // text | integer | number | boolean | time
	Unit string // "" for none
	Doc  string
}

// column is a Column with how to get its value from a row: nil, string, int64, uint64, float64 or bool.
type column[Row any] struct {
	Column
	value func(Row) any
}

// Constructors, so that the lists of columns read as a table. A pointer that is nil is not known.

func text[Row any](name, doc string, get func(Row) string) column[Row] {
	return column[Row]{Column{name, "text", "", doc}, func(r Row) any {
		if s := get(r); s != "" {
			return s
		}
		return nil
	}}
}

func boolean[Row any](name, doc string, get func(Row) *bool) column[Row] {
	return column[Row]{Column{name, "boolean", "", doc}, func(r Row) any { return known(get(r)) }}
}

func yes[Row any](name, doc string, get func(Row) bool) column[Row] {
	return column[Row]{Column{name, "boolean", "", doc}, func(r Row) any { return get(r) }}
}

func integer[Row any](name, unit, doc string, get func(Row) int64) column[Row] {
	return column[Row]{Column{name, "integer", unit, doc}, func(r Row) any { return get(r) }}
}

func maybeInteger[Row any](name, unit, doc string, get func(Row) *int64) column[Row] {
	return column[Row]{Column{name, "integer", unit, doc}, func(r Row) any { return known(get(r)) }}
}

func number[Row any](name, unit, doc string, get func(Row) *float64) column[Row] {
	return column[Row]{Column{name, "number", unit, doc}, func(r Row) any {
		// JSON has no NaN, and a ratio to nothing is not a number that anybody should average.
		if v := get(r); v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			return *v
		}
		return nil
	}}
}

func known[V any](v *V) any {
	if v == nil {
		return nil
	}
	return *v
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func widen(n *int) *int64 {
	if n == nil {
		return nil
	}
	v := int64(*n)
	return &v
}

// joined writes a list into one field.
func joined(list []string) string { return strings.Join(list, "; ") }

// sum adds what was counted by cause.
func sum(byCause map[string]int64) int64 {
	var n int64
	for _, v := range byCause {
		n += v
	}
	return n
}

// pairs writes settings as "prefix.key=value", sorted.
func pairs(prefix string, kv map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		list = append(list, prefix+"."+k+"="+kv[k])
	}
	return list
}

func columnsOf[Row any](list []column[Row]) []Column {
	columns := make([]Column, len(list))
	for i, c := range list {
		columns[i] = c.Column
	}
	return columns
}

// WriteColumns documents every column of both tables, as Markdown.
func WriteColumns(w io.Writer) error {
	var b strings.Builder
	b.WriteString("A value that is not known is an empty field in CSV and null in JSON, never 0.\n")
	for _, t := range []struct {
		name, about string
		columns     []Column
	}{
		{"runs", "One row a run, in the order of the records.", RunColumns()},
		{"cells", "One row a cell: all runs that agree in case, measured build, host, settings, variables, instruments and arm.", CellColumns()},
	} {
		fmt.Fprintf(&b, "\n# %s (%s)\n\n%s\n\n| column | type | unit | meaning |\n|---|---|---|---|\n", t.name, schemaOf(t.name), t.about)
		for _, c := range t.columns {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Name, c.Type, cmp.Or(c.Unit, "-"), c.Doc)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// schemaOf names the table's version in JSON.
func schemaOf(table string) string { return "felix." + table + "/1" }
