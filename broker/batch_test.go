package broker

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"felix/internal/wire"
)

func TestSizeClasses(t *testing.T) {
	last := -1
	for n := 1; n <= maxFrameBytes+eventHeadBytes; n += 1 + n/97 {
		class, size := sizeClass(n)
		if size < n || (n > 512 && size > n+n/4+1) {
			t.Fatalf("%d bytes: a buffer of %d", n, size)
		}
		if class < last || class >= numClasses {
			t.Fatalf("%d bytes: class %d after %d of %d", n, class, last, numClasses)
		}
		last = class
		if c, s := sizeClass(size); c != class || s != size {
			t.Fatalf("size %d of class %d is itself of class %d, size %d", size, class, c, s)
		}
	}
}

func TestBatchForms(t *testing.T) {
	var pool batchPool
	payloads := [][]byte{[]byte("a"), []byte("bcd"), nil, []byte("ef")}
	for _, acked := range []bool{false, true} {
		for _, offset := range []bool{false, true} {
			pb := wire.PublishBatch{Acked: acked, RequestID: 7, Scope: wire.Scope{Tenant: "t", Namespace: "n", Stream: "s"}, Payloads: payloads}
			if acked {
				pb.AckMode = wire.AckPerBatch
			}
			frame := pb.Append(nil)
			b := pool.get(len(frame) - wire.HeaderLen)
			body := b.body(len(frame) - wire.HeaderLen)
			copy(body, frame[wire.HeaderLen:])
			head, err := wire.ParsePublishHead(pb.Flags(), body)
			if err != nil {
				t.Fatal(err)
			}
			end := eventHeadBytes + len(body)
			b.setTail(end-len(head.Tail), end, head.Count, head.PayloadBytes)
			b.seal(41, offset)
			want := (&wire.EventBatch{HasOffset: offset, BaseOffset: 41 * b2u(offset), Payloads: payloads}).Append(nil)
			if !bytes.Equal(b.frame, want) {
				t.Errorf("acked %v, offset %v:\n got %x\nwant %x", acked, offset, b.frame, want)
			}
			items, count := b.behind(2)
			if count != 2 || !bytes.Equal(items, []byte("\x00\x00\x00\x00\x00\x00\x00\x02ef")) {
				t.Errorf("behind 2: %d, %q", count, items)
			}
			if got := (queued{b, 1}).payloadBytes(); got != 5 {
				t.Errorf("payload bytes behind 1: %d, want 5", got)
			}
			b.release()
		}
	}
	if live := pool.live.Load(); live != 0 {
		t.Errorf("%d live", live)
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// TestFrameReader reads the same frames however the bytes come in.
func TestFrameReader(t *testing.T) {
	var all []byte
	var sizes []int
	for size := 0; size < 200_000; size = size*2 + 37 {
		all = wire.Header{Flags: 1, Length: size}.Append(all)
		all = append(all, bytes.Repeat([]byte{byte(size)}, size)...)
		sizes = append(sizes, size)
	}
	for name, src := range map[string]io.Reader{
		"whole":            bytes.NewReader(all),
		"byte by byte":     iotest.OneByteReader(bytes.NewReader(all)),
		"half":             iotest.HalfReader(bytes.NewReader(all)),
		"error with bytes": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		for _, skip := range []bool{false, true} {
			if s, ok := src.(io.Seeker); ok {
				_, _ = s.Seek(0, io.SeekStart)
			} else if skip {
				continue
			}
			var counters readCounters
			f := frameReader{src: src, maxBytes: 1 << 20, counters: &counters, beforeRead: func() error { return nil }}
			for _, size := range sizes {
				h, err := f.header()
				if err != nil || h.Length != size {
					t.Fatalf("%s: header %+v, %v; want %d bytes", name, h, err, size)
				}
				if skip {
					err = f.discard(size)
				} else {
					got := make([]byte, size)
					err = f.body(got)
					if !bytes.Equal(got, bytes.Repeat([]byte{byte(size)}, size)) {
						t.Fatalf("%s: body of %d differs", name, size)
					}
				}
				if err != nil {
					t.Fatalf("%s: body of %d: %v", name, size, err)
				}
			}
			if _, err := f.header(); err != io.EOF {
				t.Errorf("%s: at the end: %v", name, err)
			}
			f.close()
		}
	}
	// Cut at every byte of a short sequence.
	short := append(wire.Header{Length: 3}.Append(nil), "abc"...)
	for cut := range len(short) {
		f := frameReader{src: bytes.NewReader(short[:cut]), maxBytes: 10, counters: &readCounters{}, beforeRead: func() error { return nil }}
		h, err := f.header()
		if err == nil {
			err = f.body(make([]byte, h.Length))
		}
		if want := io.ErrUnexpectedEOF; (cut > 0 && err != want) || (cut == 0 && err != io.EOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		f.close()
	}
	f := frameReader{src: bytes.NewReader(all), maxBytes: 10, counters: &readCounters{}, beforeRead: func() error { return errReply }}
	if _, err := f.header(); !errors.Is(err, errReply) {
		t.Errorf("before read: %v", err)
	}
}

// TestPublishAllocs: the way from a read frame to QUIC allocates nothing.
func TestPublishAllocs(t *testing.T) {
	scope := wire.Scope{Tenant: "t1", Namespace: "default", Stream: "demo"}
	b, err := New(Config{Streams: []wire.Scope{scope}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sub := addTestSubscription(b, b.streams[scope], &testSink{}, true)
	frame := (&wire.PublishBatch{Scope: scope, Payloads: [][]byte{make([]byte, 256)}}).Append(nil)
	s := &clientStream{conn: &conn{broker: b, admission: budget{max: 1 << 20}}, grant: NewGrant("t1", []string{"stream.publish:stream:*"})}
	s.admission.admitted = make(chan struct{}, 1)
	src := bytes.NewReader(frame)
	s.in = frameReader{src: src, maxBytes: 1 << 20, counters: &s.conn.readCounts, beforeRead: s.replies.flush}
	step := func() {
		_, _ = src.Seek(0, io.SeekStart)
		h, err := s.in.header()
		if err == nil {
			err = s.publishBinary(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		sub.mu.Lock()
		sub.idle = true // so that the step writes the next one, if little went out lately
		sub.mu.Unlock()
		pumpTest(sub)
	}
	for range 2000 { // fill the ring, the pool and the maps
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n > 0.1 {
		t.Errorf("%.2f allocations a publish, want 0", n)
	}
	if sub.written == 0 || sub.written != sub.queue.published {
		t.Errorf("%d of %d messages were written", sub.written, sub.queue.published)
	}
	sub.close()
	sub.finish()
}
