package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"felix/analysis/internal/chart"
	"felix/analysis/internal/compare"
	"felix/analysis/internal/history"
	"felix/analysis/internal/load"
	"felix/internal/cells"
	"felix/internal/runrecord"
)

const historyHint = "analysis history [SESSION…] [--grid NAME] [--last N]"

func runHistory(args []string, stdout io.Writer, say func(string, ...any)) error {
	format := reportFormat("text")
	var results, grid, charts string
	var last int
	level := history.DefaultLevel
	f := pflag.NewFlagSet("history", pflag.ContinueOnError)
	f.Var(&format, "format", "of the report")
	f.StringVar(&grid, "grid", "", "only the sessions of this grid")
	f.IntVar(&last, "last", 0, "only the newest N sessions")
	f.Float64Var(&level, "level", level, "of the permutation test that finds a change: at 0.01 a dozen sessions are needed, at 0.05 eight")
	f.StringVar(&charts, "charts", "", "directory for a picture of each cell and metric too, SVG and PNG")
	f.StringVar(&results, "results", "results", "directory of the sessions")
	const about = "analysis history [SESSION…] follows the medians of every cell through sessions, oldest first, and marks where they change:\n" +
		"by E-divisive, with a permutation test. Without words it takes every session of a grid.\n" +
		"It decides nothing, and its exit code does not depend on what it finds."
	if done, err := parseWords(f, args, about, stdout); done || err != nil {
		return err
	}
	switch {
	case last < 0 || f.Changed("last") && last == 0:
		return &usageError{fmt.Errorf("--last %d: want at least 1", last), historyHint}
	case !(level > 0 && level < 1):
		return &usageError{fmt.Errorf("--level %v: want more than 0 and less than 1", level), "0.01 is the default"}
	}
	sessions, err := historySessions(results, f.Args(), grid, last, say)
	if err != nil {
		return err
	}
	var sittings []history.Sitting
	for _, s := range sessions {
		one, err := readSitting(s, say)
		switch {
		case errors.Is(err, errNoRecord): // the others have
			say("left out %s: %v", filepath.Base(s.Dir), err)
		case err != nil:
			return err
		default:
			sittings = append(sittings, one)
		}
	}
	report := history.Build(sittings, level)
	if len(report.Series) == 0 {
		return errNoRecord
	}
	if charts != "" {
		if err := drawHistory(charts, report, say); err != nil {
			return err
		}
	}
	write := map[reportFormat]func(io.Writer) error{
		"text": report.WriteText, "md": report.WriteMarkdown, "csv": report.WriteCSV, "json": report.WriteJSON,
	}[format]
	return write(stdout)
}

// historySessions finds the sessions that are meant, each once. Only those of grids are taken where none is named: a
// single run is an anecdote, and the arms of an A/B are compared among themselves.
func historySessions(results string, words []string, grid string, last int, say load.Say) ([]*runrecord.Session, error) {
	var sessions []*runrecord.Session
	if len(words) == 0 {
		all, err := load.Select(results, load.All, say)
		if errors.Is(err, runrecord.ErrNoSession) {
			return nil, &usageError{err, historyHint + "; --results DIR where they lie elsewhere"}
		}
		if err != nil {
			return nil, err
		}
		left := 0
		for _, s := range all {
			if s.Kind == runrecord.SessionKindGrid {
				sessions = append(sessions, s)
			} else {
				left++
			}
		}
		if left > 0 {
			say("left out %s of other kinds than grid", number(left, "session"))
		}
	}
	for _, word := range words {
		named, err := nameIt(results, word, say)
		if err != nil {
			return nil, err
		}
		if named.State != "" {
			return nil, &usageError{fmt.Errorf("%s: a history takes whole sessions", word), historyHint}
		}
		if !slices.ContainsFunc(sessions, func(s *runrecord.Session) bool { return s.SessionID == named.Session.SessionID }) {
			sessions = append(sessions, named.Session)
		}
	}
	if grid != "" {
		var names []string
		for _, s := range sessions {
			if s.Grid != nil && !slices.Contains(names, s.Grid.Name) {
				names = append(names, s.Grid.Name)
			}
		}
		if len(names) > 0 && !slices.Contains(names, grid) {
			slices.Sort(names)
			return nil, &usageError{fmt.Errorf("--grid %s: no session is of that grid: there are sessions of %s", grid, strings.Join(names, ", ")), historyHint}
		}
		sessions = slices.DeleteFunc(sessions, func(s *runrecord.Session) bool { return s.Grid == nil || s.Grid.Name != grid })
	}
	slices.SortStableFunc(sessions, func(a, b *runrecord.Session) int { return a.StartedAt.Compare(b.StartedAt) })
	if last > 0 && len(sessions) > last {
		say("left out the oldest %s", number(len(sessions)-last, "session"))
		sessions = sessions[len(sessions)-last:]
	}
	if len(sessions) == 0 {
		return nil, &usageError{errors.New("no session is left to follow"), historyHint}
	}
	return sessions, nil
}

// readSitting reads the cells of one session.
func readSitting(s *runrecord.Session, say load.Say) (history.Sitting, error) {
	g := cells.NewGrouper()
	one := []*runrecord.Session{s}
	err := readSessions(one, func(r *load.Record) error {
		g.Add(r.Record)
		return nil
	}, say)
	if err != nil {
		return history.Sitting{}, err
	}
	list := compare.Fold(g.Cells())
	inGridOrder(list, one)
	return history.Sitting{Session: s, Cells: list, Names: gridNames(one)}, nil
}

// drawHistory draws each cell and metric.
func drawHistory(dir string, r *history.Report, say load.Say) error {
	var data chart.SessionData
	for i := range r.Series {
		data.Trends = append(data.Trends, trendOf(&r.Series[i]))
	}
	return draw(dir, data, say)
}

// trendOf puts a series into the form of its picture.
func trendOf(s *history.Series) *chart.Trend {
	newest := &s.Points[len(s.Points)-1]
	f := &chart.Trend{
		Title: s.Metric.Label + " through " + number(len(s.Points), "session"), Caption: s.Cell, Measure: s.Metric.Label, HigherIs: "worse",
		Source: chart.SourceOf(filepath.Base(newest.Session.Dir), &newest.Build, s.Host), Shape: chart.ShapeOf(&s.Case.Case),
		Notes: []string{"Sessions share no drift control: a change can be the machine's own; matrix ab decides."},
	}
	switch s.Metric.Unit {
	case "ns":
		f.Unit = chart.Nanoseconds
	case "B/s":
		f.Unit = chart.BytesPerSec
	case "msg/s":
		f.Unit = chart.MsgsPerSec
	default:
		f.Unit, f.Measure = chart.Count, f.Measure+" "+s.Metric.Unit
	}
	if s.Metric.HigherIsBetter {
		f.HigherIs = "better"
	}
	for i := range s.Points {
		p := &s.Points[i]
		label := p.Session.StartedAt.UTC().Format("01-02")
		if c := p.Build.Commit; c != nil {
			label += " " + (*c)[:min(7, len(*c))]
		}
		f.Points = append(f.Points, chart.TrendPoint{Label: label, Value: chart.Value{
			Median: p.Figure.Median, Low: p.Figure.Low, High: p.Figure.High, N: p.Figure.N, Invalid: p.Invalid, Doubtful: len(p.Marks) > 0,
		}})
	}
	for _, c := range s.Changes {
		text := "x" + cells.Ratio(c.Ratio)
		f.Changes = append(f.Changes, chart.TrendChange{At: c.At, Before: c.Before, After: c.After, Text: text, Worse: c.Worse})
	}
	return f
}
