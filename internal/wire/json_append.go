package wire

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// encoding/json would do for writing but for its map of types, its HTML escaping and its copies:
// payloads are appended as base64 straight into the frame.

// appendFieldName appends ,"name": for a field that is not the first, which "type" always is.
func appendFieldName(dst []byte, f field) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, fieldNames[f]...)
	return append(dst, '"', ':')
}

func appendTextField(dst []byte, f field, s string) []byte {
	return appendString(appendFieldName(dst, f), s)
}

func appendUintField(dst []byte, f field, v uint64) []byte {
	return appendUint(appendFieldName(dst, f), v)
}

func appendOptUintField(dst []byte, f field, v *uint64) []byte {
	if v == nil {
		return dst
	}
	return appendUintField(dst, f, *v)
}

func appendNullField(dst []byte, f field) []byte {
	return append(appendFieldName(dst, f), "null"...)
}

func appendBytesField(dst []byte, f field, b []byte) []byte {
	return appendBytes(appendFieldName(dst, f), b)
}

func appendBytesListField(dst []byte, f field, list [][]byte) []byte {
	dst = append(appendFieldName(dst, f), '[')
	for i, b := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendBytes(dst, b)
	}
	return append(dst, ']')
}

// appendScopeFields appends the three names; third is fieldStream or fieldCache.
func appendScopeFields(dst []byte, s Scope, third field) []byte {
	dst = appendTextField(dst, fieldTenantID, s.Tenant)
	dst = appendTextField(dst, fieldNamespace, s.Namespace)
	return appendTextField(dst, third, s.Stream)
}

func appendUint(dst []byte, v uint64) []byte { return strconv.AppendUint(dst, v, 10) }

// appendBytes appends b as standard base64 with padding; no character of it needs an escape.
func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends s with only the escapes that RFC 8259 section 7 requires. Bytes that are
// not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0 // s[:done] is written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[done:i]...), "\uFFFD"...)
				done = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}
