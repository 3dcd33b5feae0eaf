package trial

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/broker/brokertest"
	"felix/client"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/transport"
	"felix/internal/wire"
	"felix/internal/workload"
)

const testTag = 77

func testTracer(t *testing.T, every uint64) *measure.Tracer {
	t.Helper()
	tr, err := measure.NewTracer(measure.TracerConfig{Tag: testTag, Every: every, Events: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// link is one way of the simulated network.
const link = 10 * time.Millisecond

// simulated is a case on a simulated network.
type simulated struct {
	batch, every int
	late         bool // subscribed when all was published: what is replayed comes in joined frames
	encoding     client.Encoding
	policy       client.Policy
}

const simulatedFanout, simulatedBatches = 3, 20

// On a simulated network nothing takes time but the link. So every stage is known, to the nanosecond, and a gap
// between two of them would show.
func TestStagesSumToEndToEnd(t *testing.T) {
	for name, c := range map[string]simulated{
		"single messages":               {batch: 1, every: 2, policy: client.PolicyBlock},
		"batches":                       {batch: 4, every: 8, policy: client.PolicyBlock},
		"json":                          {batch: 4, every: 4, policy: client.PolicyBlock, encoding: client.EncodingJSON},
		"a replay, joined on the way":   {batch: 1, every: 5, policy: client.PolicyBlock, late: true},
		"a queue in the client":         {batch: 1, every: 1, policy: client.PolicyDropNew},
		"a joined replay, queued there": {batch: 2, every: 4, policy: client.PolicyDropOld, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.check(t, c.run(t)) })
		})
	}
}

// run publishes to all subscribers and returns what was traced.
func (c simulated) run(t *testing.T) []measure.Journey {
	clock, ctx := measure.NewClock(), t.Context()
	pub, mid, sub := testTracer(t, uint64(c.every)), testTracer(t, uint64(c.every)), testTracer(t, uint64(c.every))
	n := brokertest.Start(t, broker.Config{Trace: brokerTrace{mid, clock}, SubscriberQueuePolicy: broker.PolicyBlock}, brokertest.Options{Latency: link})
	dial := func(trace client.Trace) *client.Client {
		cl, err := client.Dial(ctx, client.Config{
			Addr: n.Addr, TLS: n.TLS, Tenant: brokertest.Tenant, Token: n.Token(), Encoding: c.encoding, SubQueuePolicy: c.policy,
			PublishConnPool: 1, PublishStreamsPerConn: 1, EventConnPool: 1, Trace: trace,
			Transport: transport.Config{ListenPacket: func(string, string) (net.PacketConn, error) { return n.Host(), nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	subscriber, publisher := dial(clientTrace{tracer: sub, clock: clock}), dial(clientTrace{tracer: pub, clock: clock, publisher: true})
	var wait func()
	if !c.late {
		wait = c.subscribe(t, subscriber, sub, clock)
	}
	c.publish(t, publisher, clock)
	if c.late {
		wait = c.subscribe(t, subscriber, sub, clock)
	}
	wait()
	for _, cl := range []*client.Client{publisher, subscriber} {
		if err := cl.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}
	n.Close()
	journeys, _, _ := measure.JoinTraces(uint64(c.every), pub.Result(), mid.Result(), sub.Result())
	return journeys
}

// publish sends the batches, far enough apart that none waits for another.
func (c simulated) publish(t *testing.T, publisher *client.Client, clock *measure.Clock) {
	p, err := publisher.NewPublisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sender, err := measure.NewSender(measure.SenderConfig{Tag: testTag, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	sender.Mark(clock.Now())
	payloads := make([][]byte, c.batch)
	for i := range payloads {
		payloads[i] = make([]byte, measure.StampLen)
	}
	for range simulatedBatches {
		sender.Stamp(0, payloads, clock.Now(), clock.Now())
		if _, err := p.Publish(t.Context(), brokertest.Demo, payloads, wire.AckNone); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * link)
	}
}

// subscribe lets the subscribers receive, and returns how to wait until they have everything.
func (c simulated) subscribe(t *testing.T, subscriber *client.Client, tracer *measure.Tracer, clock *measure.Clock) (wait func()) {
	var all sync.WaitGroup
	for i := range simulatedFanout {
		s, err := subscriber.Subscribe(t.Context(), brokertest.Demo, client.SubscribeOptions{Start: wire.Start{Kind: wire.StartEarliest}})
		if err != nil {
			t.Fatal(err)
		}
		recv, err := measure.NewReceiver(measure.ReceiverConfig{ID: fmt.Sprint(i), Tag: testTag, Publishers: 1, Tracer: tracer, Subscription: s.ID()})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			got, largest := 0, 0
			for got < simulatedBatches*c.batch {
				ev, err := s.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				recv.RecordBatch(ev.Payloads, clock.Now())
				got, largest = got+len(ev.Payloads), max(largest, len(ev.Payloads))
			}
			if joined := largest > c.batch; joined != c.late {
				t.Errorf("frames of up to %d messages, published in batches of %d", largest, c.batch)
			}
		})
	}
	return all.Wait
}

func (c simulated) check(t *testing.T, journeys []measure.Journey) {
	if want := simulatedBatches * c.batch / c.every * simulatedFanout; len(journeys) != want {
		t.Fatalf("%d journeys, want %d", len(journeys), want)
	}
	for _, j := range journeys {
		var sum int64
		for _, s := range measure.Stages(false, true) {
			ns, ok := j.Takes(s)
			sum += ns
			want := int64(0)
			switch {
			case s.Name == "network in" || s.Name == "network out":
				want = int64(link)
			case s.Name == "broker queue" && c.late:
				want = j.EndToEnd() - 2*int64(link) // in the replay ring
			}
			if !ok || ns != want {
				t.Errorf("seq %d: %s took %v (known %v), want %v", j.Seq, s.Name, time.Duration(ns), ok, time.Duration(want))
			}
		}
		if sum != j.EndToEnd() || sum != 2*int64(link) && !c.late {
			t.Errorf("seq %d: stages sum to %v, end to end %v, the links take %v", j.Seq, time.Duration(sum), time.Duration(j.EndToEnd()), 2*link)
		}
	}
}

// A process that lost its trace must not pass for one that takes no time.
func TestARunWithoutADeclaredStageIsInvalid(t *testing.T) {
	p, err := Spec{Case: workload.Case{Payload: 64}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	pub, sub := testTracer(t, 8), testTracer(t, 8)
	recv, err := measure.NewReceiver(measure.ReceiverConfig{ID: "a", Tag: testTag, Publishers: 1, Tracer: sub, Subscription: 1})
	if err != nil {
		t.Fatal(err)
	}
	msg := make([]byte, measure.StampLen)
	measure.Stamp{Tag: testTag, Phase: measure.PhaseMeasure, Intended: 1000, Sent: 1000}.Put(msg)
	id, _ := pub.Publish(msg)
	pub.Event(id, measure.PointClientWrite, 0, 1010)
	pub.Event(id, measure.PointClientWritten, 0, 1020)
	sub.Event(id, measure.PointArrived, 1, 1100)
	recv.Record(msg, 1110)
	tr := &trial{Plan: p, results: results{
		pubs: &sideResult{Traces: pub.Result()}, broker: &sideResult{},
		subs: &sideResult{Traces: sub.Result(), Receivers: []receiverResult{{Subscription: 1}}},
	}}
	var r runrecord.Record
	tr.stages(&r, &measure.Merged{EndToEnd: recv.Result().EndToEnd, Delivered: 1})
	if want := "stages: none of 1 traced deliveries has \"broker ingress\": a trace is missing"; !slices.Contains(tr.reasons, want) || len(tr.reasons) != 5 {
		t.Errorf("reasons %q, want the broker's three and both networks, as in %q", tr.reasons, want)
	}
	if len(r.Stages) != 8 || r.Stages[3].N != 0 || r.Stages[3].MeanNs != nil || r.Traces.Reconciled || r.Traces.Whole != 0 {
		t.Errorf("stages %+v, traces %+v, want nothing of the broker", r.Stages, r.Traces)
	}

	// Where two subscriptions share an id, as those of another broker's two connections may, nothing is said.
	tr.reasons, r = nil, runrecord.Record{}
	tr.results.subs.Receivers = append(tr.results.subs.Receivers, receiverResult{Subscription: 1})
	tr.stages(&r, &measure.Merged{EndToEnd: recv.Result().EndToEnd, Delivered: 1})
	if len(r.Stages) > 0 || r.Traces != nil || len(tr.reasons) > 0 || len(tr.warnings) == 0 {
		t.Errorf("stages %+v, reasons %q, warnings %q; want a warning alone", r.Stages, tr.reasons, tr.warnings)
	}
}

func TestTraceEvery(t *testing.T) {
	for _, tt := range []struct {
		name  string
		c     workload.Case
		asked int64
		every int64
		dense bool
	}{
		{"a latency has enough for a p99 of 10,000", workload.Case{Payload: 256}, 0, 9, false},
		{"a slow rate is a latency", workload.Case{Payload: 256, Rate: 500}, 0, 9, false},
		{"a fast rate traces a thousand a second", workload.Case{Payload: 256, Rate: 100_000}, 0, 101, false},
		{"a flood", workload.Case{Payload: 256, Acks: workload.AcksNone}, 0, 257, false},
		{"batches are traced by their first message", workload.Case{Payload: 256, Batch: 64}, 0, 5 * 64, false},
		{"and 256 is no multiple of 100", workload.Case{Payload: 256, Batch: 100}, 0, 300, false},
		{"a batch is the least", workload.Case{Payload: 256, Batch: 1000}, 0, 1000, false},
		{"an odd number of batches too", workload.Case{Payload: 256, Batch: 32}, 0, 9 * 32, false},
		{"asked for", workload.Case{Payload: 256, Batch: 64}, 1000, 1024, false},
		{"whoever asks for an even number gets it", workload.Case{Payload: 256}, 8, 8, false},
		{"more than costs nothing", workload.Case{Payload: 256, Batch: 64}, 64, 64, true},
		{"none", workload.Case{Payload: 256}, -1, 0, false},
		{"a probe has no stages", workload.Case{Payload: 256, Probe: workload.ProbeRelay}, 0, 0, false},
	} {
		p, err := Spec{Case: tt.c, Sizes: Sizes{TraceEvery: tt.asked}}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got, dense := p.traceEvery(), p.traceDense(); got != tt.every || dense != tt.dense {
			t.Errorf("%s: 1 of %d, dense %v; want 1 of %d, %v", tt.name, got, dense, tt.every, tt.dense)
		}
	}
	_, err := Spec{Case: workload.Case{Payload: 256, Probe: workload.ProbeRelay}, Sizes: Sizes{TraceEvery: 8}}.Resolve()
	if err == nil || !strings.Contains(err.Error(), "a probe has no stages") {
		t.Errorf("tracing a probe: %v, want that it has no stages", err)
	}
}
