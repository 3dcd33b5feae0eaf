package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/transport"
	"felix/internal/wire"
)

// While the writer waits for credit, frames queue; it then joins them into writes of at least
// 16 KiB. A frame that finds it idle goes alone.
func TestBacklogIsJoined(t *testing.T) {
	var release chan struct{}
	script := func(f *fakeStream) {
		f.wait(release)
		f.ackAll()
	}
	publishing(t, script, func(c *Config, b *transport.Config) {
		release = make(chan struct{})
		b.StreamRecvWindow, b.ConnRecvWindow = 8<<10, 64<<10
		c.PublishQueueDepth = 400
	}, func(t *testing.T, p *Publisher) {
		text := string(make([]byte, 1000))
		for range 8 + 320 {
			publish(t, p, wire.AckNone, text)
		}
		synctest.Wait() // the writer is stuck in Write
		blocked := p.Stats()
		close(release)
		if err := p.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		s := p.Stats()
		writes, bytes := s.Writes-blocked.Writes, s.WrittenBytes-blocked.WrittenBytes
		if writes < 2 || bytes/writes < 16<<10 {
			t.Errorf("%d bytes in %d writes under backlog, want at least 16 KiB each", bytes, writes)
		}
		if s.WriterWakeups.Items != s.Batches || s.WriterWakeups.Bytes != s.WrittenBytes || s.WriterWakeups.Count == 0 {
			t.Errorf("wake-ups %+v do not add up to %d batches, %d bytes", s.WriterWakeups, s.Batches, s.WrittenBytes)
		}
		if s.BlockedWriteNs == 0 {
			t.Error("no time blocked in Write")
		}
		for range 3 {
			before := p.Stats().Writes
			if err := publish(t, p, wire.AckNone, "lone").Wait(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			if got := p.Stats().Writes - before; got != 1 {
				t.Errorf("a lone frame took %d writes", got)
			}
		}
	})
}

// Checkpoint 1: bytes are held until the ack (acked) or the write (unacked); what is larger than
// the whole budget passes alone; the wait is counted and ends with the context.
func TestByteAdmission(t *testing.T) {
	var release chan struct{}
	script := func(f *fakeStream) {
		for {
			b, _, err := f.publish()
			if err != nil {
				return
			}
			f.wait(release)
			if b.Acked {
				f.ack(b.RequestID, "")
			}
		}
	}
	publishing(t, script, func(c *Config, _ *transport.Config) {
		release = make(chan struct{})
		c.PublishInflightBytes = 2000
	}, func(t *testing.T, p *Publisher) {
		kilo := string(make([]byte, 900))
		publish(t, p, wire.AckPerBatch, kilo)
		publish(t, p, wire.AckPerBatch, kilo)
		synctest.Wait()
		// Unacked bytes come back with the write, so a third acked one is what waits.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Publish(ctx, demo, payloads(kilo), wire.AckPerBatch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish over the budget = %v, want the context's error", err)
		}
		if got := p.Stats().BlockedAdmissionNs; got != int64(time.Second) {
			t.Errorf("blocked at admission for %v, want 1 s", time.Duration(got))
		}
		if got := p.Stats().AdmittedHighWaterBytes; got < 1800 || got > 2000 {
			t.Errorf("at most %d bytes were held, want those of two batches of 900", got)
		}
		passed := make(chan *Ack)
		go func() {
			a, err := p.Publish(context.Background(), demo, payloads(string(make([]byte, 10_000))), wire.AckPerBatch)
			if err != nil {
				t.Error(err)
			}
			passed <- a
		}()
		synctest.Wait()
		select {
		case <-passed:
			t.Error("a batch larger than the budget passed while bytes were held")
		default:
		}
		close(release)
		if err := (<-passed).Wait(within(t, time.Minute)); err != nil {
			t.Errorf("batch larger than the budget: %v", err)
		}
		if s := p.Stats(); s.Batches != 3 || s.Acked != 3 {
			t.Errorf("%d accepted, %d acked; want 3 and 3", s.Batches, s.Acked)
		}
		if got := p.Stats().AdmittedHighWaterBytes; got != 2000 {
			t.Errorf("at most %d bytes were held, want the whole budget of 2000: more is never held", got)
		}
	})
}

// Checkpoint 2: Publish waits for room in its worker's queue, counted, until its context ends.
func TestQueueDepth(t *testing.T) {
	var release chan struct{}
	script := func(f *fakeStream) {
		f.wait(release)
		f.ackAll()
	}
	publishing(t, script, func(c *Config, b *transport.Config) {
		release = make(chan struct{})
		c.PublishQueueDepth = 2
		b.StreamRecvWindow, b.ConnRecvWindow = 4<<10, 8<<10
	}, func(t *testing.T, p *Publisher) {
		large := string(make([]byte, 20<<10)) // is never joined; the first one blocks in Write
		for range 3 {
			publish(t, p, wire.AckNone, large)
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Publish(ctx, demo, payloads("x"), wire.AckNone); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish to a full queue = %v, want the context's error", err)
		}
		if got := p.Stats().BlockedQueueNs; got != int64(time.Second) {
			t.Errorf("blocked at the queue for %v, want 1 s", time.Duration(got))
		}
		if got := p.Stats().QueueHighWater; got != 2 {
			t.Errorf("at most %d batches waited, want 2: the depth", got)
		}
		close(release)
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		if s := p.Stats(); s.Batches != 3 || s.Written != 3 {
			t.Errorf("%d accepted, %d written; want 3 and 3", s.Batches, s.Written)
		}
	})
}
