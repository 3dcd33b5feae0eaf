package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"felix/analysis/internal/load"
	"felix/internal/cells"
)

// tableFormat is a flag.
type tableFormat struct{ cells.Format }

func (f *tableFormat) String() string {
	if f.Format == cells.Markdown {
		return "md"
	}
	return "text"
}

func (f *tableFormat) Set(s string) error {
	switch s {
	case "text":
		f.Format = cells.Text
	case "md":
		f.Format = cells.Markdown
	default:
		return fmt.Errorf("%q: want one of text, md", s)
	}
	return nil
}

func (f *tableFormat) Type() string { return "text|md" }

func runTable(args []string, stdout io.Writer, say func(string, ...any)) error {
	var src source
	var format tableFormat
	f := pflag.NewFlagSet("table", pflag.ContinueOnError)
	src.flags(f)
	f.Var(&format, "format", "for a terminal, or Markdown")
	const about = "analysis table prints the cells of a session: medians with intervals, the slowest trial, spread, slow modes,\n" +
		"and whether a figure may be published."
	if done, err := parse(f, args, about, stdout); done || err != nil {
		return err
	}
	g := cells.NewGrouper()
	sessions, err := src.read(func(r *load.Record) error {
		g.Add(r.Record)
		return nil
	}, say)
	if err != nil {
		return err
	}
	all := g.Cells()
	inGridOrder(all, sessions)
	sayFigures(all, say)
	return cells.Table{Cells: all, Format: format.Format, Names: gridNames(sessions)}.Write(stdout)
}
