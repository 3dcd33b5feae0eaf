package measure

import (
	"errors"
	"fmt"
)

// ErrMismatch means that results are not of one trial.
var ErrMismatch = errors.New("results of different trials")

// steadyCells is how many whole intervals a steady rate needs.
const steadyCells = 3

// timeline is the merged series on the common grid, from the first to the last interval in which
// anything happened.
type timeline struct {
	length     int64 // of an interval, ns
	first      int64 // number of the first
	window     Window
	payloadLen uint64
	published  []uint64 // messages
	sent       []uint64 // bytes of payload published
	delivered  []uint64 // messages, all subscribers
	bytes      []uint64 // of payload delivered, all subscribers
	bins       []latencyBins
	backlog    []int64 // bytes, at the interval's end
}

func (t *timeline) cellStart(i int) int64 { return (t.first + int64(i)) * t.length }
func (t *timeline) cellEnd(i int) int64   { return (t.first + int64(i) + 1) * t.length }

func newTimeline(senders []SenderResult, receivers []ReceiverResult, w Window) (timeline, error) {
	t := timeline{window: w}
	shape := func(payloadLen int, length int64) error {
		if payloadLen < StampLen || length <= 0 {
			return fmt.Errorf("payload of %d bytes, interval of %d ns: %w", payloadLen, length, errSeries)
		}
		if t.length == 0 {
			t.payloadLen, t.length = uint64(payloadLen), length
		}
		if t.payloadLen != uint64(payloadLen) || t.length != length {
			return fmt.Errorf("payloads of %d and %d bytes, intervals of %d and %d ns: %w",
				t.payloadLen, payloadLen, t.length, length, ErrMismatch)
		}
		return nil
	}
	sent := make([][]senderCell, len(senders))
	got := make([][]receiverCell, len(receivers))
	var span cellSpan
	for i, s := range senders {
		if err := shape(s.PayloadLen, s.IntervalNs); err != nil {
			return t, fmt.Errorf("publisher %d: %w", s.Publisher, err)
		}
		cells, err := parseSenderSeries(s.Series, s.IntervalNs)
		if err != nil {
			return t, fmt.Errorf("publisher %d: %w", s.Publisher, err)
		}
		for _, c := range cells {
			span.add(c.cell)
		}
		sent[i] = cells
	}
	for i, r := range receivers {
		if err := shape(r.PayloadLen, r.IntervalNs); err != nil {
			return t, fmt.Errorf("subscriber %s: %w", r.ID, err)
		}
		cells, err := parseReceiverSeries(r.Series, r.IntervalNs)
		if err != nil {
			return t, fmt.Errorf("subscriber %s: %w", r.ID, err)
		}
		for _, c := range cells {
			span.add(c.cell)
		}
		got[i] = cells
	}
	if !span.any {
		return t, nil
	}
	if span.last-span.first >= maxSpan {
		return t, fmt.Errorf("series of %d intervals: %w", span.last-span.first+1, ErrMismatch)
	}
	n := int(span.last - span.first + 1)
	t.first = span.first
	t.published = make([]uint64, n)
	t.sent = make([]uint64, n)
	t.delivered = make([]uint64, n)
	t.bytes = make([]uint64, n)
	t.bins = make([]latencyBins, n)
	t.backlog = make([]int64, n)
	t.fill(sent, got, receivers)
	return t, nil
}

// cellSpan is the range of intervals seen.
type cellSpan struct {
	any         bool
	first, last int64
}

func (s *cellSpan) add(cell int64) {
	if !s.any {
		s.any, s.first, s.last = true, cell, cell
	}
	s.first, s.last = min(s.first, cell), max(s.last, cell)
}

func (t *timeline) fill(sent [][]senderCell, got [][]receiverCell, receivers []ReceiverResult) {
	n := len(t.published)
	byStream := map[uint16][]int64{} // bytes published so far
	for _, cells := range sent {
		for _, c := range cells {
			i := c.cell - t.first
			for _, s := range c.byStream {
				t.published[i] += s.messages
				t.sent[i] += s.bytes
				if byStream[s.stream] == nil {
					byStream[s.stream] = make([]int64, n)
				}
				byStream[s.stream][i] += int64(s.bytes)
			}
		}
	}
	for _, p := range byStream {
		for i := 1; i < n; i++ {
			p[i] += p[i-1]
		}
	}
	slowest := map[uint16][]int64{} // bytes behind, of the slowest subscriber of a stream
	for k, cells := range got {
		for _, c := range cells {
			i := c.cell - t.first
			t.delivered[i] += c.messages
			t.bytes[i] += c.bytes
			if t.bins[i] == nil {
				t.bins[i] = latencyBins{}
			}
			t.bins[i].add(c.bins)
		}
		stream := receivers[k].Stream
		published := byStream[stream]
		if published == nil {
			continue
		}
		if slowest[stream] == nil {
			slowest[stream] = make([]int64, n)
		}
		for i, done := range t.doneWith(cells) {
			slowest[stream][i] = max(slowest[stream][i], published[i]-done)
		}
	}
	for _, behind := range slowest {
		for i, b := range behind {
			t.backlog[i] += b
		}
	}
}

// doneWith returns, per interval, how many bytes one subscriber was done with at its end: those
// delivered, and those lost as far as it could know, at the mean length of a message. Lost by then are the messages skipped then
// that stay skipped, at most the smallest number skipped at any later time: without a promise of
// order most of what is skipped is merely late, and must count as backlog until it comes.
func (t *timeline) doneWith(cells []receiverCell) []int64 {
	n := len(t.published)
	done := make([]int64, n)
	lost := make([]int64, n)
	k := 0
	var delivered, skipped int64
	for i := range n {
		for k < len(cells) && cells[k].cell-t.first == int64(i) {
			delivered += int64(cells[k].bytes)
			skipped = cells[k].skipped
			k++
		}
		done[i], lost[i] = delivered, skipped
	}
	for i := n - 1; i >= 0; i-- {
		if i < n-1 {
			lost[i] = min(lost[i], lost[i+1])
		}
		done[i] += max(lost[i], 0) * int64(t.payloadLen)
	}
	return done
}

// bytesBetween returns the bytes delivered in (from, to], within the window. What arrived in an
// interval is taken to have arrived evenly over it.
func (t *timeline) bytesBetween(from, to int64) float64 {
	sum := 0.0
	for i, bytes := range t.bytes {
		// The first and the last interval are as long as the window covers them.
		start := max(t.cellStart(i), t.window.FirstPublishAt)
		end := min(t.cellEnd(i), t.window.LastDeliveryAt)
		share := 0.0
		switch {
		case end <= start: // all of it arrived at once
			if at := min(start, t.window.LastDeliveryAt); at > from && at <= to {
				share = 1
			}
		default:
			share = float64(max(0, min(end, to)-max(start, from))) / float64(end-start)
		}
		sum += share * float64(bytes)
	}
	return sum
}

// steady returns when the flow was steady: from the first interval whose backlog is not exceeded
// later, while anything is published, by more than a tenth of the peak (or 1 % of the run, which
// is noise), to the last whole interval before the publisher stopped.
func (t *timeline) steady(runBytes uint64) (from, to int64, ok bool) {
	last := -1 // the last whole interval of publishing
	for i := range t.published {
		if t.cellEnd(i) <= t.window.LastPublishAt {
			last = i
		}
	}
	if last < 0 || t.window.LastDeliveryAt == 0 {
		return 0, 0, false
	}
	var peak int64
	for _, b := range t.backlog[:last+1] {
		peak = max(peak, b)
	}
	tolerance := max(peak/10, int64(runBytes/100))
	start := last
	var later int64 // the largest backlog after start
	for i := last; i >= 0; i-- {
		if later <= t.backlog[i]+tolerance {
			start = i
		}
		later = max(later, t.backlog[i])
	}
	if last-start < steadyCells {
		return 0, 0, false
	}
	return t.cellEnd(start), t.cellEnd(last), true
}
