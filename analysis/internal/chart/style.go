package chart

import (
	"image/color"

	xfont "golang.org/x/image/font"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Width of every picture: 830 px at 96 px an inch, what a README is wide.
const width = 622.5 * vg.Length(1)

// The palette of Okabe and Ito, Color Universal Design (2008), without its yellow, which is lost on white. Whatever is
// told by colour is told by a shape or a dash as well.
var (
	black      = color.NRGBA{0x1a, 0x1a, 0x1a, 0xff}
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	green      = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	purple     = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	grey       = color.NRGBA{0x5c, 0x63, 0x6a, 0xff} // text of second rank: 6:1 on white
	light      = color.NRGBA{0xa3, 0xa9, 0xaf, 0xff} // marks of no weight
	faint      = color.NRGBA{0xe4, 0xe7, 0xea, 0xff} // grid
	fainter    = color.NRGBA{0xf2, 0xf4, 0xf6, 0xff}
	white      = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// MostSeries is how many series one picture can tell apart.
const MostSeries = 8

// seriesStyle is how the i-th series looks.
type seriesStyle struct {
	color  color.NRGBA
	dashes []vg.Length
	glyph  func(hollow bool) draw.GlyphDrawer
}

func styleOf(i int) seriesStyle {
	i %= MostSeries
	return seriesStyle{
		color: []color.NRGBA{blue, vermillion, green, purple, orange, sky, black, grey}[i],
		dashes: [][]vg.Length{
			nil, {6, 2}, {2, 2}, {7, 2, 1.5, 2}, nil, {6, 2}, {2, 2}, {7, 2, 1.5, 2},
		}[i],
		glyph: func(hollow bool) draw.GlyphDrawer { return glyph{shape: i % 5, hollow: hollow} },
	}
}

func (s seriesStyle) line(w vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: s.color, Width: w, Dashes: s.dashes}
}

// glyph is a marker: full, or white inside so that lines do not show through.
type glyph struct {
	shape  int // circle, square, triangle up, diamond, triangle down, cross, plus
	hollow bool
}

const (
	circle = iota
	square
	triangle
	diamond
	triangleDown
	cross
)

// DrawGlyph draws it.
func (g glyph) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius
	var p vg.Path
	corners := func(xy ...vg.Length) {
		for i := 0; i < len(xy); i += 2 {
			at := vg.Point{X: pt.X + xy[i]*r, Y: pt.Y + xy[i+1]*r}
			if i == 0 {
				p.Move(at)
			} else {
				p.Line(at)
			}
		}
		p.Close()
	}
	switch g.shape {
	case square:
		corners(-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9)
	case triangle:
		corners(-1.1, -0.8, 1.1, -0.8, 0, 1.2)
	case diamond:
		corners(-1.25, 0, 0, -1.25, 1.25, 0, 0, 1.25)
	case triangleDown:
		corners(-1.1, 0.8, 1.1, 0.8, 0, -1.2)
	case cross:
		c.SetLineStyle(draw.LineStyle{Color: sty.Color, Width: 1.1})
		p.Move(vg.Point{X: pt.X - r, Y: pt.Y - r})
		p.Line(vg.Point{X: pt.X + r, Y: pt.Y + r})
		p.Move(vg.Point{X: pt.X - r, Y: pt.Y + r})
		p.Line(vg.Point{X: pt.X + r, Y: pt.Y - r})
		c.Stroke(p)
		return
	default:
		p.Move(vg.Point{X: pt.X + r, Y: pt.Y})
		p.Arc(pt, r, 0, 6.283185307179586)
		p.Close()
	}
	if g.hollow {
		c.SetColor(white)
		c.Fill(p)
		c.SetLineStyle(draw.LineStyle{Color: sty.Color, Width: 1.1})
		c.Stroke(p)
		return
	}
	c.SetColor(sty.Color)
	c.Fill(p)
}

func drawGlyph(c draw.Canvas, g draw.GlyphDrawer, clr color.Color, r vg.Length, x, y vg.Length) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: clr, Radius: r, Shape: g}, vg.Point{X: x, Y: y})
}

// words is a way of writing: a face, a size and a colour.
type words struct {
	face  font.Face
	color color.Color
}

func newWords(size vg.Length, bold bool, clr color.Color) words {
	return words{face: font.DefaultCache.Lookup(fontOf(size, bold), size), color: clr}
}

func fontOf(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

var (
	titleWords   = newWords(12.5, true, black)
	captionWords = newWords(9.5, false, grey)
	caveatWords  = newWords(9.5, true, black)
	strongWords  = newWords(9.5, true, warning)
	legendWords  = newWords(9, false, black)
	labelWords   = newWords(9, false, black)
	boldWords    = newWords(9, true, black)
	smallWords   = newWords(8.5, false, grey)
	noteWords    = newWords(8.5, false, grey)
)

// in returns the words in another colour.
func (w words) in(clr color.Color) words {
	w.color = clr
	return w
}

func (w words) width(s string) vg.Length { return w.face.Width(s) }

// line is the distance between two lines.
func (w words) line() vg.Length { return w.face.Font.Size * 1.3 }

// middle is how far the baseline lies below the middle of small letters and digits.
func (w words) middle() vg.Length { return w.face.Font.Size * 0.35 }

// Alignments of text.
const (
	left   = 0
	centre = 0.5
	right  = 1
)

// draw writes s with its baseline at y; align says which part of it lies at x.
func (w words) draw(c draw.Canvas, x, y vg.Length, align float64, s string) {
	if s == "" {
		return
	}
	c.SetColor(w.color)
	c.FillString(w.face, vg.Point{X: x - vg.Length(align)*w.width(s), Y: y}, s)
}

// style is the same for gonum's own axes.
func (w words) style(like text.Style) text.Style {
	like.Font, like.Color = w.face.Font, w.color
	like.Handler = plot.DefaultTextHandler
	return like
}

// wrap breaks s into lines of at most the given width, at spaces or, in words that are too long, anywhere.
func (w words) wrap(s string, most vg.Length) []string {
	var lines []string
	line := ""
	for len(s) > 0 {
		word, rest := nextWord(s)
		switch {
		case line == "" || w.width(line+" "+word) <= most:
			if line != "" {
				line += " "
			}
			line += word
		default:
			lines = append(lines, line)
			line = word
		}
		for w.width(line) > most {
			fit := []rune(line)
			for len(fit) > 1 && w.width(string(fit)) > most {
				fit = fit[:len(fit)-1]
			}
			lines = append(lines, string(fit))
			line = line[len(string(fit)):]
		}
		s = rest
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

func nextWord(s string) (word, rest string) {
	for i, r := range s {
		if r == ' ' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// fit cuts s so that it is at most that wide, and shows that it did.
func (w words) fit(s string, most vg.Length) string {
	if w.width(s) <= most {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && w.width(string(r)+"…") > most {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

var (
	band    = color.NRGBA{0xd6, 0xda, 0xde, 0xff} // behind an interval
	badZone = color.NRGBA{0xfb, 0xe6, 0xd9, 0xff} // beyond a margin, on the worse side
)

var (
	areaFill  = color.NRGBA{0xcc, 0xe3, 0xf0, 0xff}
	flowFill  = color.NRGBA{0xb8, 0xd6, 0xe8, 0xff}
	warning   = color.NRGBA{0xb0, 0x45, 0x00, 0xff} // vermillion, dark enough for text: 5.6:1 on white
	lossWords = color.NRGBA{0x8a, 0x5a, 0x00, 0xff} // orange is too light for text
)
