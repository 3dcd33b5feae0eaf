package measure_test

import (
	"testing"

	"felix/internal/measure"
)

// Messages of several sizes are counted with the bytes that each of them had: in the sender, in the receiver, in rates,
// intervals and backlog. A mean times a count was a figure that no message had.
func TestMixedSizesAreCountedAsTheyAre(t *testing.T) {
	const small, large, mean = 100, 4000, 490 // 90 and 10 %
	s := newSender(t, 0, 1, mean)
	r, err := measure.NewReceiver(measure.ReceiverConfig{
		ID: "0.0", Tag: tag, Publishers: 1, OrderPromised: true, PayloadLen: mean,
		Mixed: []*measure.Filler{measure.NewFiller(1, small), measure.NewFiller(1, large)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Mark(start)
	r.Mark(start)
	publish := func(size, n int, at int64) (measure.Batch, [][]byte) {
		batch := payloads(n, size)
		b := s.Stamp(0, batch, at, at)
		s.Published(b, at)
		return b, batch
	}
	at := start + ms
	_, first := publish(small, 3, at)
	r.RecordBatch(first, at+ms)
	_, second := publish(large, 2, at+interval)
	r.RecordBatch(second, at+interval+ms)
	refused, _ := publish(large, 4, at+interval)
	s.Refused(refused, "overloaded")
	unsent := s.Stamp(0, payloads(1, small), at+interval, at+interval)
	s.Unsent(unsent, "closed")

	if got := s.Progress(); got.Measured != 9 || got.Bytes != 3*small+6*large {
		t.Errorf("sender's progress %+v", got)
	}
	if got := r.Progress(); got.Measured != 5 || got.Bytes != 3*small+2*large {
		t.Errorf("receiver's progress %+v", got)
	}
	sent, received := cross(t, s.Result()), cross(t, r.Result())
	if sent.PublishedBytes != 3*small+2*large {
		t.Errorf("published %d bytes, want those of what was neither refused nor unsent, %d", sent.PublishedBytes, 3*small+2*large)
	}
	if received.DeliveredBytes != 3*small+2*large || received.Corrupt != 0 {
		t.Errorf("received %d bytes, %d corrupt", received.DeliveredBytes, received.Corrupt)
	}
	m, err := measure.Merge([]measure.SenderResult{sent}, []measure.ReceiverResult{received})
	if err != nil {
		t.Fatal(err)
	}
	if m.Rates.RunBytes != 3*small+2*large || m.DeliveredBytes != 3*small+2*large {
		t.Errorf("run of %d bytes, %d delivered", m.Rates.RunBytes, m.DeliveredBytes)
	}
	if len(m.Intervals) != 2 || m.Intervals[0].DeliveredBytes != 3*small || m.Intervals[1].DeliveredBytes != 2*large || m.Intervals[0].PublishedBytes != 3*small {
		t.Errorf("intervals %+v", m.Intervals)
	}
	// What has the length of one size and the bytes of another, or a length that there is not, is corrupt.
	odd := payloads(1, 200)[0]
	copy(odd, first[0][:measure.StampLen])
	damaged := payloads(1, large)[0]
	copy(damaged, second[0][:measure.StampLen])
	damaged[large-1] ^= 1
	r.Record(odd, at)
	r.Record(damaged, at)
	if got := r.Result(); got.Corrupt != 2 {
		t.Errorf("%d corrupt, want 2", got.Corrupt)
	}
}
