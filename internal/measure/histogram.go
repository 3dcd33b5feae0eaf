package measure

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The geometry of every histogram: 1 ns to 1 h, 3 significant digits. That is 1,024 buckets an
// octave, so that a value is known to 0.1 %, in 270 KiB, of which a run touches a few.
const (
	histogramLowestNs  = 1
	histogramHighestNs = 3_600_000_000_000
	histogramDigits    = 3
)

// samplesBeyond is how many samples must lie beyond a percentile before it is printed.
const samplesBeyond = 10

// Histogram counts durations. The zero value is not usable; see NewHistogram.
// It must not be used by two goroutines at once.
//
// Its JSON form is {"n", "max_ns", "below", "above", "hdr"}, and decodes to an equal one.
type Histogram struct {
	h     *hdr.Histogram
	max   int64 // exact, unlike the buckets
	below int64 // recorded as 0, because they were negative
	above int64 // recorded as 1 h, because they were longer
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{h: hdr.New(histogramLowestNs, histogramHighestNs, histogramDigits)}
}

// Record counts one duration. A negative one counts as 0 and one above 1 h as 1 h, and Clamped
// tells how many of each there were.
func (h *Histogram) Record(ns int64) { h.RecordN(ns, 1) }

// RecordN counts n messages of the same duration. n <= 0 counts none.
func (h *Histogram) RecordN(ns, n int64) {
	if n <= 0 {
		return
	}
	if ns > h.max {
		h.max = ns
	}
	if uint64(ns) > histogramHighestNs { // negative ones are huge as unsigned
		if ns < 0 {
			ns = 0
			h.below += n
		} else {
			ns = histogramHighestNs
			h.above += n
		}
	}
	// In range now; the only error left is a total beyond 2^63.
	_ = h.h.RecordValues(ns, n)
}

// N returns how many durations were recorded.
func (h *Histogram) N() int64 { return h.h.TotalCount() }

// Clamped returns how many durations were negative, and how many above 1 h. Either is a fault of
// a clock or of a stamp, never a latency.
func (h *Histogram) Clamped() (below, above int64) { return h.below, h.above }

// Merge adds what other counted. It fails if the sum would pass 2^63, having added part of it.
func (h *Histogram) Merge(other *Histogram) error {
	if other == nil {
		return nil
	}
	if dropped := h.h.Merge(other.h); dropped != 0 {
		return fmt.Errorf("merge histograms: %d samples do not fit", dropped)
	}
	h.max = max(h.max, other.max)
	h.below += other.below
	h.above += other.above
	return nil
}

// Summary is a histogram in a few numbers. A percentile is null unless at least 10 samples lie
// beyond it: p50 wants n >= 20, p90 100, p99 1,000, p999 10,000. Max and mean are null without
// samples.
type Summary struct {
	N      int64    `json:"n"`
	P50Ns  *int64   `json:"p50_ns"`
	P90Ns  *int64   `json:"p90_ns"`
	P99Ns  *int64   `json:"p99_ns"`
	P999Ns *int64   `json:"p999_ns"`
	MaxNs  *int64   `json:"max_ns"`
	MeanNs *float64 `json:"mean_ns"`
	// Below and Above count the durations that were clamped: negative ones, and those over 1 h.
	Below int64 `json:"below"`
	Above int64 `json:"above"`
	// HDR is Encode's text, or empty where it was left out.
	HDR string `json:"hdr,omitempty"`
}

// Summary returns the numbers, without HDR.
func (h *Histogram) Summary() Summary {
	n := h.N()
	s := Summary{
		N:      n,
		P50Ns:  h.perMille(500),
		P90Ns:  h.perMille(900),
		P99Ns:  h.perMille(990),
		P999Ns: h.perMille(999),
		Below:  h.below,
		Above:  h.above,
	}
	if n > 0 {
		longest, mean := h.max, h.h.Mean()
		s.MaxNs, s.MeanNs = &longest, &mean
	}
	return s
}

// perMille returns the value at p/1000 by the nearest rank, or nil when too few lie beyond it.
func (h *Histogram) perMille(p int64) *int64 {
	n := h.N()
	rank, ok := percentileRank(n, p)
	if !ok {
		return nil
	}
	// The library rounds percentile/100 x n to the nearest rank; a quarter below the rank that is
	// wanted is rounded to it whatever the floating point does.
	v := min(h.h.ValueAtPercentile((float64(rank)-0.25)/float64(n)*100), max(h.max, 0))
	return &v
}

// percentileRank returns the 1-based nearest rank of p/1000 among n samples, and whether enough
// samples lie beyond it.
func percentileRank(n, p int64) (rank int64, ok bool) {
	if n <= 0 || n > math.MaxInt64/1000 || n*(1000-p) < samplesBeyond*1000 {
		return 0, false
	}
	return (n*p + 999) / 1000, true
}

// Encode returns the counts as HdrHistogram V2: compressed, base64.
func (h *Histogram) Encode() (string, error) {
	b, err := h.h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode histogram: %w", err)
	}
	return string(b), nil
}

// ErrHistogramGeometry means that a text holds a histogram of another range or precision.
var ErrHistogramGeometry = errors.New("histogram of another range or precision")

// Decode reads what Encode wrote. Max is then as exact as the buckets, and nothing is known of
// clamped samples; the JSON form keeps both.
func Decode(text string) (*Histogram, error) {
	if err := checkGeometry(text); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	d, err := hdr.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	h := &Histogram{h: d}
	if h.N() > 0 {
		h.max = min(d.Max(), histogramHighestNs)
	}
	return h, nil
}

// checkGeometry reads the header alone, before the library allocates what the header asks for: a
// hostile one can ask for 50 MB.
func checkGeometry(text string) error {
	const outer, inner = 8, 40
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if len(packed) < outer {
		return io.ErrUnexpectedEOF
	}
	z, err := zlib.NewReader(bytes.NewReader(packed[outer:]))
	if err != nil {
		return err
	}
	defer z.Close()
	var header [inner]byte
	if _, err := io.ReadFull(z, header[:]); err != nil {
		return err
	}
	digits := int32(binary.BigEndian.Uint32(header[12:]))
	lowest := int64(binary.BigEndian.Uint64(header[16:]))
	highest := int64(binary.BigEndian.Uint64(header[24:]))
	if digits != histogramDigits || lowest != histogramLowestNs || highest != histogramHighestNs {
		return fmt.Errorf("%w: %d to %d ns, %d digits", ErrHistogramGeometry, lowest, highest, digits)
	}
	return nil
}

type histogramJSON struct {
	N     int64  `json:"n"`
	MaxNs int64  `json:"max_ns"`
	Below int64  `json:"below"`
	Above int64  `json:"above"`
	HDR   string `json:"hdr"`
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	text, err := h.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(histogramJSON{N: h.N(), MaxNs: h.max, Below: h.below, Above: h.above, HDR: text})
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	d, err := Decode(j.HDR)
	if err != nil {
		return err
	}
	if d.N() != j.N {
		return fmt.Errorf("decode histogram: %d samples, but n says %d", d.N(), j.N)
	}
	*h = Histogram{h: d.h, max: j.MaxNs, below: j.Below, above: j.Above}
	return nil
}
