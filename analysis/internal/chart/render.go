package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/png"
	"regexp"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Format is a kind of picture.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png" // two pixels a CSS pixel
)

// Formats lists them.
func Formats() []Format { return []Format{SVG, PNG} }

// ParseFormat reads a format's name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(s)); f {
	case SVG, PNG:
		return f, nil
	}
	return "", fmt.Errorf("picture format %q: want svg or png", s)
}

// pngDPI makes 1,660 pixels of the 830, so that text stays sharp on fine screens.
const pngDPI = 192

// Figure is one picture: Latency, Rates, Distribution, Trials, Timeline, Ledger, Forest or Trend.
type Figure interface {
	// frame lays the picture out; or it says why there is nothing to draw.
	frame() (frame, string)
}

// EmptyError says that a figure has nothing to draw, and why.
type EmptyError struct{ Reason string }

func (e *EmptyError) Error() string { return "nothing to draw: " + e.Reason }

// Render draws the figure in every format, in their order. The same input gives the same bytes. A figure without
// anything to draw is an *EmptyError.
func Render(f Figure, formats ...Format) ([][]byte, error) {
	fr, empty := f.frame()
	if empty != "" {
		return nil, &EmptyError{empty}
	}
	l := fr.layout()
	out := make([][]byte, len(formats))
	for i, format := range formats {
		var err error
		switch format {
		case SVG:
			out[i], err = l.svg()
		case PNG:
			out[i], err = l.png()
		default:
			err = fmt.Errorf("picture format %q: want svg or png", format)
		}
		if err != nil {
			return nil, fmt.Errorf("draw %q: %w", fr.title, err)
		}
	}
	return out, nil
}

func (l *laidOut) png() ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(width, l.size()), vgimg.UseDPI(pngDPI))
	l.drawOn(draw.New(canvas))
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, canvas.Image())
	return b.Bytes(), err
}

func (l *laidOut) svg() ([]byte, error) {
	canvas := vgsvg.New(width, l.size())
	l.drawOn(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return portable(b.Bytes(), l.title, l.caption+". "+l.caveat+". "+l.source.String()), nil
}

var (
	fontFamily = regexp.MustCompile(`font-family:Liberation Sans;font-variant:normal;font-weight:(\w+);font-style:normal`)
	svgHead    = regexp.MustCompile(`(?s)^(.*?<svg [^>]*)>`)
)

// portable names fonts that other systems have, with the same widths as Liberation Sans, and gives the picture a name
// and a description for those who do not see it.
func portable(svg []byte, title, description string) []byte {
	svg = fontFamily.ReplaceAll(svg, []byte(`font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-weight:$1`))
	head := fmt.Sprintf("$1 role=\"img\">\n<title>%s</title>\n<desc>%s</desc>", escaped(title), escaped(description))
	svg = svgHead.ReplaceAll(svg, []byte(head))
	// Names come from flags and files; XML has no way to write most control characters.
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, svg)
}

// escaped is for XML, and for a replacement.
func escaped(s string) string { return strings.ReplaceAll(html.EscapeString(s), "$", "$$") }
