package measure

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Point is a moment on the way of a traced message, in the order of the way.
type Point uint8

// The points. Those up to PointFanout belong to the message, the others to one delivery of it.
const (
	PointIntended      Point = iota // it was due, as its stamp says
	PointSent                       // it was handed to the client, as its stamp says
	PointClientWrite                // the client's write to QUIC begins
	PointClientWritten              // and has returned
	PointBrokerRead                 // the broker has read its frame whole
	PointFanout                     // the broker begins to offer it to subscriptions
	PointBrokerWrite                // the broker's write to QUIC begins
	PointBrokerWritten              // and has returned
	PointArrived                    // the subscriber's client has read its frame whole
	PointReceived                   // the application has it

	// pointDue is PointIntended again, as the subscriber read it: what EndToEnd is counted from.
	pointDue

	numPoints = int(PointReceived) + 1
)

// TracerConfig says which messages a Tracer follows.
type TracerConfig struct {
	Tag uint32 // of the run
	// Every traces the sequence numbers that it divides, of each publisher and stream; at least 1.
	// Every process of a run needs the same.
	Every uint64
	// Events bounds what is kept. When it is reached, every second traced message is forgotten,
	// and so on: what remains is spread over the whole run.
	Events int
}

// Tracer collects where traced messages were at what time. It may be used by several goroutines;
// what is not traced costs it neither a lock nor an allocation.
type Tracer struct {
	tag   uint32
	every divisor

	thinned atomic.Uint32 // halvings; read without the lock

	mu     sync.Mutex
	events []traceEvent // its capacity is the bound
	lost   uint64
}

type traceEvent struct {
	id, sub uint64
	at      int64
	point   Point
}

// NewTracer returns a Tracer that has seen nothing.
func NewTracer(cfg TracerConfig) (*Tracer, error) {
	if cfg.Every < 1 || cfg.Events < 1 {
		return nil, errors.New("a tracer that traces nothing, or has no room")
	}
	return &Tracer{tag: cfg.Tag, every: newDivisor(cfg.Every), events: make([]traceEvent, 0, cfg.Events)}, nil
}

// Sample reports whether the message is traced, and returns its id: of a measured message of this
// run only.
func (t *Tracer) Sample(payload []byte) (id uint64, ok bool) {
	if len(payload) < StampLen {
		return 0, false
	}
	what := binary.BigEndian.Uint64(payload[8:])
	if !t.every.divides(what & MaxSeq) {
		return 0, false
	}
	s, err := ParseStamp(payload)
	if err != nil || s.Tag != t.tag || s.Phase != PhaseMeasure {
		return 0, false
	}
	return t.id(s)
}

// id is the one of a message whose number is traced, if it is not among those that were forgotten.
func (t *Tracer) id(s Stamp) (id uint64, ok bool) {
	turn := s.Seq / t.every.by
	if turn > math.MaxUint32 || !kept(turn, t.thinned.Load()) {
		return 0, false
	}
	return uint64(s.Publisher)<<48 | uint64(s.Stream)<<32 | turn, true
}

// kept reports whether a turn, or the id that ends with it, outlives so many halvings.
func kept(turn uint64, halvings uint32) bool { return turn&(1<<halvings-1) == 0 }

// Publish is Sample for a message that is about to be published. If it is traced, what the stamp
// says is noted.
func (t *Tracer) Publish(payload []byte) (id uint64, ok bool) {
	if id, ok = t.Sample(payload); ok {
		s, _ := ParseStamp(payload) // Sample has read it
		t.Event(id, PointIntended, 0, s.Intended)
		t.Event(id, PointSent, 0, s.Sent)
	}
	return id, ok
}

// receive notes a delivery, if the message is traced.
func (t *Tracer) receive(s Stamp, sub uint64, now int64) {
	if !t.every.divides(s.Seq) {
		return
	}
	if id, ok := t.id(s); ok {
		t.Event(id, pointDue, sub, s.Intended)
		t.Event(id, PointReceived, sub, now)
	}
}

// Event notes that a traced message came to a point, at a time of the machine's monotonic clock.
// The subscription is 0 up to PointFanout.
func (t *Tracer) Event(id uint64, p Point, sub uint64, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.events) == cap(t.events) && t.thinned.Load() < 32 {
		t.thin()
	}
	switch {
	case !kept(id, t.thinned.Load()):
	case len(t.events) == cap(t.events):
		t.lost++ // of the one message that is left
	default:
		t.events = append(t.events, traceEvent{id, sub, at, p})
	}
}

func (t *Tracer) thin() {
	halvings := t.thinned.Add(1)
	n := 0
	for _, e := range t.events {
		if kept(e.id, halvings) {
			t.events[n] = e
			n++
		}
	}
	t.events = t.events[:n]
}

// TraceResult is what a Tracer has seen.
type TraceResult struct {
	// Halvings is how often every second message was forgotten.
	Halvings uint32 `json:"halvings"`
	// Lost counts events for which there was no room although only one message was left.
	Lost uint64 `json:"lost"`
	// Packed holds the events, 25 bytes each: id, subscription, time (8 bytes each, big-endian)
	// and point. JoinTraces reads it.
	Packed []byte `json:"packed"`
}

const packedEvent = 25

// Result returns what was seen so far; nil for a nil Tracer.
func (t *Tracer) Result() *TraceResult {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &TraceResult{Halvings: t.thinned.Load(), Lost: t.lost, Packed: make([]byte, 0, packedEvent*len(t.events))}
	for _, e := range t.events {
		r.Packed = binary.BigEndian.AppendUint64(r.Packed, e.id)
		r.Packed = binary.BigEndian.AppendUint64(r.Packed, e.sub)
		r.Packed = binary.BigEndian.AppendUint64(r.Packed, uint64(e.at))
		r.Packed = append(r.Packed, byte(e.point))
	}
	return r
}

// unpack calls f for each event.
func (r *TraceResult) unpack(f func(traceEvent)) {
	for p := r.Packed; len(p) >= packedEvent; p = p[packedEvent:] {
		f(traceEvent{
			id: binary.BigEndian.Uint64(p), sub: binary.BigEndian.Uint64(p[8:]),
			at: int64(binary.BigEndian.Uint64(p[16:])), point: Point(p[24]),
		})
	}
}

// divisor tells multiples by one multiplication: every received message is asked for, and a
// division would cost it ten times as much (Granlund and Montgomery 1994, section 9).
type divisor struct {
	by      uint64
	inverse uint64 // of the odd part, modulo 2^64
	twos    int    // factors of two
	most    uint64 // the largest quotient
}

func newDivisor(by uint64) divisor {
	twos := bits.TrailingZeros64(by)
	odd := by >> twos
	inverse := odd // right in the lowest 3 bits; each step doubles them
	for range 5 {
		inverse *= 2 - odd*inverse
	}
	return divisor{by: by, inverse: inverse, twos: twos, most: math.MaxUint64 / by}
}

func (d divisor) divides(n uint64) bool { return bits.RotateLeft64(n*d.inverse, -d.twos) <= d.most }
