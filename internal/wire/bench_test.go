package wire_test

import (
	"fmt"
	"testing"

	"felix/internal/wire"
)

// sizes are batches whose cost matters: the latency default, and 64 messages of small, middle and
// large size. Encoding copies the payloads once; parsing must not touch them, so its cost must not
// grow with their size. Neither may allocate.
var sizes = []struct{ batch, payload int }{{1, 256}, {64, 256}, {64, 1024}, {64, 4096}}

func perSize(b *testing.B, run func(b *testing.B, batch wire.PublishBatch)) {
	for _, s := range sizes {
		b.Run(fmt.Sprintf("%dx%d", s.batch, s.payload), func(b *testing.B) {
			batch := wire.PublishBatch{Scope: wire.Scope{Tenant: "t1", Namespace: "default", Stream: "latency"}}
			for range s.batch {
				batch.Payloads = append(batch.Payloads, make([]byte, s.payload))
			}
			b.SetBytes(int64(s.batch * s.payload))
			b.ReportAllocs()
			run(b, batch)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.batch), "ns/msg")
		})
	}
}

func BenchmarkPublishAppend(b *testing.B) {
	perSize(b, func(b *testing.B, batch wire.PublishBatch) {
		dst := make([]byte, 0, batch.FrameLen())
		for b.Loop() {
			dst = batch.Append(dst[:0])
		}
	})
}

// What the broker does with a publish: it looks at the head and at every length, and copies nothing.
func BenchmarkParsePublishHead(b *testing.B) {
	perSize(b, func(b *testing.B, batch wire.PublishBatch) {
		body := batch.Append(nil)[wire.HeaderLen:]
		for b.Loop() {
			if _, err := wire.ParsePublishHead(batch.Flags(), body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a subscriber does with an event frame.
func BenchmarkParseEventBatch(b *testing.B) {
	perSize(b, func(b *testing.B, batch wire.PublishBatch) {
		event := wire.EventBatch{Payloads: batch.Payloads}
		body := event.Append(nil)[wire.HeaderLen:]
		payloads := make([][]byte, 0, len(batch.Payloads))
		for b.Loop() {
			if _, err := wire.ParseEventBatch(event.Flags(), body, payloads[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPublishAck(b *testing.B) {
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		dst = wire.PublishAck{RequestID: 7, OK: true}.Append(dst[:0])
		if _, err := wire.ParsePublishAck(dst[wire.HeaderLen:]); err != nil {
			b.Fatal(err)
		}
	}
}
