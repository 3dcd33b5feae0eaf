package measure

import (
	"fmt"
	"maps"
	"math"
	"sync/atomic"
)

// maxCauses bounds the distinct causes of refusals or failures that are kept apart.
const maxCauses = 64

// otherCauses counts those beyond maxCauses.
const otherCauses = "other causes"

// SenderConfig says who a Sender is.
type SenderConfig struct {
	Tag       uint32 // of the run
	Publisher uint16 // its index; publishers of one run differ
	Streams   int    // streams of the run, 1 to 65,536; it may publish to each of them
	// PayloadLen is the length of a message in bytes, the mean where they differ; 0 means StampLen, 1
	// to 31 are refused. What is counted is what messages really have.
	PayloadLen int
	// IntervalNs is the length of an interval of the series. If zero, it is 100 ms. All senders
	// and receivers of a run need the same.
	IntervalNs int64
}

// Sender records everything one publisher does. Stamp, Published and Unsent belong to the
// publishing goroutine; Acked, Refused and Failed to the one that takes acks, which may be the
// same or another. Progress may be called by anyone.
type Sender struct {
	// publishing goroutine
	cfg       SenderConfig
	phase     Phase
	markAt    int64
	next      [2][]uint64 // next seq per stream, by phase
	unsent    [2][]rangeList
	unsentWhy map[string]uint64
	published uint64 // measure, accepted by the client
	bytes     int64  // of payload, of published
	unsentLen int64  // of payload, of what was stamped in the measure phase and not accepted
	stamped   int64  // of payload, in the measure phase
	firstAt   int64
	lastAt    int64
	delay     *Histogram
	series    *senderSeries

	// ack goroutine
	refused    [2][]rangeList
	failed     [2][]rangeList
	refusedWhy map[string]uint64
	failedWhy  map[string]uint64
	excluded   int64 // of payload, refused or failed in the measure phase
	rtt        *Histogram

	progressWarmup, progressMeasured, progressBytes, progressLast atomic.Int64
}

// Batch identifies the messages of one publish call.
type Batch struct {
	Phase    Phase
	Stream   uint16
	FirstSeq uint64
	Count    int
	Bytes    int64 // of payload
	Intended int64
	Sent     int64
}

func (b Batch) seqs() SeqRange {
	return SeqRange{First: b.FirstSeq, Last: b.FirstSeq + uint64(b.Count) - 1}
}

// Progress is how far a Sender or a Receiver has come.
type Progress struct {
	Warmup   int64 // messages
	Measured int64 // messages; a Receiver counts each once
	Bytes    int64 // of payload, measured messages only
	LastAt   int64 // when it last counted a message, on the Clock; 0: never
}

// NewSender returns a Sender in the warm-up phase.
func NewSender(cfg SenderConfig) (*Sender, error) {
	var err error
	if cfg.PayloadLen, cfg.IntervalNs, err = checkShape(cfg.PayloadLen, cfg.IntervalNs); err != nil {
		return nil, err
	}
	if cfg.Streams < 1 || cfg.Streams > math.MaxUint16+1 {
		return nil, fmt.Errorf("%d streams: want 1 to %d", cfg.Streams, math.MaxUint16+1)
	}
	s := &Sender{
		cfg:        cfg,
		phase:      PhaseWarmup,
		unsentWhy:  map[string]uint64{},
		refusedWhy: map[string]uint64{},
		failedWhy:  map[string]uint64{},
		delay:      NewHistogram(),
		rtt:        NewHistogram(),
		series:     newSenderSeries(cfg.IntervalNs, cfg.Streams),
	}
	for i := range 2 {
		s.next[i] = make([]uint64, cfg.Streams)
		s.unsent[i] = make([]rangeList, cfg.Streams)
		s.refused[i] = make([]rangeList, cfg.Streams)
		s.failed[i] = make([]rangeList, cfg.Streams)
	}
	return s, nil
}

// checkShape resolves what Senders and Receivers share.
func checkShape(payloadLen int, intervalNs int64) (int, int64, error) {
	if n := PayloadLen(payloadLen); n < StampLen {
		return 0, 0, fmt.Errorf("payload of %d bytes: want 0 or at least %d, for the stamp", payloadLen, StampLen)
	}
	if intervalNs == 0 {
		intervalNs = DefaultIntervalNs
	}
	if intervalNs < 0 {
		return 0, 0, fmt.Errorf("interval of %d ns: want at least 1", intervalNs)
	}
	return PayloadLen(payloadLen), intervalNs, nil
}

// Mark begins the measure phase: what is stamped from now on counts. Sequence numbers start at 0
// again. It belongs to the publishing goroutine (or happens while that rests at the barrier).
func (s *Sender) Mark(now int64) {
	s.phase = PhaseMeasure
	s.markAt = now
}

// Stamp numbers payloads and writes their stamps; the bytes behind the stamps stay as they are (see
// Filler.Fill). All messages of a batch share one intended and one sent time. Payloads of a stream
// that is out of range are left alone, and the Batch is empty.
func (s *Sender) Stamp(stream uint16, payloads [][]byte, intended, sent int64) Batch {
	bytes := int64(0)
	for _, p := range payloads {
		bytes += int64(len(p))
	}
	b := s.number(stream, len(payloads), bytes, intended, sent)
	if b.Count == 0 {
		return b
	}
	stamp := Stamp{
		Tag:       s.cfg.Tag,
		Publisher: s.cfg.Publisher,
		Stream:    stream,
		Phase:     s.phase,
		Seq:       b.FirstSeq,
		Intended:  intended,
		Sent:      sent,
	}
	for _, p := range payloads {
		stamp.Put(p)
		stamp.Seq++
	}
	return b
}

// Unmade numbers a batch whose messages were due and never made, because the client would take
// nothing: they count as offered, and Unsent says why they are no more.
func (s *Sender) Unmade(stream uint16, sizes []int, intended, sent int64) Batch {
	bytes := int64(0)
	for _, n := range sizes {
		bytes += int64(n)
	}
	return s.number(stream, len(sizes), bytes, intended, sent)
}

// number gives a batch the next numbers of its stream.
func (s *Sender) number(stream uint16, count int, bytes, intended, sent int64) Batch {
	if int(stream) >= s.cfg.Streams {
		return Batch{}
	}
	next := &s.next[s.phase-PhaseWarmup][stream]
	b := Batch{
		Phase:    s.phase,
		Stream:   stream,
		FirstSeq: *next,
		Count:    count,
		Bytes:    bytes,
		Intended: intended,
		Sent:     sent,
	}
	*next += uint64(count)
	if s.phase == PhaseMeasure {
		s.stamped += b.Bytes
	}
	return b
}

// Published says that the client accepted b; now is when.
func (s *Sender) Published(b Batch, now int64) {
	if b.Count <= 0 {
		return
	}
	if b.Phase == PhaseWarmup {
		s.progressWarmup.Add(int64(b.Count))
		s.progressLast.Store(now)
		return
	}
	if s.published == 0 {
		s.firstAt = b.Sent
	}
	s.published += uint64(b.Count)
	s.lastAt = now
	s.delay.RecordN(b.Sent-b.Intended, int64(b.Count))
	s.bytes += b.Bytes
	s.series.record(now, b.Stream, uint64(b.Count), uint64(b.Bytes))
	s.progressMeasured.Store(int64(s.published))
	s.progressBytes.Store(s.bytes)
	s.progressLast.Store(now)
}

// Unsent says that the client did not accept b: its Publish returned an error. The messages are
// failed, and not expected anywhere.
func (s *Sender) Unsent(b Batch, cause string) {
	s.exclude(b, cause, &s.unsent, s.unsentWhy, &s.unsentLen)
}

// Acked says that the positive ack of b arrived at now. One ack is one sample of AckRTT, whatever
// the batch holds.
func (s *Sender) Acked(b Batch, now int64) {
	if b.Phase == PhaseMeasure && b.Count > 0 {
		s.rtt.Record(now - b.Sent)
	}
}

// Refused says that b was answered with a negative ack: the messages are not expected anywhere.
func (s *Sender) Refused(b Batch, cause string) {
	s.exclude(b, cause, &s.refused, s.refusedWhy, &s.excluded)
}

// Failed says that b, accepted before, was given up by the client (write error, ack timeout): the
// messages are not expected anywhere. If they arrive all the same, the ledger says so.
func (s *Sender) Failed(b Batch, cause string) {
	s.exclude(b, cause, &s.failed, s.failedWhy, &s.excluded)
}

func (s *Sender) exclude(b Batch, cause string, lists *[2][]rangeList, why map[string]uint64, bytes *int64) {
	if b.Count <= 0 || int(b.Stream) >= s.cfg.Streams || b.Phase != PhaseWarmup && b.Phase != PhaseMeasure {
		return
	}
	lists[b.Phase-PhaseWarmup][b.Stream].add(b.seqs())
	if b.Phase == PhaseMeasure {
		addCause(why, cause, uint64(b.Count))
		*bytes += b.Bytes
	}
}

func addCause(why map[string]uint64, cause string, n uint64) {
	if _, known := why[cause]; !known && len(why) >= maxCauses {
		cause = otherCauses
	}
	why[cause] += n
}

// Progress returns what was published so far. Failures that were counted later stay in it.
func (s *Sender) Progress() Progress {
	return Progress{
		Warmup:   s.progressWarmup.Load(),
		Measured: s.progressMeasured.Load(),
		Bytes:    s.progressBytes.Load(),
		LastAt:   s.progressLast.Load(),
	}
}

// Expected returns, per stream, how many messages of a phase each subscriber is due. Both of the
// Sender's goroutines must rest.
func (s *Sender) Expected(phase Phase) []uint64 {
	out := make([]uint64, s.cfg.Streams)
	if phase != PhaseWarmup && phase != PhaseMeasure {
		return out
	}
	i := phase - PhaseWarmup
	for stream := range out {
		out[stream] = s.next[i][stream] - s.unsent[i][stream].count - s.refused[i][stream].count - s.failed[i][stream].count
	}
	return out
}

// SenderResult is what a Sender recorded. Times are on the machine's monotonic clock.
type SenderResult struct {
	Publisher  uint16 `json:"publisher"`
	PayloadLen int    `json:"payload_len"`
	IntervalNs int64  `json:"interval_ns"`
	MarkAt     int64  `json:"mark_at"`

	// Offered are the messages that were stamped; published = offered - refused - failed.
	Offered   uint64            `json:"offered"`
	Published uint64            `json:"published"`
	Refused   map[string]uint64 `json:"refused"` // negative acks, messages by cause
	Failed    map[string]uint64 `json:"failed"`  // send errors, messages by cause
	Warmup    uint64            `json:"warmup"`  // offered in the warm-up, less refused and failed
	// PublishedBytes of payload, as messages really had it.
	PublishedBytes uint64 `json:"published_bytes"`

	// FirstAt is the sent time of the first measured message, LastAt the time at which the client
	// had accepted the last; both 0 if there was none.
	FirstAt int64 `json:"first_at"`
	LastAt  int64 `json:"last_at"`

	PublishDelay *Histogram `json:"publish_delay"` // sent - intended, per message
	AckRTT       *Histogram `json:"ack_rtt"`       // ack - sent, per ack

	Streams []SentStream `json:"streams"` // those with any message
	Series  []byte       `json:"series"`  // packed; Merge reads it
}

// SentStream is what one publisher sent to one stream in the measure phase: the sequence numbers
// 0 to Offered-1.
type SentStream struct {
	Stream  uint16 `json:"stream"`
	Offered uint64 `json:"offered"`
	Refused uint64 `json:"refused"`
	Failed  uint64 `json:"failed"`
	// Excluded are the sequence numbers that were refused or failed. At most about a thousand
	// ranges are kept per reason; ExcludedLost counts the messages of the others.
	Excluded     []SeqRange `json:"excluded,omitempty"`
	ExcludedLost uint64     `json:"excluded_lost,omitempty"`
}

// Expected returns how many messages each subscriber of the stream is due.
func (s SentStream) Expected() uint64 { return s.Offered - min(s.Offered, s.Refused+s.Failed) }

// Result returns everything recorded. Both of the Sender's goroutines must have stopped.
func (s *Sender) Result() SenderResult {
	s.series.flush()
	r := SenderResult{
		Publisher:    s.cfg.Publisher,
		PayloadLen:   s.cfg.PayloadLen,
		IntervalNs:   s.cfg.IntervalNs,
		MarkAt:       s.markAt,
		Refused:      maps.Clone(s.refusedWhy),
		Failed:       maps.Clone(s.failedWhy),
		FirstAt:      s.firstAt,
		LastAt:       s.lastAt,
		PublishDelay: s.delay,
		AckRTT:       s.rtt,
		Series:       s.series.packed,

		PublishedBytes: uint64(max(0, s.stamped-s.unsentLen-s.excluded)),
	}
	for cause, n := range s.unsentWhy {
		addCause(r.Failed, cause, n)
	}
	for _, n := range s.Expected(PhaseWarmup) {
		r.Warmup += n
	}
	const measure = PhaseMeasure - PhaseWarmup
	for stream, offered := range s.next[measure] {
		if offered == 0 {
			continue
		}
		unsent, refused, failed := s.unsent[measure][stream], s.refused[measure][stream], s.failed[measure][stream]
		sent := SentStream{
			Stream:       uint16(stream),
			Offered:      offered,
			Refused:      refused.count,
			Failed:       unsent.count + failed.count,
			ExcludedLost: unsent.lost + refused.lost + failed.lost,
		}
		var excluded []SeqRange
		for _, l := range []rangeList{unsent, refused, failed} {
			excluded = append(excluded, l.ranges...)
		}
		sent.Excluded = normalize(excluded)
		r.Offered += offered
		r.Published += sent.Expected()
		r.Streams = append(r.Streams, sent)
	}
	return r
}
