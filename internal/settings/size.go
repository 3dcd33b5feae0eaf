package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"B", 1}, // last: it ends every other name
}

// ParseSize reads a number of bytes: 65536, 64KiB, 16MiB, 10MB, with or without a space
// before the unit. K, M and G with "iB" are powers of 1,024, with "B" of 1,000. Signs,
// fractions, leading zeros and any other spelling are refused: a size that is read
// differently from how it was meant is worse than one that is not read.
func ParseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = strings.TrimSuffix(rest, " "), u.bytes
			break
		}
	}
	n, err := parseInt(digits)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size: want bytes as 65536, 64KiB, 16MiB or 10MB", s)
	}
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is more than fits in 63 bits", s)
	}
	return n * unit, nil
}

// FormatSize is the shortest text that ParseSize reads back as n, in powers of 1,024.
func FormatSize(n int64) string {
	for i := 2; i >= 0; i-- {
		if u := sizeUnits[i]; n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseInt reads plain decimals only: no plus sign, no underscores, no leading zeros
// (which YAML 1.1 reads as octal), no hexadecimal.
func parseInt(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q is no whole number", s)
	}
	return n, nil
}
