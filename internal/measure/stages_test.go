package measure_test

import (
	"strings"
	"testing"

	"felix/internal/measure"
)

// side is one process of a run that traces every message.
type side struct{ *measure.Tracer }

func (s side) at(seq uint64, sub uint64, at int64, points ...measure.Point) int64 {
	for _, p := range points {
		s.Event(seq, p, sub, at)
		at += 10
	}
	return at
}

// path is publishers, broker and subscribers, and the receivers of the latter.
type path struct {
	pub, broker, subs side
	recv              map[uint64]*measure.Receiver
}

func newPath(t *testing.T, subs ...uint64) *path {
	p := &path{side{newTracer(t, 1, 1<<12)}, side{newTracer(t, 1, 1<<12)}, side{newTracer(t, 1, 1<<12)}, map[uint64]*measure.Receiver{}}
	for _, id := range subs {
		r, err := measure.NewReceiver(measure.ReceiverConfig{ID: "a", Tag: tag, Publishers: 1, Tracer: p.subs.Tracer, Subscription: id})
		if err != nil {
			t.Fatal(err)
		}
		p.recv[id] = r
	}
	return p
}

// carry takes one message to the subscriptions: 20 ns intended to sent, 10 a stage, of which the
// broker's queue takes what it is told by subscription.
func (p *path) carry(seq uint64, queued map[uint64]int64) {
	begin := start + int64(seq)*ms
	msg := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: seq, Intended: begin - 20, Sent: begin})
	p.pub.Publish(msg)
	at := p.pub.at(seq, 0, begin+10, measure.PointClientWrite, measure.PointClientWritten)
	at = p.broker.at(seq, 0, at, measure.PointBrokerRead, measure.PointFanout)
	for sub, wait := range queued {
		out := p.broker.at(seq, sub, at-10+wait, measure.PointBrokerWrite, measure.PointBrokerWritten)
		out = p.subs.at(seq, sub, out, measure.PointArrived)
		p.recv[sub].Record(msg, out)
	}
}

func (p *path) join(t *testing.T) []measure.Journey {
	t.Helper()
	journeys, left, lost := measure.JoinTraces(1, cross(t, p.subs.Result()), cross(t, p.broker.Result()), nil, cross(t, p.pub.Result()))
	if left != 1 || lost != 0 {
		t.Errorf("1 of %d left, %d lost", left, lost)
	}
	return journeys
}

func TestStagesOfEverySubscriptionSumToItsEndToEnd(t *testing.T) {
	p := newPath(t, 7, 8)
	all := measure.NewHistogram()
	for seq := range uint64(30) {
		p.carry(seq, map[uint64]int64{7: 100, 8: 300})
		all.Record(20 + 60 + 100 + 10)
		all.Record(20 + 60 + 300 + 10)
	}
	journeys := p.join(t)
	if len(journeys) != 60 {
		t.Fatalf("%d journeys, want 30 to each of 2", len(journeys))
	}
	stages := measure.Stages(true, true)
	for i, j := range journeys {
		wait := map[uint64]int64{7: 100, 8: 300}[j.Subscription]
		if j.Seq != uint64(i/2) || wait == 0 {
			t.Fatalf("journey %d: seq %d to %d", i, j.Seq, j.Subscription)
		}
		var sum int64
		for k, s := range stages {
			ns, ok := j.Takes(s)
			if want := []int64{20, 10, 10, 10, 10, wait, 10, 10, 10}[k]; !ok || ns != want {
				t.Errorf("seq %d to %d: %s took %d (%v), want %d", j.Seq, j.Subscription, s.Name, ns, ok, want)
			}
			sum += ns
		}
		if sum != j.EndToEnd() || j.EndToEnd() != 90+wait {
			t.Errorf("seq %d to %d: stages sum to %d, end to end %d, want %d", j.Seq, j.Subscription, sum, j.EndToEnd(), 90+wait)
		}
	}
	sum := measure.SumStages(stages, journeys)
	if sum.Messages != 30 || sum.N != 60 || sum.Whole != 60 || sum.MeanSumNs != 290 || sum.MeanEndToEndNs != 290 {
		t.Errorf("%+v, want 60 deliveries of 30 messages, 290 ns in the mean", sum)
	}
	queue := sum.Stages[5]
	if queue.Name != "broker queue" || queue.N != 60 || *queue.MeanNs != 200 || *queue.P50Ns != 100 || queue.P99Ns != nil {
		t.Errorf("broker queue %+v, want a mean of 200, a median of 100 and no p99 of 60", queue)
	}
	if d := sum.Doubts(all); len(d) > 0 || len(sum.Missing()) > 0 {
		t.Errorf("doubts %q, missing %q, want none", d, sum.Missing())
	}
}

func TestTheStagesFollowEachOther(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, own := range []bool{false, true} {
			stages := measure.Stages(open, own)
			for i, s := range stages[1:] {
				if s.From != stages[i].To || s.To <= s.From {
					t.Errorf("open %v, own broker %v: %q begins at %d, %q ended at %d", open, own, s.Name, s.From, stages[i].Name, stages[i].To)
				}
			}
			if last := stages[len(stages)-1].To; last != measure.PointReceived || (stages[0].From == measure.PointIntended) != open {
				t.Errorf("open %v, own broker %v: from %d to %d", open, own, stages[0].From, last)
			}
		}
	}
}

// The writer learns that its write has ended when it is woken, which on a busy machine is after the
// frame has arrived. The message did not go back in time: the write ended when its bytes were there.
func TestAWriteEndsBeforeItsFrameArrives(t *testing.T) {
	p := newPath(t, 1)
	msg := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Intended: start, Sent: start})
	p.pub.Publish(msg)
	p.pub.Event(0, measure.PointClientWrite, 0, start+10)
	p.pub.Event(0, measure.PointClientWritten, 0, start+500)
	p.broker.at(0, 0, start+40, measure.PointBrokerRead, measure.PointFanout)
	p.broker.Event(0, measure.PointBrokerWrite, 1, start+60)
	p.broker.Event(0, measure.PointBrokerWritten, 1, start+700)
	p.subs.Event(0, measure.PointArrived, 1, start+90)
	p.recv[1].Record(msg, start+100)
	j := p.join(t)[0]
	var got []int64
	for _, s := range measure.Stages(false, true) {
		ns, _ := j.Takes(s)
		got = append(got, ns)
	}
	want := []int64{10, 30, 0, 10, 10, 30, 0, 10}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("stages %v, want %v", got, want)
		}
	}
}

// A stage that nobody reported must not look like one that takes no time.
func TestAMissingStageIsNamed(t *testing.T) {
	p := newPath(t, 1)
	for seq := range uint64(25) {
		p.carry(seq, map[uint64]int64{1: 50})
	}
	journeys, _, _ := measure.JoinTraces(1, p.pub.Result(), p.subs.Result()) // the broker's trace is lost
	sum := measure.SumStages(measure.Stages(false, true), journeys)
	if got := strings.Join(sum.Missing(), ", "); got != "network in, broker ingress, broker queue, broker write, network out" || sum.Whole != 0 || sum.N != 25 {
		t.Errorf("missing %q of %d, %d whole", got, sum.N, sum.Whole)
	}
	sum = measure.SumStages(measure.Stages(false, false), journeys) // as of a broker that is not ours
	if len(sum.Missing()) > 0 || sum.Whole != 25 || sum.MeanSumNs != 120 {
		t.Errorf("missing %q, %d whole, %v ns in the mean; want 120", sum.Missing(), sum.Whole, sum.MeanSumNs)
	}
}

func TestWhatWasNotDeliveredHasNoStages(t *testing.T) {
	p := newPath(t, 1)
	p.carry(0, map[uint64]int64{1: 50})
	p.carry(1, nil) // dropped by the broker
	p.broker.Event(2, measure.PointBrokerWrite, 1, start)
	if journeys := p.join(t); len(journeys) != 1 || journeys[0].Seq != 0 {
		t.Errorf("journeys %v, want that of message 0", journeys)
	}
	if sum := measure.SumStages(measure.Stages(false, true), nil); len(sum.Missing()) > 0 || len(sum.Doubts(measure.NewHistogram())) > 0 || sum.Stages[0].MeanNs != nil {
		t.Errorf("of nothing: %+v", sum)
	}
}

func TestTracesThatDoNotAddUpAreDoubted(t *testing.T) {
	all := func(ns ...int64) *measure.Histogram {
		h := measure.NewHistogram()
		for _, n := range ns {
			h.RecordN(n, 1000)
		}
		return h
	}
	// A subscriber's clock that runs 30 ns behind makes the way to it too short, and the receipt that
	// EndToEnd ends with too early.
	p := newPath(t, 1)
	for seq := range uint64(400) {
		begin := start + int64(seq)*ms
		msg := stamped(measure.Stamp{Tag: tag, Phase: measure.PhaseMeasure, Seq: seq, Intended: begin, Sent: begin})
		p.pub.Publish(msg)
		at := p.pub.at(seq, 0, begin+10, measure.PointClientWrite, measure.PointClientWritten)
		at = p.broker.at(seq, 0, at, measure.PointBrokerRead, measure.PointFanout)
		at = p.broker.at(seq, 1, at, measure.PointBrokerWrite)
		p.broker.Event(seq, measure.PointBrokerWritten, 1, at-10)
		p.subs.Event(seq, measure.PointArrived, 1, at-30)
		p.recv[1].Record(msg, at-30)
	}
	sum := measure.SumStages(measure.Stages(false, true), p.join(t))
	if d := sum.Doubts(all(30)); len(d) != 1 || !strings.Contains(d[0], "clocks or traces disagree") {
		t.Errorf("doubts %q, want that the sums are off", d)
	}

	for _, tt := range []struct {
		name     string
		messages uint64
		all      *measure.Histogram
		doubted  bool
	}{
		{"the same median", 400, all(140), false},
		{"4 % off", 400, all(146), false},
		{"far off", 400, all(200), true},
		{"too few to have a median", 19, all(200), false},
	} {
		p := newPath(t, 1)
		for seq := range tt.messages {
			p.carry(seq, map[uint64]int64{1: 50})
		}
		sum := measure.SumStages(measure.Stages(true, true), p.join(t))
		if d := sum.Doubts(tt.all); (len(d) > 0) != tt.doubted {
			t.Errorf("%s: doubts %q, want any %v", tt.name, d, tt.doubted)
		}
	}

	// 25 messages of 100 to 340 ns: their median may well be 220 where that of all is 260, and not 500.
	p = newPath(t, 1)
	for seq := range uint64(25) {
		p.carry(seq, map[uint64]int64{1: 10 + 10*int64(seq)})
	}
	sum = measure.SumStages(measure.Stages(true, true), p.join(t))
	if d := sum.Doubts(all(260)); len(d) > 0 {
		t.Errorf("doubts %q, want none: so few messages tell no more", d)
	}
	if d := sum.Doubts(all(500)); len(d) == 0 {
		t.Errorf("no doubt about a median of 500, that of the traced is %v", *sum.P50Ns)
	}
}
