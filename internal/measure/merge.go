package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// maxSpan bounds the intervals between the first and the last of a run: 28 hours at 100 ms.
const maxSpan = 1_000_000

// rateTolerance is how far headline, steady and last-half rate may lie apart.
const rateTolerance = 0.10

// Merged is what all senders and receivers of a trial recorded together. Counts and bytes are of
// the measure phase; deliveries count each subscriber.
type Merged struct {
	Offered   uint64            `json:"offered"`
	Published uint64            `json:"published"`
	Refused   map[string]uint64 `json:"refused"`
	Failed    map[string]uint64 `json:"failed"`

	Delivered      uint64 `json:"delivered"`
	DeliveredBytes uint64 `json:"delivered_bytes"`
	Duplicate      uint64 `json:"duplicate"`
	Reordered      uint64 `json:"reordered"`
	Foreign        uint64 `json:"foreign"`
	Corrupt        uint64 `json:"corrupt"`
	Ambiguous      uint64 `json:"ambiguous"`
	LateWarmup     uint64 `json:"late_warmup"`

	// The histograms are merged from all, never averaged; none is nil.
	EndToEnd     *Histogram `json:"end_to_end"`
	Network      *Histogram `json:"network"`
	PublishDelay *Histogram `json:"publish_delay"`
	AckRTT       *Histogram `json:"ack_rtt"`

	Window    Window     `json:"window"`
	Rates     Rates      `json:"rates"`
	Intervals []Interval `json:"intervals"`

	timeline timeline
}

// Window is the throughput window, on the machine's monotonic clock; 0 is never.
type Window struct {
	FirstPublishAt int64 `json:"first_publish_at"` // sent time of the first measured message
	LastPublishAt  int64 `json:"last_publish_at"`  // the client had accepted the last one
	LastDeliveryAt int64 `json:"last_delivery_at"`
}

// DurationNs returns first publish to last delivery, 0 if nothing was delivered.
func (w Window) DurationNs() int64 {
	if w.FirstPublishAt == 0 || w.LastDeliveryAt == 0 {
		return 0
	}
	return max(0, w.LastDeliveryAt-w.FirstPublishAt)
}

// Rates are what the trial achieved. Null: there was no time or no message to compute it from.
type Rates struct {
	// Published: over first publish to last publish. Delivered, the headline: over the window, all
	// subscribers together.
	PublishedMsgsPerSec  *float64 `json:"published_msgs_per_sec"`
	PublishedBytesPerSec *float64 `json:"published_bytes_per_sec"`
	DeliveredMsgsPerSec  *float64 `json:"delivered_msgs_per_sec"`
	DeliveredBytesPerSec *float64 `json:"delivered_bytes_per_sec"`
	// SteadyBytesPerSec: delivered from when the backlog stops growing until the publisher stops,
	// whole intervals, at least three.
	SteadyBytesPerSec *float64 `json:"steady_bytes_per_sec"`
	// LastHalfBytesPerSec: delivered in the second half of the window.
	LastHalfBytesPerSec *float64 `json:"last_half_bytes_per_sec"`
	// DrainShare: last publish to last delivery, as a share of the window.
	DrainShare *float64 `json:"drain_share"`
	// PeakBacklogBytes: the most by which, at the end of an interval, published bytes were ahead of
	// the slowest subscriber, summed over streams. What is known to be lost by then is not ahead.
	PeakBacklogBytes int64 `json:"peak_backlog_bytes"`
	// RunBytes: payload bytes published, not times fanout.
	RunBytes uint64 `json:"run_bytes"`
}

// Disagreement returns a sentence if headline, steady and last-half rate lie more than 10 %
// apart, and "" if not. The run was then not one steady flow, and a single rate hides that.
func (r Rates) Disagreement() string {
	low, high := math.Inf(1), 0.0
	text := ""
	for _, x := range []struct {
		name string
		rate *float64
	}{{"headline", r.DeliveredBytesPerSec}, {"steady", r.SteadyBytesPerSec}, {"last half", r.LastHalfBytesPerSec}} {
		if x.rate == nil {
			continue
		}
		low, high = min(low, *x.rate), max(high, *x.rate)
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %.1f MB/s", x.name, *x.rate/1e6)
	}
	if high == 0 || high <= low*(1+rateTolerance) {
		return ""
	}
	return "rates lie more than 10 % apart: " + text
}

// Interval is one step of the merged series.
type Interval struct {
	AtNs           int64  `json:"at_ns"` // its end, since the first measured publish
	Published      uint64 `json:"published"`
	PublishedBytes uint64 `json:"published_bytes"`
	Delivered      uint64 `json:"delivered"`
	DeliveredBytes uint64 `json:"delivered_bytes"`
	// EndToEnd of what was delivered in it, to 1.6 %; null with fewer than 10 samples beyond.
	P50Ns *int64 `json:"p50_ns"`
	P99Ns *int64 `json:"p99_ns"`
	// BacklogBytes at its end, as in Rates.PeakBacklogBytes.
	BacklogBytes int64 `json:"backlog_bytes"`
}

// Merge puts the results of all senders and receivers of one trial together. It fails on results
// that do not belong together or that no Sender or Receiver wrote.
func Merge(senders []SenderResult, receivers []ReceiverResult) (Merged, error) {
	m := Merged{
		Refused:      map[string]uint64{},
		Failed:       map[string]uint64{},
		EndToEnd:     NewHistogram(),
		Network:      NewHistogram(),
		PublishDelay: NewHistogram(),
		AckRTT:       NewHistogram(),
	}
	for _, s := range senders {
		if err := m.addSender(s); err != nil {
			return Merged{}, fmt.Errorf("publisher %d: %w", s.Publisher, err)
		}
	}
	for _, r := range receivers {
		if err := m.addReceiver(r); err != nil {
			return Merged{}, fmt.Errorf("subscriber %s: %w", r.ID, err)
		}
	}
	t, err := newTimeline(senders, receivers, m.Window)
	if err != nil {
		return Merged{}, err
	}
	m.timeline = t
	m.Intervals = m.Series(len(t.published))
	m.rate()
	return m, nil
}

func (m *Merged) addSender(s SenderResult) error {
	m.Offered += s.Offered
	m.Published += s.Published
	for cause, n := range s.Refused {
		m.Refused[cause] += n
	}
	for cause, n := range s.Failed {
		m.Failed[cause] += n
	}
	m.Rates.RunBytes += s.PublishedBytes
	if s.FirstAt != 0 && (m.Window.FirstPublishAt == 0 || s.FirstAt < m.Window.FirstPublishAt) {
		m.Window.FirstPublishAt = s.FirstAt
	}
	m.Window.LastPublishAt = max(m.Window.LastPublishAt, s.LastAt)
	if err := m.PublishDelay.Merge(s.PublishDelay); err != nil {
		return err
	}
	return m.AckRTT.Merge(s.AckRTT)
}

func (m *Merged) addReceiver(r ReceiverResult) error {
	m.Delivered += r.Delivered
	m.DeliveredBytes += r.DeliveredBytes
	m.Duplicate += r.Duplicate
	m.Reordered += r.Reordered
	m.Foreign += r.Foreign
	m.Corrupt += r.Corrupt
	m.Ambiguous += r.Ambiguous
	m.LateWarmup += r.LateWarmup
	m.Window.LastDeliveryAt = max(m.Window.LastDeliveryAt, r.LastAt)
	if err := m.EndToEnd.Merge(r.EndToEnd); err != nil {
		return err
	}
	return m.Network.Merge(r.Network)
}

func (m *Merged) rate() {
	r, w := &m.Rates, m.Window
	if d := w.LastPublishAt - w.FirstPublishAt; w.FirstPublishAt != 0 && d > 0 {
		r.PublishedMsgsPerSec = perSecond(float64(m.Published), d)
		r.PublishedBytesPerSec = perSecond(float64(r.RunBytes), d)
	}
	if d := w.DurationNs(); d > 0 {
		r.DeliveredMsgsPerSec = perSecond(float64(m.Delivered), d)
		r.DeliveredBytesPerSec = perSecond(float64(m.DeliveredBytes), d)
		mid := w.FirstPublishAt + d/2
		r.LastHalfBytesPerSec = perSecond(m.timeline.bytesBetween(mid, w.LastDeliveryAt), w.LastDeliveryAt-mid)
		drain := float64(max(0, w.LastDeliveryAt-w.LastPublishAt)) / float64(d)
		r.DrainShare = &drain
	}
	for _, b := range m.timeline.backlog {
		r.PeakBacklogBytes = max(r.PeakBacklogBytes, b)
	}
	if from, to, ok := m.timeline.steady(r.RunBytes); ok {
		r.SteadyBytesPerSec = perSecond(m.timeline.bytesBetween(from, to), to-from)
	}
}

func perSecond(amount float64, ns int64) *float64 {
	if ns <= 0 {
		return nil
	}
	v := amount * 1e9 / float64(ns)
	return &v
}

// Series returns the interval series in at most limit intervals (at least 1): as many neighbours as
// it takes are joined, their counts added and their latencies merged before percentiles are taken.
func (m *Merged) Series(limit int) []Interval {
	t := &m.timeline
	n := len(t.published)
	if n == 0 {
		return nil
	}
	join := (n + max(limit, 1) - 1) / max(limit, 1)
	out := make([]Interval, 0, (n+join-1)/join)
	for i := 0; i < n; i += join {
		end := min(i+join, n)
		iv := Interval{
			AtNs:         t.cellEnd(end-1) - t.window.FirstPublishAt,
			BacklogBytes: t.backlog[end-1],
		}
		bins := latencyBins{}
		for j := i; j < end; j++ {
			iv.Published += t.published[j]
			iv.PublishedBytes += t.sent[j]
			iv.Delivered += t.delivered[j]
			iv.DeliveredBytes += t.bytes[j]
			for bin, c := range t.bins[j] {
				bins[bin] += c
			}
		}
		iv.P50Ns, iv.P99Ns = bins.perMille(500), bins.perMille(990)
		out = append(out, iv)
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
