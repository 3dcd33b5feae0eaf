package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"felix/internal/wire"
)

// addBodies seeds a fuzzer with the bodies of the samples that keep picks, and with each cut short.
func addBodies(f *testing.F, keep func(wire.Kind) bool) {
	for _, v := range samples {
		frame := encode(f, v)
		h, err := wire.ParseHeader(frame, 0)
		if err != nil {
			f.Fatal(err)
		}
		if kind, _ := h.Flags.Kind(); keep(kind) {
			body := frame[wire.HeaderLen:]
			f.Add(uint16(h.Flags), body)
			f.Add(uint16(h.Flags), body[:len(body)/2])
		}
	}
}

// checkError checks the class of an error, which bad flags come before any fault of the body.
func checkError(t *testing.T, flags wire.Flags, err error) {
	t.Helper()
	_, bad := flags.Kind()
	if !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrUnsupportedFlags) {
		t.Fatalf("error %v is neither ErrMalformed nor ErrUnsupportedFlags", err)
	}
	if bad != nil && !errors.Is(err, wire.ErrUnsupportedFlags) {
		t.Fatalf("flags %v: error %v, want ErrUnsupportedFlags", flags, err)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, v := range samples {
		f.Add(encode(f, v), 100)
	}
	f.Add([]byte("FLX1\x00\x01\x00\x00\xff\xff\xff\xff"), 0)
	f.Fuzz(func(t *testing.T, src []byte, limit int) {
		h, body, err := wire.ReadFrame(bytes.NewReader(src), limit, make([]byte, 7))
		if err == nil {
			if got := append(h.Append(nil), body...); !bytes.HasPrefix(src, got) {
				t.Fatalf("frame %x, read from %x", got, src)
			}
			return
		}
		if (err == io.EOF) != (len(src) == 0) {
			t.Fatalf("%d bytes: error %v", len(src), err)
		}
		parsed, parseErr := wire.ParseHeader(src, limit)
		if parseErr == nil && (err != io.ErrUnexpectedEOF || parsed.Length <= len(src)-wire.HeaderLen) {
			t.Fatalf("%d bytes, header %+v: error %v", len(src), parsed, err)
		}
	})
}

func FuzzPublishBatch(f *testing.F) {
	addBodies(f, func(k wire.Kind) bool { return k == wire.KindPublish || k == wire.KindPublishAcked })
	f.Add(uint16(1), []byte(names+"\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, bits uint16, body []byte) {
		flags := wire.Flags(bits)
		h, headErr := wire.ParsePublishHead(flags, body)
		b, err := wire.ParsePublishBatch(flags, body)
		if (headErr == nil) != (err == nil) {
			t.Fatalf("head: error %v, batch: error %v", headErr, err)
		}
		if h.Acked != b.Acked || h.RequestID != b.RequestID {
			t.Fatalf("head: acked %v, id %d; batch: %v, %d", h.Acked, h.RequestID, b.Acked, b.RequestID)
		}
		if want := flags.Has(wire.FlagPublish|wire.FlagAcked) && flags&^(wire.FlagPublish|wire.FlagAcked) == 0 && len(body) >= 8; h.Acked != want ||
			want && h.RequestID != binary.BigEndian.Uint64(body) {
			t.Fatalf("flags %v, body of %d bytes: acked %v, id %d", flags, len(body), h.Acked, h.RequestID)
		}
		if err != nil {
			checkError(t, flags, err)
			return
		}
		frame := b.Append(nil)
		if !bytes.Equal(frame[wire.HeaderLen:], body) || b.FrameLen() != len(frame) || b.Flags() != flags {
			t.Fatalf("%+v encodes as %x, want body %x", b, frame, body)
		}
		if err := b.Check(len(body)); err != nil && len(body) > 0 {
			t.Fatalf("Check refuses what was decoded: %v", err)
		}
		if h.Scope() != b.Scope || h.Count != len(b.Payloads) || !bytes.Equal(h.Tail, wire.AppendTail(nil, b.Payloads)) {
			t.Fatalf("head %+v does not fit batch %+v", h, b)
		}
		n := 0
		for p := range wire.TailPayloads(h.Tail) {
			n += len(p)
		}
		if n != h.PayloadBytes {
			t.Fatalf("payloads of %d bytes, PayloadBytes %d", n, h.PayloadBytes)
		}
	})
}

func FuzzEventBatch(f *testing.F) {
	addBodies(f, func(k wire.Kind) bool { return k == wire.KindEventShared || k == wire.KindEventPerSubscriber })
	f.Add(uint16(4), []byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, bits uint16, body []byte) {
		flags := wire.Flags(bits)
		b, err := wire.ParseEventBatch(flags, body, make([][]byte, 2))
		if err != nil {
			checkError(t, flags, err)
			return
		}
		frame := b.Append(nil)
		if !bytes.Equal(frame[wire.HeaderLen:], body) || b.FrameLen() != len(frame) || b.Flags() != flags {
			t.Fatalf("%+v encodes as %x, want body %x", b, frame, body)
		}
		if !b.HasSubscriptionID {
			tail := wire.AppendTail(nil, b.Payloads)
			if got := append(wire.AppendEventHeader(nil, len(tail), b.HasOffset, b.BaseOffset), tail...); !bytes.Equal(got, frame) {
				t.Fatalf("header and tail %x, want %x", got, frame)
			}
		}
	})
}

func FuzzPublishAck(f *testing.F) {
	addBodies(f, func(k wire.Kind) bool { return k == wire.KindPublishAck })
	f.Fuzz(func(t *testing.T, _ uint16, body []byte) {
		a, err := wire.ParsePublishAck(body)
		if err != nil {
			checkError(t, wire.FlagPublishAck, err)
			return
		}
		if got := a.Append(nil); !bytes.Equal(got[wire.HeaderLen:], body) {
			t.Fatalf("%+v encodes as %x, want body %x", a, got, body)
		}
	})
}

// FuzzTailPayloads: the walk over bytes that nobody has checked yields whole payloads only.
func FuzzTailPayloads(f *testing.F) {
	f.Add(wire.AppendTail(nil, [][]byte{[]byte("one"), {}}))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x01a\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, tail []byte) {
		var got [][]byte
		for p := range wire.TailPayloads(tail) {
			got = append(got, p)
		}
		if again := wire.AppendTail(nil, got)[4:]; len(tail) >= 4 && !bytes.HasPrefix(tail[4:], again) {
			t.Fatalf("payloads %x of tail %x", got, tail)
		}
		count, _, err := wire.CheckTail(tail)
		if err == nil && count != len(got) {
			t.Fatalf("%d payloads of %d", len(got), count)
		}
	})
}

// FuzzParseMessage: what decodes has one encoding, which decodes to the same. And it decodes only
// if encoding/json takes it for JSON, and the other way round.
func FuzzParseMessage(f *testing.F) {
	for _, v := range samples {
		if m, ok := v.(wire.Message); ok {
			f.Add([]byte(body(m)))
		}
	}
	for _, s := range []string{
		`{"type":"error","message":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000 naïve"}`,
		`{"type":"ok","x":[1,-2.5e+3,{"c":[[]]},true,false,null]}`,
		`{"type":"publish","tenant_id":"t","namespace":"n","stream":"s","payload":"aGk\/Pg=="}`,
		` { "type" : "ok" , "t\u0079pes" : 0.1E-7 } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := wire.ParseMessage(src)
		valid := json.Valid(src) && utf8.Valid(src)
		if err != nil {
			if m != nil || !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("message %+v, error %v", m, err)
			}
			// Two things that encoding/json lets pass are syntax errors here.
			tolerated := bytes.Contains(bytes.ToLower(src), []byte(`\ud`)) || bytes.Count(src, []byte("["))+bytes.Count(src, []byte("{")) > 128
			object := strings.HasPrefix(strings.TrimLeft(string(src), " \t\r\n"), "{")
			if valid && object && !tolerated && (errors.Is(err, wire.ErrSyntax) || errors.Is(err, wire.ErrTrailing)) {
				t.Fatalf("%q is JSON: %v", src, err)
			}
			return
		}
		if !valid {
			t.Fatalf("%q is not JSON, but is %+v", src, m)
		}
		frame := wire.AppendMessage(nil, m)
		h, err := wire.ParseHeader(frame, len(frame))
		if err != nil || h.Flags != 0 || h.Length != len(frame)-wire.HeaderLen {
			t.Fatalf("header %+v, %v, of a frame of %d bytes", h, err, len(frame))
		}
		if !json.Valid(frame[wire.HeaderLen:]) {
			t.Fatalf("%+v encodes as %q, which is not JSON", m, frame[wire.HeaderLen:])
		}
		again, err := wire.ParseMessage(frame[wire.HeaderLen:])
		if err != nil {
			t.Fatalf("%+v encodes as %q: %v", m, frame[wire.HeaderLen:], err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatalf("decoded again (-first +second):\n%s", diff)
		}
		if !bytes.Equal(wire.AppendMessage(nil, again), frame) {
			t.Fatalf("%+v has two encodings", m)
		}
	})
}

// FuzzJSONAgainstStandard asks encoding/json for every message what the strings, numbers and
// bytes in it are.
func FuzzJSONAgainstStandard(f *testing.F) {
	f.Add("hello", []byte("payload"), uint64(7))
	f.Add("\"\\/\b\f\n\r\t\x00é😀\u2028<>&\xff", []byte{}, uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, text string, payload []byte, id uint64) {
		if payload == nil {
			payload = []byte{}
		}
		type publish struct {
			Type      string   `json:"type"`
			TenantID  string   `json:"tenant_id"`
			Namespace string   `json:"namespace"`
			Stream    string   `json:"stream"`
			Payloads  [][]byte `json:"payloads"`
			RequestID uint64   `json:"request_id"`
		}
		theirs := publish{"publish_batch", text, "n", text + text, [][]byte{payload, {}, payload}, id}
		ours := wire.PublishMany{Scope: wire.Scope{Tenant: text, Namespace: "n", Stream: text + text}, Payloads: theirs.Payloads, RequestID: &id}

		var got publish
		if err := json.Unmarshal([]byte(body(ours)), &got); err != nil {
			t.Fatalf("%s: %v", body(ours), err)
		}
		valid := theirs
		valid.TenantID, valid.Stream = strings.ToValidUTF8(text, "\ufffd"), strings.ToValidUTF8(text+text, "\ufffd")
		if !utf8.ValidString(text) {
			// ToValidUTF8 makes one U+FFFD of a run of bad bytes, the encoders one of each byte.
			valid.TenantID, valid.Stream = got.TenantID, got.Stream
		}
		if diff := cmp.Diff(valid, got); diff != "" {
			t.Fatalf("read by encoding/json (-want +got):\n%s", diff)
		}

		text2, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.ParseMessage(text2)
		if err != nil {
			t.Fatalf("%s: %v", text2, err)
		}
		ours.Scope.Tenant, ours.Scope.Stream = got.TenantID, got.Stream
		if diff := cmp.Diff(wire.Message(ours), m); diff != "" {
			t.Fatalf("written by encoding/json (-want +got):\n%s", diff)
		}
	})
}
