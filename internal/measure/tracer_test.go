package measure_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"felix/internal/measure"
)

func newTracer(t testing.TB, every uint64, events int) *measure.Tracer {
	t.Helper()
	tr, err := measure.NewTracer(measure.TracerConfig{Tag: tag, Every: every, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func stamped(s measure.Stamp) []byte {
	b := make([]byte, measure.StampLen)
	s.Put(b)
	return b
}

// The multiplication that stands for a division must be right for every number and every divisor.
func TestTracesTheMultiples(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, every := range []uint64{1, 2, 3, 7, 8, 64, 100, 256, 1000, 1024, 3072, 1<<20 + 2, 1<<40 - 1} {
		tr := newTracer(t, every, 1)
		for i := range uint64(5000) {
			seq := i
			switch {
			case i%3 == 1:
				seq = every * r.Uint64N(1<<15)
			case i%3 == 2:
				seq = r.Uint64N(1 << 40)
			}
			_, ok := tr.Sample(stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: seq}))
			if want := seq%every == 0 && seq/every < 1<<32; ok != want {
				t.Fatalf("every %d: seq %d traced %v, want %v", every, seq, ok, want)
			}
		}
	}
}

func TestOnlyMeasuredMessagesOfThisRunAreTraced(t *testing.T) {
	tr := newTracer(t, 4, 1)
	good := measure.Stamp{Tag: tag, Publisher: 3, Stream: 5, Phase: measure.PhaseMeasure, Seq: 8}
	if id, ok := tr.Sample(stamped(good)); !ok || id != 3<<48|5<<32|2 {
		t.Errorf("id %#x, traced %v, want publisher 3, stream 5, turn 2", id, ok)
	}
	foreign, warm, odd := good, good, good
	foreign.Tag++
	warm.Phase = measure.PhaseWarmup
	odd.Phase = 7
	for name, payload := range map[string][]byte{
		"foreign": stamped(foreign), "warm-up": stamped(warm), "phase 7": stamped(odd), "short": stamped(good)[:31], "empty": nil,
	} {
		if _, ok := tr.Sample(payload); ok {
			t.Errorf("%s is traced", name)
		}
	}
}

func TestTracerRefusesNonsense(t *testing.T) {
	for _, cfg := range []measure.TracerConfig{{Events: 1}, {Every: 1}} {
		if _, err := measure.NewTracer(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	var off *measure.Tracer
	if off.Result() != nil {
		t.Error("a tracer that is none has a result")
	}
}

// A run is longer than any buffer. What is kept of it must be spread over all of it: its first
// messages alone would be those of an empty queue.
func TestTracerKeepsTheWholeRunInABoundedBuffer(t *testing.T) {
	const every, events, messages = 4, 1000, 100_000
	tr := newTracer(t, every, events)
	sub := newTracer(t, every, 10*events)
	r, err := measure.NewReceiver(measure.ReceiverConfig{ID: "a", Tag: tag, Publishers: 1, Tracer: sub, Subscription: 9})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(messages) {
		at := start + int64(seq)
		p := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: seq, Intended: at, Sent: at})
		tr.Publish(p)
		r.Record(p, at+5)
	}
	pub := cross(t, tr.Result())
	if n := len(pub.Packed) / 25; n > events || n < events/3 {
		t.Errorf("%d events kept, want at most %d and at least a third", n, events)
	}
	journeys, left, lost := measure.JoinTraces(every, pub, cross(t, sub.Result()))
	if want := uint64(every) << pub.Halvings; left != want || lost != 0 {
		t.Errorf("1 of %d is left, %d lost; want 1 of %d", left, lost, want)
	}
	if len(journeys) != messages/int(left)+1 {
		t.Errorf("%d journeys, want every one of %d", len(journeys), messages/int(left)+1)
	}
	for i, j := range journeys {
		if j.Seq != uint64(i)*left {
			t.Fatalf("journey %d is of seq %d, want %d", i, j.Seq, uint64(i)*left)
		}
	}
}

// One message to more subscriptions than there is room for is not forgotten: it says what is lost.
func TestTracerCountsWhatHasNoRoom(t *testing.T) {
	tr := newTracer(t, 1, 4)
	for sub := range uint64(10) {
		tr.Event(0, measure.PointArrived, sub, start)
	}
	r := tr.Result()
	if r.Lost != 6 || len(r.Packed) != 4*25 {
		t.Errorf("%d lost, %d bytes kept; want 6, 4 events", r.Lost, len(r.Packed))
	}
}

func TestTracingDoesNotAllocate(t *testing.T) {
	tr := newTracer(t, 2, 64)
	seq := uint64(0)
	p := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure})
	allocs := testing.AllocsPerRun(2000, func() {
		measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: seq}.Put(p)
		if id, ok := tr.Publish(p); ok {
			tr.Event(id, measure.PointClientWrite, 0, start)
		}
		seq++
	})
	if allocs != 0 {
		t.Errorf("%.1f allocations a message, want 0", allocs)
	}
}

// What tracing costs a message that is not traced: the subscriber's client asks for each payload,
// and the receiver once more. The bound is 5 % of some 2 us for all instruments together.
func BenchmarkNotTraced(b *testing.B) {
	const batch = 64
	messages := make([][]byte, batch)
	for i := range messages {
		messages[i] = stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: uint64(i + 1)})
	}
	var asked interface {
		Sample([]byte) (uint64, bool)
	} = newTracer(b, 256, 1)
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range messages {
			if _, ok := asked.Sample(p); ok {
				b.Fatal("traced")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/msg")
}

// What tracing costs a message that is traced, in all processes together, to one subscription.
func BenchmarkTraced(b *testing.B) {
	tr := newTracer(b, 1, 32<<10)
	p := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure}) // number 0 is never forgotten
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%2000 == 0 { // before it is full
			b.StopTimer()
			tr = newTracer(b, 1, 32<<10)
			b.StartTimer()
		}
		id, _ := tr.Publish(p)
		for _, point := range []measure.Point{measure.PointClientWrite, measure.PointClientWritten} {
			tr.Event(id, point, 0, start)
		}
		_, _ = tr.Sample(p)
		for _, point := range []measure.Point{measure.PointBrokerRead, measure.PointFanout, measure.PointBrokerWrite, measure.PointBrokerWritten} {
			tr.Event(id, point, 1, start)
		}
		_, _ = tr.Sample(p)
		for _, point := range []measure.Point{measure.PointArrived, measure.PointIntended, measure.PointReceived} {
			tr.Event(id, point, 1, start)
		}
	}
}

// The same receiver with and without a tracer.
func BenchmarkReceiverTracing(b *testing.B) {
	for _, every := range []uint64{0, 256, 1} {
		b.Run(fmt.Sprintf("every=%d", every), func(b *testing.B) {
			const batch, payload = 64, 256
			cfg := measure.ReceiverConfig{ID: "a", Tag: tag, Publishers: 1, PayloadLen: payload, Filler: measure.NewFiller(1, payload)}
			if every > 0 {
				cfg.Tracer = newTracer(b, every, 32<<10)
			}
			r, err := measure.NewReceiver(cfg)
			if err != nil {
				b.Fatal(err)
			}
			s := newSender(b, 0, 1, payload)
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
