package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder holds the known fields of one JSON object, and the first error met while they are
// taken out. After an error the getters return zero values.
type decoder struct {
	fields [fieldCount]value
	err    error
}

// scan reads src, which must be one object, and remembers where its known fields are.
func (d *decoder) scan(src []byte) error {
	s := scanner{src: src}
	if s.peek() != '{' {
		return s.errorf("want an object")
	}
	err := s.object(0, func(name []byte, v value) error {
		if f, ok := fieldByName[string(name)]; ok {
			v.twice = d.fields[f].kind != 0
			d.fields[f] = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.peek(); s.pos < len(src) {
		return fmt.Errorf("%w: %d after the object", ErrTrailing, len(src)-s.pos)
	}
	return nil
}

func (d *decoder) fail(f field, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", fieldNames[f], err)
	}
}

// has reports whether the optional field f is there and is not null.
func (d *decoder) has(f field) bool {
	v := &d.fields[f]
	if v.twice {
		d.fail(f, fmt.Errorf("%w: field occurs twice", ErrValue))
	}
	return v.kind != 0 && v.kind != 'n'
}

// get returns the required field f if it is of this kind.
func (d *decoder) get(f field, kind byte, want string) (*value, bool) {
	v := &d.fields[f]
	switch {
	case d.err != nil:
	case v.kind == 0:
		// The name is in the text once: "missing field request_id".
		d.err = fmt.Errorf("%w %s", ErrMissingField, fieldNames[f])
	case v.twice:
		d.fail(f, fmt.Errorf("%w: field occurs twice", ErrValue))
	case v.kind != kind:
		d.fail(f, fmt.Errorf("%w: want %s", ErrValue, want))
	default:
		return v, true
	}
	return nil, false
}

// plain returns the bytes of a required string without its escapes. They may alias the source.
func (d *decoder) plain(f field) []byte {
	v, ok := d.get(f, '"', "a string")
	if !ok {
		return nil
	}
	if !v.escaped {
		return v.raw
	}
	b, err := unescape(nil, v.raw)
	if err != nil {
		d.fail(f, err)
	}
	return b
}

func (d *decoder) text(f field) string { return string(d.plain(f)) }

// scope takes the three names; third is fieldStream or fieldCache.
func (d *decoder) scope(third field) Scope {
	return makeScope(d.plain(fieldTenantID), d.plain(fieldNamespace), d.plain(third))
}

func (d *decoder) uint(f field, limit uint64) uint64 {
	v, ok := d.get(f, '0', "a number")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil || n > limit {
		d.fail(f, fmt.Errorf("%w %.64s: want an integer from 0 to %d", ErrValue, v.raw, limit))
		return 0
	}
	return n
}

func (d *decoder) uint64(f field) uint64 { return d.uint(f, math.MaxUint64) }

func (d *decoder) optUint64(f field) *uint64 {
	if !d.has(f) {
		return nil
	}
	n := d.uint64(f)
	return &n
}

func (d *decoder) flags(f field) Flags { return Flags(d.uint(f, math.MaxUint16)) }

func (d *decoder) optAckMode(f field) *AckMode {
	if !d.has(f) {
		return nil
	}
	b := d.plain(f)
	if d.err != nil {
		return nil
	}
	// Looked up here first because ParseAckMode's error keeps its text, which costs a copy.
	for i, name := range ackModeNames {
		if string(b) == name {
			m := AckMode(i)
			return &m
		}
	}
	_, err := ParseAckMode(string(b))
	d.fail(f, fmt.Errorf("%w: %w", ErrValue, err))
	return nil
}

// bytes decodes a required base64 string; the result is never nil unless it failed.
func (d *decoder) bytes(f field) []byte {
	text := d.plain(f)
	if d.err != nil {
		return nil
	}
	b, err := appendBase64(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	if err != nil {
		d.fail(f, err)
		return nil
	}
	return b
}

// bytesList decodes a required array of base64 strings, all into one buffer: a batch costs two
// allocations, not one a payload.
func (d *decoder) bytesList(f field) [][]byte {
	v, ok := d.get(f, '[', "an array of strings")
	if !ok {
		return nil
	}
	list := make([][]byte, 0, v.items)
	// Four characters make at most three bytes, so this is enough for all and never grows.
	buf := make([]byte, 0, len(v.raw)/4*3)
	s := scanner{src: v.raw, pos: 1}
	for i := range v.items {
		if s.peek() != '"' {
			d.fail(f, fmt.Errorf("item %d: %w: want a string", i, ErrValue))
			return nil
		}
		item, err := s.text()
		if err == nil && item.escaped {
			item.raw, err = unescape(nil, item.raw)
		}
		start := len(buf)
		if err == nil {
			buf, err = appendBase64(buf, item.raw)
		}
		if err != nil {
			d.fail(f, fmt.Errorf("item %d: %w", i, err))
			return nil
		}
		list = append(list, buf[start:len(buf):len(buf)])
		s.peek()
		s.pos++ // the comma or bracket, which scan has seen
	}
	return list
}

// strict also refuses bits that padding leaves over: one text a value, as the protocol's other
// implementations have it.
var strict = base64.StdEncoding.Strict()

// appendBase64 appends to dst what text encodes. base64 itself would skip line breaks; here they
// are errors.
func appendBase64(dst, text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return dst, fmt.Errorf("%w: line break in base64", ErrValue)
	}
	out, err := strict.AppendDecode(dst, text)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrValue, err)
	}
	return out, nil
}

// unescape appends the text of a string that scanner.text has passed. A surrogate without its
// partner stands for no character, and is an error.
func unescape(dst, raw []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...), nil
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
					return dst, fmt.Errorf("%w: lone surrogate", ErrSyntax)
				}
				if r = utf16.DecodeRune(r, hex4(raw[2:])); r == utf8.RuneError {
					return dst, fmt.Errorf("%w: lone surrogate", ErrSyntax)
				}
				raw = raw[6:]
			}
			dst = utf8.AppendRune(dst, r)
		default: // " \ /
			dst = append(dst, c)
		}
	}
}
