package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// This is a JSON scanner (RFC 8259) for small objects with long base64 strings in them. It is
// here because encoding/json matches names without regard to case, takes the last of two fields
// of one name, passes bad UTF-8, and needs the type tag before it can decode the rest in one go.

// maxDepth bounds the nesting of values, which only unknown fields can make use of.
const maxDepth = 128

// value is a JSON value in its source, checked for syntax.
type value struct {
	// raw is the value's text; for a string, what stands between the quotes.
	raw []byte
	// kind is the first byte of a value ('"', '{', '[', 'n', 't', 'f'), '0' for a number, 0 for none.
	kind byte
	// escaped: raw is a string with a backslash in it.
	escaped bool
	// twice: the field occurred more than once.
	twice bool
	// items is the number of elements of an array.
	items int
}

type scanner struct {
	src []byte
	pos int
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrSyntax, s.pos, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// value reads one value at this depth, 0 being that of the message.
func (s *scanner) value(depth int) (value, error) {
	c := s.peek()
	start := s.pos
	var v value
	var err error
	switch {
	case c == '"':
		return s.text()
	case c == '{':
		v.kind = c
		err = s.object(depth, func([]byte, value) error { return nil })
	case c == '[':
		v.kind = c
		v.items, err = s.array(depth)
	case c == 'n':
		v.kind, err = c, s.literal("null")
	case c == 't':
		v.kind, err = c, s.literal("true")
	case c == 'f':
		v.kind, err = c, s.literal("false")
	case c == '-' || '0' <= c && c <= '9':
		v.kind, err = '0', s.number()
	case s.pos == len(s.src):
		err = s.errorf("unexpected end")
	default:
		err = s.errorf("unexpected %q", c)
	}
	v.raw = s.src[start:s.pos]
	return v, err
}

// object reads an object and calls member for each of its fields, in order, with the name as it
// stands in the source if it has no escapes, else decoded.
func (s *scanner) object(depth int, member func(name []byte, v value) error) error {
	if depth >= maxDepth {
		return s.errorf("nested deeper than %d", maxDepth)
	}
	s.pos++ // {
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.errorf("want a field name")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		name := key.raw
		if key.escaped {
			if name, err = unescape(nil, key.raw); err != nil {
				return err
			}
		}
		if s.peek() != ':' {
			return s.errorf("want ':'")
		}
		s.pos++
		v, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		if err := member(name, v); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.errorf("want ',' or '}'")
		}
	}
}

// array reads an array and returns the number of its elements.
func (s *scanner) array(depth int) (items int, err error) {
	if depth >= maxDepth {
		return 0, s.errorf("nested deeper than %d", maxDepth)
	}
	s.pos++ // [
	if s.peek() == ']' {
		s.pos++
		return 0, nil
	}
	for {
		if _, err := s.value(depth + 1); err != nil {
			return 0, err
		}
		items++
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return items, nil
		default:
			return 0, s.errorf("want ',' or ']'")
		}
	}
}

func (s *scanner) literal(word string) error {
	if rest := s.src[s.pos:]; len(rest) < len(word) || string(rest[:len(word)]) != word {
		return s.errorf("want %s", word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.src[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.src) && s.src[s.pos] == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.pos < len(s.src) && s.src[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.src) && s.src[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.src) && (s.src[s.pos] == '+' || s.src[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.src) && '0' <= s.src[s.pos] && s.src[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		return s.errorf("want a digit")
	}
	return nil
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// stops marks, in the high bit of its byte, the first quote, backslash or control character of
// eight bytes; above the first one there may be false marks.
// Each term is hasless of Anderson's Bit Twiddling Hacks: (x-n) &^ x has the high bit where x < n.
func stops(w uint64) uint64 {
	quote, back := w^('"'*everyByte), w^('\\'*everyByte)
	return ((quote-everyByte)&^quote | (back-everyByte)&^back | (w-' '*everyByte)&^w) & highBits
}

// text reads a string; the scanner stands on its quote. Escapes are checked but for their
// surrogates, and left as they are.
func (s *scanner) text() (value, error) {
	s.pos++
	start := s.pos
	v := value{kind: '"'}
	var high uint64 // bytes that are not ASCII
	for {
		// Eight bytes at a time: a publish is nearly all base64 in one string.
		for len(s.src)-s.pos >= 8 {
			w := binary.LittleEndian.Uint64(s.src[s.pos:])
			high |= w & highBits
			if m := stops(w); m != 0 {
				s.pos += bits.TrailingZeros64(m) / 8
				break
			}
			s.pos += 8
		}
		if s.pos == len(s.src) {
			return v, s.errorf("string without end")
		}
		switch c := s.src[s.pos]; {
		case c == '"':
			v.raw = s.src[start:s.pos]
			s.pos++
			if high != 0 && !utf8.Valid(v.raw) {
				return v, s.errorf("string is not UTF-8")
			}
			return v, nil
		case c == '\\':
			v.escaped = true
			if err := s.escape(); err != nil {
				return v, err
			}
		case c < ' ':
			return v, s.errorf("control character in string")
		default:
			high |= uint64(c) & highBits
			s.pos++
		}
	}
}

// escape passes one escape sequence.
func (s *scanner) escape() error {
	rest := s.src[s.pos:]
	if len(rest) < 2 {
		return s.errorf("string without end")
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		if len(rest) >= 6 && hex4(rest[2:6]) >= 0 {
			s.pos += 6
			return nil
		}
	}
	return s.errorf("bad escape")
}

// hex4 is the number that four hexadecimal digits make, or -1.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
