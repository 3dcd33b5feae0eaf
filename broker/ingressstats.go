package broker

import (
	"cmp"
	"slices"
	"time"
)

// IngressStats are checkpoints 3 and 4. They are a snapshot under one lock, as are the ingress
// counts of Flow and StreamStats.
type IngressStats struct {
	// Counts are the publishes that found no room, in messages, by where and whose; only what is
	// not zero.
	Counts []IngressCount `json:"counts"`
	// Waiting are publishes that wait for room now; WaitedPublishes those whose wait has ended,
	// WaitNs and WaitHist how long they waited.
	Waiting         int           `json:"waiting"`
	WaitedPublishes uint64        `json:"waited_publishes"`
	WaitNs          int64         `json:"wait_ns"`
	WaitHist        WaitHistogram `json:"wait_hist"`
	// QueueDepth are the publishes that hold a place at checkpoint 4, HeldBytes the bytes held at
	// checkpoint 3. Both are 0 when nothing is being published.
	QueueDepth int   `json:"queue_depth"`
	HeldBytes  int64 `json:"held_bytes"`
	// ConnHighWaterBytes is the most that one connection has held at checkpoint 3.
	ConnHighWaterBytes int64 `json:"conn_high_water_bytes"`
	// Blocked3 and Blocked4 are the waits at each checkpoint, Blocked5 those of publishes that
	// waited for room at a subscriber.
	Blocked3 WaitHistogram `json:"blocked_3"`
	Blocked4 WaitHistogram `json:"blocked_4"`
	Blocked5 WaitHistogram `json:"blocked_5"`
}

// IngressCount counts messages of one tenant that one bound had no room for.
type IngressCount struct {
	Checkpoint int `json:"checkpoint"` // 3 or 4
	// Reason is "conn_bytes", "bytes" or "items"; or "gone": the publisher's connection ended while
	// the publish waited.
	Reason       string `json:"reason"`
	Tenant       string `json:"tenant"`
	DroppedMsgs  uint64 `json:"dropped_msgs"`  // unacked ones that were shed, or gone
	RejectedMsgs uint64 `json:"rejected_msgs"` // acked ones that were answered "overloaded"
}

// WaitHistogram counts waits by their length. Counts[i] are those of at most WaitBounds()[i]
// that are longer than the bound before; the last are longer than all bounds.
type WaitHistogram struct {
	Counts [len(waitBounds) + 1]uint64 `json:"counts"`
	SumNs  int64                       `json:"sum_ns"`
}

var waitBounds = [...]time.Duration{
	10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond, time.Second, 10 * time.Second,
}

// WaitBounds are the upper bounds of a WaitHistogram.
func WaitBounds() []time.Duration { return waitBounds[:] }

func (h *WaitHistogram) add(d time.Duration) {
	i := 0
	for i < len(waitBounds) && d > waitBounds[i] {
		i++
	}
	h.Counts[i]++
	h.SumNs += int64(d)
}

func (h *WaitHistogram) merge(o *WaitHistogram) {
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	h.SumNs += o.SumNs
}

// Total is the number of waits.
func (h *WaitHistogram) Total() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// ingressCounts is the account; the ingress's lock guards it. Messages are counted as received
// when it is decided what becomes of them, so that at any time
//
//	received = accepted + rejected + dropped
type ingressCounts struct {
	received, accepted, rejected, dropped, bytesIn uint64

	waiting int
	waits   WaitHistogram
	blocked [5]WaitHistogram // by checkpoint: 3, 4
	parked  WaitHistogram

	inline, woken loopCount
	connHigh      int64 // bytes of one connection
}

// tenantCounts are one tenant's refused messages.
type tenantCounts struct {
	dropped, rejected, gone [numReasons]uint64
}

func (in *ingress) receive(b *batch) {
	in.counts.received += uint64(b.count)
	in.counts.bytesIn += uint64(b.payload)
}

// accept counts a batch that is admitted.
func (in *ingress) accept(b *batch) {
	in.receive(b)
	in.counts.accepted += uint64(b.count)
	in.counts.connHigh = max(in.counts.connHigh, b.way.conn.held)
	in.pending++
}

// refuse counts a batch that found no room: dropped, or else rejected.
func (in *ingress) refuse(b *batch, l *lane, why reason, drop bool) {
	in.receive(b)
	n := uint64(b.count)
	if drop {
		in.counts.dropped += n
		l.dropped += n
		l.tenant.counts.dropped[why] += n
	} else {
		in.counts.rejected += n
		l.rejected += n
		l.tenant.counts.rejected[why] += n
	}
}

// lose counts a batch whose connection ended while it waited.
func (in *ingress) lose(b *batch, l *lane, why reason) {
	in.receive(b)
	n := uint64(b.count)
	in.counts.dropped += n
	l.dropped += n
	l.tenant.counts.gone[why] += n
}

// reject counts messages that were refused before any checkpoint: no such stream, no right.
func (in *ingress) reject(messages, payloadBytes int) {
	in.mu.Lock()
	in.counts.received += uint64(messages)
	in.counts.rejected += uint64(messages)
	in.counts.bytesIn += uint64(payloadBytes)
	in.mu.Unlock()
}

// snapshot fills in the parts of the statistics that the ingress counts. streams are in the order
// of st.Streams.
func (in *ingress) snapshot(st *Stats, streams []*stream) (checkpoints []Checkpoint) {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := &in.counts
	st.Flow.ReceivedMsgs, st.Flow.AcceptedMsgs = c.received, c.accepted
	st.Flow.RejectedMsgs, st.Flow.IngressDroppedMsgs, st.Flow.BytesIn = c.rejected, c.dropped, c.bytesIn
	for i, s := range streams {
		st.Streams[i].IngressDroppedMsgs, st.Streams[i].IngressRejectedMsgs = s.lane.dropped, s.lane.rejected
	}
	s := &st.Ingress
	s.Waiting = c.waiting
	s.WaitedPublishes, s.WaitNs, s.WaitHist = c.waits.Total(), c.waits.SumNs, c.waits
	s.HeldBytes, s.ConnHighWaterBytes = in.all.held, c.connHigh
	s.Blocked3, s.Blocked4, s.Blocked5 = c.blocked[3], c.blocked[4], c.parked
	three := Checkpoint{
		Number: 3, Name: "ingress admission", BoundBytes: in.all.max,
		HighWaterBytes: in.all.high, BlockedNs: s.Blocked3.SumNs,
		ConnBoundBytes: in.cfg.PubConnInflightBytes, ConnHighWaterBytes: c.connHigh,
	}
	four := Checkpoint{Number: 4, Name: "publish queue", BlockedNs: s.Blocked4.SumNs}
	for _, q := range in.queues {
		s.QueueDepth += q.queued
		four.Bound = max(four.Bound, int64(q.bound()))
		four.HighWater = max(four.HighWater, int64(q.high))
	}
	s.Counts = in.refused()
	for _, n := range s.Counts {
		if n.Checkpoint == 3 {
			three.Dropped += n.DroppedMsgs
		} else {
			four.Dropped += n.DroppedMsgs
		}
	}
	three.Policy = in.cfg.enqueuePolicyText()
	four.Policy = three.Policy
	st.Wakeups = append(st.Wakeups, c.inline.wakeup("publish_inline"), c.woken.wakeup("publish_executor"))
	return []Checkpoint{three, four}
}

// refused lists the counts that are not zero, in a fixed order.
func (in *ingress) refused() []IngressCount {
	out := []IngressCount{}
	for name, t := range in.tenants {
		for r := reasonConnBytes; r < numReasons; r++ {
			if t.dropped[r]+t.rejected[r] > 0 {
				out = append(out, IngressCount{r.checkpoint(), reasonNames[r], name, t.dropped[r], t.rejected[r]})
			}
		}
		if n := t.gone[reasonConnBytes] + t.gone[reasonBytes]; n > 0 {
			out = append(out, IngressCount{3, "gone", name, n, 0})
		}
		if n := t.gone[reasonItems]; n > 0 {
			out = append(out, IngressCount{4, "gone", name, n, 0})
		}
	}
	slices.SortFunc(out, func(x, y IngressCount) int {
		return cmp.Or(cmp.Compare(x.Checkpoint, y.Checkpoint), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Tenant, y.Tenant))
	})
	return out
}
