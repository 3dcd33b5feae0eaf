package workload

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Which names subscribers of a case: one of them, all of a stream, or all. The zero value is the first one.
type Which struct {
	Stream int // Every = of all streams
	Index  int // within its stream; Every = all of them
}

// Every stands for all streams, or all subscribers of one.
const Every = -1

var errWhich = errors.New(`want a subscriber as the record names it, STREAM.INDEX (0.3), one of the first stream alone (3), STREAM.* or *`)

// ParseWhich reads 0.3, 3 (of stream 0), 2.* or *.
func ParseWhich(s string) (Which, error) {
	if s == "*" {
		return Which{Every, Every}, nil
	}
	stream, index, dotted := strings.Cut(s, ".")
	if !dotted {
		stream, index = "0", s
	}
	var w Which
	var err error
	if w.Stream, err = whole(stream); err != nil {
		return w, errWhich
	}
	if w.Index = Every; index != "*" || !dotted {
		if w.Index, err = whole(index); err != nil {
			return w, errWhich
		}
	}
	return w, nil
}

// whole reads plain decimals from 0 on.
func whole(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || strconv.Itoa(n) != s {
		return 0, errors.New("want a whole number")
	}
	return n, nil
}

// String is the text that ParseWhich reads back.
func (w Which) String() string {
	if w.Stream == Every {
		return "*"
	}
	index := "*"
	if w.Index != Every {
		index = strconv.Itoa(w.Index)
	}
	return strconv.Itoa(w.Stream) + "." + index
}

// Has reports whether the subscriber is one of them.
func (w Which) Has(stream, index int) bool {
	return w.Stream == Every || w.Stream == stream && (w.Index == Every || w.Index == index)
}

// check refuses a subscriber that the case does not have.
func (w Which) check(flag string, c *Case) error {
	streams := c.AllStreams()
	if w.Stream >= streams || w.Index >= c.Fanout {
		return fmt.Errorf("--%s %s: there is no such subscriber: the case has %d of stream 0 to %d", flag, w, c.Fanout, streams-1)
	}
	return nil
}

// splitList splits A,B and A+B: a comma ends a level in --set and --only, a plus does not.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '+' })
}

// joinList is the text of Stalls, Slows, PayloadMix and Tenants.
func joinList[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}

// parseList reads a list of items and appends them to have.
func parseList[T any](have []T, s string, one func(string) (T, error)) ([]T, error) {
	items := splitList(s)
	if len(items) == 0 {
		return have, errors.New("want at least one")
	}
	have = slices.Clone(have)
	for _, item := range items {
		v, err := one(item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		have = append(have, v)
	}
	return have, nil
}
