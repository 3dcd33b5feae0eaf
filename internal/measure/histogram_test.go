package measure_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"felix/internal/measure"
)

// nearestRank is the definition: the smallest value with at least p/1000 of the samples at or
// below it.
func nearestRank(sorted []int64, p int) int64 {
	return sorted[(len(sorted)*p+999)/1000-1]
}

func TestPercentilesAreWithinATenthOfAPercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{20, 21, 100, 999, 1000, 1001, 1060, 10_000, 54_321} {
		h := measure.NewHistogram()
		values := make([]int64, n)
		for i := range values {
			values[i] = int64(math.Exp(r.NormFloat64()*3 + 12)) // 100 us and orders around it
			h.Record(values[i])
		}
		slices.Sort(values)
		s := h.Summary()
		for _, x := range []struct {
			name string
			p    int
			got  *int64
		}{{"p50", 500, s.P50Ns}, {"p90", 900, s.P90Ns}, {"p99", 990, s.P99Ns}, {"p999", 999, s.P999Ns}} {
			if enough := n*(1000-x.p) >= 10_000; enough != (x.got != nil) {
				t.Errorf("n=%d: %s known is %v, want %v", n, x.name, x.got != nil, enough)
				continue
			}
			if x.got == nil {
				continue
			}
			want := nearestRank(values, x.p)
			if off := math.Abs(float64(*x.got-want)) / float64(want); off > 0.001 {
				t.Errorf("n=%d: %s = %d, want %d, off by %.3f %%", n, x.name, *x.got, want, off*100)
			}
		}
		if *s.MaxNs != values[n-1] {
			t.Errorf("n=%d: max = %d, want %d exactly", n, *s.MaxNs, values[n-1])
		}
	}
}

func TestHistogramClampsAndSays(t *testing.T) {
	h := measure.NewHistogram()
	h.Record(-5)
	h.RecordN(int64(2*time.Hour), 3)
	h.RecordN(7, 0)
	h.RecordN(7, -1)
	if below, above := h.Clamped(); below != 1 || above != 3 {
		t.Errorf("Clamped = %d, %d, want 1, 3", below, above)
	}
	s := h.Summary()
	if s.N != 4 || *s.MaxNs != int64(2*time.Hour) {
		t.Errorf("n = %d, max = %d, want 4 and the true maximum", s.N, *s.MaxNs)
	}
	if e := measure.NewHistogram().Summary(); e.MaxNs != nil || e.MeanNs != nil || e.P50Ns != nil {
		t.Errorf("empty Summary = %+v, want nulls", e)
	}
}

func TestHistogramSurvivesProcessBoundary(t *testing.T) {
	h := measure.NewHistogram()
	for i := range int64(5000) {
		h.Record(i * i)
	}
	h.Record(-1)
	h.Record(int64(90 * time.Minute))
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var got measure.Histogram
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h.Summary(), got.Summary()); d != "" {
		t.Error(d)
	}
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := measure.Decode(text)
	if err != nil || back.N() != h.N() {
		t.Errorf("Decode(Encode) has n = %d, %v, want %d", back.N(), err, h.N())
	}
}

func TestMergeEqualsRecordingTogether(t *testing.T) {
	all, a, b := measure.NewHistogram(), measure.NewHistogram(), measure.NewHistogram()
	for i := range int64(10_000) {
		v := i * 997
		all.Record(v)
		if i%3 == 0 {
			a.Record(v)
		} else {
			b.Record(v)
		}
	}
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	if err := a.Merge(nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all.Summary(), a.Summary()); d != "" {
		t.Error(d)
	}
}

func TestDecodeRefusesOtherGeometry(t *testing.T) {
	for _, h := range []*hdr.Histogram{hdr.New(1, math.MaxInt64, 5), hdr.New(1000, 3_600_000_000_000, 3), hdr.New(1, 3_600_000_000_000, 2)} {
		b, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := measure.Decode(string(b)); err == nil || !strings.Contains(err.Error(), "another range") {
			t.Errorf("Decode of %d..%d, %d digits: %v", h.LowestTrackableValue(), h.HighestTrackableValue(), h.SignificantFigures(), err)
		}
	}
	var h measure.Histogram
	if err := json.Unmarshal([]byte(`{"n":1,"hdr":""}`), &h); err == nil {
		t.Error("an empty hdr decodes")
	}
}

func FuzzDecode(f *testing.F) {
	h := measure.NewHistogram()
	h.RecordN(1000, 3)
	h.Record(1 << 40)
	text, err := h.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Add(text[:20])
	f.Fuzz(func(t *testing.T, text string) {
		h, err := measure.Decode(text)
		if err != nil {
			return
		}
		again, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := measure.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h.Summary(), back.Summary()); d != "" {
			t.Error(d)
		}
	})
}
