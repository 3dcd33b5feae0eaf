package client

import (
	"encoding/base64"
	"fmt"

	"felix/internal/wire"
)

// encoding is one publish frame to be made, in either encoding.
type encoding struct {
	scope    wire.Scope
	payloads [][]byte
	mode     wire.AckMode
	json     bool
}

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
		Scope: e.scope, Payloads: e.payloads,
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
	return frame, payload
}

func (e *encoding) append(dst []byte, id uint64) []byte {
	if !e.json {
		b := e.batch(id)
		return b.Append(dst)
	}
	return e.appendJSON(dst, id)
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
