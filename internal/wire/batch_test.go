package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"felix/internal/wire"
)

// names is the scope of a publish body: t1, default, demo.
const names = "\x00\x02t1\x00\x07default\x00\x04demo"

// A frame with room that is filled afterwards is the frame of the same payloads.
func TestRoomIsWhatPayloadsAre(t *testing.T) {
	for _, texts := range [][]string{{}, {""}, {"one"}, {"a", "", "bcd"}, {strings.Repeat("x", 5000), "y"}} {
		payloads, sizes := [][]byte{}, []int{}
		for _, text := range texts {
			payloads, sizes = append(payloads, []byte(text)), append(sizes, len(text))
		}
		for _, acked := range []bool{false, true} {
			whole := wire.PublishBatch{Acked: acked, RequestID: 7, AckMode: wire.AckNone, Scope: wire.Scope{Tenant: "t1", Namespace: "default", Stream: "demo"}, Payloads: payloads}
			if acked {
				whole.AckMode = wire.AckPerBatch
			}
			empty := whole
			empty.Payloads, empty.Room = nil, sizes
			if err := empty.Check(0); err != nil || empty.FrameLen() != whole.FrameLen() {
				t.Errorf("%q: %d bytes, %v; want %d", texts, empty.FrameLen(), err, whole.FrameLen())
			}
			dirty := bytes.Repeat([]byte("z"), whole.FrameLen())
			for _, dst := range [][]byte{nil, dirty[:0]} {
				frame := empty.Append(dst)
				rooms, err := wire.ParseTail(frame[len(frame)-wire.TailRoomLen(sizes):], nil)
				if err != nil || len(rooms) != len(payloads) {
					t.Fatalf("%q: %d rooms, %v", texts, len(rooms), err)
				}
				for i, room := range rooms {
					copy(room, payloads[i])
				}
				if want := whole.Append(nil); !bytes.Equal(frame, want) {
					t.Errorf("%q: got %x, want %x", texts, frame, want)
				}
			}
		}
	}
}

func TestMalformedPublish(t *testing.T) {
	const acked, unacked = wire.FlagPublish | wire.FlagAcked, wire.FlagPublish
	for _, tt := range []struct {
		name   string
		flags  wire.Flags
		body   string
		want   error
		text   string
		hasID  bool
		wantID uint64
	}{
		{"no request id: nobody can be answered", acked, "\x00\x00\x00\x00\x00\x00\x00", wire.ErrShort,
			"malformed publish batch: request_id: too short", false, 0},
		{"the id is known, the mode is missing", acked, "\x00\x00\x00\x00\x00\x00\x00\x07", wire.ErrShort,
			"malformed publish batch: ack_mode: too short", true, 7},
		{"an acked frame cannot ask for no ack", acked, "\x00\x00\x00\x00\x00\x00\x00\x07\x00" + names + "\x00\x00\x00\x00", wire.ErrValue,
			"malformed publish batch: ack_mode: bad value 0: want 1 (per_message) or 2 (per_batch)", true, 7},
		{"mode 3", acked, "\x00\x00\x00\x00\x00\x00\x00\x07\x03" + names + "\x00\x00\x00\x00", wire.ErrValue,
			"malformed publish batch: ack_mode: bad value 3: want 1 (per_message) or 2 (per_batch)", true, 7},
		{"a name longer than the body", acked, "\x00\x00\x00\x00\x00\x00\x00\x07\x01\xff\xfft1", wire.ErrShort,
			"malformed publish batch: tenant_id: too short: 2 bytes of 65535", true, 7},
		{"a name that is not UTF-8", unacked, "\x00\x01\xff\x00\x00\x00\x00\x00\x00\x00\x00", wire.ErrValue,
			"malformed publish batch: tenant_id: bad value: not UTF-8", false, 0},
		{"4 Gi payloads in 8 bytes", unacked, names + "\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", wire.ErrCount,
			"malformed publish batch: count 4294967295, 8 bytes: count exceeds the bytes that follow", false, 0},
		{"one payload more than 4 bytes each allow", unacked, names + "\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", wire.ErrCount,
			"malformed publish batch: count 2, 7 bytes: count exceeds the bytes that follow", false, 0},
		{"a payload of 4 GiB", unacked, names + "\x00\x00\x00\x01\xff\xff\xff\xffabc", wire.ErrShort,
			"malformed publish batch: payload 0 of 1: too short: 3 bytes of 4294967295", false, 0},
		{"a first payload that takes the room of the second", unacked, names + "\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00", wire.ErrShort,
			"malformed publish batch: payload 1 of 2: too short", false, 0},
		{"a byte too many", unacked, names + "\x00\x00\x00\x00x", wire.ErrTrailing,
			"malformed publish batch: trailing bytes: 1", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := wire.ParsePublishHead(tt.flags, []byte(tt.body))
			if !errors.Is(err, tt.want) || !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err.Error() != tt.text {
				t.Errorf("error %q, want %q", err, tt.text)
			}
			if h.Acked != tt.hasID || h.RequestID != tt.wantID {
				t.Errorf("acked %v, request id %d, want %v, %d", h.Acked, h.RequestID, tt.hasID, tt.wantID)
			}
			b, err := wire.ParsePublishBatch(tt.flags, []byte(tt.body))
			if err == nil || err.Error() != tt.text || b.Acked != tt.hasID || b.RequestID != tt.wantID {
				t.Errorf("ParsePublishBatch: acked %v, request id %d, error %v; want as the head", b.Acked, b.RequestID, err)
			}
		})
	}
}

func TestMalformedOthers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse func() error
		want  error
	}{
		{"ack status 2", func() error {
			_, err := wire.ParsePublishAck([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00"))
			return err
		}, wire.ErrValue},
		{"event batch of 4 Gi payloads", func() error {
			_, err := wire.ParseEventBatch(wire.FlagEventShared, []byte("\xff\xff\xff\xff"), nil)
			return err
		}, wire.ErrCount},
		{"publish flags on an event parser", func() error {
			_, err := wire.ParseEventBatch(wire.FlagPublish, []byte("\x00\x00\x00\x00"), nil)
			return err
		}, wire.ErrUnsupportedFlags},
		{"both event flags", func() error {
			_, err := wire.ParseEventBatch(wire.FlagEventShared|wire.FlagEventPerSubscriber, make([]byte, 12), nil)
			return err
		}, wire.ErrUnsupportedFlags},
		{"offsets on a publish", func() error {
			_, err := wire.ParsePublishBatch(wire.FlagPublish|wire.FlagEventOffsets, []byte(names+"\x00\x00\x00\x00"))
			return err
		}, wire.ErrUnsupportedFlags},
		{"acked without publish", func() error {
			_, err := wire.ParsePublishHead(wire.FlagAcked, make([]byte, 19))
			return err
		}, wire.ErrUnsupportedFlags},
	} {
		if err := tt.parse(); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestPublishHeadFree: a broker reads every publish through it, so it must not allocate.
func TestPublishHeadFree(t *testing.T) {
	b := wire.PublishBatch{Acked: true, RequestID: 7, AckMode: wire.AckPerBatch, Scope: demo, Payloads: [][]byte{[]byte("hello"), {}, []byte("you")}}
	body := b.Append(nil)[wire.HeaderLen:]
	var h wire.PublishHead
	allocs := testing.AllocsPerRun(100, func() {
		var err error
		if h, err = wire.ParsePublishHead(b.Flags(), body); err != nil {
			t.Fatal(err)
		}
		n := 0
		for p := range wire.TailPayloads(h.Tail) {
			n += len(p)
		}
		if n != h.PayloadBytes {
			t.Fatalf("payloads of %d bytes, want %d", n, h.PayloadBytes)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a publish, want none", allocs)
	}
	if h.Count != 3 || h.PayloadBytes != 8 || h.Scope() != demo {
		t.Errorf("count %d, bytes %d, scope %s; want 3, 8, %s", h.Count, h.PayloadBytes, h.Scope(), demo)
	}
}

// TestForwardedTail: the tail of a publish behind an event header is the event batch, so that a
// broker can write the header over the scope and send the rest as it came.
func TestForwardedTail(t *testing.T) {
	payloads := [][]byte{[]byte("hello"), {}, []byte("you")}
	pub := wire.PublishBatch{Scope: demo, Payloads: payloads}
	for _, want := range []wire.EventBatch{
		{Payloads: payloads},
		{HasOffset: true, BaseOffset: 41, Payloads: payloads},
	} {
		frame := pub.Append(nil)
		h, err := wire.ParsePublishHead(pub.Flags(), frame[wire.HeaderLen:])
		if err != nil {
			t.Fatal(err)
		}
		n := wire.EventHeaderLen(want.HasOffset)
		start := len(frame) - len(h.Tail) - n
		wire.AppendEventHeader(frame[start:start:start+n], len(h.Tail), want.HasOffset, want.BaseOffset)
		if got := frame[start:]; !bytes.Equal(got, want.Append(nil)) {
			t.Errorf("in place: %x, want %x", got, want.Append(nil))
		}
	}
}

// TestPayloadsAreApart: payloads alias the body, and appending to one must not run into the next.
func TestPayloadsAreApart(t *testing.T) {
	body := (&wire.EventBatch{Payloads: [][]byte{[]byte("one"), []byte("two")}}).Append(nil)[wire.HeaderLen:]
	scratch := make([][]byte, 5, 8)
	b, err := wire.ParseEventBatch(wire.FlagEventShared, body, scratch)
	if err != nil {
		t.Fatal(err)
	}
	if &b.Payloads[0] != &scratch[0] || len(b.Payloads) != 2 {
		t.Errorf("%d payloads, not in the scratch slice that had room", len(b.Payloads))
	}
	_ = append(b.Payloads[0], "overruns"...)
	if got := string(b.Payloads[1]); got != "two" {
		t.Errorf("second payload = %q after an append to the first, want %q", got, "two")
	}
}

// TestTailPayloadsOfAnything: bytes that no check has passed end the walk, without a panic.
func TestTailPayloadsOfAnything(t *testing.T) {
	tail := wire.AppendTail(nil, [][]byte{[]byte("one"), []byte("two")})
	for n := range len(tail) {
		got := 0
		for range wire.TailPayloads(tail[:n]) {
			got++
		}
		if want := max(0, n-4) / 7; got != want {
			t.Errorf("%d payloads in the first %d bytes, want %d", got, n, want)
		}
	}
	for range wire.TailPayloads(tail) {
		break // an iterator that goes on after this panics by itself
	}
}

func TestPublishCheck(t *testing.T) {
	long := strings.Repeat("n", 65535)
	for _, tt := range []struct {
		name  string
		batch wire.PublishBatch
		limit int
		want  string // "" for none
	}{
		{"the longest names", wire.PublishBatch{Scope: wire.Scope{Tenant: long, Namespace: long, Stream: long}}, 0, ""},
		{"a longer one", wire.PublishBatch{Scope: wire.Scope{Tenant: long, Namespace: long + "n", Stream: long}}, 0,
			"publish batch: namespace of 65536 bytes: too long: at most 65535"},
		{"not UTF-8", wire.PublishBatch{Scope: wire.Scope{Tenant: "t", Namespace: "n", Stream: "\xff"}}, 0,
			`publish batch: stream "\xff": not UTF-8`},
		{"a body of exactly the limit", wire.PublishBatch{Scope: demo, Payloads: hello}, 32, ""},
		{"a body over the limit", wire.PublishBatch{Scope: demo, Payloads: hello}, 31,
			"publish batch of 1 payloads, 32 bytes: too long: at most 31"},
		{"over the default limit", wire.PublishBatch{Scope: demo, Payloads: [][]byte{make([]byte, 16<<20)}}, 0,
			"publish batch of 1 payloads, 16777243 bytes: too long: at most 16777216"},
		{"acked without a mode", wire.PublishBatch{Acked: true, Scope: demo}, 0,
			"acked publish batch: ack mode none: want per_message or per_batch"},
		{"unacked with one", wire.PublishBatch{AckMode: wire.AckPerBatch, Scope: demo}, 0,
			"unacked publish batch: ack mode per_batch: want none"},
	} {
		got := ""
		if err := tt.batch.Check(tt.limit); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: error %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestLongAckMessage: an error text longer than its length field is cut between two characters,
// and the frame stays whole.
func TestLongAckMessage(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int // bytes left
	}{
		{"just fits", strings.Repeat("a", 65535), 65535},
		{"ASCII", strings.Repeat("a", 70000), 65535},
		{"three-byte characters, 65535 = 3 x 21845", strings.Repeat("€", 30000), 65535},
		{"shifted by one", "a" + strings.Repeat("€", 30000), 65533},
		{"four-byte characters", strings.Repeat("😀", 20000), 65532},
	} {
		a := wire.PublishAck{RequestID: 1, Err: tt.text}
		got, err := wire.ParsePublishAck(a.Append(nil)[wire.HeaderLen:])
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if len(got.Err) != tt.want || !strings.HasPrefix(tt.text, got.Err) {
			t.Errorf("%s: %d bytes, want the first %d", tt.name, len(got.Err), tt.want)
		}
	}
}
