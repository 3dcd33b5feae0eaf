package aggregate

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Format is how a table is written.
type Format int

// The formats: CSV with a line of names (RFC 4180, but lines end with LF), and a JSON document
// {"schema", "runs" or "cells": [object, …]} with one object a line.
const (
	CSV Format = iota
	JSON
)

var formatTexts = []string{"csv", "json"}

// String returns csv or json.
func (f Format) String() string { return formatTexts[f] }

// Set parses a format; with String and Type it is a flag.
func (f *Format) Set(s string) error {
	for i, t := range formatTexts {
		if s == t {
			*f = Format(i)
			return nil
		}
	}
	return fmt.Errorf("%q: want one of %s", s, strings.Join(formatTexts, ", "))
}

// Type is shown in a flag's usage: the choices.
func (f Format) Type() string { return strings.Join(formatTexts, "|") }

// table writes rows as they come.
type table[Row any] struct {
	columns []column[Row]
	format  Format
	w       *bufio.Writer
	csv     *csv.Writer
	fields  []string
	line    []byte
	rows    int
}

func newTable[Row any](w io.Writer, format Format, name string, columns []column[Row]) (*table[Row], error) {
	t := &table[Row]{columns: columns, format: format, w: bufio.NewWriterSize(w, 64<<10), fields: make([]string, len(columns))}
	if format == JSON {
		_, err := fmt.Fprintf(t.w, "{\"schema\":%q,%q:[", schemaOf(name), name)
		return t, err
	}
	t.csv = csv.NewWriter(t.w)
	for i, c := range columns {
		t.fields[i] = c.Name
	}
	return t, t.csv.Write(t.fields)
}

func (t *table[Row]) row(r Row) error {
	t.rows++
	if t.format == JSON {
		return t.object(r)
	}
	for i, c := range t.columns {
		t.fields[i] = field(c.value(r))
	}
	return t.csv.Write(t.fields)
}

func (t *table[Row]) object(r Row) error {
	b := t.line[:0]
	if t.rows > 1 {
		b = append(b, ',')
	}
	b = append(b, '\n', '{')
	for i, c := range t.columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, c.Name), ':')
		switch v := c.value(r).(type) {
		case nil:
			b = append(b, "null"...)
		case string:
			b = appendString(b, v)
		default:
			b = append(b, field(v)...)
		}
	}
	b = append(b, '}')
	t.line = b
	_, err := t.w.Write(b)
	return err
}

// close writes the end of the table; what it wrote to stays open.
func (t *table[Row]) close() error {
	if t.format == JSON {
		if _, err := t.w.WriteString("\n]}\n"); err != nil {
			return err
		}
		return t.w.Flush()
	}
	t.csv.Flush()
	if err := t.csv.Error(); err != nil {
		return err
	}
	return t.w.Flush()
}

// field writes a value as CSV and, but for text and nil, JSON have it.
func field(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
			return strconv.FormatFloat(v, 'e', -1, 64)
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// appendString quotes for JSON. Nearly every text needs no escape.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always has an encoding
				return append(b, "null"...)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
