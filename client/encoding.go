package client

import (
	"encoding/base64"
	"fmt"
	"slices"

	"felix/internal/wire"
)

// encoding is one publish frame to be made, in either encoding.
type encoding struct {
	scope    wire.Scope
	payloads [][]byte
	room     []int // if not nil, in place of payloads: sizes of those that fill writes
	mode     wire.AckMode
	json     bool
}

func (e *encoding) messages() int { return max(len(e.payloads), len(e.room)) }

// useJSON decides how this worker encodes: what the broker did not advertise must not be sent.
func (w *worker) useJSON(acked bool) bool {
	need := wire.FlagPublish
	if acked {
		need |= wire.FlagAcked
	}
	return w.p.cfg.Encoding == EncodingJSON || !w.flags.Has(need)
}

func (e *encoding) batch(id uint64) wire.PublishBatch {
	return wire.PublishBatch{
		Acked: e.mode != wire.AckNone, AckMode: e.mode, RequestID: id,
		Scope: e.scope, Payloads: e.payloads, Room: e.room,
	}
}

// check refuses what no frame can carry, before any memory is taken for it.
func (e *encoding) check(maxFrameBytes int) error {
	if e.mode > wire.AckPerBatch {
		return fmt.Errorf("ack mode %d: want none, per_message or per_batch", e.mode)
	}
	if !e.json {
		b := e.batch(0)
		return b.Check(maxFrameBytes)
	}
	if err := wire.CheckRoom(e.room, maxFrameBytes); err != nil {
		return err
	}
	if size, _ := e.size(); size-wire.HeaderLen > maxFrameBytes {
		return fmt.Errorf("JSON of up to %d bytes: %w: at most %d", size, wire.ErrTooLong, maxFrameBytes)
	}
	return nil
}

// size returns the bytes of the frame (exact for binary, an upper bound for JSON) and of the
// payloads in it.
func (e *encoding) size() (frame, payload int) {
	for _, p := range e.payloads {
		payload += len(p)
	}
	for _, n := range e.room {
		payload += n
	}
	if !e.json {
		b := e.batch(0)
		return b.FrameLen(), payload
	}
	// Field names, request id and ack mode are below 200 bytes; a name's byte takes at most six
	// (\u00XX); each payload has quotes and a comma.
	frame = wire.HeaderLen + 200 + 6*(len(e.scope.Tenant)+len(e.scope.Namespace)+len(e.scope.Stream))
	for _, p := range e.payloads {
		frame += base64.StdEncoding.EncodedLen(len(p)) + 3
	}
	for _, n := range e.room {
		frame += base64.StdEncoding.EncodedLen(n) + 3
	}
	return frame, payload
}

// append makes the frame in f. If there is room to be filled, fill gets it; text cannot be written in
// place, so for JSON it gets memory that the frame is then made from.
func (e *encoding) append(f *buffer, id uint64, fill func([][]byte)) {
	if e.json {
		if e.room != nil {
			e.payloads = newPayloads(e.room)
			fill(slices.Clone(e.payloads)) // what fill makes of the list itself changes nothing, as below
		}
		f.b = e.appendJSON(f.b, id)
		return
	}
	b := e.batch(id)
	f.b = b.Append(f.b)
	if e.room != nil {
		f.payloads = rooms(f.payloads[:0], f.b[len(f.b)-wire.TailRoomLen(e.room):])
		e.payloads = f.payloads
		fill(e.payloads)
	}
}

// rooms appends the payloads of a tail that has just been made.
func rooms(dst [][]byte, tail []byte) [][]byte {
	for p := range wire.TailPayloads(tail) {
		dst = append(dst, p)
	}
	return dst
}

func newPayloads(sizes []int) [][]byte {
	payloads := make([][]byte, len(sizes))
	for i, n := range sizes {
		payloads[i] = make([]byte, n)
	}
	return payloads
}

// appendJSON is apart so that only here e's parts go to the heap.
func (e *encoding) appendJSON(dst []byte, id uint64) []byte {
	// The mode is always spelled out: an absent one means acked.
	mode := e.mode
	var request *uint64
	if mode != wire.AckNone {
		request = &id
	}
	if len(e.payloads) == 1 {
		return wire.AppendMessage(dst, wire.Publish{Scope: e.scope, Payload: e.payloads[0], RequestID: request, Ack: &mode})
	}
	return wire.AppendMessage(dst, wire.PublishMany{Scope: e.scope, Payloads: e.payloads, RequestID: request, Ack: &mode})
}
