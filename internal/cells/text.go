package cells

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Clean makes spaces of what would break a line or drive a terminal: names and reasons come out of files.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Escape keeps text from being read as Markdown.
func Escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "|", `\|`, "*", `\*`, "<", "&lt;", "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`").Replace(text)
}

// CSVText is a value as a field of a CSV file: all digits of a number, nothing for what is not known.
func CSVText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}
