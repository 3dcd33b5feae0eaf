package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"felix/analysis/internal/chart"
	"felix/analysis/internal/compare"
	"felix/analysis/internal/load"
	"felix/internal/cells"
	"felix/internal/runrecord"
)

// mostAuto is how many cells' runs are drawn if nobody names any: two pictures each.
const mostAuto = 8

// The words for runs that nobody names.
const (
	runsMedian  = "median"
	runsSlowest = "slowest"
	runsNone    = "none"
)

func runCharts(args []string, stdout io.Writer, say func(string, ...any)) error {
	var src source
	var out, formatList string
	var runs []string
	f := pflag.NewFlagSet("charts", pflag.ContinueOnError)
	src.flags(f)
	f.StringVar(&out, "out", "", "directory for the pictures (charts in the session's own); of all sessions, each has one below it")
	f.StringVar(&formatList, "format", "svg,png", "of the pictures: svg, png or both")
	f.StringSliceVar(&runs, "run", []string{runsMedian}, fmt.Sprintf(
		"runs whose time line and ledger are drawn: the beginnings or ends of their ids; %s or %s: of each cell the trial nearest its\nmedian, or its slowest, of the first %d cells; %s",
		runsMedian, runsSlowest, mostAuto, runsNone))
	const about = "analysis charts draws a session: latency against payload, whole distributions, rates, every trial, and single runs\n" +
		"over time. Stdout is the list of the files; stderr says what was not drawn, and why."
	if done, err := parse(f, args, about, stdout); done || err != nil {
		return err
	}
	var formats []chart.Format
	for _, word := range strings.Split(formatList, ",") {
		format, err := chart.ParseFormat(strings.TrimSpace(word))
		if err != nil {
			return &usageError{err, "analysis charts --format svg,png"}
		}
		if !slices.Contains(formats, format) {
			formats = append(formats, format)
		}
	}
	sessions, err := src.find(say)
	if err != nil {
		return err
	}
	drawn := 0
	for _, s := range sessions {
		dir := cmp.Or(out, filepath.Join(s.Dir, "charts"))
		if out != "" && src.session == load.All {
			dir = filepath.Join(out, filepath.Base(s.Dir))
		}
		n, err := drawSession(dir, s, runs, formats, stdout, say)
		switch {
		case err != nil && len(sessions) == 1:
			return err
		case errors.Is(err, errNoRecord): // the others are drawn
			say("%s: %v", filepath.Base(s.Dir), err)
		case err != nil:
			return err
		}
		drawn += n
	}
	if drawn == 0 {
		return errors.New("nothing to draw: no picture has anything to show")
	}
	return nil
}

// drawSession draws one session into dir and returns how many files it wrote.
func drawSession(dir string, s *runrecord.Session, runs []string, formats []chart.Format, stdout io.Writer, say load.Say) (int, error) {
	g := cells.NewGrouper()
	g.KeepHistograms = true
	var all []drawable
	sessions := []*runrecord.Session{s}
	err := readSessions(sessions, func(r *load.Record) error {
		all = append(all, drawable{id: r.RunID, line: r.Line, name: cmp.Or(r.Cell, r.Case.Key)})
		g.Add(r.Record)
		return nil
	}, say)
	if err != nil {
		return 0, err
	}
	list := compare.Fold(g.Cells())
	inGridOrder(list, sessions)
	sayFigures(list, say)
	chosen, err := choose(all, list, runs, say)
	if err != nil {
		return 0, err
	}
	name := filepath.Base(s.Dir)
	var data chart.SessionData
	if data.Cells, err = chart.FromCells(name, list, gridNames(sessions)); err != nil {
		say("%v", err) // those cells have no distribution
	}
	if data.Runs, err = readRuns(s, chosen, say); err != nil {
		return 0, err
	}
	files, skipped, err := chart.Session(dir, data, formats...)
	for _, f := range files {
		if _, err := fmt.Fprintln(stdout, filepath.Join(dir, f.Name)); err != nil {
			return 0, err
		}
	}
	for _, sk := range skipped {
		say("not drawn: %s: %s", sk.Name, sk.Reason)
	}
	return len(files), err
}

// drawable is a run that can be drawn over time.
type drawable struct {
	id   string
	line int
	name string // of its cell
}

// choose finds the runs that words mean.
func choose(all []drawable, list []cells.Cell, words []string, say load.Say) ([]drawable, error) {
	var chosen []drawable
	add := func(d drawable) {
		if !slices.ContainsFunc(chosen, func(c drawable) bool { return c.line == d.line }) {
			chosen = append(chosen, d)
		}
	}
	for _, word := range words {
		switch word {
		case runsNone, "":
		case runsMedian, runsSlowest:
			ids := typical(list, word == runsSlowest)
			if len(ids) > mostAuto {
				say("runs over time: of the first %d of %d cells; --run names others", mostAuto, len(ids))
				ids = ids[:mostAuto]
			}
			for _, id := range ids {
				add(all[slices.IndexFunc(all, func(d drawable) bool { return d.id == id })])
			}
		default:
			var found []drawable
			for _, d := range all {
				if strings.HasPrefix(d.id, word) || strings.HasSuffix(d.id, word) {
					found = append(found, d)
				}
			}
			if len(found) != 1 {
				return nil, &usageError{fmt.Errorf("--run %s means %d of the session's %d runs", word, len(found), len(all)),
					"the beginning or the end of one run id; median, slowest or none"}
			}
			add(found[0])
		}
	}
	return chosen, nil
}

// typical returns a run of each cell that has a valid one: the nearest to its median, or the slowest.
func typical(list []cells.Cell, slowest bool) []string {
	var ids []string
	for i := range list {
		c := &list[i]
		target := c.Main.Median
		if slowest {
			target = c.Main.Worst
		}
		best, at := math.Inf(1), ""
		for j := range c.Trials {
			t := &c.Trials[j]
			v := t.P50Ns
			if c.Throughput {
				v = t.DeliveredBytesPerSec
				if c.Case.Payload == 0 {
					v = t.DeliveredMsgsPerSec
				}
			}
			if d := math.Abs(v - target); t.Valid && !t.Superseded && d < best {
				best, at = d, t.RunID
			}
		}
		if at != "" {
			ids = append(ids, at)
		}
	}
	return ids
}

// readRuns reads the records whole, with what lies beside them.
func readRuns(s *runrecord.Session, chosen []drawable, say load.Say) ([]chart.Run, error) {
	if len(chosen) == 0 {
		return nil, nil
	}
	var lines []int
	for _, d := range chosen {
		lines = append(lines, d.line)
	}
	records, err := load.Full(s, lines)
	if err != nil {
		return nil, err
	}
	var runs []chart.Run
	for _, d := range chosen {
		r, err := chart.FromRecord(filepath.Base(s.Dir), d.name, records[d.line], os.DirFS(s.RunDir(d.id)))
		if err != nil {
			say("%v", err) // it is drawn without that file
		}
		runs = append(runs, r)
	}
	return runs, nil
}
