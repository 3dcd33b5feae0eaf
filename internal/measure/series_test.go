package measure

import (
	"math/rand/v2"
	"testing"
)

func TestBinsAreWithinTwoPercent(t *testing.T) {
	last := -1
	for _, v := range []int64{0, 1, 31, 32, 63, 64, 65, 100, 1000, 12_345, 1 << 20, 987_654_321, 1<<42 - 1} {
		bin := binOf(v)
		if bin < last {
			t.Errorf("binOf(%d) = %d, below that of a smaller value, %d", v, bin, last)
		}
		last = bin
		if off := float64(binValue(bin)-v) / float64(max(v, 1)); off > 0.016 || off < -0.016 {
			t.Errorf("%d comes back as %d", v, binValue(bin))
		}
	}
	for bin := range binCount {
		if got := binOf(binValue(bin)); got != bin {
			t.Fatalf("binOf(binValue(%d)) = %d", bin, got)
		}
	}
	if binOf(-1) != 0 || binOf(1<<62) != binCount-1 {
		t.Error("out of range values are not clamped")
	}
}

func TestSeriesIsBounded(t *testing.T) {
	s := newReceiverSeries(10)
	const n = maxIntervals + 500
	for i := range int64(n) {
		s.record(i*10, 5, 0, 100)
	}
	s.flush()
	cells, err := parseReceiverSeries(s.packed, 10)
	if err != nil || len(cells) != maxIntervals {
		t.Fatalf("%d intervals, %v, want %d", len(cells), err, maxIntervals)
	}
	if got := cells[len(cells)-1].messages; got != 501 {
		t.Errorf("the last interval holds %d messages, want the rest, 501", got)
	}

	p := newSenderSeries(10, 1)
	for i := range int64(n) {
		p.record(i*10, 0, 1, 100)
	}
	p.flush()
	sent, err := parseSenderSeries(p.packed, 10)
	if err != nil || len(sent) != maxIntervals || sent[len(sent)-1].byStream[0].messages != 501 {
		t.Errorf("sender: %d intervals, %v", len(sent), err)
	}
}

func TestSeriesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	s := newReceiverSeries(100)
	p := newSenderSeries(100, 5)
	type cell struct {
		got     uint64
		bytes   uint64
		skipped int64
		sent    [5]uint64
	}
	want := map[int64]*cell{}
	at := int64(1 << 50)
	for range 5000 {
		at += r.Int64N(90) * r.Int64N(3)
		c := want[at/100]
		if c == nil {
			c = &cell{}
			want[at/100] = c
		}
		if r.IntN(2) == 0 {
			skipped, bytes := r.Int64N(50), r.Uint64N(5000)
			s.record(at, r.Int64N(1e9), skipped, bytes)
			c.bytes += bytes
			c.got++
			c.skipped = skipped
		} else {
			stream := uint16(r.IntN(5))
			p.record(at, stream, 3, 3*uint64(stream+1))
			c.sent[stream] += 3
		}
	}
	s.flush()
	p.flush()
	got, err := parseReceiverSeries(s.packed, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		w := want[g.cell]
		var binned uint64
		for _, b := range g.bins {
			binned += b.count
		}
		if w == nil || g.messages != w.got || g.bytes != w.bytes || g.skipped != w.skipped || binned != w.got {
			t.Fatalf("interval %d: got %+v, want %+v", g.cell, g, w)
		}
		w.got = 0
	}
	sent, err := parseSenderSeries(p.packed, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range sent {
		for _, c := range g.byStream {
			if want[g.cell].sent[c.stream] != c.messages || c.bytes != c.messages*uint64(c.stream+1) {
				t.Fatalf("interval %d: stream %d has %d", g.cell, c.stream, c.messages)
			}
			want[g.cell].sent[c.stream] = 0
		}
	}
	for at, w := range want {
		if w.got != 0 || w.sent != [5]uint64{} {
			t.Errorf("interval %d is lost: %+v", at, w)
		}
	}
}

func FuzzParseSeries(f *testing.F) {
	s := newReceiverSeries(10)
	p := newSenderSeries(10, 3)
	for i := range int64(40) {
		s.record(i*7, i*i, i%5, uint64(i))
		p.record(i*7, uint16(i%3), 2, 9)
	}
	s.flush()
	p.flush()
	f.Add(s.packed, int64(10))
	f.Add(p.packed, int64(10))
	f.Add([]byte{0xff}, int64(100))
	f.Fuzz(func(t *testing.T, b []byte, length int64) {
		// Whatever is in them: no panic, and Merge copes with what passes.
		shape := PayloadLen(0)
		sender := SenderResult{PayloadLen: shape, IntervalNs: length, Series: b}
		receiver := ReceiverResult{PayloadLen: shape, IntervalNs: length, Series: b}
		_, _ = Merge([]SenderResult{sender}, nil)
		_, _ = Merge(nil, []ReceiverResult{receiver})
	})
}
