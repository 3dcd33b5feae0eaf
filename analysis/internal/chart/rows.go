package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// rowText is what stands left and right of a row, in whole lines.
type rowText struct{ left, right []styled }

// styled is a text in its words.
type styled struct {
	words words
	text  string
}

// rowLayout has every text broken so that nothing is cut, and the height that all rows then need.
type rowLayout struct {
	left, right, height vg.Length // widths of the sides, height of a row
	rows                []rowText
}

const (
	leastRow  = vg.Length(27)
	mostLeft  = vg.Length(190)
	mostRight = vg.Length(150)
	sideGap   = vg.Length(8)
	axisSpace = vg.Length(36) // below the rows
)

func layoutRows(rows []rowText) rowLayout {
	l := rowLayout{height: leastRow}
	for _, r := range rows {
		r = rowText{wrapAll(r.left, mostLeft), wrapAll(r.right, mostRight)}
		for _, s := range r.left {
			l.left = max(l.left, s.words.width(s.text))
		}
		for _, s := range r.right {
			l.right = max(l.right, s.words.width(s.text))
		}
		l.height = max(l.height, linesHeight(r.left)+5, linesHeight(r.right)+5)
		l.rows = append(l.rows, r)
	}
	l.left, l.right = l.left+sideGap, l.right+sideGap
	return l
}

func wrapAll(texts []styled, most vg.Length) []styled {
	var out []styled
	for _, s := range texts {
		for _, line := range s.words.wrap(s.text, most) {
			out = append(out, styled{s.words, line})
		}
	}
	return out
}

func linesHeight(lines []styled) (h vg.Length) {
	for _, s := range lines {
		h += s.words.line()
	}
	return h
}

// size is the height of all rows with the axis below them.
func (l rowLayout) size() vg.Length { return vg.Length(len(l.rows))*l.height + axisSpace }

// span returns the edges and the middle of the i-th row of a data area.
func (l rowLayout) span(c draw.Canvas, i int) (top, mid, bottom vg.Length) {
	h := (c.Max.Y - c.Min.Y) / vg.Length(len(l.rows))
	top = c.Max.Y - h*vg.Length(i)
	return top, top - h/2, top - h
}

// write puts the texts of the i-th row beside the data area.
func (l rowLayout) write(c draw.Canvas, i int) {
	_, mid, _ := l.span(c, i)
	writeLines(c, c.Min.X-sideGap, mid, right, l.rows[i].left)
	writeLines(c, c.Max.X+sideGap, mid, left, l.rows[i].right)
}

func writeLines(c draw.Canvas, x, mid vg.Length, align float64, lines []styled) {
	y := mid + linesHeight(lines)/2
	for _, s := range lines {
		y -= s.words.line()
		s.words.draw(c, x, y+s.words.line()*0.25, align, s.text)
	}
}

// stripes shades every second row.
func (l rowLayout) stripes(c draw.Canvas) {
	for i := 0; i < len(l.rows); i += 2 {
		top, _, bottom := l.span(c, i)
		c.FillPolygon(fainter, []vg.Point{{X: c.Min.X, Y: top}, {X: c.Max.X, Y: top}, {X: c.Max.X, Y: bottom}, {X: c.Min.X, Y: bottom}})
	}
}
