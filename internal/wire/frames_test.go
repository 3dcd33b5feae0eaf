package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/wire"
)

// samples has each frame kind in each of its forms, with every optional field set and unset.
var samples = []any{
	wire.PublishBatch{Scope: demo},
	wire.PublishBatch{Scope: demo, Payloads: [][]byte{{}, []byte("a"), []byte("bcd")}},
	wire.PublishBatch{Acked: true, RequestID: 1<<64 - 1, AckMode: wire.AckPerMessage, Scope: demo, Payloads: hello},
	wire.PublishBatch{Acked: true, AckMode: wire.AckPerBatch, Payloads: hello},
	wire.EventBatch{},
	wire.EventBatch{HasOffset: true, BaseOffset: 1 << 40, Payloads: [][]byte{[]byte("a"), {}}},
	wire.EventBatch{HasSubscriptionID: true, SubscriptionID: 1 << 63, Payloads: hello},
	wire.EventBatch{HasSubscriptionID: true, SubscriptionID: 9, HasOffset: true, BaseOffset: 8, Payloads: hello},
	wire.PublishAck{RequestID: 3, OK: true},
	wire.PublishAck{RequestID: 4, Err: "overloaded: publish_queue_full"},
	wire.Auth{TenantID: "t1", Token: "a.b.c"},
	wire.Auth{TenantID: "t1", Token: "a.b.c", ClientFlags: ptr(wire.KnownFlags)},
	wire.AuthOK{ServerFlags: wire.KnownFlags},
	wire.Publish{Scope: demo, Payload: []byte{}, Ack: ptr(wire.AckNone)},
	wire.Publish{Scope: demo, Payload: []byte{0xfb, 0xff}, RequestID: ptr(uint64(5)), Ack: ptr(wire.AckPerMessage)},
	wire.PublishMany{Scope: demo, Payloads: [][]byte{}, Ack: ptr(wire.AckNone)},
	wire.PublishMany{Scope: demo, Payloads: [][]byte{[]byte("a"), {}, []byte("bcd")}, RequestID: ptr(uint64(0)), Ack: ptr(wire.AckPerBatch)},
	wire.PublishOK{RequestID: 1<<64 - 1},
	wire.PublishError{RequestID: 6, Message: "stream not found: tenant=t1 namespace=default stream=x"},
	wire.Subscribe{Scope: demo, SubscriptionID: ptr(uint64(3)), Start: &wire.Start{}},
	wire.Subscribe{Scope: demo, Start: &wire.Start{Kind: wire.StartEarliest}},
	wire.Subscribe{Scope: demo, Start: &wire.Start{Kind: wire.StartOffset, Offset: 41}},
	wire.Subscribed{SubscriptionID: 3},
	wire.SubscribeCursorError{Reason: wire.CursorTooOld, Requested: 1, Available: 2},
	wire.EventStreamHello{SubscriptionID: 3},
	wire.Event{Scope: demo, Payload: []byte("world"), Offset: ptr(uint64(0))},
	wire.EventMany{Scope: demo, Payloads: hello},
	wire.EventMany{Scope: demo, Payloads: hello, BaseOffset: ptr(uint64(41))},
	wire.CachePut{Scope: primary, Key: "k", Value: []byte("v")},
	wire.CachePut{Scope: primary, Key: "k", Value: []byte{}, RequestID: ptr(uint64(1)), TTLMs: ptr(uint64(0))},
	wire.CacheGet{Scope: primary, Key: "k", RequestID: ptr(uint64(2))},
	wire.CacheValue{Scope: primary, Key: "k"},
	wire.CacheValue{Scope: primary, Key: "k", Value: []byte{}, RequestID: ptr(uint64(3))},
	wire.CacheOK{RequestID: 1},
	wire.OK{},
	wire.Error{Message: "auth required"},
}

func TestRoundTrip(t *testing.T) {
	for _, v := range samples {
		frame := encode(t, v)
		got, err := decode(frame)
		if err != nil {
			t.Errorf("%+v: %v", v, err)
			continue
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%T after a round trip (-want +got):\n%s", v, diff)
		}
	}
}

// TestAppendKeepsPrefix: Append appends, whatever stands before, and FrameLen knows how much.
func TestAppendKeepsPrefix(t *testing.T) {
	for _, v := range samples {
		frame := encode(t, v)
		var got []byte
		n := len(frame)
		switch v := v.(type) {
		case wire.PublishBatch:
			got, n = v.Append([]byte("before")), v.FrameLen()
		case wire.EventBatch:
			got, n = v.Append([]byte("before")), v.FrameLen()
		case wire.PublishAck:
			got = v.Append([]byte("before"))
		case wire.Message:
			got = wire.AppendMessage([]byte("before"), v)
		}
		if want := "before" + string(frame); string(got) != want {
			t.Errorf("%T appended = %q, want %q", v, got, want)
		}
		if n != len(frame) {
			t.Errorf("%+v: FrameLen = %d, want %d", v, n, len(frame))
		}
	}
}

// TestEveryCut cuts every frame at every byte: as a stream that ends there, and as a body of which
// the rest is missing.
func TestEveryCut(t *testing.T) {
	for _, v := range samples {
		frame := encode(t, v)
		for n := range len(frame) {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if _, _, err := wire.ReadFrame(bytes.NewReader(frame[:n]), 0, nil); err != want {
				t.Errorf("%T: stream cut at byte %d of %d: error %v, want %v", v, n, len(frame), err, want)
			}
			if n < wire.HeaderLen {
				if _, err := wire.ParseHeader(frame[:n], 0); !errors.Is(err, wire.ErrShort) {
					t.Errorf("%T: header cut at byte %d: error %v, want ErrShort", v, n, err)
				}
				continue
			}
			cut := withBody(frame, frame[wire.HeaderLen:n])
			if got, err := decode(cut); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T: body cut at byte %d of %d: %+v, error %v, want ErrMalformed", v, n-wire.HeaderLen, len(frame)-wire.HeaderLen, got, err)
			}
		}
	}
}

func TestTrailingBytes(t *testing.T) {
	for _, v := range samples {
		frame := encode(t, v)
		long := withBody(frame, append(bytes.Clone(frame[wire.HeaderLen:]), 'x'))
		if got, err := decode(long); !errors.Is(err, wire.ErrTrailing) || !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%T with a byte more: %+v, error %v, want ErrTrailing", v, got, err)
		}
	}
}

// withBody is frame with another body and its length put right.
func withBody(frame, body []byte) []byte {
	h, err := wire.ParseHeader(frame, 0)
	if err != nil {
		panic(err)
	}
	h.Length = len(body)
	return append(h.Append(nil), body...)
}

func TestParseHeader(t *testing.T) {
	good := wire.Header{Flags: 0xffff, Length: 100}.Append(nil)
	edit := func(at int, b byte) []byte {
		c := bytes.Clone(good)
		c[at] = b
		return c
	}
	for _, tt := range []struct {
		name  string
		src   []byte
		limit int
		want  error
	}{
		{"unknown flags are returned, not judged", good, 0, nil},
		{"length at the limit", good, 100, nil},
		{"length over the limit", good, 99, wire.ErrFrameTooLarge},
		{"default limit, reached", wire.Header{Length: wire.DefaultMaxFrameBytes}.Append(nil), 0, nil},
		{"default limit, passed", wire.Header{Length: wire.DefaultMaxFrameBytes + 1}.Append(nil), 0, wire.ErrFrameTooLarge},
		{"length of 4 GiB less one", wire.Header{Length: 1<<32 - 1}.Append(nil), 0, wire.ErrFrameTooLarge},
		{"magic", edit(3, '2'), 0, wire.ErrMagic},
		{"version 0", edit(5, 0), 0, wire.ErrVersion},
		{"version 257", edit(4, 1), 0, wire.ErrVersion},
		{"nothing", nil, 0, wire.ErrShort},
	} {
		h, err := wire.ParseHeader(tt.src, tt.limit)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
		if err == nil && !bytes.Equal(h.Append(nil), tt.src) {
			t.Errorf("%s: %+v encodes as %x, want %x", tt.name, h, h.Append(nil), tt.src)
		}
		put := make([]byte, wire.HeaderLen+1)
		if h.Put(put); !bytes.Equal(put, append(h.Append(nil), 0)) {
			t.Errorf("%s: Put wrote %x, want %x", tt.name, put, h.Append(nil))
		}
	}
}

// TestReadFrameAllocation: a header that announces the whole limit, with nothing behind it, must
// not cost the limit in memory.
func TestReadFrameAllocation(t *testing.T) {
	src := wire.Header{Length: wire.DefaultMaxFrameBytes}.Append(nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := wire.ReadFrame(bytes.NewReader(src), 0, nil); err != io.ErrUnexpectedEOF {
		t.Errorf("error %v, want io.ErrUnexpectedEOF", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("a header alone made ReadFrame allocate %d bytes", got)
	}
}

func TestReadFrameBuffer(t *testing.T) {
	body := []byte(strings.Repeat("x", 300<<10))
	frame := append(wire.Header{Length: len(body)}.Append(nil), body...)
	for _, size := range []int{0, 1, 100 << 10, len(body), len(body) + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			buf := make([]byte, size)
			r := bytes.NewReader(append(bytes.Clone(frame), "next"...))
			h, got, err := wire.ReadFrame(r, 0, buf)
			if err != nil {
				t.Fatal(err)
			}
			if h.Length != len(body) || !bytes.Equal(got, body) {
				t.Errorf("body of %d bytes, want the %d written", len(got), len(body))
			}
			if inBuf := size > 0 && &got[0] == &buf[0]; inBuf != (size >= len(body)) {
				t.Errorf("body in the caller's buffer of %d bytes: %v", size, inBuf)
			}
			if rest, _ := io.ReadAll(r); string(rest) != "next" {
				t.Errorf("left in the stream: %q, want %q", rest, "next")
			}
		})
	}
}

// TestReadHeaderKeepsCause: an error of the stream itself, such as a reset, reaches the caller.
func TestReadHeaderKeepsCause(t *testing.T) {
	reset := errors.New("stream reset")
	good := wire.Header{Length: 5}.Append(nil)
	for n := range len(good) + 3 {
		src := append(bytes.Clone(good), "abc"...)[:n]
		_, _, err := wire.ReadFrame(io.MultiReader(bytes.NewReader(src), errReader{reset}), 0, nil)
		if !errors.Is(err, reset) {
			t.Errorf("reset after %d bytes: error %v, want %v", n, err, reset)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
