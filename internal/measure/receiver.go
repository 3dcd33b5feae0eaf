package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// ReceiverConfig says which subscription a Receiver belongs to.
type ReceiverConfig struct {
	ID     string // of the subscriber, as the record names it
	Tag    uint32 // of the run
	Stream uint16 // the stream it subscribed to
	// Publishers of the run, 1 to 65,536; a stamp of another index is foreign.
	Publishers int
	// OrderPromised is whether a publisher's messages must arrive in order. It changes what a
	// reordered message means, not how it is counted.
	OrderPromised bool
	// PayloadLen is the length of every message in bytes, the mean where they differ; 0 means
	// StampLen, 1 to 31 are refused.
	PayloadLen int
	// Filler is what must stand behind the stamps. If nil, lengths alone are checked.
	Filler *Filler
	// Mixed are the fillers of messages of several lengths, one of each. If not empty, a message
	// must be as one of them, and Filler nil.
	Mixed []*Filler
	// IntervalNs is the length of an interval of the series. If zero, it is 100 ms.
	IntervalNs int64
	// Tracer, if not nil, is told of the traced messages that arrive at the subscription of this id.
	Tracer       *Tracer
	Subscription uint64
}

// Receiver records everything one subscription of one stream gets. Record, RecordBatch and Result
// belong to one goroutine; Mark and Progress may be called by anyone.
type Receiver struct {
	cfg     ReceiverConfig
	ledgers []seqLedger // of the measure phase, by publisher
	warmup  []uint64    // by publisher

	warmupAll  uint64
	delivered  uint64
	bytes      uint64 // of payload, of delivered
	missing    int64  // skipped and not come since, over all publishers
	foreign    uint64
	corrupt    uint64
	lateWarmup uint64
	firstAt    int64
	lastAt     int64 // of a delivery
	seenAt     int64 // of any message of this run

	endToEnd *Histogram
	network  *Histogram
	series   *receiverSeries

	markAt atomic.Int64

	progressWarmup, progressMeasured, progressBytes, progressLast atomic.Int64

	progressHeads []atomic.Uint64 // by publisher
}

// NewReceiver returns a Receiver that has got nothing yet.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	var err error
	if cfg.PayloadLen, cfg.IntervalNs, err = checkShape(cfg.PayloadLen, cfg.IntervalNs); err != nil {
		return nil, err
	}
	if cfg.Publishers < 1 || cfg.Publishers > math.MaxUint16+1 {
		return nil, fmt.Errorf("%d publishers: want 1 to %d", cfg.Publishers, math.MaxUint16+1)
	}
	if cfg.Filler != nil && cfg.Filler.Len() != cfg.PayloadLen {
		return nil, fmt.Errorf("filler of %d bytes for payloads of %d", cfg.Filler.Len(), cfg.PayloadLen)
	}
	if cfg.Filler != nil && len(cfg.Mixed) > 0 {
		return nil, errors.New("a filler for one length, and fillers for several")
	}
	return &Receiver{
		cfg:     cfg,
		ledgers: make([]seqLedger, cfg.Publishers),
		warmup:  make([]uint64, cfg.Publishers),

		progressHeads: make([]atomic.Uint64, cfg.Publishers),

		endToEnd: NewHistogram(),
		network:  NewHistogram(),
		series:   newReceiverSeries(cfg.IntervalNs),
	}, nil
}

// Mark begins the measure phase: a warm-up message that arrives later is late. Measured messages
// are told by their stamps, so that none is missed when another process got its mark first.
func (r *Receiver) Mark(now int64) { r.markAt.Store(now) }

// Record counts one message that the application got at now.
func (r *Receiver) Record(payload []byte, now int64) {
	r.record(payload, now)
	r.progress()
}

// RecordBatch counts messages that the application got together at now. It is the cheaper form:
// progress is published once per batch, where atomic stores would be a third of the cost.
func (r *Receiver) RecordBatch(payloads [][]byte, now int64) {
	for _, p := range payloads {
		r.record(p, now)
	}
	r.progress()
}

// progress publishes the counters. An atomic store costs ten times a load, and in each phase only
// one of the two counters moves.
func (r *Receiver) progress() {
	if n := int64(r.warmupAll); r.progressWarmup.Load() != n {
		r.progressWarmup.Store(n)
	}
	if n := int64(r.delivered); r.progressMeasured.Load() != n {
		r.progressMeasured.Store(n)
		r.progressBytes.Store(int64(r.bytes))
	}
	if r.progressLast.Load() != r.seenAt {
		r.progressLast.Store(r.seenAt)
	}
	for p := range r.ledgers {
		if head := r.ledgers[p].head; r.progressHeads[p].Load() != head {
			r.progressHeads[p].Store(head)
		}
	}
}

// Heads returns, by publisher, the highest measured sequence number that arrived, plus 1. It is
// what is left of a ledger whose process dies: Progress says how many of those numbers arrived.
func (r *Receiver) Heads() []int64 {
	heads := make([]int64, len(r.progressHeads))
	for p := range heads {
		heads[p] = int64(r.progressHeads[p].Load())
	}
	return heads
}

// whole reports whether a payload has the length and the filler that one of this run has.
func (r *Receiver) whole(payload []byte) bool {
	if len(r.cfg.Mixed) == 0 {
		return len(payload) == r.cfg.PayloadLen && (r.cfg.Filler == nil || r.cfg.Filler.Check(payload))
	}
	for _, f := range r.cfg.Mixed {
		if len(payload) == f.Len() {
			return f.Check(payload)
		}
	}
	return false
}

func (r *Receiver) record(payload []byte, now int64) {
	s, err := ParseStamp(payload)
	if errors.Is(err, ErrStampShort) {
		r.corrupt++
		return
	}
	if s.Tag != r.cfg.Tag || s.Stream != r.cfg.Stream || int(s.Publisher) >= len(r.ledgers) {
		r.foreign++
		return
	}
	if err != nil || !r.whole(payload) {
		r.corrupt++
		return
	}
	r.seenAt = now
	if s.Phase == PhaseWarmup {
		r.warmup[s.Publisher]++
		r.warmupAll++
		if mark := r.markAt.Load(); mark != 0 && now >= mark {
			r.lateWarmup++
		}
		return
	}
	ledger := &r.ledgers[s.Publisher]
	if s.Seq == ledger.head { // seqLedger.record by hand: what is missing stays as it is
		ledger.head++
		ledger.delivered++
	} else {
		before := ledger.missing()
		if o := ledger.recordSlow(s.Seq); o == outcomeDuplicate || o == outcomeAmbiguous {
			return
		}
		r.missing += int64(ledger.missing() - before)
	}
	if r.delivered == 0 {
		r.firstAt = now
	}
	r.delivered++
	r.bytes += uint64(len(payload))
	r.lastAt = now
	r.endToEnd.Record(now - s.Intended)
	r.network.Record(now - s.Sent)
	r.series.record(now, now-s.Intended, r.missing, uint64(len(payload)))
	if r.cfg.Tracer != nil {
		r.cfg.Tracer.receive(s, r.cfg.Subscription, now)
	}
}

// Progress returns what arrived so far: Warmup messages, and measured ones once each.
func (r *Receiver) Progress() Progress {
	return Progress{
		Warmup:   r.progressWarmup.Load(),
		Measured: r.progressMeasured.Load(),
		Bytes:    r.progressBytes.Load(),
		LastAt:   r.progressLast.Load(),
	}
}

// ReceiverResult is what a Receiver recorded. Times are on the machine's monotonic clock.
type ReceiverResult struct {
	ID            string `json:"id"`
	Stream        uint16 `json:"stream"`
	OrderPromised bool   `json:"order_promised"`
	PayloadLen    int    `json:"payload_len"`
	IntervalNs    int64  `json:"interval_ns"`
	MarkAt        int64  `json:"mark_at"`

	Delivered      uint64 `json:"delivered"` // measured messages, each once
	DeliveredBytes uint64 `json:"delivered_bytes"`
	Duplicate      uint64 `json:"duplicate"`
	Reordered      uint64 `json:"reordered"` // arrived after a later one of the same publisher; delivered
	Foreign        uint64 `json:"foreign"`   // of another run or stream, or of no publisher
	Corrupt        uint64 `json:"corrupt"`   // wrong length, unreadable stamp, wrong filler; not delivered
	// Ambiguous messages are late or duplicate, but the ledger had too many gaps to tell (see
	// Received.Untracked). They are not counted as delivered.
	Ambiguous uint64 `json:"ambiguous"`

	Warmup            uint64   `json:"warmup"`
	WarmupByPublisher []uint64 `json:"warmup_by_publisher"`
	LateWarmup        uint64   `json:"late_warmup"` // of Warmup, those after the mark

	FirstAt int64 `json:"first_at"` // of the first measured delivery; 0: none
	LastAt  int64 `json:"last_at"`

	EndToEnd *Histogram `json:"end_to_end"` // received - intended
	Network  *Histogram `json:"network"`    // received - sent

	Publishers []Received `json:"publishers"` // those of which a measured message arrived
	Series     []byte     `json:"series"`     // packed; Merge reads it
}

// Received is what arrived of one publisher in the measure phase: every sequence number below
// Head but those in Gaps.
type Received struct {
	Publisher uint16     `json:"publisher"`
	Head      uint64     `json:"head"` // the highest sequence number that arrived, plus 1
	Delivered uint64     `json:"delivered"`
	Gaps      []SeqRange `json:"gaps,omitempty"`
	// Untracked counts missing messages whose gaps are not listed: at most about a thousand are.
	Untracked uint64 `json:"untracked,omitempty"`
}

// Result returns everything recorded.
func (r *Receiver) Result() ReceiverResult {
	r.series.flush()
	res := ReceiverResult{
		ID:                r.cfg.ID,
		Stream:            r.cfg.Stream,
		OrderPromised:     r.cfg.OrderPromised,
		PayloadLen:        r.cfg.PayloadLen,
		IntervalNs:        r.cfg.IntervalNs,
		MarkAt:            r.markAt.Load(),
		Delivered:         r.delivered,
		DeliveredBytes:    r.bytes,
		Foreign:           r.foreign,
		Corrupt:           r.corrupt,
		Warmup:            r.warmupAll,
		WarmupByPublisher: slices.Clone(r.warmup),
		LateWarmup:        r.lateWarmup,
		FirstAt:           r.firstAt,
		LastAt:            r.lastAt,
		EndToEnd:          r.endToEnd,
		Network:           r.network,
		Series:            r.series.packed,
	}
	for p := range r.ledgers {
		l := &r.ledgers[p]
		res.Duplicate += l.duplicates
		res.Reordered += l.late
		res.Ambiguous += l.ambiguous
		if l.head == 0 {
			continue
		}
		gaps := l.gaps[:min(len(l.gaps), maxResultRanges)]
		res.Publishers = append(res.Publishers, Received{
			Publisher: uint16(p),
			Head:      l.head,
			Delivered: l.delivered,
			Gaps:      slices.Clone(gaps),
			Untracked: l.missing() - rangesLen(gaps),
		})
	}
	return res
}

// Range names messages that one subscriber should have got and did not.
type Range struct {
	Publisher uint16 `json:"publisher"`
	Stream    uint16 `json:"stream"`
	FirstSeq  uint64 `json:"first_seq"`
	LastSeq   uint64 `json:"last_seq"`
}

// Missing returns what did not arrive of the sequence numbers 0 to expected-1 of each publisher,
// in order of publisher and number. Gaps that were not listed are not in it (see Untracked).
func (r ReceiverResult) Missing(expected map[uint16]uint64) []Range {
	var out []Range
	for _, publisher := range sortedKeys(expected) {
		for _, g := range r.missingOf(publisher, expected[publisher]) {
			out = append(out, Range{Publisher: publisher, Stream: r.Stream, FirstSeq: g.First, LastSeq: g.Last})
		}
	}
	return out
}

func (r ReceiverResult) missingOf(publisher uint16, expected uint64) []SeqRange {
	var got Received
	for _, p := range r.Publishers {
		if p.Publisher == publisher {
			got = p
		}
	}
	var out []SeqRange
	for _, g := range normalize(got.Gaps) {
		if g.First >= expected {
			break
		}
		out = append(out, SeqRange{First: g.First, Last: min(g.Last, expected-1)})
	}
	if got.Head < expected {
		out = append(out, SeqRange{First: got.Head, Last: expected - 1})
	}
	return normalize(out)
}
