package cells

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func libraryText(t testing.TB, h *hdr.Histogram) string {
	t.Helper()
	text, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMergerAgreesWithTheLibrary: sums, percentiles and encoding are what the library's would be.
func TestMergerAgreesWithTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := new(merger)
	for round := range 15 {
		m.reset()
		sum := hdr.New(hdrLowest, hdrHighest, hdrDigits)
		var longest int64
		for range 1 + rng.IntN(4) {
			h := hdr.New(hdrLowest, hdrHighest, hdrDigits)
			for range rng.IntN(3000) {
				v := int64(1) << rng.IntN(42)
				v = min(v+rng.Int64N(v), hdrHighest)
				if rng.IntN(50) == 0 {
					v = 0
				}
				if err := h.RecordValues(v, 1+rng.Int64N(300)); err != nil {
					t.Fatal(err)
				}
			}
			if dropped := sum.Merge(h); dropped != 0 {
				t.Fatal("the library dropped samples")
			}
			packed, err := base64.StdEncoding.DecodeString(libraryText(t, h))
			if err != nil {
				t.Fatal(err)
			}
			top, err := m.add(packed)
			if err != nil {
				t.Fatal(err)
			}
			if want := h.Max(); h.TotalCount() > 0 && top != want {
				t.Fatalf("round %d: largest %d, want %d", round, top, want)
			}
			longest = max(longest, top)
		}
		text, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := hdr.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if !back.Equals(sum) || m.n != sum.TotalCount() {
			t.Fatalf("round %d: another histogram of %d samples, want %d", round, m.n, sum.TotalCount())
		}
		for i, p := range []int64{500, 900, 990, 999} {
			got := m.perMilles(longest, 500, 900, 990, 999)[i]
			if n := m.n; n*(1000-p) < samplesBeyond*1000 {
				if got != nil {
					t.Fatalf("round %d: p%d of %d samples given", round, p, n)
				}
			} else if rank := (n*p + 999) / 1000; got == nil || *got != min(sum.ValueAtPercentile((float64(rank)-0.25)/float64(n)*100), longest) {
				t.Fatalf("round %d: p%d of %d samples is %v", round, p, n, got)
			}
		}
	}
}

func TestMergerFewSamples(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		p    int64
		have bool
	}{{19, 500, false}, {20, 500, true}, {99, 900, false}, {100, 900, true}, {999, 990, false}, {1000, 990, true}, {9999, 999, false}, {10_000, 999, true}} {
		h := hdr.New(hdrLowest, hdrHighest, hdrDigits)
		if err := h.RecordValues(77, tt.n); err != nil {
			t.Fatal(err)
		}
		packed, err := base64.StdEncoding.DecodeString(libraryText(t, h))
		if err != nil {
			t.Fatal(err)
		}
		m := new(merger)
		if _, err := m.add(packed); err != nil {
			t.Fatal(err)
		}
		if got := m.perMilles(77, tt.p)[0]; (got != nil) != tt.have {
			t.Errorf("p%d of %d samples: given %v, want %v", tt.p, tt.n, got != nil, tt.have)
		}
	}
}

// FuzzMerger: nothing panics, and whatever is taken is what the library reads of it.
func FuzzMerger(f *testing.F) {
	h := hdr.New(hdrLowest, hdrHighest, hdrDigits)
	f.Add(mustBase64(f, libraryText(f, h)))
	for _, v := range []int64{0, 1, 2047, 2048, 5000, hdrHighest} {
		if err := h.RecordValues(v, v+1); err != nil {
			f.Fatal(err)
		}
		f.Add(mustBase64(f, libraryText(f, h)))
	}
	f.Add([]byte{})
	f.Add([]byte("HISTFAAAA"))
	f.Add(mustBase64(f, libraryText(f, hdr.New(1, 1000, 2))))
	f.Fuzz(func(t *testing.T, packed []byte) {
		m := new(merger)
		if _, err := m.add(packed); err != nil {
			return
		}
		want, err := hdr.Decode([]byte(base64.StdEncoding.EncodeToString(packed)))
		if err != nil {
			t.Fatalf("taken, but the library says %v", err)
		}
		text, err := m.encode()
		if err != nil {
			return // a bucket beyond what is written
		}
		if got, err := hdr.Decode([]byte(text)); err != nil || got.TotalCount() != want.TotalCount() || got.TotalCount() != m.n {
			t.Fatalf("encodes to %v, %v; want %d samples", got, err, want.TotalCount())
		}
	})
}

func mustBase64(tb testing.TB, text string) []byte {
	tb.Helper()
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return packed
}
