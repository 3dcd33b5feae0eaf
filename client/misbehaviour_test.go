package client

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"felix/internal/transport"
	"felix/internal/wire"
)

// Each kind of misbehaviour ends the worker, fails what was queued with that cause, and is
// counted under it; nothing hangs.
func TestMisbehavingBroker(t *testing.T) {
	next := func(f *fakeStream) wire.PublishBatch {
		b, _, _ := f.publish()
		return b
	}
	for _, tt := range []struct {
		name   string
		script func(f *fakeStream)
		acked  uint64 // of the four publishes
		cause  FailCause
	}{
		{"acks out of order", func(f *fakeStream) {
			a, b := next(f), next(f)
			f.ack(b.RequestID, "")
			f.ack(a.RequestID, "")
			io.Copy(io.Discard, f.s)
		}, 0, CauseOrder},
		{"ack of nothing", func(f *fakeStream) {
			f.ack(next(f).RequestID, "")
			f.ack(77, "")
			io.Copy(io.Discard, f.s)
		}, 1, CauseOrder},
		{"the same ack twice", func(f *fakeStream) {
			a := next(f)
			f.ack(a.RequestID, "")
			f.ack(a.RequestID, "")
			io.Copy(io.Discard, f.s)
		}, 1, CauseOrder},
		{"garbage", func(f *fakeStream) {
			f.ack(next(f).RequestID, "")
			f.s.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			io.Copy(io.Discard, f.s)
		}, 1, CauseDecode},
		{"a frame that is no ack", func(f *fakeStream) {
			next(f)
			f.s.Write((&wire.EventBatch{Payloads: payloads("x")}).Append(nil))
			io.Copy(io.Discard, f.s)
		}, 0, CauseDecode},
		{"an ack cut short", func(f *fakeStream) {
			frame := wire.PublishAck{RequestID: next(f).RequestID, OK: true}.Append(nil)
			f.s.Write(frame[:len(frame)-1])
		}, 0, CauseDecode},
		{"silence", func(f *fakeStream) {
			f.ack(next(f).RequestID, "")
			io.Copy(io.Discard, f.s)
			<-f.conn.Context().Done()
		}, 1, CauseTimeout},
		{"an error message", func(f *fakeStream) {
			next(f)
			f.send(wire.Error{Message: "unsupported frame flags"})
			io.Copy(io.Discard, f.s)
		}, 0, CauseBroker},
		{"the stream ended with acks owed", func(f *fakeStream) { next(f) }, 0, CauseBroker},
		{"the stream reset", func(f *fakeStream) {
			next(f)
			f.s.CancelRead(1)
			f.s.CancelWrite(1)
		}, 0, CauseBroker},
		{"the connection closed", func(f *fakeStream) {
			next(f)
			f.conn.CloseWithError(transport.CodeProtocol, "no")
		}, 0, CauseConnection},
	} {
		t.Run(tt.name, func(t *testing.T) {
			publishing(t, tt.script, nil, func(t *testing.T, p *Publisher) {
				var acks []*Ack
				for i := range 4 {
					acks = append(acks, publish(t, p, wire.AckPerBatch, fmt.Sprint(i), "second"))
				}
				start := time.Now()
				var failed uint64
				for i, a := range acks {
					err := a.Wait(within(t, time.Minute))
					if err == nil {
						if failed > 0 {
							t.Errorf("ack %d succeeded after a failure", i)
						}
						continue
					}
					failed++
					var ended *WorkerError
					if !errors.As(err, &ended) || ended.Cause != tt.cause {
						t.Errorf("ack %d = %v, want cause %s", i, err, tt.cause)
					}
				}
				if want := 4 - tt.acked; failed != want {
					t.Errorf("%d publishes failed, want %d", failed, want)
				}
				if took := time.Since(start); tt.cause == CauseTimeout && (took < 30*time.Second || took > 31*time.Second) {
					t.Errorf("timed out after %v, want 30 s", took)
				}
				if _, err := p.Publish(within(t, time.Minute), demo, payloads("late"), wire.AckNone); err == nil {
					t.Error("Publish to an ended worker succeeded")
				}
				if err := p.Flush(within(t, time.Minute)); err == nil {
					t.Error("Flush with an ended worker returned nil")
				}
				s := p.Stats()
				if s.Failed[string(tt.cause)] != 2*failed || s.Acked != 2*tt.acked || s.WorkersEnded != 1 {
					t.Errorf("stats = %+v, want %d messages failed as %s and %d acked", s, 2*failed, tt.cause, 2*tt.acked)
				}
				var u *UnconfirmedError
				if err := p.Close(within(t, time.Minute)); !errors.As(err, &u) || u.Batches != failed || u.Messages != 2*failed || u.Cause == nil {
					t.Errorf("Close = %v, want %d batches unconfirmed", err, failed)
				}
			})
		})
	}
}
