package measure_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"felix/internal/measure"
)

func TestStampLayout(t *testing.T) {
	s := measure.Stamp{
		Tag: 0x01020304, Publisher: 0x0506, Stream: 0x0708, Phase: measure.PhaseMeasure,
		Seq: 0x090a0b0c0d0e0f, Intended: 0x1112131415161718, Sent: 0x2122232425262728,
	}
	got := make([]byte, measure.StampLen)
	s.Put(got)
	const want = "0102030405060708" + "02090a0b0c0d0e0f" + "1112131415161718" + "2122232425262728"
	if h := hex.EncodeToString(got); h != want {
		t.Errorf("stamp = %s, want %s", h, want)
	}
}

func TestStampRoundTrip(t *testing.T) {
	for _, s := range []measure.Stamp{
		{Phase: measure.PhaseWarmup},
		{Tag: math.MaxUint32, Publisher: math.MaxUint16, Stream: math.MaxUint16, Phase: measure.PhaseMeasure, Seq: measure.MaxSeq, Intended: math.MaxInt64, Sent: math.MinInt64},
	} {
		b := make([]byte, measure.StampLen+3)
		s.Put(b)
		got, err := measure.ParseStamp(b)
		if err != nil || got != s {
			t.Errorf("ParseStamp = %+v, %v, want %+v", got, err, s)
		}
	}
}

func TestParseStampRefuses(t *testing.T) {
	for n := range measure.StampLen {
		if _, err := measure.ParseStamp(make([]byte, n)); !errors.Is(err, measure.ErrStampShort) {
			t.Errorf("%d bytes: %v, want %v", n, err, measure.ErrStampShort)
		}
	}
	for _, phase := range []byte{0, 3, 255} {
		b := make([]byte, measure.StampLen)
		b[3], b[8] = 9, phase
		s, err := measure.ParseStamp(b)
		if !errors.Is(err, measure.ErrStampPhase) {
			t.Errorf("phase %d: %v, want %v", phase, err, measure.ErrStampPhase)
		}
		if s.Tag != 9 {
			t.Errorf("phase %d: tag = %d, want 9, so that a foreign stamp can be told", phase, s.Tag)
		}
	}
}

func FuzzParseStamp(f *testing.F) {
	f.Add(make([]byte, measure.StampLen))
	f.Add(bytes.Repeat([]byte{2}, measure.StampLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := measure.ParseStamp(b)
		if err != nil {
			return
		}
		again := make([]byte, measure.StampLen)
		s.Put(again)
		if !bytes.Equal(again, b[:measure.StampLen]) {
			t.Errorf("%x encodes as %x", b[:measure.StampLen], again)
		}
	})
}

func TestFiller(t *testing.T) {
	for _, n := range []int{0, 32, 33, 39, 256, 4096} {
		f := measure.NewFiller(7, n)
		want := measure.PayloadLen(n)
		if f.Len() != want {
			t.Fatalf("payload %d: Len = %d, want %d", n, f.Len(), want)
		}
		p := make([]byte, want)
		f.Fill(p)
		measure.Stamp{Phase: measure.PhaseMeasure, Seq: 5}.Put(p)
		if !measure.NewFiller(7, n).Check(p) {
			t.Errorf("payload %d: the same seed does not know its filler", n)
		}
		if f.Check(p[:want-1]) || f.Check(append(bytes.Clone(p), 0)) {
			t.Errorf("payload %d: another length passes", n)
		}
		for i := measure.StampLen; i < want; i++ {
			p[i] ^= 1
			if f.Check(p) {
				t.Errorf("payload %d: a flipped bit at %d passes", n, i)
			}
			p[i] ^= 1
		}
		if n > 40 && measure.NewFiller(8, n).Check(p) {
			t.Errorf("payload %d: another seed knows the filler", n)
		}
	}
}
