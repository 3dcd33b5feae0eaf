package chart

import (
	"math"
	"strconv"
	"strings"
)

// Unit is what a number is of. MB are 10^6 bytes, as in every rate of the bench; sizes that are powers of two are
// printed in KiB and MiB.
type Unit int

// The units.
const (
	Nanoseconds Unit = iota
	BytesPerSec
	MsgsPerSec
	Bytes
	Seconds
	Count
	Percent
)

// axis is what an axis of the unit says in brackets.
func (u Unit) axis() string {
	switch u {
	case Nanoseconds:
		return "unit at each tick"
	case BytesPerSec:
		return "MB/s"
	case MsgsPerSec:
		return "msg/s"
	case Bytes:
		return "bytes"
	case Seconds:
		return "s"
	case Percent:
		return "% of what was expected"
	}
	return "count"
}

// tick is the text of a value on an axis of the unit.
func (u Unit) tick(v float64) string {
	switch u {
	case Nanoseconds:
		return duration(v)
	case BytesPerSec:
		return number(v / 1e6)
	case Bytes:
		return sizeText(v)
	}
	return metric(v)
}

// text is a value standing alone.
func (u Unit) text(v float64) string {
	switch u {
	case Nanoseconds:
		return duration(v)
	case BytesPerSec:
		return number(v/1e6) + " MB/s"
	case MsgsPerSec:
		return metric(v) + " msg/s"
	case Bytes:
		return sizeText(v)
	case Seconds:
		return number(v) + " s"
	}
	return metric(v)
}

// number prints three significant digits, without an exponent where that is legible.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return "n/a"
	case math.IsInf(v, 0):
		return "infinite"
	case a >= 1e7 || a > 0 && a < 1e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		text = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return text
}

// metric prints with k, M, G.
func metric(v float64) string {
	if math.IsInf(v, 0) {
		return "infinite"
	}
	for _, s := range []struct {
		at   float64
		unit string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if math.Abs(v) >= s.at*0.9995 {
			return number(v/s.at) + s.unit
		}
	}
	return number(v)
}

func duration(ns float64) string {
	if math.IsInf(ns, 0) {
		return "infinite"
	}
	for _, s := range []struct {
		at   float64
		unit string
	}{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}} {
		if math.Abs(ns) >= s.at*0.9995 {
			return number(ns/s.at) + s.unit
		}
	}
	return number(ns) + " ns"
}

// sizeText prints whole KiB and MiB as such, and everything else in powers of ten.
func sizeText(v float64) string {
	whole := func(unit float64) bool { return v >= unit && math.Mod(v, unit) == 0 }
	switch {
	case whole(1 << 30):
		return number(v/(1<<30)) + " GiB"
	case whole(1<<20) && v < 1<<30:
		return number(v/(1<<20)) + " MiB"
	case whole(1<<10) && v < 1<<20:
		return number(v/(1<<10)) + " KiB"
	case v >= 1e9:
		return number(v/1e9) + " GB"
	case v >= 1e6:
		return number(v/1e6) + " MB"
	case v >= 1e4:
		return number(v/1e3) + " kB"
	}
	return number(v) + " B"
}

// counted prints a count in full, in groups of three: 1 234 567 is told from 1 234 568.
func counted(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, d := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}
