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
	"felix/analysis/internal/load"
	"felix/internal/cells"
	"felix/internal/gate"
	"felix/internal/runrecord"
)

// reportFormat is a flag.
type reportFormat string

func (f *reportFormat) String() string { return string(*f) }

func (f *reportFormat) Set(s string) error {
	switch s {
	case "text", "md", "csv", "json":
		*f = reportFormat(s)
		return nil
	}
	return fmt.Errorf("%q: want one of text, md, csv, json", s)
}

func (f *reportFormat) Type() string { return "text|md|csv|json" }

const compareHint = "analysis compare BASE HEAD [HEAD…], or analysis compare [SESSION] --by FACTOR"

func runCompare(args []string, stdout io.Writer, say func(string, ...any)) error {
	format := reportFormat("text")
	var results, by, against, charts string
	f := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	f.Var(&format, "format", "of the report")
	f.StringVar(&by, "by", "", "compare the levels of this factor inside one session (latest without a word), in pairs of the same pass:\n"+
		"a factor of the case by its flag's name, broker.KEY, client.KEY, transport.KEY, an environment variable, a word of the grid's names, or arm")
	f.StringVar(&against, "against", "", "level that --by holds the others against (the first of the grid)")
	f.StringVar(&charts, "charts", "", "directory for the comparison as a picture too, SVG and PNG")
	f.StringVar(&results, "results", "results", "directory of the sessions")
	const about = "analysis compare BASE HEAD [HEAD…] holds every head against the base, cell by cell: the ratio of medians with its\n" +
		"interval, ordered by how sure and how large. Each word is a session (see analysis table --help), or a commit that one\n" +
		"session measured in one state: by the beginning of its id, or as git calls it here. SESSION@STATE picks one of several\n" +
		"states or arms of a session: the beginning of a tree, commit or binary, or the arm's name.\n" +
		"It decides nothing, and its exit code does not depend on what it finds."
	if done, err := parseWords(f, args, about, stdout); done || err != nil {
		return err
	}
	words := f.Args()
	switch {
	case by == "" && len(words) < 2:
		return &usageError{errors.New("want at least two sessions or commits"), compareHint}
	case by == "" && against != "":
		return &usageError{errors.New("--against without --by"), compareHint}
	case by != "" && len(words) > 1:
		return &usageError{fmt.Errorf("--by compares inside one session: %d were named", len(words)), compareHint}
	}
	var report *compare.Report
	var err error
	if by != "" {
		which := runrecord.Latest
		if len(words) == 1 {
			which = words[0]
		}
		report, err = compareLevels(results, which, by, against, say)
	} else {
		report, err = compareSessions(results, words, say)
	}
	if err != nil {
		return err
	}
	if charts != "" {
		if err := drawComparisons(charts, report, say); err != nil {
			return err
		}
	}
	write := map[reportFormat]func(io.Writer) error{
		"text": report.WriteText, "md": report.WriteMarkdown, "csv": report.WriteCSV, "json": report.WriteJSON,
	}[format]
	if err := write(stdout); err != nil {
		return err
	}
	if !anyRatio(report) {
		return errors.New("nothing could be compared: no cell has a valid trial on both sides")
	}
	return nil
}

// anyRatio reports whether anything was compared at all: nothing measured is never a success.
func anyRatio(r *compare.Report) bool {
	for _, c := range r.Comparisons {
		for i := range c.Rows {
			if c.Rows[i].Finding != compare.NoRatio {
				return true
			}
		}
	}
	return false
}

// compareSessions holds every further word against the first.
func compareSessions(results string, words []string, say load.Say) (*compare.Report, error) {
	var sides []compare.Side
	for _, w := range words {
		named, err := nameIt(results, w, say)
		if err != nil {
			return nil, err
		}
		side, _, err := readSide(w, named, say)
		if err != nil {
			return nil, err
		}
		states := compare.States(side.Cells)
		if len(states) > 1 {
			return nil, severalStates(w, side.Session, states)
		}
		sides = append(sides, side)
	}
	report := &compare.Report{}
	for i, head := range sides[1:] {
		if head.Session.SessionID == sides[0].Session.SessionID && compare.StateOf(&head.Cells[0]) == compare.StateOf(&sides[0].Cells[0]) {
			return nil, &usageError{fmt.Errorf("%s and %s are the same trials", words[0], words[i+1]), compareHint}
		}
		c, err := compare.Sessions(sides[0], head)
		if err != nil {
			return nil, err
		}
		report.Comparisons = append(report.Comparisons, c)
	}
	return report, nil
}

// nameIt is load.Name with what to do about its errors.
func nameIt(results, word string, say load.Say) (load.Named, error) {
	named, err := load.Name(results, word, say)
	var several *load.SeveralError
	switch {
	case errors.As(err, &several):
		return named, &usageError{err, "name one of them as it stands there: SESSION@STATE"}
	case errors.Is(err, runrecord.ErrNoSession), errors.Is(err, runrecord.ErrAmbiguousSession):
		return named, &usageError{err, compareHint + "; --results DIR where the sessions lie elsewhere"}
	}
	return named, err
}

// severalStates refuses a session of several builds or arms, with their list.
func severalStates(word string, s *runrecord.Session, states []compare.State) error {
	var list []string
	arms := true
	for _, st := range states {
		list = append(list, st.String())
		arms = arms && st.Arm != ""
	}
	hint := fmt.Sprintf("name one as %s@TREE, or @COMMIT, @BINARY", runrecord.ShortID(s.SessionID))
	if arms {
		hint = fmt.Sprintf("analysis compare %s --by arm, or name one as %s@%s", runrecord.ShortID(s.SessionID), runrecord.ShortID(s.SessionID), states[0].Arm)
	}
	return &usageError{fmt.Errorf("%s holds %d states of what was measured: %s", word, len(states), strings.Join(list, "; ")), hint}
}

// readSide reads the session's cells of the named state, and which pass over the grid, or pair, each run was part of.
func readSide(label string, n load.Named, say load.Say) (side compare.Side, block map[string]int, err error) {
	g := cells.NewGrouper()
	block = map[string]int{}
	sessions := []*runrecord.Session{n.Session}
	thrown, torn := 0, supersededIn(n.Session)
	err = readSessions(sessions, func(r *load.Record) error {
		switch {
		case slices.Contains(torn, r.RunID): // of a pair that was run again as a whole
			return nil
		case r.Pair != nil && *r.Pair == 0: // an A/B warms up with it
			thrown++
			return nil
		case r.Pair != nil:
			block[r.RunID] = *r.Pair
		case r.Trial != nil:
			block[r.RunID] = *r.Trial
		}
		g.Add(r.Record)
		return nil
	}, say)
	if err != nil {
		return side, nil, fmt.Errorf("%s: %w", label, err)
	}
	if thrown > 0 {
		say("left out %s of the pair that an A/B throws away", number(thrown, "trial"))
	}
	all := compare.Fold(g.Cells())
	inGridOrder(all, sessions)
	if n.State != "" {
		all, err = ofState(label, all, n.State)
		if err != nil {
			return side, nil, err
		}
	}
	sayFigures(all, say)
	return compare.Side{Label: label, Session: n.Session, Cells: all, Names: gridNames(sessions)}, block, nil
}

// supersededIn lists the trials of an A/B that count no more.
func supersededIn(s *runrecord.Session) []string {
	if s.Kind != runrecord.SessionKindAB {
		return nil
	}
	x, err := gate.ReadExperiment(s.Dir)
	if err != nil {
		return nil // nothing says that any is
	}
	return x.Superseded
}

// ofState keeps the cells of the one state that a word means.
func ofState(label string, all []cells.Cell, word string) ([]cells.Cell, error) {
	var meant []compare.State
	var list []string
	for _, st := range compare.States(all) {
		list = append(list, st.String())
		if st.Is(word) {
			meant = append(meant, st)
		}
	}
	if len(meant) != 1 {
		return nil, &usageError{fmt.Errorf("%s: %q means %d of what the session holds: %s", label, word, len(meant), strings.Join(list, "; ")),
			"SESSION@ with the beginning of one tree, commit or binary, or the name of an arm"}
	}
	return compare.Of(all, meant[0]), nil
}

// compareLevels compares inside one session.
func compareLevels(results, which, factor, against string, say load.Say) (*compare.Report, error) {
	named, err := nameIt(results, which, say)
	if err != nil {
		return nil, err
	}
	side, block, err := readSide(which, named, say)
	if err != nil {
		return nil, err
	}
	if states := compare.States(side.Cells); factor != "arm" && len(states) > 1 {
		return nil, severalStates(which, side.Session, states)
	}
	comparisons, best, err := compare.By(side, compare.ByOptions{Factor: factor, Against: against, Block: block})
	if err != nil {
		return nil, &usageError{err, "analysis compare --help says which factors there are"}
	}
	if factor == "arm" {
		best = nil // which arm is better is the gate's to say
	}
	return &compare.Report{Comparisons: comparisons, Best: best}, nil
}

// drawComparisons draws every comparison as a forest plot.
func drawComparisons(dir string, r *compare.Report, say load.Say) error {
	var data chart.SessionData
	for _, c := range r.Comparisons {
		data.Comparisons = append(data.Comparisons, forestOf(c))
	}
	return draw(dir, data, say)
}

// draw writes the charts of data into dir and says which were drawn.
func draw(dir string, data chart.SessionData, say load.Say) error {
	files, skipped, err := chart.Session(dir, data)
	if err != nil {
		return err
	}
	for _, s := range skipped {
		say("not drawn: %s: %s", s.Name, s.Reason)
	}
	for _, f := range files {
		say("drew %s", filepath.Join(dir, f.Name))
	}
	return nil
}

// forestOf puts a comparison into the form of its picture.
func forestOf(c *compare.Comparison) *chart.Forest {
	f := &chart.Forest{
		Title: c.Head.Label + " against " + c.Base.Label, Caption: "unpaired sessions share no drift control", Base: c.Base.Label, Head: c.Head.Label,
	}
	if c.Paired() {
		f.Caption = "paired, " + c.Factor + " by " + c.Factor + ", trials of one pass; not back to back"
		if c.Factor == "arm" {
			f.Caption = "paired, arm by arm, trials of one pair"
		}
	}
	if c.Shared != "" {
		f.Notes = append(f.Notes, "All cells: "+c.Shared+".")
	}
	for _, d := range c.Differences {
		f.Notes = append(f.Notes, d+".")
	}
	source := func(s *compare.Side) chart.Source {
		first := &s.Cells[0]
		return chart.SourceOf(filepath.Base(s.Session.Dir), &first.Build, first.Host)
	}
	f.Source, f.BaseSource = source(&c.Head), source(&c.Base)
	f.Shape = shapeOf(c)
	for i := range c.Rows {
		r := &c.Rows[i]
		n := r.N
		if !c.Paired() {
			n = min(r.Base.Figure.N, r.Head.Figure.N)
		}
		f.Rows = append(f.Rows, chart.ForestRow{
			Cell: r.Cell, Metric: r.Metric.Label, HigherIsBetter: r.Metric.HigherIsBetter, Ratio: r.Ratio,
			Low: r.Interval.Low, High: r.Interval.High, N: n, Note: note(r),
		})
	}
	for i, m := range c.Missing {
		const most = 5
		if i == most {
			f.Notes = append(f.Notes, number(len(c.Missing)-most, "more cell")+" on one side only.")
			break
		}
		f.Notes = append(f.Notes, m.Cell+": "+m.Why+".")
	}
	return f
}

func note(r *compare.Row) string {
	switch r.Finding {
	case compare.NotJudged, compare.NoRatio:
		return r.Why
	}
	return string(r.Finding)
}

// shapeOf is the load shape that the picture's times are of: that of the cells that show times, if there are any.
func shapeOf(c *compare.Comparison) chart.Shape {
	var of *cells.Cell
	for i := range c.Head.Cells {
		if cell := &c.Head.Cells[i]; of == nil || of.Throughput && !cell.Throughput {
			of = cell
		}
	}
	return chart.ShapeOf(&of.Case.Case)
}
