package cells

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"felix/internal/runrecord"
)

// ErrNoHistograms means that the grouper was not told to keep them.
var ErrNoHistograms = errors.New("histograms were not kept: set KeepHistograms")

// keptHistogram is one trial's, as it was recorded but for the base64.
type keptHistogram struct {
	packed []byte
	maxNs  int64 // exact, unlike the buckets; -1 not known
}

type histograms struct {
	kept bool
	of   map[int]keptHistogram // by index of the trial
}

func keep(d *runrecord.Distribution) (keptHistogram, bool) {
	if d == nil || d.HDR == nil || *d.HDR == "" {
		return keptHistogram{}, false
	}
	packed, err := base64.StdEncoding.DecodeString(*d.HDR)
	if err != nil {
		packed = nil // found out, and said, when the histogram is asked for
	}
	return keptHistogram{packed: packed, maxNs: number(d.MaxNs)}, true
}

// EndToEnd merges the EndToEnd histograms of the trials that the cell's figures are made of: percentiles of all their
// messages together, never means of percentiles. Trials whose record has no histogram are not in it; without any, N
// is 0. A percentile needs 10 samples beyond it, else it is nil.
//
// It fails with ErrNoHistograms, and where a histogram is damaged or of another range than records have. Several
// goroutines may ask at once.
func (c *Cell) EndToEnd() (runrecord.Distribution, error) {
	if c.histograms == nil || !c.histograms.kept {
		return runrecord.Distribution{}, ErrNoHistograms
	}
	m := mergers.Get().(*merger)
	defer mergers.Put(m)
	m.reset()
	longest, merged := int64(-1), 0
	for _, i := range slices.Sorted(maps.Keys(c.histograms.of)) {
		if i >= len(c.Trials) || !c.Trials[i].used() {
			continue
		}
		kept := c.histograms.of[i]
		top, err := m.add(kept.packed)
		if err != nil {
			return runrecord.Distribution{}, fmt.Errorf("histogram of run %s: %w", c.Trials[i].RunID, err)
		}
		if kept.maxNs >= 0 {
			top = kept.maxNs
		}
		longest = max(longest, top)
		merged++
	}
	if merged == 0 {
		return runrecord.Distribution{}, nil
	}
	text, err := m.encode()
	if err != nil {
		return runrecord.Distribution{}, fmt.Errorf("encode merged histogram: %w", err)
	}
	at := m.perMilles(longest, 500, 900, 990, 999)
	d := runrecord.Distribution{N: m.n, P50Ns: at[0], P90Ns: at[1], P99Ns: at[2], P999Ns: at[3], HDR: &text}
	if d.N > 0 {
		d.MaxNs = &longest
	}
	return d, nil
}
