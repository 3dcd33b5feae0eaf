package measure_test

import (
	"fmt"
	"testing"

	"felix/internal/measure"
)

// The figure to watch is ns per message of a batch of 64: the bench may cost 5 % of a message.
func BenchmarkReceiver(b *testing.B) {
	for _, payload := range []int{0, 256, 4096} {
		b.Run(fmt.Sprint(payload), func(b *testing.B) {
			const batch = 64
			s, r := newSender(b, 0, 1, payload), newReceiver(b, "a", 0, 1, payload)
			s.Mark(start)
			buffers := payloads(batch, payload)
			now := start
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				s.Stamp(0, buffers, now, now)
				now += 50_000
				b.StartTimer()
				r.RecordBatch(buffers, now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/msg")
		})
	}
}

func BenchmarkSender(b *testing.B) {
	const batch = 64
	s := newSender(b, 0, 1, 256)
	s.Mark(start)
	buffers := payloads(batch, 256)
	now := start
	b.ReportAllocs()
	for b.Loop() {
		x := s.Stamp(0, buffers, now, now)
		now += 50_000
		s.Published(x, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/msg")
}

// One recording in a histogram whose counts are spread as latencies are.
func BenchmarkHistogram(b *testing.B) {
	h := measure.NewHistogram()
	b.ReportAllocs()
	for ns := int64(50_000); b.Loop(); ns += 7_919 {
		h.Record(50_000 + ns%5_000_000)
	}
}
