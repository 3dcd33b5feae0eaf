package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"felix/internal/settings"
)

// MixPart is a size of message and how many of the batches have it.
type MixPart struct {
	Bytes   int // of a whole message
	Percent float64
}

// PayloadMix is `--payload-mix 100:95%,1MiB:5%`: messages of several sizes, all those of one batch alike. Empty is one
// size, the payload of the case.
type PayloadMix []MixPart

func parseMixPart(s string) (MixPart, error) {
	size, percent, ok := strings.Cut(s, ":")
	percent, isPercent := strings.CutSuffix(percent, "%")
	if !ok || !isPercent {
		return MixPart{}, errors.New("want SIZE:PERCENT%, as 100:95% or 1MiB:5%")
	}
	n, err := settings.ParseSize(size)
	if err != nil {
		return MixPart{}, err
	}
	if n < StampBytes || n > MaxPayload {
		return MixPart{}, fmt.Errorf("want messages of %d to %d bytes", StampBytes, MaxPayload)
	}
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil || !(p > 0 && p < 100) {
		return MixPart{}, errors.New("want a percentage between 0 and 100")
	}
	return MixPart{int(n), p}, nil
}

// String is the text that Set reads back.
func (p MixPart) String() string {
	return shortSize(int64(p.Bytes)) + ":" + strconv.FormatFloat(p.Percent, 'g', -1, 64) + "%"
}

func (m PayloadMix) String() string { return joinList(m) }

// Set reads a whole mix.
func (m *PayloadMix) Set(s string) error {
	parts, err := parseList(nil, s, parseMixPart)
	if err != nil {
		return err
	}
	sum := 0.0
	seen := map[int]bool{}
	for _, p := range parts {
		sum += p.Percent
		if seen[p.Bytes] {
			return fmt.Errorf("%q: %d bytes are in it twice", s, p.Bytes)
		}
		seen[p.Bytes] = true
	}
	switch {
	case len(parts) < 2:
		return fmt.Errorf("%q: one size is no mix: use the payload", s)
	case math.Abs(sum-100) > 1e-9:
		return fmt.Errorf("%q: the parts are %v %% together, want 100 %%", s, sum)
	}
	*m = parts
	return nil
}

// Type is shown in a flag's usage.
func (m PayloadMix) Type() string { return "SIZE:PERCENT%,…" }

func (m PayloadMix) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func (m *PayloadMix) UnmarshalText(b []byte) error { return m.Set(string(b)) }

// Mean is the mean size of a message, in bytes, rounded.
func (m PayloadMix) Mean() int {
	sum := 0.0
	for _, p := range m {
		sum += float64(p.Bytes) * p.Percent / 100
	}
	return int(math.Round(sum))
}

// Largest is the size of the largest messages, in bytes; 0 for no mix.
func (m PayloadMix) Largest() int {
	most := 0
	for _, p := range m {
		most = max(most, p.Bytes)
	}
	return most
}

// PayloadSizes lists the sizes that a message of the resolved case can have, in bytes.
func (c Case) PayloadSizes() []int {
	if len(c.PayloadMix) == 0 {
		return []int{c.MessageBytes()}
	}
	sizes := make([]int, len(c.PayloadMix))
	for i, p := range c.PayloadMix {
		sizes[i] = p.Bytes
	}
	return sizes
}

// LargestMessage is the size of the largest message of the resolved case, in bytes.
func (c Case) LargestMessage() int { return max(c.MessageBytes(), c.PayloadMix.Largest()) }

// MixDraw yields the sizes of one publisher's batches.
type MixDraw struct {
	mix PayloadMix
	r   *rand.Rand // nil: every batch is alike
}

// mixStream keeps the draws of sizes apart from those of Poisson arrivals, which have the publisher's index alone.
const mixStream = 1 << 32

// NewMixDraw returns the draw of one publisher. The same seed and publisher give the same sizes, whatever the timing.
func (c Case) NewMixDraw(publisher int, seed uint64) *MixDraw {
	d := &MixDraw{mix: c.PayloadMix}
	if len(d.mix) > 0 {
		d.r = rand.New(rand.NewPCG(seed, mixStream|uint64(publisher)))
	}
	return d
}

// Next returns which part of the mix the next batch is of; 0 for no mix.
func (d *MixDraw) Next() int {
	if d.r == nil {
		return 0
	}
	x, below := 100*d.r.Float64(), 0.0
	for i, p := range d.mix {
		if below += p.Percent; x < below {
			return i
		}
	}
	return len(d.mix) - 1
}
