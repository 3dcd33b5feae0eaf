package trial

import (
	"context"
	"fmt"
	"net"
	"slices"
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

// On a simulated network nothing takes time but the link: 10 ms each way. So every stage is known,
// to the nanosecond, and a gap between two of them would show.
func TestStagesSumToEndToEnd(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, tt := range []struct {
		name         string
		batch, every int
		encoding     client.Encoding
		policy       client.Policy
	}{
		{"single messages", 1, 2, client.EncodingBinary, client.PolicyBlock},
		{"batches", 4, 8, client.EncodingBinary, client.PolicyBlock},
		{"json", 4, 4, client.EncodingJSON, client.PolicyBlock},
		{"a queue in the client", 1, 1, client.EncodingBinary, client.PolicyDropNew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := measure.NewClock()
				pub, mid, sub := testTracer(t, uint64(tt.every)), testTracer(t, uint64(tt.every)), testTracer(t, uint64(tt.every))
				n := brokertest.Start(t, broker.Config{Trace: brokerTrace{mid, clock}, SubscriberQueuePolicy: broker.PolicyBlock}, brokertest.Options{Latency: latency})
				ctx := t.Context()
				dial := func(trace client.Trace) *client.Client {
					c, err := client.Dial(ctx, client.Config{
						Addr: n.Addr, TLS: n.TLS, Tenant: brokertest.Tenant, Token: n.Token(), Encoding: tt.encoding, SubQueuePolicy: tt.policy,
						PublishConnPool: 1, PublishStreamsPerConn: 1, EventConnPool: 1, Trace: trace,
						Transport: transport.Config{ListenPacket: func(string, string) (net.PacketConn, error) { return n.Host(), nil }},
					})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				subscriber, publisher := dial(clientTrace{tracer: sub, clock: clock}), dial(clientTrace{tracer: pub, clock: clock, publisher: true})
				const fanout, batches = 3, 20
				received := make(chan int, fanout)
				for i := range fanout {
					s, err := subscriber.Subscribe(ctx, brokertest.Demo, client.SubscribeOptions{Start: wire.Start{}})
					if err != nil {
						t.Fatal(err)
					}
					recv, err := measure.NewReceiver(measure.ReceiverConfig{ID: fmt.Sprint(i), Tag: testTag, Publishers: 1, Tracer: sub, Subscription: s.ID()})
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						got := 0
						for got < batches*tt.batch {
							ev, err := s.Next(ctx)
							if err != nil {
								break
							}
							recv.RecordBatch(ev.Payloads, clock.Now())
							got += len(ev.Payloads)
						}
						received <- got
					}()
				}
				p, err := publisher.NewPublisher(ctx)
				if err != nil {
					t.Fatal(err)
				}
				sender, err := measure.NewSender(measure.SenderConfig{Tag: testTag, Streams: 1})
				if err != nil {
					t.Fatal(err)
				}
				sender.Mark(clock.Now())
				payloads := make([][]byte, tt.batch)
				for i := range payloads {
					payloads[i] = make([]byte, measure.StampLen)
				}
				for range batches {
					sender.Stamp(0, payloads, clock.Now(), clock.Now())
					if _, err := p.Publish(ctx, brokertest.Demo, payloads, wire.AckNone); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * latency)
				}
				for range fanout {
					if got := <-received; got != batches*tt.batch {
						t.Fatalf("%d messages received, want %d", got, batches*tt.batch)
					}
				}
				for _, c := range []*client.Client{publisher, subscriber} {
					if err := c.Close(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				}
				n.Close()

				journeys, _, _ := measure.JoinTraces(uint64(tt.every), pub.Result(), mid.Result(), sub.Result())
				if want := batches * tt.batch / tt.every * fanout; len(journeys) != want {
					t.Fatalf("%d journeys, want %d", len(journeys), want)
				}
				for _, j := range journeys {
					var sum time.Duration
					for _, s := range measure.Stages(false, true) {
						ns, ok := j.Takes(s)
						sum += time.Duration(ns)
						want := time.Duration(0)
						if s.Name == "network in" || s.Name == "network out" {
							want = latency
						}
						if !ok || time.Duration(ns) != want {
							t.Errorf("seq %d: %s took %v (known %v), want %v", j.Seq, s.Name, time.Duration(ns), ok, want)
						}
					}
					if sum != time.Duration(j.EndToEnd()) || sum != 2*latency {
						t.Errorf("seq %d: stages sum to %v, end to end %v, want %v", j.Seq, sum, time.Duration(j.EndToEnd()), 2*latency)
					}
				}
			})
		})
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
		{"a latency has enough for a p99 of 10,000", workload.Case{Payload: 256}, 0, 8, false},
		{"a slow rate is a latency", workload.Case{Payload: 256, Rate: 500}, 0, 8, false},
		{"a fast rate traces a thousand a second", workload.Case{Payload: 256, Rate: 100_000}, 0, 100, false},
		{"a flood", workload.Case{Payload: 256, Acks: workload.AcksNone}, 0, 256, false},
		{"batches are traced by their first message", workload.Case{Payload: 256, Batch: 64}, 0, 256, false},
		{"and 256 is no multiple of 100", workload.Case{Payload: 256, Batch: 100}, 0, 300, false},
		{"a batch is the least", workload.Case{Payload: 256, Batch: 1000}, 0, 1000, false},
		{"asked for", workload.Case{Payload: 256, Batch: 64}, 1000, 1024, false},
		{"more than costs nothing", workload.Case{Payload: 256, Batch: 64}, 64, 64, true},
		{"none", workload.Case{Payload: 256}, -1, 0, false},
	} {
		p, err := Spec{Case: tt.c, Sizes: Sizes{TraceEvery: tt.asked}}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got, dense := p.traceEvery(), p.traceDense(); got != tt.every || dense != tt.dense {
			t.Errorf("%s: 1 of %d, dense %v; want 1 of %d, %v", tt.name, got, dense, tt.every, tt.dense)
		}
	}
}
