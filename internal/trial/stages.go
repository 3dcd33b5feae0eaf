package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"felix/broker"
	"felix/client"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Of how many messages of a publisher and stream one is traced by default, at least. A traced message costs about a microsecond
// in all processes together.
const (
	// A latency run of 10,000 messages then has the thousand that a p99 takes; a message costs a hundred times as much.
	traceEveryLatency = 8
	// An open loop traces no more than this, whatever its rate.
	tracesPerSec = 1000
	// A flood of single messages is the dearest: 4 ns of some 2 us. Of batches of 64 one of five is traced.
	traceEveryThroughput = 256
)

// autoTraceEvery is --trace-every auto.
func autoTraceEvery(c *workload.Case) int64 {
	if c.Throughput() {
		return traceEveryThroughput
	}
	return max(traceEveryLatency, int64(math.Ceil(c.Rate/tracesPerSec)))
}

// traceEvery is of how many messages one is traced, 0 for none. A batch is traced by its first message, so it is a
// multiple of the batch. Where nobody asked for a number it is an odd multiple: a receiver of QUIC acknowledges every second
// packet, so even messages cost what odd ones do not, and every eighth message was slower than all of them by up to 12 %.
func (p *Plan) traceEvery() int64 {
	every, batch := p.Sizes.TraceEvery, int64(p.Case.Batch)
	batches := func(messages int64) int64 { return (messages + batch - 1) / batch }
	switch {
	case every < 0 || p.Case.Probe != workload.ProbeNone:
		return 0
	case every == 0:
		return batch * (batches(autoTraceEvery(&p.Case)) | 1)
	}
	return batch * batches(every)
}

// traceDense reports whether more is traced than by default, which is more than noise.
func (p *Plan) traceDense() bool {
	return p.Sizes.TraceEvery > 0 && p.Sizes.TraceEvery < autoTraceEvery(&p.Case)
}

// traceEvents bounds what one side of a trial keeps: 1 MiB, and more where a single message is delivered to thousands.
func (p *Plan) traceEvents() int { return max(32<<10, 64*p.Case.Subscribers()) }

// newTracer returns nil where nothing is traced.
func (p *Plan) newTracer(tag uint32) (*measure.Tracer, error) {
	every := p.traceEvery()
	if every == 0 {
		return nil, nil
	}
	return measure.NewTracer(measure.TracerConfig{Tag: tag, Every: uint64(every), Events: p.traceEvents()})
}

// clientTrace tells a tracer what a client sees. Publishers read the stamp too.
type clientTrace struct {
	tracer    *measure.Tracer
	clock     *measure.Clock
	publisher bool
}

// publisherTrace is nil for a tracer that is none, as is subscriberTrace: an interface that holds a nil is not nil.
func publisherTrace(t *measure.Tracer, clock *measure.Clock) client.Trace {
	if t == nil {
		return nil
	}
	return clientTrace{tracer: t, clock: clock, publisher: true}
}

func subscriberTrace(t *measure.Tracer, clock *measure.Clock) client.Trace {
	if t == nil {
		return nil
	}
	return clientTrace{tracer: t, clock: clock}
}

var clientPoints = [...]measure.Point{
	client.StageWrite: measure.PointClientWrite, client.StageWritten: measure.PointClientWritten, client.StageArrived: measure.PointArrived,
}

func (t clientTrace) Sample(payload []byte) (uint64, bool) {
	if t.publisher {
		return t.tracer.Publish(payload)
	}
	return t.tracer.Sample(payload)
}

func (t clientTrace) Event(id uint64, stage client.Stage, subscription uint64, at time.Time) {
	t.tracer.Event(id, clientPoints[stage], subscription, t.clock.At(at))
}

// brokerTrace tells a tracer what a broker sees.
type brokerTrace struct {
	tracer *measure.Tracer
	clock  *measure.Clock
}

var brokerPoints = [...]measure.Point{
	broker.StageRead: measure.PointBrokerRead, broker.StageFanout: measure.PointFanout,
	broker.StageWrite: measure.PointBrokerWrite, broker.StageWritten: measure.PointBrokerWritten,
}

func (t brokerTrace) Sample(payload []byte) (uint64, bool) { return t.tracer.Sample(payload) }

func (t brokerTrace) Event(id uint64, stage broker.Stage, subscription uint64, at time.Time) {
	t.tracer.Event(id, brokerPoints[stage], subscription, t.clock.At(at))
}

// stages fills the stages of the record from what all sides traced, and finds what makes them doubtful.
func (t *trial) stages(r *runrecord.Record, merged *measure.Merged) {
	every := t.traceEvery()
	res := t.results
	if t.traceDense() {
		r.Perturbed = append(r.Perturbed, fmt.Sprintf("trace-every %d", every))
	}
	if every == 0 || t.aborted || merged == nil || res.pubs == nil || res.subs == nil || res.broker == nil && t.External == nil {
		return
	}
	ids := map[uint64]bool{}
	for _, s := range res.subs.Receivers {
		if ids[s.Subscription] {
			t.warn("stages: several subscriptions have the id %d: their deliveries cannot be told apart", s.Subscription)
			return
		}
		ids[s.Subscription] = true
	}
	traces := []*measure.TraceResult{res.pubs.Traces, res.subs.Traces}
	if res.broker != nil {
		traces = append(traces, res.broker.Traces)
	}
	journeys, left, lost := measure.JoinTraces(uint64(every), traces...)
	declared := measure.Stages(t.Case.Load == workload.LoadOpen, t.External == nil)
	sum := measure.SumStages(declared, journeys)
	for _, s := range sum.Stages {
		r.Stages = append(r.Stages, runrecord.Stage{Name: s.Name, N: s.N, MeanNs: rounded(s.MeanNs), P50Ns: s.P50Ns, P99Ns: s.P99Ns})
	}
	doubts := sum.Doubts(merged.EndToEnd)
	r.Traces = &runrecord.Traces{
		Every: int64(left), Messages: int64(sum.Messages), Deliveries: int64(sum.N), Whole: int64(sum.Whole),
		P50EndToEndNs: sum.P50Ns, Reconciled: sum.Whole > 0 && len(doubts) == 0,
	}
	if sum.Whole > 0 {
		r.Traces.MeanEndToEndNs, r.Traces.MeanSumNs = rounded(&sum.MeanEndToEndNs), rounded(&sum.MeanSumNs)
	}
	t.warnings = append(t.warnings, doubts...)
	for _, name := range sum.Missing() {
		t.invalid("stages: none of %d traced deliveries has %q: a trace is missing", sum.N, name)
	}
	if sum.N == 0 && merged.Delivered > 0 {
		t.warn("stages: none of the traced messages was delivered")
	}
	if lost > 0 {
		t.warn("stages: %d events had no room", lost)
	}
	t.journeys = journeys
}

func rounded(v *float64) *int64 {
	if v == nil {
		return nil
	}
	n := int64(math.Round(*v))
	return &n
}

// journeyLine is one traced delivery in traces.jsonl.
type journeyLine struct {
	Publisher    uint16 `json:"publisher"`
	Stream       uint16 `json:"stream"`
	Seq          uint64 `json:"seq"`
	Subscription uint64 `json:"subscription"`
	AtNs         int64  `json:"at_ns"` // when it was intended, since the mark
	// StagesNs are as in the record's stages; null where a stage is not known.
	StagesNs []*int64 `json:"stages_ns"`
}

// tracesLines is the whole list, one delivery a line.
func (t *trial) tracesLines() ([]byte, error) {
	declared := measure.Stages(t.Case.Load == workload.LoadOpen, t.External == nil)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	for i := range t.journeys {
		j := &t.journeys[i]
		l := journeyLine{Publisher: j.Publisher, Stream: j.Stream, Seq: j.Seq, Subscription: j.Subscription, AtNs: j.Due - t.markAt}
		for _, s := range declared {
			var took *int64
			if ns, ok := j.Takes(s); ok {
				took = &ns
			}
			l.StagesNs = append(l.StagesNs, took)
		}
		if err := e.Encode(l); err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
	}
	return out.Bytes(), nil
}
