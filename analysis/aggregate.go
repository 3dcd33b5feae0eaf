package main

import (
	"errors"
	"io"

	"github.com/spf13/pflag"

	"felix/analysis/internal/aggregate"
	"felix/internal/cells"
)

func runAggregate(args []string, stdout io.Writer, say func(string, ...any)) error {
	var src source
	var runsPath, cellsPath string
	var format aggregate.Format
	var columns bool
	f := pflag.NewFlagSet("aggregate", pflag.ContinueOnError)
	f.StringVar(&runsPath, "runs", "", "file for one row a run; - is stdout")
	f.StringVar(&cellsPath, "cells", "", "file for one row a cell, with its merged histogram; - is stdout")
	f.Var(&format, "format", "of both")
	src.flags(f)
	f.BoolVar(&columns, "columns", false, "documents every column, as Markdown, and reads nothing")
	const about = "analysis aggregate writes runs and cells for other programs, in columns that stay: some are added, none renamed."
	if done, err := parse(f, args, about, stdout); done || err != nil {
		return err
	}
	const hint = "analysis aggregate --runs FILE --cells FILE, either or both; analysis aggregate --columns"
	switch {
	case columns:
		return aggregate.WriteColumns(stdout)
	case runsPath == "" && cellsPath == "":
		return &usageError{errors.New("nothing to write: neither --runs nor --cells"), hint}
	case runsPath == cellsPath:
		return &usageError{errors.New("--runs and --cells are one file"), hint}
	}
	return writeTables(src, runsPath, cellsPath, format, stdout, say)
}

// writeTables reads the records once and writes both tables.
func writeTables(src source, runsPath, cellsPath string, format aggregate.Format, stdout io.Writer, say func(string, ...any)) error {
	runs, err := openOutput(runsPath, stdout)
	if err != nil {
		return err
	}
	defer runs.discard()
	cellsTo, err := openOutput(cellsPath, stdout)
	if err != nil {
		return err
	}
	defer cellsTo.discard()
	if runs != nil && cellsTo != nil {
		runs.beside, cellsTo.beside = true, true
	}
	w, err := aggregate.NewWriter(writer(runs), writer(cellsTo), format)
	if err != nil {
		return err
	}
	sessions, err := src.read(w.Add, say)
	if err != nil {
		return err
	}
	all, err := w.Close(func(all []cells.Cell) { inGridOrder(all, sessions) }, say)
	if err != nil {
		return err
	}
	sayFigures(all, say)
	return errors.Join(runs.keep(), cellsTo.keep())
}

// writer is o, or nil without a type where there is none.
func writer(o *output) io.Writer {
	if o == nil {
		return nil
	}
	return o
}
