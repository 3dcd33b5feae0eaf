package cells

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"felix/internal/workload"
)

// Format is how a table is written.
type Format int

// The formats.
const (
	Text     Format = iota // aligned columns, at most 140 wide
	Markdown               // for a page or a CI summary
)

// Width is the widest line of a text table.
const Width = 140

// WriteTable writes the cells as a table; see Table.
func WriteTable(w io.Writer, cells []Cell, f Format) error {
	return Table{Cells: cells, Format: f}.Write(w)
}

// Table is what is written of cells: throughput, latency and queueing delay apart, one row a cell with the median and
// its interval, the slowest trial, the spread, the numbers of trials and the share of slow modes. What all cells have
// in common stands once, above; what the columns mean, below.
type Table struct {
	Cells  []Cell
	Format Format
	// Names are a grid's names of its cells, by case key: "payload=256 preset=P1_hash". If every cell has one, the
	// rows are named by it, else by the factors that differ. Those without a cell are listed as missing.
	Names map[string]string
}

// Write writes the table. Without cells it says so.
func (t Table) Write(w io.Writer) error {
	p := page{format: t.Format}
	if len(t.Cells) == 0 {
		p.line("no cells: nothing was measured")
		_, err := io.WriteString(w, p.String())
		return err
	}
	named := gridFactors(t.Cells, t.Names)
	factors := slices.Concat(caseFactors(t.Cells), otherFactors(t.Cells))
	factors = append(factors, configFactors(t.Cells, factors)...)
	shared, varying := split(t.Cells, factors)
	caveats := commonCaveats(t.Cells)
	ceilings := Ceilings(t.Cells)
	t.head(&p, shared, caveats)
	for _, s := range sections(t.Cells) {
		s.named, s.caveats, s.ceilings = named, caveats, ceilings
		s.write(&p, varying)
	}
	t.foot(&p)
	_, err := io.WriteString(w, p.String())
	return err
}

// head says what all cells have in common.
func (t Table) head(p *page, shared []factor, caveats []Mark) {
	c := &t.Cells[0]
	var ofCase, of []string
	for _, f := range shared {
		v := f.of(c)
		switch {
		case v == f.usual:
		case f.byName:
			ofCase = append(ofCase, f.name+"="+v)
		default:
			of = append(of, f.name+" "+v)
		}
	}
	if len(ofCase) > 0 {
		p.wrapped("all cells: ", ofCase, " ")
	}
	if len(of) > 0 {
		p.wrapped("measured:  ", of, "   ")
	}
	if len(caveats) > 0 {
		p.wrapped("mind:      ", caveatTexts(caveats), "; ")
	}
}

var caveatWords = map[Mark]string{
	CaveatCapped:      "capped: ended by the limit on deliveries, quotable only as such",
	CaveatDirty:       "dirty: the working tree had changes that no commit holds",
	CaveatNoBuild:     "build?: which source was measured is not known",
	CaveatNoise:       "noise?: the noise of the machine is not known",
	CaveatInterrupted: "interrupted: some trials were ended by hand",
	CaveatSizes:       "sizes: trials of different --total, --duration or the like are together",
}

func caveatTexts(caveats []Mark) []string {
	var texts []string
	for _, m := range caveats {
		texts = append(texts, caveatWords[m])
	}
	return texts
}

// commonCaveats are those of every cell.
func commonCaveats(cells []Cell) []Mark {
	var common []Mark
	for _, m := range cells[0].Caveats {
		if !slices.ContainsFunc(cells, func(c Cell) bool { return !slices.Contains(c.Caveats, m) }) {
			common = append(common, m)
		}
	}
	return common
}

// foot explains the columns, and why trials were left out.
func (t Table) foot(p *page) {
	p.blank()
	ranges := map[int]float64{}
	caveats := map[Mark]bool{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if f := c.Main; f.N > 1 && f.Coverage < Level {
			ranges[f.N] = f.Coverage
		}
		for _, m := range c.Caveats {
			caveats[m] = true
		}
	}
	p.wrapped("", []string{
		"[ ]: 95 % interval of the median by order statistics.", "slowest: the worst trial.", "spread: 90th / 10th percentile.",
		"n: valid trials, one figure each; inv: invalid or failed; noisy: of n.",
		"slow modes: trials more than 1.5 x slower than the fastest tenth, with the exact 95 % interval of their share.",
		"MB/s: 10^6 bytes of payload; msg/s: delivered; CPU s/GB: all processes, per 10^9 bytes delivered; p99, msg/s and CPU are medians.",
		"publishable: n >= 5, all valid, none noisy, spread < 1.5.",
	}, " ")
	if Ceilings(t.Cells) != nil {
		p.wrapped("", strings.Fields(ceilingLegend), " ")
	}
	if len(ranges) > 0 {
		var at []string
		for _, n := range slices.Sorted(maps.Keys(ranges)) {
			at = append(at, fmt.Sprintf("%.1f %% at n=%d", 100*ranges[n], n))
		}
		p.wrapped("", []string{"*: n is too small for 95 %: the range of all trials, which holds the median with", strings.Join(at, ", ") + "."}, " ")
	}
	common := commonCaveats(t.Cells)
	var rest []Mark
	for _, m := range []Mark{CaveatCapped, CaveatDirty, CaveatNoBuild, CaveatNoise, CaveatInterrupted, CaveatSizes} {
		if caveats[m] && !slices.Contains(common, m) {
			rest = append(rest, m)
		}
	}
	if len(rest) > 0 {
		p.wrapped("", []string{"( ): " + strings.Join(caveatTexts(rest), "; ") + "."}, " ")
	}
	if n := sum(t.Cells, func(c *Cell) int { return c.Superseded }); n > 0 {
		p.line("%d noisy trial(s) were repeated in quiet: kept in the records, in no figure.", n)
	}
	t.reasons(p)
	t.missing(p)
}

// missing lists the grid's cells that no trial is of: what was planned and not measured must not look like all.
func (t Table) missing(p *page) {
	present := map[string]bool{}
	for i := range t.Cells {
		present[t.Cells[i].Key] = true
	}
	var names []string
	for key, name := range t.Names {
		if !present[key] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	const most = 12
	n := len(names)
	if n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	if n > 0 {
		p.wrapped(fmt.Sprintf("missing:   %d of the grid's cells have no trial: ", n), names, "; ")
	}
}

// reasons lists why trials are not in the figures, the most frequent first.
func (t Table) reasons(p *page) {
	all := map[string]int{}
	for i := range t.Cells {
		for reason, n := range t.Cells[i].Reasons {
			all[reason] += n
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if all[a] != all[b] {
			return all[b] - all[a]
		}
		return strings.Compare(a, b)
	})
	const most = 12
	var texts []string
	for i, name := range names {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		texts = append(texts, fmt.Sprintf("%d x %s", all[name], name))
	}
	if len(texts) > 0 {
		p.wrapped("not valid: ", texts, "; ")
	}
	if n := sum(t.Cells, func(c *Cell) int { return c.Interrupted }); n > 0 {
		p.line("interrupted by hand: %d, in no figure", n)
	}
}

func sum(cells []Cell, of func(*Cell) int) int {
	n := 0
	for i := range cells {
		n += of(&cells[i])
	}
	return n
}

// section is the cells whose main figures are of one sort.
type section struct {
	title      string
	throughput bool
	cells      []Cell
	named      []factor
	caveats    []Mark
	ceilings   map[string]Ceiling // by the cell's ID; nil: no probe was measured
}

func sections(cells []Cell) []section {
	all := []section{
		{title: "throughput: payload delivered, all subscribers together", throughput: true},
		{title: "latency: end to end"},
		{title: "queueing delay, end to end (NOT per-message latency: the generator keeps the queues full)"},
	}
	for _, c := range cells {
		i := 0
		switch {
		case c.Throughput:
		case c.Case.LatencyKind() == workload.KindLatency:
			i = 1
		default:
			i = 2
		}
		all[i].cells = append(all[i].cells, c)
	}
	return slices.DeleteFunc(all, func(s section) bool { return len(s.cells) == 0 })
}

// write writes the section. Factors that only this section has in common go into its title.
func (s *section) write(p *page, varying []factor) {
	shared, columns := split(s.cells, varying)
	var common []string
	for _, f := range shared {
		if v := f.of(&s.cells[0]); v != f.usual {
			common = append(common, f.name+"="+v)
		}
	}
	title := s.title
	if len(common) > 0 {
		title += " (" + strings.Join(common, " ") + ")"
	}
	p.title(title)
	var standing []factor // for what the grid's names hold: the reader gets it as a note
	if s.named != nil {
		var kept []factor
		for _, f := range columns {
			if f.byName {
				standing = append(standing, f)
			} else {
				kept = append(kept, f)
			}
		}
		_, named := split(s.cells, s.named)
		columns = slices.Concat(named, kept)
	}
	figures := s.figures()
	notes := s.legend(columns, standing)
	columns, figures, more := s.fit(p.format, columns, figures)
	p.table(s.grid(columns, figures))
	for _, note := range append(notes, more...) {
		p.wrapped("  ", strings.Fields(note), " ")
	}
}

// fit makes a text table narrow enough, as gently as it can: columns that another one decides become notes, then
// figures that others imply go, then the rows are numbered and their factors stand below.
func (s *section) fit(format Format, columns []factor, figures []column) (_ []factor, _ []column, notes []string) {
	tooWide := func(columns []factor) bool { return format == Text && s.grid(columns, figures).width() > Width }
	if !tooWide(columns) {
		return columns, figures, nil
	}
	narrow, notes := s.moveDetermined(columns)
	if !tooWide(narrow) {
		return narrow, figures, notes
	}
	figures = slices.DeleteFunc(figures, func(c column) bool { return c.spare })
	if !tooWide(narrow) {
		return narrow, figures, notes
	}
	notes = nil
	for i := range s.cells {
		var words []string
		for _, f := range columns {
			words = append(words, f.name+"="+f.of(&s.cells[i]))
		}
		notes = append(notes, fmt.Sprintf("%d: %s", i+1, strings.Join(words, " ")))
	}
	return []factor{{name: "cell", of: s.number}}, figures, notes
}

// number is the row of a cell.
func (s *section) number(c *Cell) string {
	for i := range s.cells {
		if &s.cells[i] == c {
			return strconv.Itoa(i + 1)
		}
	}
	return "?"
}

// legend says what the levels of a named factor stand for: "preset P1_hash: publishers=1 streams=1".
func (s *section) legend(columns, standing []factor) []string {
	var notes []string
	for _, by := range columns {
		if by.byName || slices.ContainsFunc(standing, func(f factor) bool { return f.name == by.name }) {
			continue
		}
		words := map[string][]string{}
		var order []string
		for _, f := range standing {
			levels, ok := determines(s.cells, by, f)
			if !ok {
				continue
			}
			for _, l := range levels {
				if words[l[0]] == nil {
					order = append(order, l[0])
				}
				words[l[0]] = append(words[l[0]], f.name+"="+l[1])
			}
		}
		for _, level := range order {
			notes = append(notes, by.name+" "+level+": "+strings.Join(words[level], " "))
		}
	}
	return notes
}

// moveDetermined takes out the columns that another column decides and says them as notes.
func (s *section) moveDetermined(columns []factor) (kept []factor, notes []string) {
	for _, f := range columns {
		i := slices.IndexFunc(kept, func(by factor) bool { _, ok := determines(s.cells, by, f); return ok })
		if i < 0 {
			kept = append(kept, f)
			continue
		}
		levels, _ := determines(s.cells, kept[i], f)
		var words []string
		for _, l := range levels {
			words = append(words, fmt.Sprintf("%s at %s=%s", l[1], kept[i].name, l[0]))
		}
		notes = append(notes, f.name+": "+strings.Join(words, ", "))
	}
	return kept, notes
}

// column is one figure of a row.
type column struct {
	head  string
	of    func(*Cell) string
	left  bool // aligned
	spare bool // may go where the line is too long
}

func (s *section) figures() []column {
	head := "p50 [95 %]"
	if s.throughput {
		head = "delivered [95 %]"
	}
	columns := []column{
		{head: head, of: func(c *Cell) string { return interval(c.Main) }, left: true},
		{head: "slowest", of: func(c *Cell) string { return unitFor(c.Main).Number(c.Main.Worst) }},
		{head: "spread", of: func(c *Cell) string { return spread(c.Main.Spread) }},
		{head: "n", of: func(c *Cell) string { return samples(c.Main, c.N) }},
		{head: "inv", of: func(c *Cell) string { return strconv.Itoa(c.Invalid + c.Failed) }},
		{head: "noisy", of: func(c *Cell) string { return strconv.Itoa(c.Noisy) }},
		{head: "slow modes", of: func(c *Cell) string { return share(c.SlowModes) }, left: true},
	}
	if s.throughput {
		columns = append(columns,
			column{head: "msg/s", of: func(c *Cell) string { return bare(c.Rate, c.N) }, spare: true},
			column{head: "CPU s/GB", of: func(c *Cell) string { return bare(c.CPUPerGB, c.N) }})
	} else {
		columns = append(columns,
			column{head: "p99", of: func(c *Cell) string { return withUnit(c.P99, c.N) }},
			column{head: "msg/s", of: func(c *Cell) string { return bare(c.Rate, c.N) }, spare: true})
	}
	if s.ceilings != nil {
		columns = slices.Insert(columns, 1, column{head: "of relay", of: func(c *Cell) string { return s.ceilings[c.ID].Text }})
	}
	return append(columns, column{head: "publishable", of: func(c *Cell) string { return c.verdict(s.caveats) }, left: true})
}

func (s *section) grid(factors []factor, figures []column) grid {
	var g grid
	for _, f := range factors {
		g.heads = append(g.heads, f.title())
		g.left = append(g.left, !s.numeric(f))
	}
	for _, c := range figures {
		g.heads = append(g.heads, c.head)
		g.left = append(g.left, c.left)
	}
	for i := range s.cells {
		var row []string
		for _, f := range factors {
			row = append(row, f.of(&s.cells[i]))
		}
		for _, c := range figures {
			row = append(row, c.of(&s.cells[i]))
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func (s *section) numeric(f factor) bool {
	for i := range s.cells {
		if text := f.of(&s.cells[i]); text != "-" {
			if _, err := strconv.ParseFloat(text, 64); err != nil {
				return false
			}
		}
	}
	return true
}
