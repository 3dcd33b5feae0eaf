package aggregate

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
)

// odd are rows of values that a table must carry through unharmed.
var odd = []any{
	nil, "", "a,b", "say \"x\"", "two\nlines", "tab\t", "ünï", "</script>", "\x00", int64(math.MinInt64), uint64(math.MaxUint64),
	true, 0.0, 1e-9, 123456789.125, 1e300, -2.5,
}

func write(t *testing.T, format Format) string {
	t.Helper()
	var b strings.Builder
	columns := []column[any]{ // two: a line of one empty field is no line to CSV readers
		{Column{"value", "text", "", ""}, func(v any) any { return v }},
		{Column{"beside", "text", "", ""}, func(any) any { return "x" }},
	}
	table, err := newTable(&b, format, "runs", columns)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range odd {
		if err := table.row(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestOddValues(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(write(t, CSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Runs []map[string]any `json:"runs"`
	}
	d := json.NewDecoder(strings.NewReader(write(t, JSON)))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(odd)+1 || len(doc.Runs) != len(odd) {
		t.Fatalf("%d lines of CSV and %d objects, want %d of each", len(rows)-1, len(doc.Runs), len(odd))
	}
	for i, v := range odd {
		want := field(v)
		if got := rows[i+1][0]; got != want {
			t.Errorf("CSV of %#v: %q, want %q", v, got, want)
		}
		switch got := doc.Runs[i]["value"].(type) {
		case nil:
			if v != nil {
				t.Errorf("JSON of %#v: null", v)
			}
		case json.Number:
			if got.String() != want {
				t.Errorf("JSON of %#v: %s, want %s", v, got, want)
			}
		default:
			if got != v {
				t.Errorf("JSON of %#v: %#v", v, got)
			}
		}
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		c := number("n", "", "", func(v *float64) *float64 { return v })
		if got := c.value(&v); got != nil {
			t.Errorf("number of %v: %v, want nil", v, got)
		}
	}
}

// A column without a word of meaning, or with a name that needs quotes, is of no use to a script.
func TestColumnsAreDocumented(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for table, columns := range map[string][]Column{"runs": RunColumns(), "cells": CellColumns()} {
		seen := map[string]bool{}
		for _, c := range columns {
			if !name.MatchString(c.Name) || seen[c.Name] || c.Doc == "" || c.Type == "" || strings.ContainsAny(c.Doc, "|\n") {
				t.Errorf("%s: column %+v: want a name of its own and a meaning", table, c)
			}
			seen[c.Name] = true
			if strings.HasSuffix(c.Name, "_ns") && c.Unit != "ns" || strings.HasSuffix(c.Name, "_bytes") && c.Unit != "B" {
				t.Errorf("%s: column %s is in %q", table, c.Name, c.Unit)
			}
		}
	}
}
