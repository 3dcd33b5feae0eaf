package cells

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// page is text or markdown under way.
type page struct {
	strings.Builder
	format Format
}

func (p *page) blank() {
	if p.Len() > 0 && !strings.HasSuffix(p.String(), "\n\n") {
		p.WriteByte('\n')
	}
}

func (p *page) line(format string, args ...any) {
	text := Clean(fmt.Sprintf(format, args...))
	if p.format == Markdown {
		text = Escape(text) + "  " // two spaces break the line
	}
	p.WriteString(text + "\n")
}

// title is a heading.
func (p *page) title(text string) {
	p.blank()
	if p.format == Markdown {
		p.WriteString("### " + Escape(Clean(text)) + "\n\n")
		return
	}
	p.wrapped("", strings.Fields(text), " ")
}

// wrapped writes words behind a label, in lines that are not too long where width counts.
func (p *page) wrapped(label string, words []string, separator string) {
	if p.format == Markdown {
		p.line("%s%s", strings.TrimLeft(label, " "), strings.Join(words, separator))
		return
	}
	text := label
	indent := strings.Repeat(" ", utf8.RuneCountInString(label))
	for i, word := range words {
		word = Clean(word)
		add := word
		if i > 0 {
			add = separator + word
		}
		if i > 0 && utf8.RuneCountInString(text+add) > Width {
			p.WriteString(strings.TrimRight(text+separator, " ") + "\n")
			text, add = indent, word
		}
		text += add
	}
	p.WriteString(strings.TrimRight(text, " ") + "\n")
}

// grid is a table's cells of text.
type grid struct {
	heads []string
	left  []bool // aligned left; numbers are aligned right
	rows  [][]string
}

func (g grid) widths() []int {
	widths := make([]int, len(g.heads))
	for i, h := range g.heads {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range g.rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

const gap = "  "

// lastColumn is what the last column gets at least; longer texts go on in the next line.
const lastColumn = 24

// width is the longest line, but for what the last column can carry over.
func (g grid) width() int {
	widths := g.widths()
	last := len(widths) - 1
	n := min(widths[last], lastColumn)
	for _, w := range widths[:last] {
		n += w + len(gap)
	}
	return n
}

func (p *page) table(g grid) {
	for _, row := range g.rows {
		for i := range row {
			row[i] = Clean(row[i])
		}
	}
	if p.format == Markdown {
		p.markdown(g)
		return
	}
	widths := g.widths()
	last := len(widths) - 1
	for _, row := range append([][]string{g.heads}, g.rows...) {
		var b strings.Builder
		for i, text := range row[:last] {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if g.left[i] {
				b.WriteString(text + pad + gap)
			} else {
				b.WriteString(pad + text + gap)
			}
		}
		p.wrapped(b.String(), strings.Fields(row[last]), " ")
	}
}

func (p *page) markdown(g grid) {
	row := func(texts []string) {
		p.WriteString("|")
		for _, text := range texts {
			p.WriteString(" " + Escape(text) + " |")
		}
		p.WriteString("\n")
	}
	row(g.heads)
	rule := make([]string, len(g.heads))
	for i := range rule {
		rule[i] = "---:"
		if g.left[i] {
			rule[i] = "---"
		}
	}
	row(rule)
	for _, r := range g.rows {
		row(r)
	}
	p.WriteString("\n")
}
