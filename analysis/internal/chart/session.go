package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// SessionData is what a session's pictures are drawn of. Everything may be empty.
type SessionData struct {
	Cells       []Cell
	Runs        []Run // whose time line and ledger are drawn
	Comparisons []*Forest
	Trends      []*Trend
}

// Cell is every trial of one case, as the pictures need it.
type Cell struct {
	Source  Source
	Shape   Shape
	Factors []Factor // what tells it from the others, in order; payload is one of them
	Payload int      // bytes of a message; 0 is the stamp alone

	Throughput              bool // its figure is a delivered rate; else it is a latency
	P50, P99                Value
	P90, P999               Value // of all trials' messages together; no interval
	MsgsPerSec, BytesPerSec Value
	Trials                  []Dot // by the cell's figure, which is main
	Slow, Marks             string
	Curve                   *Curve // nil: no histogram was kept

	Offered     float64  // messages/s of an open loop; 0: it is none
	Overload    bool     // meant to be more than can be carried
	Subscribers int      // of each message
	Dropped     [4]Value // of what was expected, in %: see LoadPoint
}

// Factor is a factor's name and the cell's level.
type Factor struct{ Name, Level string }

// File is a picture that was written.
type File struct {
	Name   string // in the directory
	Title  string
	Kind   string // latency, distribution, rate, throughput, overload, load, trials, timeline, ledger, comparison, trend
	Format Format
	Bytes  int
}

// Skipped is a picture that was not drawn, and why.
type Skipped struct{ Name, Reason string }

// mostFigures bounds the pictures of one kind: nobody looks at more, and time has a bound.
const mostFigures = 100

// Session draws a session's pictures into dir, which it makes if it must, in every format: latency percentiles and
// distributions against payload (another factor if payload does not vary), message rate, delivered MB/s, what open
// loops at several rates came to, every trial,
// and the given runs' time lines and ledgers and comparisons. File names follow from the factors and are the same every
// time; a picture that is there already is replaced, others are left alone.
//
// It returns what it wrote, in the order of the pictures, and what it did not draw and why: figures without anything to
// show, and those beyond 100 of a kind. It draws on all cores and blocks until all is written; the error is that of
// the first file that could not be.
func Session(dir string, in SessionData, formats ...Format) ([]File, []Skipped, error) {
	if len(formats) == 0 {
		formats = Formats()
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, fmt.Errorf("pictures: %w", err)
	}
	named, skipped := figuresOf(in)
	type result struct {
		files []File
		err   error
	}
	results := make([]result, len(named))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(named)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(named)); i = next.Add(1) - 1 {
				results[i].files, results[i].err = named[i].write(dir, formats)
			}
		})
	}
	workers.Wait()
	var files []File
	for i, r := range results {
		var empty *EmptyError
		switch {
		case errors.As(r.err, &empty):
			skipped = append(skipped, Skipped{named[i].name, empty.Reason})
		case r.err != nil:
			return files, skipped, r.err
		}
		files = append(files, r.files...)
	}
	return files, skipped, nil
}

// namedFigure is a figure and the name of its file, without the ending.
type namedFigure struct {
	name, kind, title string
	figure            Figure
}

func (n namedFigure) write(dir string, formats []Format) ([]File, error) {
	pictures, err := Render(n.figure, formats...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	var files []File
	for i, format := range formats {
		name := n.name + "." + string(format)
		if err := os.WriteFile(filepath.Join(dir, name), pictures[i], 0o666); err != nil {
			return files, fmt.Errorf("picture: %w", err)
		}
		files = append(files, File{Name: name, Title: n.title, Kind: n.kind, Format: format, Bytes: len(pictures[i])})
	}
	return files, nil
}

// gallery collects figures under names that no other has.
type gallery struct {
	figures []namedFigure
	skipped []Skipped
	taken   map[string]int
	byKind  map[string]int
}

func (g *gallery) add(kind, of, title string, f Figure) {
	name := slug(kind + " " + of)
	if g.byKind[kind]++; g.byKind[kind] > mostFigures {
		g.skipped = append(g.skipped, Skipped{name, fmt.Sprintf("more than %d pictures of this kind", mostFigures)})
		return
	}
	g.taken[strings.ToLower(name)]++
	if n := g.taken[strings.ToLower(name)]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	g.figures = append(g.figures, namedFigure{name, kind, title, f})
}

// slug makes a file name.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.TrimSpace(s))
	const most = 120
	return s[:min(len(s), most)]
}

// figuresOf makes every figure of a session.
func figuresOf(in SessionData) ([]namedFigure, []Skipped) {
	g := &gallery{taken: map[string]int{}, byKind: map[string]int{}}
	if len(in.Cells) > 0 {
		s := newSorter(in.Cells)
		s.latencies(g)
		s.rates(g)
		s.loads(g)
		s.trials(g)
	}
	for _, r := range in.Runs {
		r.figures(g)
	}
	for _, f := range in.Comparisons {
		for part, page := range f.pages() {
			of := f.Head + " " + f.Base
			if part > 0 {
				of = fmt.Sprintf("%s part %d", of, part+1)
			}
			g.add("comparison", of, f.Title, page)
		}
	}
	for _, f := range in.Trends {
		g.add("trend", f.Measure+" "+f.Caption, f.Title, f)
	}
	return g.figures, g.skipped
}

// pages cuts a comparison into pictures of as many rows as one holds.
func (f *Forest) pages() []*Forest {
	if len(f.Rows) <= MostRows {
		return []*Forest{f}
	}
	var pages []*Forest
	n := (len(f.Rows) + MostRows - 1) / MostRows
	for rows := range slices.Chunk(f.Rows, MostRows) {
		page := *f
		page.Rows = rows
		page.Title = fmt.Sprintf("%s (%d of %d)", f.Title, len(pages)+1, n)
		pages = append(pages, &page)
	}
	return pages
}
