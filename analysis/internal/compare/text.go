package compare

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"felix/internal/cells"
	"felix/internal/runrecord"
)

// Report is what is written: comparisons with one base, and what is said of all.
type Report struct {
	Comparisons []*Comparison
	Best        []string // of levels
}

// The sentence that unpaired comparisons carry.
const unpaired = "Unpaired: the sessions were measured at different times and share no drift control, so that a difference can be the machine's own. " +
	"Mann-Whitney's p is a hint: on a machine that drifts it is below 0.05 for 21 to 44 % of identical builds. matrix ab measures pairs and decides."

const pairedBy = "Paired: trial t at one level with trial t at the other, both of the same pass over the grid. They ran minutes apart, not back to back, and this " +
	"decides nothing: matrix ab does."

const pairedArms = "Paired: the arms' trials of one pair, which ran back to back; pair 0 is left out. This decides nothing: analysis gate does."

// How says how the comparison was made.
func (c *Comparison) How() string {
	switch {
	case !c.Paired():
		return unpaired
	case c.Factor == armFactor:
		return pairedArms
	}
	return pairedBy
}

// WriteText writes the report for a terminal, at most 140 columns wide but for what cannot be broken.
func (r *Report) WriteText(w io.Writer) error {
	p := &page{}
	r.write(p)
	_, err := io.WriteString(w, p.String())
	return err
}

// WriteMarkdown writes the report for a page or a CI summary.
func (r *Report) WriteMarkdown(w io.Writer) error {
	p := &page{markdown: true}
	r.write(p)
	_, err := io.WriteString(w, p.String())
	return err
}

func (r *Report) write(p *page) {
	for _, c := range r.Comparisons {
		c.write(p)
	}
	if len(r.Best) > 0 {
		p.title("best level")
		for _, line := range r.Best {
			p.para(line)
		}
	}
	p.foot(r)
}

func (c *Comparison) write(p *page) {
	p.title(c.Head.Label + " against " + c.Base.Label)
	if c.Paired() {
		p.item("session", describe(&c.Base))
	} else {
		p.item("base", describe(&c.Base))
		p.item("head", describe(&c.Head))
	}
	for _, d := range c.Differences {
		p.item("mind", d)
	}
	if c.Shared != "" {
		p.item("cells", c.Shared)
	}
	p.blank()
	p.para(c.How())
	p.blank()
	if len(c.Rows) > 0 {
		c.table(p)
	}
	for _, m := range c.Missing {
		p.item("missing", m.Cell+": "+m.Why)
	}
}

// describe says what a side is made of.
func describe(s *Side) string {
	var parts []string
	if s.Session != nil {
		parts = append(parts, sessionText(s.Session))
	}
	valid, trials := 0, 0
	for i := range s.Cells {
		valid += s.Cells[i].N
		trials += len(s.Cells[i].Trials)
	}
	for _, of := range []func(*cells.Cell) string{
		func(c *cells.Cell) string {
			s := StateOf(c)
			s.Arm = ""
			return s.String()
		},
		func(c *cells.Cell) string { return "host " + orUnknown(&c.Host) },
		func(c *cells.Cell) string { return c.Build.Go },
		func(c *cells.Cell) string { return "quic-go " + orUnknown(c.Build.QuicGo) },
	} {
		var seen []string
		for i := range s.Cells {
			if text := of(&s.Cells[i]); text != "" && !slices.Contains(seen, text) {
				seen = append(seen, text)
			}
		}
		if len(seen) > 0 {
			parts = append(parts, few(seen, " and "))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("n=%d valid of %d trials in %d cells", valid, trials, len(s.Cells))), ", ")
}

func sessionText(s *runrecord.Session) string {
	text := "session " + filepath.Base(s.Dir)
	if s.Grid != nil {
		text += " (grid " + s.Grid.Name + ")"
	}
	return text
}

// table writes the rows. Where the cells' names would not leave room, the cells are numbered.
func (c *Comparison) table(p *page) {
	t := table{
		heads: []string{"cell", "metric", "base", "head", "unit", "head/base [95 %]", "finding", "n", "p", "slow base head", "remarks"},
		left:  []bool{true, true, false, false, true, true, true, false, false, true, true},
	}
	if c.Paired() {
		t.heads[7] = "pairs"
	}
	var names []string
	for i := range c.Rows {
		r := &c.Rows[i]
		if !slices.Contains(names, r.Cell) {
			names = append(names, r.Cell)
		}
		base, head, unit := r.medians()
		finding := string(r.Finding)
		t.rows = append(t.rows, []string{
			r.Cell, r.Metric.Label, base, head, unit, r.ratioText(), finding, r.nText(c.Paired()), cells.PValue(r.P), r.slowText(), strings.Join(r.remarks(), "; "),
		})
	}
	if p.markdown || t.width() <= width {
		p.table(t)
		return
	}
	for i := range t.rows {
		t.rows[i][0] = strconv.Itoa(slices.Index(names, t.rows[i][0]) + 1)
	}
	p.table(t)
	for i, name := range names {
		p.item("cell "+strconv.Itoa(i+1), name)
	}
}

// foot explains the columns.
func (p *page) foot(r *Report) {
	paired, sure, judged, starred, ownModes := false, 0, 0, false, false
	for _, c := range r.Comparisons {
		paired = paired || c.Paired()
		ownModes = ownModes || c.Paired() && c.Factor != armFactor
		for i := range c.Rows {
			row := &c.Rows[i]
			switch row.Finding {
			case Worse, Better:
				sure++
				judged++
			case Unclear:
				judged++
			}
			starred = starred || strings.HasSuffix(row.ratioText(), "*")
		}
	}
	p.blank()
	how := "[ ]: ratio of medians with its bootstrap interval (10,000 resamples, fixed seed); base, head: medians; n: valid trials, base/head; p: Mann-Whitney, two-sided."
	if paired {
		how = "[ ]: Hodges-Lehmann estimate of the ratio in pairs, with the interval of the exact signed-rank test; base, head: medians; pairs (-dropped); p: signed-rank, two-sided."
	}
	slow := "trials below 1/1.5 of both sides' 90th percentile, with Fisher's p of more in head from 8 trials a side."
	if ownModes {
		slow = "trials below 1/1.5 of their own side's 90th percentile."
	}
	p.para(how + " slow: " + slow +
		" Order: what the interval tells from 1 first, by how far its nearer end lies from 1; then by the ratio. delivered: higher is better; CPU, p50, p99: lower.")
	if starred {
		p.para("*: too few trials for 95 %: five on each side, or six pairs, are the least.")
	}
	if judged > 1 {
		p.para(fmt.Sprintf("%d of %d rows exclude 1; with nothing changed about %.1f would, by chance alone.", sure, judged, (1-cells.Level)*float64(judged)))
	}
}
