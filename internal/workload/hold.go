package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"felix/internal/settings"
)

// Stall is a subscriber that stops reading for a while: from At after the mark it reads nothing for as long as For.
type Stall struct {
	Which Which
	At    time.Duration
	For   time.Duration
}

// Stalls are all stalls of a case, as `--stall SUB:AT:FOR` names them.
type Stalls []Stall

// maxHold bounds the times of a stall: longer, and the run is forgotten.
const maxHold = 10 * time.Minute

func parseStall(s string) (Stall, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Stall{}, errors.New("want SUBSCRIBER:AT:FOR, as 0.3:1s:5s or *:500ms:2s")
	}
	var v Stall
	var err error
	if v.Which, err = ParseWhich(parts[0]); err != nil {
		return v, err
	}
	if v.At, err = span(parts[1], 0); err != nil {
		return v, fmt.Errorf("when it begins: %w", err)
	}
	if v.For, err = span(parts[2], 1); err != nil {
		return v, fmt.Errorf("how long it lasts: %w", err)
	}
	if v.At > maxHold || v.For > maxHold {
		return v, fmt.Errorf("want at most %v", maxHold)
	}
	return v, nil
}

// String is the text that Set reads back.
func (v Stall) String() string { return v.Which.String() + ":" + v.At.String() + ":" + v.For.String() }

func (v Stalls) String() string { return joinList(v) }

// Set adds stalls: the flag may be given several times.
func (v *Stalls) Set(s string) error { return setList((*[]Stall)(v), *v, s, parseStall) }

// Type is shown in a flag's usage.
func (v Stalls) Type() string { return "SUB:AT:FOR" }

func (v Stalls) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText replaces what is there.
func (v *Stalls) UnmarshalText(b []byte) error {
	return setList((*[]Stall)(v), nil, string(b), parseStall)
}

// setList parses s behind have into v, and leaves v alone if it cannot.
func setList[T any](v *[]T, have []T, s string, one func(string) (T, error)) error {
	all, err := parseList(have, s, one)
	if err == nil {
		*v = all
	}
	return err
}

// Until is when the last stall ends, after the mark; 0 if there is none.
func (v Stalls) Until() time.Duration {
	var end time.Duration
	for _, s := range v {
		end = max(end, s.At+s.For)
	}
	return end
}

// Longest is the longest of them; 0 if there is none.
func (v Stalls) Longest() time.Duration {
	var most time.Duration
	for _, s := range v {
		most = max(most, s.For)
	}
	return most
}

// Slow is a subscriber that reads no faster than so many bytes of payload a second, from the mark on.
type Slow struct {
	Which       Which
	BytesPerSec int64
}

// Slows are all slow subscribers of a case, as `--slow SUB:RATE` names them. Where several name one, the last counts.
type Slows []Slow

func parseSlow(s string) (Slow, error) {
	who, rate, ok := strings.Cut(s, ":")
	if !ok {
		return Slow{}, errors.New("want SUBSCRIBER:BYTES a second, as *:20MB or 0.3:64KiB")
	}
	var v Slow
	var err error
	if v.Which, err = ParseWhich(who); err != nil {
		return v, err
	}
	if v.BytesPerSec, err = settings.ParseSize(strings.TrimSuffix(rate, "/s")); err != nil {
		return v, err
	}
	if v.BytesPerSec < 1 || v.BytesPerSec > 1<<40 {
		return v, errors.New("want 1 byte a second to 1024GiB")
	}
	return v, nil
}

// String is the text that Set reads back.
func (v Slow) String() string { return v.Which.String() + ":" + shortSize(v.BytesPerSec) }

// shortSize is the shortest text that settings.ParseSize reads back: powers of two and of ten as such.
func shortSize(n int64) string {
	best := settings.FormatSize(n)
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if text := strconv.FormatInt(n/u.bytes, 10) + u.name; n%u.bytes == 0 && len(text) < len(best) {
			best = text
		}
	}
	return best
}

func (v Slows) String() string { return joinList(v) }

// Set adds slow subscribers: the flag may be given several times.
func (v *Slows) Set(s string) error { return setList((*[]Slow)(v), *v, s, parseSlow) }

// Type is shown in a flag's usage.
func (v Slows) Type() string { return "SUB:RATE" }

func (v Slows) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText replaces what is there.
func (v *Slows) UnmarshalText(b []byte) error {
	return setList((*[]Slow)(v), nil, string(b), parseSlow)
}

// Of is how fast a subscriber reads, in bytes a second; 0 = as fast as it can.
func (v Slows) Of(stream, index int) int64 {
	var rate int64
	for _, s := range v {
		if s.Which.Has(stream, index) {
			rate = s.BytesPerSec
		}
	}
	return rate
}
