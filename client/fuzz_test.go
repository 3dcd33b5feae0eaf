package client

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"felix/internal/wire"
)

// chunked returns its data in pieces of the given sizes, in turn, and a timeout between any two,
// as a QUIC stream with a read deadline does.
type chunked struct {
	data  []byte
	sizes []byte
	turn  int
	pause bool
}

var errPause = errors.New("pause")

func (c *chunked) Read(p []byte) (int, error) {
	if c.pause = !c.pause; c.pause {
		return 0, errPause
	}
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.turn%len(c.sizes)]) + 1
		c.turn++
	}
	n = copy(p, c.data[:min(n, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// However a stream is cut into reads, and interrupted between them, the frames are those that a
// plain reader finds, with the same error at the end.
func FuzzFrameReader(f *testing.F) {
	two := append(events(1, "a", "b"), wire.PublishAck{RequestID: 3, OK: true}.Append(nil)...)
	f.Add(two, []byte{0})
	f.Add(two[:len(two)-1], []byte{10, 3})
	f.Add(append(events(1, string(make([]byte, 200))), two...), []byte{100})
	f.Add([]byte("HTTP/1.1 400"), []byte{1})
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		const limit, buffer = 1 << 12, 64 // most frames are larger than the buffer
		in := newFrameReader(&chunked{data: data, sizes: sizes}, buffer, limit)
		plain := bytes.NewReader(data)
		for {
			wantHead, wantBody, wantErr := wire.ReadFrame(plain, limit, nil)
			ready := in.ready()
			head, body, err := in.next()
			if ready && err != nil && wantErr == nil {
				t.Fatalf("ready, but next = %v", err)
			}
			for errors.Is(err, errPause) {
				head, body, err = in.next()
			}
			if wantErr != nil {
				for _, kind := range []error{io.EOF, io.ErrUnexpectedEOF, wire.ErrMagic, wire.ErrVersion, wire.ErrFrameTooLarge} {
					if errors.Is(err, kind) != errors.Is(wantErr, kind) {
						t.Fatalf("error %v, want %v", err, wantErr)
					}
				}
				return
			}
			if err != nil || head != wantHead || !bytes.Equal(body, wantBody) {
				t.Fatalf("frame %v of %d bytes, %v; want %v of %d bytes", head, len(body), err, wantHead, len(wantBody))
			}
		}
	})
}

// What a broker sends on a publish stream or an event stream is either understood or an error.
func FuzzFrames(f *testing.F) {
	id := uint64(1)
	for _, frame := range [][]byte{
		events(1, "a", "b"),
		wire.PublishAck{RequestID: 3, Err: "no"}.Append(nil),
		wire.AppendMessage(nil, wire.PublishError{RequestID: 1, Message: "no"}),
		wire.AppendMessage(nil, wire.Error{Message: "no"}),
		wire.AppendMessage(nil, wire.EventMany{Scope: demo, Payloads: payloads("x"), BaseOffset: &id}),
	} {
		h, err := wire.ParseHeader(frame, len(frame))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(h.Flags), frame[wire.HeaderLen:])
	}
	f.Fuzz(func(t *testing.T, flags uint16, body []byte) {
		h := wire.Header{Flags: wire.Flags(flags), Length: len(body)}
		if r, err := parseReply(h, body); err != nil && r != (reply{}) {
			t.Errorf("reply %+v beside error %v", r, err)
		}
		d := eventDecoder{id: 1, scope: demo}
		ev, err := d.decode(h, body)
		if err != nil {
			if ev.Payloads != nil {
				t.Errorf("payloads beside error %v", err)
			}
			return
		}
		var sum int
		for _, p := range ev.Payloads {
			sum += len(p)
		}
		if sum > len(body) {
			t.Errorf("%d payload bytes from a body of %d", sum, len(body))
		}
	})
}
