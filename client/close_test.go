package client

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/transport"
	"felix/internal/wire"
)

// The story: 1 MiB was written, the stream closed, the connection closed at once, and the peer
// had read 984,259 bytes. Close therefore waits for the broker's end of every publish stream.
func TestCloseWaitsUntilAllWasRead(t *testing.T) {
	const batches, size = 128, 64 << 10 // 8 MiB
	var read atomic.Int64
	script := func(f *fakeStream) {
		for {
			b, _, err := f.publish()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("publish stream ended with %v", err)
				}
				return
			}
			for _, p := range b.Payloads {
				read.Add(int64(len(p)))
			}
			pass(5 * time.Millisecond) // a broker behind its input
		}
	}
	change := func(c *Config, _ *transport.Config) { c.PublishConnPool, c.PublishStreamsPerConn = 2, 2 }
	publishing(t, script, change, func(t *testing.T, p *Publisher) {
		payload := make([]byte, size)
		for i := range batches {
			scope := demo
			scope.Stream += string(rune('a' + i%16))
			if _, err := p.Publish(within(t, time.Minute), scope, [][]byte{payload}, wire.AckNone); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if read.Load() == batches*size {
			t.Error("the broker had read all before Close: the test shows nothing")
		}
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Errorf("Close = %v", err)
		}
		if got := read.Load(); got != batches*size {
			t.Errorf("the broker read %d bytes, want %d", got, batches*size)
		}
		var used int
		for _, c := range p.Stats().QUICStreamsUsed {
			used += c.QUICStreams
		}
		if s := p.Stats(); len(s.QUICStreamsUsed) != 2 || used < 2 || used > 4 {
			t.Errorf("QUIC streams used: %+v, want both connections", s.QUICStreamsUsed)
		}
	})
}

// A broker that does not read makes Close run out of time. It then says what is not confirmed,
// written or not, and nothing is left behind.
func TestCloseOutOfTime(t *testing.T) {
	script := func(f *fakeStream) { <-f.conn.Context().Done() }
	change := func(_ *Config, b *transport.Config) { b.StreamRecvWindow, b.ConnRecvWindow = 16<<10, 64<<10 }
	publishing(t, script, change, func(t *testing.T, p *Publisher) {
		var acks []*Ack
		for range 5 {
			acks = append(acks, publish(t, p, wire.AckNone, string(make([]byte, 10<<10)), "second"))
			synctest.Wait()
		}
		acks = append(acks, publish(t, p, wire.AckPerBatch, "acked"))
		start := time.Now()
		err := p.Close(within(t, 2*time.Second))
		var u *UnconfirmedError
		if !errors.As(err, &u) || u.Batches != 6 || u.Messages != 11 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v, want 6 batches of 11 messages unconfirmed by the deadline", err)
		}
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("Close took %v, want its 2 s", took)
		}
		var failed int
		for _, a := range acks {
			select {
			case <-a.Done():
			default:
				t.Error("an ack is unresolved after Close")
			}
			if a.Err() != nil {
				failed++
			}
		}
		s := p.Stats()
		if failed == 0 || failed == len(acks) {
			t.Errorf("%d of %d batches failed, want some written and some not", failed, len(acks))
		}
		if s.Failed[string(CauseClosed)]+s.Written != s.Messages {
			t.Errorf("failed %v + written %d is not the %d accepted", s.Failed, s.Written, s.Messages)
		}
		if again := p.Close(within(t, time.Minute)); again != err {
			t.Errorf("second Close = %v, want the first one's", again)
		}
	})
}

// An ack proves that the broker has read what went ahead of it, unacked batches too.
func TestUnconfirmedCountsFromTheLastAck(t *testing.T) {
	script := func(f *fakeStream) {
		for range 3 {
			b, _, _ := f.publish()
			if b.Acked {
				f.ack(b.RequestID, "")
			}
		}
		<-f.conn.Context().Done()
	}
	publishing(t, script, nil, func(t *testing.T, p *Publisher) {
		publish(t, p, wire.AckNone, "a")
		publish(t, p, wire.AckNone, "b")
		if err := publish(t, p, wire.AckPerBatch, "c").Wait(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		publish(t, p, wire.AckNone, "d", "e")
		var u *UnconfirmedError
		if err := p.Close(within(t, time.Second)); !errors.As(err, &u) || u.Batches != 1 || u.Messages != 2 {
			t.Errorf("Close = %v, want the last batch alone unconfirmed", err)
		}
	})
}

// Publish calls that are waiting when Close begins end without having been accepted, or are
// accepted and confirmed: no third way.
func TestCloseDuringPublish(t *testing.T) {
	var release chan struct{}
	var read atomic.Int64
	script := func(f *fakeStream) {
		f.wait(release)
		for {
			b, _, err := f.publish()
			if err != nil {
				return
			}
			read.Add(1)
			if b.Acked {
				f.ack(b.RequestID, "")
			}
		}
	}
	publishing(t, script, func(c *Config, b *transport.Config) {
		release = make(chan struct{})
		b.StreamRecvWindow, b.ConnRecvWindow = 8<<10, 64<<10
		c.PublishQueueDepth, c.PublishInflightBytes = 2, 64<<10
	}, func(t *testing.T, p *Publisher) {
		accepted := make(chan int64, 20)
		for i := range cap(accepted) {
			go func() {
				_, err := p.Publish(context.Background(), demo, [][]byte{make([]byte, 10<<10)}, wire.AckMode(i%2))
				if err != nil {
					accepted <- 0
					return
				}
				accepted <- 1
			}()
		}
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(release) })
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Errorf("Close = %v", err)
		}
		var sum int64
		for range cap(accepted) {
			sum += <-accepted
		}
		if sum == 0 || read.Load() != sum {
			t.Errorf("%d batches accepted, %d read", sum, read.Load())
		}
	})
}

// Client.Close closes what is left open and passes on what its publishers could not confirm.
func TestClientCloseReports(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{stream: func(f *fakeStream) { <-f.conn.Context().Done() }}
		defer n.fake(t, b, transport.Config{})()
		c := n.dial(t, n.config())
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		publish(t, p, wire.AckNone, "x")
		var u *UnconfirmedError
		if err := c.Close(within(t, time.Second)); !errors.As(err, &u) || u.Batches != 1 {
			t.Errorf("Close = %v, want 1 batch unconfirmed", err)
		}
	})
}
