package broker

import (
	"fmt"
	"time"

	"felix/internal/wire"
)

// publishBinary reads a publish batch frame's body and publishes it.
func (s *clientStream) publishBinary(h wire.Header) error {
	b := s.conn.broker.pool.get(h.Length)
	body := b.body(h.Length)
	if err := s.in.body(body); err != nil {
		b.release()
		return err
	}
	head, err := wire.ParsePublishHead(h.Flags, body)
	var a answer
	if head.Acked && s.send != nil {
		a = answer{answerBinary, head.RequestID}
	}
	if err != nil {
		b.release()
		if a.form == answerNone {
			return protocolError(err)
		}
		s.replies.answer(a, err.Error())
		return nil
	}
	// The names are looked at before the batch is sealed, which overwrites them. No allocation:
	// the compiler sees that the key does not outlive the look-up.
	st := s.routes[wire.Scope{Tenant: string(head.Tenant), Namespace: string(head.Namespace), Stream: string(head.Stream)}]
	if st == nil {
		var refused *refusal
		var message string
		if st, refused, message = s.route(head.Scope()); st == nil {
			b.release()
			s.conn.broker.ingress.reject(head.Count, head.PayloadBytes)
			if a.form != answerNone {
				s.replies.answer(a, message)
			} else if refused != nil {
				return refused
			}
			return nil
		}
	}
	end := eventHeadBytes + len(body)
	b.setTail(end-len(head.Tail), end, head.Count, head.PayloadBytes)
	return s.publish(st, b, a)
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

// publish takes a batch, and the caller's hold on it, through checkpoints 3 and 4, and answers it:
// when it is admitted, or, with commit acks, lets whoever fans it out answer it.
func (s *clientStream) publish(st *stream, b *batch, a answer) error {
	if b.count == 0 {
		b.release()
		s.replies.answer(a, "")
		return nil
	}
	s.conn.broker.sample(b)
	in := s.conn.broker.ingress
	var r receipt
	if s.replies.commit && a.form != answerNone {
		r = receipt{&s.replies, s.replies.expect(a)}
	}
	b.way.held, b.way.conn, b.way.owed = b.bodyBytes(), &s.conn.admission, r
	policy := in.cfg.enqueuePolicy(a.form != answerNone)
	why, waits := in.submit(b, &st.lane, policy, &s.admission)
	if waits {
		var gone bool
		if why, gone = s.await(policy); gone {
			b.release()
			return errGone
		}
	}
	switch {
	case why == reasonNone && r.to != nil:
		s.replies.limit(r.seq)
	case why == reasonNone:
		s.replies.answer(a, "")
	default:
		b.release()
		if r.to != nil {
			r.give(why.overloaded())
		} else {
			s.replies.answer(a, why.overloaded())
		}
	}
	return nil
}

// await waits until there is room for the publish that was submitted, for which it returns no
// reason, or its time is up, or the connection is gone.
func (s *clientStream) await(policy enqueuePolicy) (why reason, gone bool) {
	s.replies.leave()
	defer s.replies.attend()
	in := s.conn.broker.ingress
	var expired <-chan time.Time
	if policy == enqueueWait {
		timer := time.NewTimer(in.cfg.PublishQueueWait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-s.admission.admitted:
		return reasonNone, false
	case <-s.conn.gone:
		gone = true
	case <-expired:
	}
	why = in.giveUp(&s.admission, gone)
	return why, gone && why != reasonNone
}

// publishJSON executes a publish or publish_batch message. Absent ack means acked.
func (s *clientStream) publishJSON(scope wire.Scope, payloads [][]byte, id *uint64, ack *wire.AckMode) error {
	var a answer
	if s.send != nil && (ack == nil || *ack != wire.AckNone) {
		if id == nil {
			s.replies.message(wire.Error{Message: "missing request_id for acked publish"})
			return nil
		}
		a = answer{answerJSON, *id}
	}
	count, size := len(payloads), 0
	for _, p := range payloads {
		size += len(p)
	}
	in := s.conn.broker.ingress
	st, refused, message := s.route(scope)
	if st == nil {
		in.reject(count, size)
		if refused != nil {
			refused.request = id
			return refused
		}
		s.replies.answer(a, message)
		return nil
	}
	// Four bytes of length each are more than the two quotes of an empty JSON payload.
	tailLen := wire.TailLen(payloads)
	if limit := in.cfg.MaxFrameBytes - eventHeadBytes; tailLen > limit {
		in.reject(count, size)
		err := fmt.Errorf("malformed publish batch: %d bytes as an event batch, more than %d", tailLen, limit)
		if a.form == answerNone {
			return protocolError(err)
		}
		s.replies.answer(a, err.Error())
		return nil
	}
	b := s.conn.broker.pool.get(tailLen)
	wire.AppendTail(b.body(tailLen)[:0], payloads)
	b.setTail(eventHeadBytes, eventHeadBytes+tailLen, count, size)
	return s.publish(st, b, a)
}
