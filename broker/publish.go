package broker

import (
	"fmt"

	"felix/internal/wire"
)

// publishBinary executes a publish batch frame, body and reply included.
func (s *clientStream) publishBinary(h wire.Header) error {
	b := s.conn.broker.pool.get(h.Length)
	defer b.release()
	body := b.body(h.Length)
	if err := s.in.body(body); err != nil {
		return err
	}
	head, err := wire.ParsePublishHead(h.Flags, body)
	acked := head.Acked && s.send != nil
	if err != nil {
		if !acked {
			return protocolError(err)
		}
		s.ack(head.RequestID, err.Error())
		return nil
	}
	s.conn.flow.bytesIn.Add(uint64(head.PayloadBytes))
	s.conn.flow.received.Add(uint64(head.Count))

	// The names are looked at before the batch is sealed, which overwrites them. No allocation:
	// the compiler sees that the key does not outlive the look-up.
	st := s.routes[wire.Scope{Tenant: string(head.Tenant), Namespace: string(head.Namespace), Stream: string(head.Stream)}]
	if st == nil {
		var refused *refusal
		var message string
		if st, refused, message = s.route(head.Scope()); st == nil {
			s.conn.flow.rejected.Add(uint64(head.Count))
			if refused != nil && !acked {
				return refused
			}
			if acked {
				s.ack(head.RequestID, message)
			}
			return nil
		}
	}
	end := eventHeadBytes + len(body)
	b.setTail(end-len(head.Tail), end, head.Count, head.PayloadBytes)
	if err := s.publish(st, b); err != nil {
		return err
	}
	if acked {
		s.ack(head.RequestID, "")
	}
	return nil
}

// ack owes the client the answer to an acked binary publish.
func (s *clientStream) ack(id uint64, message string) {
	s.out = wire.PublishAck{RequestID: id, Err: message, OK: message == ""}.Append(s.out)
}

// route finds the stream that this client stream may publish to and remembers it. Without one,
// the message says why; a refusal too if it is about the client's rights.
func (s *clientStream) route(scope wire.Scope) (st *stream, refused *refusal, message string) {
	if r := s.allowed(ActionPublish, scope); r != nil {
		return nil, r, r.message
	}
	if st = s.conn.broker.streams[scope]; st == nil {
		return nil, nil, streamNotFound(scope)
	}
	if s.routes == nil {
		s.routes = make(map[wire.Scope]*stream)
	}
	s.routes[scope] = st // bounded: only registered scopes come here
	return st, nil, ""
}

// publish executes a publish. The caller keeps its hold on the batch.
//
// Checkpoints 3 and 4 will stand here: admission of the batch's bytes, and the scheduler's queue,
// whose executors take over the rest.
func (s *clientStream) publish(st *stream, b *batch) error {
	if b.count > 0 && !st.publish(b, &s.wait, s.woken, s.conn.gone, s.tryFlush) {
		s.conn.flow.dropped.Add(uint64(b.count))
		return errGone
	}
	s.conn.flow.accepted.Add(uint64(b.count))
	return nil
}

// publishJSON executes a publish or publish_batch message. Absent ack means acked.
func (s *clientStream) publishJSON(scope wire.Scope, payloads [][]byte, id *uint64, ack *wire.AckMode) error {
	acked := s.send != nil && (ack == nil || *ack != wire.AckNone)
	if acked && id == nil {
		s.reply(wire.Error{Message: "missing request_id for acked publish"})
		return nil
	}
	count, size := len(payloads), 0
	for _, p := range payloads {
		size += len(p)
	}
	s.conn.flow.bytesIn.Add(uint64(size))
	s.conn.flow.received.Add(uint64(count))
	st, refused, message := s.route(scope)
	if st == nil {
		s.conn.flow.rejected.Add(uint64(count))
		switch {
		case refused != nil:
			refused.request = id
			return refused
		case acked:
			s.reply(wire.PublishError{RequestID: *id, Message: message})
		}
		return nil
	}
	// Four bytes of length each are more than the two quotes of an empty JSON payload.
	tailLen := wire.TailLen(payloads)
	if limit := s.conn.broker.cfg.MaxFrameBytes - eventHeadBytes; tailLen > limit {
		s.conn.flow.rejected.Add(uint64(count))
		err := fmt.Errorf("malformed publish batch: %d bytes as an event batch, more than %d", tailLen, limit)
		if !acked {
			return protocolError(err)
		}
		s.reply(wire.PublishError{RequestID: *id, Message: err.Error()})
		return nil
	}
	b := s.conn.broker.pool.get(tailLen)
	defer b.release()
	wire.AppendTail(b.body(tailLen)[:0], payloads)
	b.setTail(eventHeadBytes, eventHeadBytes+tailLen, count, size)
	if err := s.publish(st, b); err != nil {
		return err
	}
	if acked {
		s.reply(wire.PublishOK{RequestID: *id})
	}
	return nil
}
