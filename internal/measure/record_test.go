package measure_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/measure"
)

const (
	tag      = 0xfe11
	ms       = int64(1_000_000)
	interval = 100 * ms
	start    = 5_000 * ms // on the clock; a multiple of the interval
)

func newSender(t testing.TB, publisher uint16, streams, payload int) *measure.Sender {
	t.Helper()
	s, err := measure.NewSender(measure.SenderConfig{Tag: tag, Publisher: publisher, Streams: streams, PayloadLen: payload})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newReceiver(t testing.TB, id string, stream uint16, publishers, payload int) *measure.Receiver {
	t.Helper()
	r, err := measure.NewReceiver(measure.ReceiverConfig{
		ID: id, Tag: tag, Stream: stream, Publishers: publishers, OrderPromised: true,
		PayloadLen: payload, Filler: measure.NewFiller(1, payload),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// payloads returns n payloads with their filler.
func payloads(n, payload int) [][]byte {
	f := measure.NewFiller(1, payload)
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, f.Len())
		f.Fill(out[i])
	}
	return out
}

// cross sends v through JSON, as results cross a process boundary.
func cross[T any](t testing.TB, v T) T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConfigsAreChecked(t *testing.T) {
	for _, c := range []measure.SenderConfig{
		{Streams: 0}, {Streams: 65_537}, {Streams: 1, PayloadLen: 5}, {Streams: 1, PayloadLen: -1}, {Streams: 1, IntervalNs: -1},
	} {
		if _, err := measure.NewSender(c); err == nil {
			t.Errorf("NewSender(%+v) succeeds", c)
		}
	}
	for _, c := range []measure.ReceiverConfig{
		{Publishers: 0}, {Publishers: 65_537}, {Publishers: 1, PayloadLen: 31}, {Publishers: 1, IntervalNs: -1},
		{Publishers: 1, PayloadLen: 64, Filler: measure.NewFiller(1, 65)},
		{Publishers: 1, PayloadLen: 64, Filler: measure.NewFiller(1, 64), Mixed: []*measure.Filler{measure.NewFiller(1, 65)}},
	} {
		if _, err := measure.NewReceiver(c); err == nil {
			t.Errorf("NewReceiver(%+v) succeeds", c)
		}
	}
}

func TestReceiverSortsMessages(t *testing.T) {
	const payload = 64
	stamp := measure.Stamp{Tag: tag, Publisher: 1, Stream: 2, Phase: measure.PhaseMeasure, Intended: start, Sent: start}
	with := func(change func(*measure.Stamp)) []byte {
		p := payloads(1, payload)[0]
		s := stamp
		change(&s)
		s.Put(p)
		return p
	}
	damaged := with(func(*measure.Stamp) {})
	damaged[payload-1] ^= 1
	phaseless := with(func(s *measure.Stamp) { s.Phase = 7 })

	r := newReceiver(t, "s", 2, 2, payload)
	for _, step := range []struct {
		what    string
		payload []byte
		count   func(*measure.ReceiverResult) *uint64
	}{
		{"the first", with(func(*measure.Stamp) {}), func(r *measure.ReceiverResult) *uint64 { return &r.Delivered }},
		{"once more", with(func(*measure.Stamp) {}), func(r *measure.ReceiverResult) *uint64 { return &r.Duplicate }},
		{"two further", with(func(s *measure.Stamp) { s.Seq = 2 }), func(r *measure.ReceiverResult) *uint64 { return &r.Delivered }},
		{"another run's", with(func(s *measure.Stamp) { s.Tag++ }), func(r *measure.ReceiverResult) *uint64 { return &r.Foreign }},
		{"another stream's", with(func(s *measure.Stamp) { s.Stream++ }), func(r *measure.ReceiverResult) *uint64 { return &r.Foreign }},
		{"nobody's", with(func(s *measure.Stamp) { s.Publisher = 2 }), func(r *measure.ReceiverResult) *uint64 { return &r.Foreign }},
		{"another run's, and short", with(func(s *measure.Stamp) { s.Tag++ })[:40], func(r *measure.ReceiverResult) *uint64 { return &r.Foreign }},
		{"cut", with(func(s *measure.Stamp) { s.Seq = 3 })[:payload-1], func(r *measure.ReceiverResult) *uint64 { return &r.Corrupt }},
		{"without a stamp", []byte("hello"), func(r *measure.ReceiverResult) *uint64 { return &r.Corrupt }},
		{"empty", nil, func(r *measure.ReceiverResult) *uint64 { return &r.Corrupt }},
		{"damaged", damaged, func(r *measure.ReceiverResult) *uint64 { return &r.Corrupt }},
		{"of no phase", phaseless, func(r *measure.ReceiverResult) *uint64 { return &r.Corrupt }},
		{"warm-up", with(func(s *measure.Stamp) { s.Phase = measure.PhaseWarmup }), func(r *measure.ReceiverResult) *uint64 { return &r.Warmup }},
	} {
		want := r.Result()
		*step.count(&want)++
		r.Record(step.payload, start+ms)
		got := r.Result()
		for _, x := range []*measure.ReceiverResult{&got, &want} { // follow from the counters
			x.DeliveredBytes, x.Publishers, x.WarmupByPublisher, x.Series = 0, nil, nil, nil
			x.EndToEnd, x.Network, x.FirstAt, x.LastAt = nil, nil, 0, 0
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", step.what, d)
		}
	}
	res := r.Result()
	if d := cmp.Diff([]measure.Received{{Publisher: 1, Head: 3, Delivered: 2, Gaps: []measure.SeqRange{{First: 1, Last: 1}}}}, res.Publishers); d != "" {
		t.Error(d)
	}
	if res.EndToEnd.N() != 2 || res.Network.N() != 2 {
		t.Errorf("%d and %d latencies, want those of the 2 deliveries", res.EndToEnd.N(), res.Network.N())
	}
	if p := r.Progress(); p != (measure.Progress{Warmup: 1, Measured: 2, Bytes: 2 * payload, LastAt: start + ms}) {
		t.Errorf("Progress = %+v", p)
	}
}

// A measured message may overtake the mark of another process, and a warm-up message may come
// after it: the stamp decides what counts, the mark only what is late.
func TestPhasesAreToldByStamps(t *testing.T) {
	s := newSender(t, 0, 1, 0)
	r := newReceiver(t, "s", 0, 1, 0)
	batch := payloads(3, 0)
	b := s.Stamp(0, batch, start, start)
	s.Published(b, start)
	r.RecordBatch(batch[:2], start+ms)
	s.Mark(start + 2*ms)
	measured := payloads(2, 0)
	m := s.Stamp(0, measured, start+3*ms, start+4*ms)
	if m.FirstSeq != 0 || m.Phase != measure.PhaseMeasure {
		t.Errorf("first measured batch = %+v, want numbers from 0 in the measure phase", m)
	}
	s.Published(m, start+5*ms)
	r.RecordBatch(measured[:1], start+6*ms) // before the receiver's mark
	r.Mark(start + 7*ms)
	r.RecordBatch(batch[2:], start+8*ms) // late
	r.RecordBatch(measured[1:], start+9*ms)

	got := r.Result()
	if got.Warmup != 3 || got.LateWarmup != 1 || got.Delivered != 2 || got.FirstAt != start+6*ms || got.LastAt != start+9*ms {
		t.Errorf("result = %+v", got)
	}
	sent := s.Result()
	if sent.Warmup != 3 || sent.Published != 2 || sent.FirstAt != start+4*ms || sent.LastAt != start+5*ms {
		t.Errorf("sender's result = %+v", sent)
	}
	if p := s.Progress(); p != (measure.Progress{Warmup: 3, Measured: 2, Bytes: 64, LastAt: start + 5*ms}) {
		t.Errorf("sender's Progress = %+v", p)
	}
	if e := s.Expected(measure.PhaseWarmup); e[0] != 3 {
		t.Errorf("Expected(warmup) = %v", e)
	}
	if max := *sent.PublishDelay.Summary().MaxNs; max != ms {
		t.Errorf("PublishDelay max = %d, want sent - intended = %d", max, ms)
	}
	if max := *got.EndToEnd.Summary().MaxNs; max != 6*ms {
		t.Errorf("EndToEnd max = %d, want received - intended = %d", max, 6*ms)
	}
	if max := *got.Network.Summary().MaxNs; max != 5*ms {
		t.Errorf("Network max = %d, want received - sent = %d", max, 5*ms)
	}
}

func TestSenderExcludesWhatFailed(t *testing.T) {
	s := newSender(t, 3, 2, 0)
	s.Mark(start)
	buffers := payloads(4, 0)
	batches := make([]measure.Batch, 5)
	for i := range batches {
		batches[i] = s.Stamp(1, buffers, start, start)
		if i != 4 {
			s.Published(batches[i], start+ms)
		}
	}
	s.Unsent(batches[4], "connection closed")
	s.Acked(batches[0], start+2*ms)
	s.Refused(batches[1], "overloaded")
	s.Failed(batches[2], "ack timeout")
	s.Failed(batches[3], "connection closed")
	got := cross(t, s.Result())
	want := measure.SentStream{
		Stream: 1, Offered: 20, Refused: 4, Failed: 12,
		Excluded: []measure.SeqRange{{First: 4, Last: 19}},
	}
	if d := cmp.Diff([]measure.SentStream{want}, got.Streams); d != "" {
		t.Error(d)
	}
	if got.Offered != 20 || got.Published != 4 {
		t.Errorf("offered %d published %d, want 20 and 4", got.Offered, got.Published)
	}
	if d := cmp.Diff(map[string]uint64{"overloaded": 4}, got.Refused); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]uint64{"ack timeout": 4, "connection closed": 8}, got.Failed); d != "" {
		t.Error(d)
	}
	if got.AckRTT.N() != 1 || *got.AckRTT.Summary().MaxNs != 2*ms {
		t.Errorf("AckRTT = %+v, want one sample of 2 ms", got.AckRTT.Summary())
	}
}

func TestCausesAreBounded(t *testing.T) {
	s := newSender(t, 0, 1, 0)
	s.Mark(start)
	buffers := payloads(1, 0)
	const n = 500
	for i := range n {
		s.Failed(s.Stamp(0, buffers, start, start), fmt.Sprint("cause ", i))
	}
	got := s.Result()
	var sum uint64
	for _, c := range got.Failed {
		sum += c
	}
	if len(got.Failed) > 65 || sum != n {
		t.Errorf("%d causes of %d failures, want at most 65 of %d", len(got.Failed), sum, n)
	}
}

func TestOutOfRangeCallsAreHarmless(t *testing.T) {
	s := newSender(t, 0, 1, 0)
	if b := s.Stamp(9, payloads(1, 0), start, start); b != (measure.Batch{}) {
		t.Errorf("Stamp of an unknown stream = %+v, want nothing", b)
	}
	s.Published(measure.Batch{}, start)
	s.Acked(measure.Batch{}, start)
	s.Refused(measure.Batch{Phase: measure.PhaseMeasure, Stream: 9, Count: 1}, "x")
	s.Failed(measure.Batch{Phase: 9, Count: 1}, "x")
	if r := s.Result(); r.Offered != 0 || r.Published != 0 || len(r.Failed)+len(r.Refused) != 0 {
		t.Errorf("result = %+v, want nothing", r)
	}
}

func TestRecordPathsDoNotAllocate(t *testing.T) {
	const payload, batch = 256, 64
	s := newSender(t, 0, 1, payload)
	r := newReceiver(t, "s", 0, 1, payload)
	s.Mark(start)
	buffers := payloads(batch, payload)
	now := start
	allocs := testing.AllocsPerRun(2000, func() { // 20 s, 200 intervals
		b := s.Stamp(0, buffers, now, now)
		s.Published(b, now)
		s.Acked(b, now+ms)
		now += 10 * ms
		r.RecordBatch(buffers, now)
		r.Record(buffers[0], now) // duplicate
		_, _ = s.Progress(), r.Progress()
	})
	if allocs != 0 {
		t.Errorf("%.1f allocations a batch, want 0", allocs)
	}
}

// TestTrialAgainstModel drives publishers and subscribers over a path that loses, repeats and
// reorders, and compares the whole result with counts kept beside it.
func TestTrialAgainstModel(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 9))
		const payload, streams, fanout = 48, 2, 2
		publishers := 1 + r.IntN(3)
		type key struct {
			publisher int
			stream    uint16
		}
		senders := make([]*measure.Sender, publishers)
		sent := map[key][][]byte{}
		refused := map[key]map[uint64]bool{}
		var publishedAll uint64
		for p := range senders {
			senders[p] = newSender(t, uint16(p), streams, payload)
			senders[p].Mark(start)
			for i := range 60 {
				k := key{p, uint16(r.IntN(streams))}
				buffers := payloads(1+r.IntN(4), payload)
				b := senders[p].Stamp(k.stream, buffers, start+int64(i)*ms, start+int64(i)*ms)
				senders[p].Published(b, start+int64(i)*ms)
				if refused[k] == nil {
					refused[k] = map[uint64]bool{}
				}
				if r.IntN(10) == 0 {
					senders[p].Refused(b, "overloaded")
					for j := range b.Count {
						refused[k][b.FirstSeq+uint64(j)] = true
						buffers[j] = nil
					}
				} else {
					publishedAll += uint64(b.Count)
				}
				sent[k] = append(sent[k], buffers...)
			}
		}
		var sr []measure.SenderResult
		for _, s := range senders {
			sr = append(sr, cross(t, s.Result()))
		}
		var rr []measure.ReceiverResult
		wantMissing := map[string]map[measure.Range]bool{}
		var wantDelivered, wantDuplicate uint64
		for stream := range uint16(streams) {
			for f := range fanout {
				id := fmt.Sprintf("%d.%d", stream, f)
				rec := newReceiver(t, id, stream, publishers, payload)
				wantMissing[id] = map[measure.Range]bool{}
				var arriving [][]byte
				for p := range publishers {
					k := key{p, stream}
					for seq, b := range sent[k] {
						if refused[k][uint64(seq)] {
							continue
						}
						if r.IntN(8) == 0 {
							wantMissing[id][measure.Range{Publisher: uint16(p), Stream: stream, FirstSeq: uint64(seq), LastSeq: uint64(seq)}] = true
							continue
						}
						wantDelivered++
						arriving = append(arriving, b)
						if r.IntN(8) == 0 {
							wantDuplicate++
							arriving = append(arriving, b)
						}
					}
				}
				r.Shuffle(len(arriving), func(i, j int) { arriving[i], arriving[j] = arriving[j], arriving[i] })
				for i, b := range arriving {
					rec.Record(b, start+100*ms+int64(i)*ms)
				}
				rr = append(rr, cross(t, rec.Result()))
			}
		}
		m, err := measure.Merge(sr, rr)
		if err != nil {
			t.Fatal(err)
		}
		if m.Published != publishedAll || m.Delivered != wantDelivered || m.Duplicate != wantDuplicate || uint64(m.EndToEnd.N()) != wantDelivered {
			t.Errorf("seed %d: published %d delivered %d duplicate %d samples %d, want %d %d %d", seed,
				m.Published, m.Delivered, m.Duplicate, m.EndToEnd.N(), publishedAll, wantDelivered, wantDuplicate)
		}
		var delivered uint64
		for _, iv := range m.Intervals {
			delivered += iv.Delivered
		}
		if delivered != wantDelivered {
			t.Errorf("seed %d: intervals hold %d deliveries, want %d", seed, delivered, wantDelivered)
		}
		l := measure.Account(sr, rr, measure.Reported{})
		if l.Expected != publishedAll*fanout || l.Lost != int64(l.Expected)-int64(wantDelivered) || l.Unaccounted != l.Lost || l.Unexpected != 0 {
			t.Errorf("seed %d: ledger %+v", seed, l)
		}
		for _, a := range l.Subscribers {
			got := map[measure.Range]bool{}
			for _, g := range a.Missing {
				for seq := g.FirstSeq; seq <= g.LastSeq; seq++ {
					got[measure.Range{Publisher: g.Publisher, Stream: g.Stream, FirstSeq: seq, LastSeq: seq}] = true
				}
			}
			if d := cmp.Diff(wantMissing[a.ID], got); d != "" {
				t.Errorf("seed %d: subscriber %s misses:\n%s", seed, a.ID, d)
			}
		}
	}
}
