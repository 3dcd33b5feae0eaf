package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"felix/internal/wire"
)

// fragments reads its bytes in pieces of random sizes, and now and then says that it was interrupted.
type fragments struct {
	data []byte
	rand *rand.Rand
}

var errInterrupted = errors.New("interrupted")

func (f *fragments) Read(p []byte) (int, error) {
	switch {
	case len(f.data) == 0:
		return 0, io.EOF
	case f.rand.IntN(5) == 0:
		return 0, errInterrupted
	}
	n := min(len(p), len(f.data), 1+f.rand.IntN(1+f.rand.IntN(100_000)))
	n = copy(p, f.data[:n])
	f.data = f.data[n:]
	return n, nil
}

// readAll returns everything that chunks held, and how they ended.
func readAll(t *testing.T, r *reader) (all []byte, frames, messages int, err error) {
	t.Helper()
	for {
		c, err := r.next()
		if errors.Is(err, errInterrupted) {
			continue
		}
		if err != nil {
			r.stop()
			return all, frames, messages, err
		}
		if c.count < 1 || len(c.frames) < wire.HeaderLen {
			t.Fatalf("a chunk of %d frames, %d bytes", c.count, len(c.frames))
		}
		all = append(all, c.frames...)
		frames += c.count
		messages += c.messages
		c.buf.release()
	}
}

func TestReaderKeepsFramesWhole(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		var sent []byte
		frames, messages := 0, 0
		for range 1 + random.IntN(60) {
			payloads := make([][]byte, random.IntN(4))
			for i := range payloads {
				payloads[i] = make([]byte, random.IntN(1<<random.IntN(18)))
			}
			sent = (&wire.EventBatch{Payloads: payloads}).Append(sent)
			frames++
			messages += len(payloads)
		}
		var m meter
		got, gotFrames, gotMessages, err := readAll(t, newReader(&fragments{sent, random}, &m))
		if err != io.EOF {
			t.Fatalf("seed %d: ended with %v, want EOF", seed, err)
		}
		if !bytes.Equal(got, sent) || gotFrames != frames || gotMessages != messages {
			t.Errorf("seed %d: %d bytes in %d frames with %d messages, want %d, %d, %d", seed, len(got), gotFrames, gotMessages, len(sent), frames, messages)
		}
		if w := m.snapshot(); w.Items != uint64(frames) || w.Bytes != uint64(len(sent)) || w.Count == 0 {
			t.Errorf("seed %d: wake-ups %+v, want %d frames and %d bytes", seed, w, frames, len(sent))
		}
	}
}

func TestReaderEnds(t *testing.T) {
	frame := (&wire.EventBatch{Payloads: [][]byte{make([]byte, 100)}}).Append(nil)
	bad := bytes.Clone(frame)
	bad[0] ^= 1
	for _, tt := range []struct {
		what string
		in   []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"one frame", frame, io.EOF},
		{"half a header", frame[:5], io.ErrUnexpectedEOF},
		{"half a body", frame[:40], io.ErrUnexpectedEOF},
		{"a frame and a byte", append(bytes.Clone(frame), 'x'), io.ErrUnexpectedEOF},
		{"no frame", bad, wire.ErrMagic},
		{"a publish frame", (&wire.PublishBatch{Payloads: [][]byte{nil}}).Append(nil), wire.ErrUnsupportedFlags},
		{"a frame too large", wire.Header{Flags: wire.FlagEventShared, Length: maxFrameBytes + 1}.Append(nil), wire.ErrFrameTooLarge},
	} {
		if _, _, _, err := readAll(t, newReader(bytes.NewReader(tt.in), &meter{})); !errors.Is(err, tt.want) {
			t.Errorf("%s: ended with %v, want %v", tt.what, err, tt.want)
		}
	}
}

// Whatever arrives, chunks are its longest prefix of whole frames, however it is cut.
func FuzzReader(f *testing.F) {
	frame := (&wire.EventBatch{Payloads: [][]byte{[]byte("one"), []byte("two")}}).Append(nil)
	f.Add(frame, uint64(1))
	f.Add(append(bytes.Clone(frame), frame[:7]...), uint64(2))
	f.Add((&wire.EventBatch{Payloads: [][]byte{make([]byte, 70_000)}}).Append(frame), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		whole := 0
		for len(in)-whole >= wire.HeaderLen {
			h, err := wire.ParseHeader(in[whole:], maxFrameBytes)
			if err != nil || h.Flags != wire.FlagEventShared || len(in)-whole < wire.HeaderLen+h.Length {
				break
			}
			whole += wire.HeaderLen + h.Length
		}
		got, _, _, err := readAll(t, newReader(&fragments{bytes.Clone(in), rand.New(rand.NewPCG(seed, 2))}, &meter{}))
		if err == nil || !bytes.HasPrefix(in[:whole], got) {
			t.Fatalf("%d bytes of %d whole ones, ended with %v", len(got), whole, err)
		}
		if (err == io.EOF || err == io.ErrUnexpectedEOF) && len(got) != whole {
			t.Errorf("ended with %v after %d bytes, want all %d whole ones", err, len(got), whole)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{fromPublisher, 7}.append(nil))
	f.Add(binary.BigEndian.AppendUint32(nil, helloMagic))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < helloLen {
			return
		}
		if h, err := parseHello(in[:helloLen]); err == nil && !bytes.Equal(h.append(nil), in[:helloLen]) {
			t.Errorf("%x became %+v, which is %x", in[:helloLen], h, h.append(nil))
		}
	})
}
