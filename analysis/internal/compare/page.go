package compare

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"felix/internal/cells"
)

// page is text or Markdown under way.
type page struct {
	strings.Builder
	markdown bool
}

const width = 140

func (p *page) blank() {
	if p.Len() > 0 && !strings.HasSuffix(p.String(), "\n\n") {
		p.WriteByte('\n')
	}
}

func (p *page) title(text string) {
	p.blank()
	if p.markdown {
		p.WriteString("### " + cells.Escape(cells.Clean(text)) + "\n\n")
		return
	}
	p.para(text)
}

// para writes a paragraph, broken at the width.
func (p *page) para(text string) { p.hang("", text) }

// item writes a labelled line.
func (p *page) item(label, text string) {
	if p.markdown {
		p.WriteString("- " + label + ": " + cells.Escape(cells.Clean(text)) + "\n")
		return
	}
	p.hang(fmt.Sprintf("%-8s ", label), text)
}

// hang writes text behind a label, and what does not fit below it.
func (p *page) hang(label, text string) {
	text = cells.Clean(text)
	if p.markdown {
		p.WriteString(cells.Escape(text) + "\n\n")
		return
	}
	line, start := label, true
	for _, word := range strings.Fields(text) {
		switch {
		case start:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			p.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", utf8.RuneCountInString(label)) + word
		default:
			line += " " + word
		}
		start = false
	}
	p.WriteString(strings.TrimRight(line, " ") + "\n")
}

// table is cells of text; the last column goes on below where it is too long.
type table struct {
	heads []string
	left  []bool
	rows  [][]string
}

const columnGap = "  "

func (t *table) widths() []int {
	widths := make([]int, len(t.heads))
	for _, row := range append([][]string{t.heads}, t.rows...) {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

// width of a line, with some of the last column.
func (t *table) width() int {
	const remarks = 16
	n := 0
	widths := t.widths()
	for _, w := range widths[:len(widths)-1] {
		n += w + len(columnGap)
	}
	return n + min(widths[len(widths)-1], remarks)
}

func (p *page) table(t table) {
	for _, row := range t.rows {
		for i := range row {
			row[i] = cells.Clean(row[i])
		}
	}
	if p.markdown {
		line := func(texts []string) {
			for _, text := range texts {
				p.WriteString("| " + cells.Escape(text) + " ")
			}
			p.WriteString("|\n")
		}
		line(t.heads)
		for _, left := range t.left {
			if left {
				p.WriteString("|---")
			} else {
				p.WriteString("|---:")
			}
		}
		p.WriteString("|\n")
		for _, row := range t.rows {
			line(row)
		}
		p.WriteByte('\n')
		return
	}
	widths := t.widths()
	last := len(widths) - 1
	for _, row := range append([][]string{t.heads}, t.rows...) {
		var b strings.Builder
		for i, text := range row[:last] {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if t.left[i] {
				b.WriteString(text + pad + columnGap)
			} else {
				b.WriteString(pad + text + columnGap)
			}
		}
		p.hang(b.String(), row[last])
	}
}
