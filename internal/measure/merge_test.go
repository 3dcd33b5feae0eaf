package measure_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/measure"
)

// flow plays a run of one publisher and one or more subscribers, in steps of 10 ms: at step i,
// publish(i) messages go out and deliver[k](i) of those before arrive at subscriber k.
type flow struct {
	steps   int
	publish func(step int) int
	deliver []func(step int) int
	payload int
	offset  int64 // of the first step, ns
}

func (f flow) play(t *testing.T) ([]measure.SenderResult, []measure.ReceiverResult) {
	t.Helper()
	s := newSender(t, 0, 1, f.payload)
	s.Mark(start)
	var receivers []*measure.Receiver
	for k := range f.deliver {
		receivers = append(receivers, newReceiver(t, string(rune('a'+k)), 0, 1, f.payload))
	}
	var sent [][]byte
	done := make([]int, len(receivers))
	for i := range f.steps {
		at := start + f.offset + int64(i)*10*ms
		if n := f.publish(i); n > 0 {
			b := payloads(n, f.payload)
			s.Published(s.Stamp(0, b, at, at), at)
			sent = append(sent, b...)
		}
		for k, r := range receivers {
			n := min(f.deliver[k](i), len(sent)-done[k])
			r.RecordBatch(sent[done[k]:done[k]+n], at)
			done[k] += n
		}
	}
	var rr []measure.ReceiverResult
	for _, r := range receivers {
		rr = append(rr, cross(t, r.Result()))
	}
	return []measure.SenderResult{cross(t, s.Result())}, rr
}

func constant(n int) func(int) int { return func(int) int { return n } }

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s = null, want %v", what, want)
	} else if math.Abs(*got-want) > 0.02*want {
		t.Errorf("%s = %v, want %v", what, *got, want)
	}
}

// A flow that keeps up: all rates agree, wherever on the grid it begins.
func TestSteadyFlow(t *testing.T) {
	for _, offset := range []int64{0, 37 * ms, 99 * ms} {
		f := flow{steps: 300, publish: constant(10), deliver: []func(int) int{constant(10), constant(10)}, payload: 100, offset: offset}
		m, err := measure.Merge(f.play(t))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "published msgs/s", m.Rates.PublishedMsgsPerSec, 1000)
		near(t, "delivered msgs/s", m.Rates.DeliveredMsgsPerSec, 2000)
		near(t, "headline", m.Rates.DeliveredBytesPerSec, 200_000)
		near(t, "steady", m.Rates.SteadyBytesPerSec, 200_000)
		near(t, "last half", m.Rates.LastHalfBytesPerSec, 200_000)
		if *m.Rates.DrainShare != 0 || m.Rates.PeakBacklogBytes != 0 || m.Rates.RunBytes != 300_000 {
			t.Errorf("drain %v, backlog %d, run bytes %d, want 0, 0, 300000", *m.Rates.DrainShare, m.Rates.PeakBacklogBytes, m.Rates.RunBytes)
		}
		if text := m.Rates.Disagreement(); text != "" {
			t.Errorf("offset %d: %s", offset, text)
		}
		for _, iv := range m.Intervals {
			if iv.AtNs <= 0 {
				t.Errorf("interval ends at %d, before the window begins", iv.AtNs)
			}
		}
	}
}

// The lie of round 1: a run that fits in the buffers. The publisher is done at once, and the rate
// that it is seen at is the drain's.
func TestAbsorbedFlow(t *testing.T) {
	f := flow{
		steps: 200, payload: 100,
		publish: func(i int) int {
			if i < 50 {
				return 40
			}
			return 0
		},
		deliver: []func(int) int{constant(40), constant(10)},
	}
	m, err := measure.Merge(f.play(t))
	if err != nil {
		t.Fatal(err)
	}
	// The slowest subscriber got 500 of 2,000 messages by the time the publisher stopped.
	if got := m.Rates.PeakBacklogBytes; got != 150_000 {
		t.Errorf("peak backlog = %d, want 150000", got)
	}
	near(t, "drain share", m.Rates.DrainShare, 0.75)
	if m.Rates.SteadyBytesPerSec != nil {
		t.Errorf("steady = %v, but the backlog never stopped growing", *m.Rates.SteadyBytesPerSec)
	}
	if m.Rates.Disagreement() == "" {
		t.Error("headline and last half agree")
	}
}

// The backlog fills for a second, then the path holds the publisher back: steady is the rate
// after that.
func TestBacklogThatFillsUp(t *testing.T) {
	f := flow{
		steps: 500, payload: 100,
		publish: func(i int) int {
			switch {
			case i < 100:
				return 60
			case i < 400:
				return 20
			}
			return 0
		},
		deliver: []func(int) int{func(i int) int {
			if i < 50 {
				return 0 // the path starts late
			}
			return 20 + 8*(i/450)*20
		}},
	}
	m, err := measure.Merge(f.play(t))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "steady", m.Rates.SteadyBytesPerSec, 200_000)
	if got := m.Rates.PeakBacklogBytes; got != 500_000 {
		t.Errorf("peak backlog = %d, want 500000", got)
	}
}

// What a subscriber is never going to get is not backlog: else every run that drops would count
// as absorbed by buffers. What merely comes late is.
func TestLostMessagesAreNoBacklog(t *testing.T) {
	for _, tt := range []struct {
		name string
		late bool // the skipped half arrives at the end
		want int64
	}{
		{"lost", false, 0},
		{"late", true, 1000 * 100},
	} {
		s := newSender(t, 0, 1, 100)
		s.Mark(start)
		r := newReceiver(t, "a", 0, 1, 100)
		var held [][]byte
		at := start
		for range 200 {
			b := payloads(10, 100)
			s.Published(s.Stamp(0, b, at, at), at)
			r.RecordBatch(b[5:], at)
			held = append(held, b[:5]...)
			at += 10 * ms
		}
		if tt.late {
			r.RecordBatch(held, at)
		}
		m, err := measure.Merge([]measure.SenderResult{s.Result()}, []measure.ReceiverResult{r.Result()})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Rates.PeakBacklogBytes; got != tt.want {
			t.Errorf("%s: peak backlog = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestSeriesJoinsNeighbours(t *testing.T) {
	f := flow{steps: 1000, publish: constant(30), deliver: []func(int) int{constant(30)}, payload: 32}
	m, err := measure.Merge(f.play(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Intervals) != 100 {
		t.Fatalf("%d intervals, want 100", len(m.Intervals))
	}
	if m.Intervals[0].P50Ns == nil || m.Intervals[0].P99Ns != nil {
		t.Error("300 deliveries an interval: want p50, and no p99")
	}
	for _, limit := range []int{1, 3, 7, 99, 100, 1000, 0} {
		joined := m.Series(limit)
		if len(joined) > max(limit, 1) {
			t.Errorf("Series(%d) has %d intervals", limit, len(joined))
		}
		var published, delivered uint64
		for _, iv := range joined {
			published += iv.Published
			delivered += iv.Delivered
		}
		if published != 30_000 || delivered != 30_000 {
			t.Errorf("Series(%d) holds %d and %d messages, want 30000", limit, published, delivered)
		}
		if last := joined[len(joined)-1]; last.AtNs != m.Intervals[99].AtNs {
			t.Errorf("Series(%d) ends at %d, want %d", limit, last.AtNs, m.Intervals[99].AtNs)
		}
	}
	if iv := m.Series(10)[0]; iv.P99Ns == nil {
		t.Error("3,000 deliveries in a joined interval: want p99")
	}
}

func TestMergeOfNothing(t *testing.T) {
	m, err := measure.Merge(nil, nil)
	if err != nil || len(m.Intervals) != 0 || m.Rates.DeliveredBytesPerSec != nil || m.Rates.DrainShare != nil || m.EndToEnd.N() != 0 {
		t.Errorf("Merge() = %+v, %v", m, err)
	}
	// A publisher whose messages all got lost.
	f := flow{steps: 50, publish: constant(1), deliver: []func(int) int{constant(0)}, payload: 32}
	m, err = measure.Merge(f.play(t))
	if err != nil || m.Rates.DeliveredBytesPerSec != nil || m.Rates.SteadyBytesPerSec != nil || m.Published != 50 {
		t.Errorf("nothing delivered: %+v, %v", m.Rates, err)
	}
	if m.Rates.PeakBacklogBytes != 50*32 {
		t.Errorf("nothing delivered: backlog %d, want %d", m.Rates.PeakBacklogBytes, 50*32)
	}
}

func TestMergeRefusesStrangers(t *testing.T) {
	a, b := newSender(t, 0, 1, 100).Result(), newReceiver(t, "a", 0, 1, 200).Result()
	if _, err := measure.Merge([]measure.SenderResult{a}, []measure.ReceiverResult{b}); err == nil {
		t.Error("payloads of 100 and 200 bytes merge")
	}
	b = newReceiver(t, "a", 0, 1, 100).Result()
	b.Series = []byte{1}
	if _, err := measure.Merge(nil, []measure.ReceiverResult{b}); err == nil {
		t.Error("a broken series merges")
	}
}

func ptr(n uint64) *uint64 { return &n }

func TestAccount(t *testing.T) {
	// 100 messages offered; 10 to 19 were refused.
	s := newSender(t, 0, 1, 0)
	s.Mark(start)
	all := payloads(100, 0)
	for i := 0; i < 100; i += 10 {
		b := s.Stamp(0, all[i:i+10], start, start)
		s.Published(b, start)
		if i == 10 {
			s.Refused(b, "overloaded")
		}
	}
	senders := []measure.SenderResult{s.Result()}
	due := append(append([][]byte{}, all[:10]...), all[20:]...)
	missing := func(first, last uint64) []measure.Range {
		return []measure.Range{{FirstSeq: first, LastSeq: last}}
	}
	for _, tt := range []struct {
		name     string
		arrived  [][]byte
		reported measure.Reported
		lossless bool

		lost, unaccounted int64
		unexpected        uint64
		missing           []measure.Range
		faults            int
	}{
		{name: "all arrived", arrived: due, lossless: true},
		{name: "nothing known of drops: lost is unaccounted", arrived: due[:80], lost: 10, unaccounted: 10, missing: missing(90, 99), faults: 1},
		{
			name: "dropped at named checkpoints", arrived: due[:80], lost: 10, missing: missing(90, 99),
			reported: measure.Reported{
				Ingress:     map[uint16]uint64{0: 1},
				Subscribers: map[string]measure.SubscriberDrops{"a": {Subscriber: ptr(2), Writer: ptr(3), Client: ptr(0)}},
				Discarded:   map[string]uint64{"a": 4},
			},
		},
		{
			name: "explained, but it was to be lossless", arrived: due[:80], lost: 10, missing: missing(90, 99), lossless: true, faults: 1,
			reported: measure.Reported{Subscribers: map[string]measure.SubscriberDrops{"a": {Subscriber: ptr(10)}}},
		},
		{
			name: "more drops than missing", arrived: due[:80], lost: 10, unaccounted: -5, missing: missing(90, 99), faults: 1,
			reported: measure.Reported{Subscribers: map[string]measure.SubscriberDrops{"a": {Subscriber: ptr(15)}}},
		},
		{
			// 10 lost and 10 that were refused arrive all the same: the sums agree, the run is wrong.
			name: "refused messages hide lost ones", arrived: all[:90], unexpected: 10, missing: missing(90, 99), faults: 1,
		},
		{name: "the subscriber died", lost: 90, unaccounted: 90, missing: []measure.Range{{FirstSeq: 0, LastSeq: 9}, {FirstSeq: 20, LastSeq: 99}}, faults: 1},
		{name: "a duplicate", arrived: append(append([][]byte{}, due...), due[3]), faults: 1},
		{name: "order broken", arrived: append(append([][]byte{}, due[1:]...), due[0]), faults: 1},
		{name: "foreign and corrupt", arrived: append(append([][]byte{}, due...), make([]byte, 32), []byte("x")), faults: 2},
	} {
		r := newReceiver(t, "a", 0, 1, 0)
		r.RecordBatch(tt.arrived, start+ms)
		l := measure.Account(senders, []measure.ReceiverResult{cross(t, r.Result())}, tt.reported)
		a := l.Subscribers[0]
		if a.Expected != 90 || a.Lost != tt.lost || a.Unaccounted != tt.unaccounted || a.Unexpected != tt.unexpected {
			t.Errorf("%s: expected %d lost %d unaccounted %d unexpected %d, want 90 %d %d %d", tt.name,
				a.Expected, a.Lost, a.Unaccounted, a.Unexpected, tt.lost, tt.unaccounted, tt.unexpected)
		}
		if d := cmp.Diff(tt.missing, a.Missing); d != "" {
			t.Errorf("%s: missing: %s", tt.name, d)
		}
		if faults := l.Faults(tt.lossless); len(faults) != tt.faults {
			t.Errorf("%s: faults %q, want %d", tt.name, faults, tt.faults)
		}
		if l.Lost != a.Lost || l.Unaccounted != a.Unaccounted || l.Expected != a.Expected {
			t.Errorf("%s: totals %+v differ from the only subscriber's", tt.name, l)
		}
		if tt.reported.Subscribers == nil && (l.Dropped.Subscriber != nil || l.Dropped.Ingress != nil || l.Discarded != nil) {
			t.Errorf("%s: drops that nobody reported are %+v, want null", tt.name, l.Dropped)
		}
	}
}

// +5 at one subscriber and -5 at another are two faults, not a balanced run.
func TestUnaccountedDoesNotCancel(t *testing.T) {
	s := newSender(t, 0, 1, 0)
	s.Mark(start)
	b := payloads(10, 0)
	s.Published(s.Stamp(0, b, start, start), start)
	x, y := newReceiver(t, "x", 0, 1, 0), newReceiver(t, "y", 0, 1, 0)
	x.RecordBatch(b[:5], start)
	y.RecordBatch(b, start)
	l := measure.Account([]measure.SenderResult{s.Result()}, []measure.ReceiverResult{x.Result(), y.Result()}, measure.Reported{
		Subscribers: map[string]measure.SubscriberDrops{"y": {Subscriber: ptr(5)}},
	})
	if l.Unaccounted != 0 || len(l.Faults(false)) != 2 {
		t.Errorf("unaccounted %d, faults %q, want 0 and two", l.Unaccounted, l.Faults(false))
	}
	if l.Dropped.Subscriber != nil {
		t.Errorf("dropped = %d, want null: not known for x", *l.Dropped.Subscriber)
	}
}
