package trial_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// checkStages wants every stage, of every traced delivery, and that they make up the whole time.
func checkStages(t *testing.T, r *runrecord.Record) {
	t.Helper()
	want := []string{"client queue", "client write", "network in", "broker ingress", "broker queue", "broker write", "network out", "hand-over"}
	if r.Case.Topology == workload.TopologyExternal {
		want = []string{"client queue", "client write", "network and broker", "hand-over"}
	}
	if r.Case.Load == workload.LoadOpen {
		want = append([]string{"publish delay"}, want...)
	}
	x := r.Traces
	if x == nil || x.Deliveries == 0 || x.Messages < int64(max(r.Case.Publishers, r.Case.Streams)) || x.Deliveries != x.Messages*int64(r.Case.Fanout) || x.Whole != x.Deliveries {
		t.Fatalf("traces %+v, want every subscriber's delivery of the first message of each publisher at least, all of them whole", x)
	}
	var names []string
	var sum float64
	for _, s := range r.Stages {
		names = append(names, s.Name)
		if s.N != x.Deliveries || s.MeanNs == nil || *s.MeanNs < 0 {
			t.Errorf("stage %+v, want the times of %d deliveries", s, x.Deliveries)
			continue
		}
		sum += float64(*s.MeanNs)
	}
	if !slices.Equal(names, want) {
		t.Errorf("stages %q, want %q", names, want)
	}
	if mean := float64(*x.MeanEndToEndNs); math.Abs(sum-mean) > 0.05*mean || math.Abs(float64(*x.MeanSumNs)-mean) > 0.05*mean {
		t.Errorf("stages sum to %.0f ns (%d by the record), end to end is %.0f ns", sum, *x.MeanSumNs, mean)
	}
}

// What the broker does with a message is seen only by a broker of ours: elsewhere it is one stage with the network.
func TestStagesOfAnExternalBroker(t *testing.T) {
	s := small(workload.Case{Payload: 256, Fanout: 2, Topology: workload.TopologyExternal})
	s.External = startBroker(t)
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	checkStages(t, r)
}

func TestEveryTracedDeliveryIsInTheFile(t *testing.T) {
	s := small(workload.Case{Payload: 64, Rate: 5000, Fanout: 2, Topology: workload.TopologyInprocess})
	out, err := trial.Run(t.Context(), resolve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	const every, traced = 9, 223 // the default, and how many of 2,000 that is, the first among them
	lines := bytes.Split(bytes.TrimSpace(out.Extras["traces.jsonl"]), []byte("\n"))
	if int64(len(lines)) != out.Record.Traces.Deliveries || len(lines) != 2*traced {
		t.Errorf("%d lines of %d traced deliveries, want 1 of %d of 2 x 2000", len(lines), out.Record.Traces.Deliveries, every)
	}
	for i, text := range lines {
		var l struct {
			Seq      uint64
			StagesNs []*int64 `json:"stages_ns"`
		}
		if err := json.Unmarshal(text, &l); err != nil || l.Seq != uint64(i/2*every) || len(l.StagesNs) != 9 || slices.Contains(l.StagesNs, nil) {
			t.Fatalf("line %d: %s (%v), want 9 stages of seq %d", i, text, err, i/2*every)
		}
	}
}

func isTrace(mark string) bool { return strings.HasPrefix(mark, "trace-every") }

func TestTracingCanBeTurnedOff(t *testing.T) {
	s := small(workload.Case{Payload: 64, Topology: workload.TopologyInprocess})
	s.Sizes.TraceEvery = -1
	out, err := trial.Run(t.Context(), resolve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	r := out.Record
	if _, file := out.Extras["traces.jsonl"]; file || r.Traces != nil || len(r.Stages) > 0 || slices.ContainsFunc(r.Perturbed, isTrace) {
		t.Errorf("traces %+v, stages %v, a file %v, perturbed %q; want nothing", r.Traces, r.Stages, file, r.Perturbed)
	}
}

// Tracing that is dense enough to be felt is an instrument that changes what it measures.
func TestDenseTracingIsMarked(t *testing.T) {
	s := small(workload.Case{Payload: 64, Topology: workload.TopologyInprocess})
	s.Sizes.TraceEvery = 1
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	checkStages(t, r)
	if r.Traces.Messages != 2000 || !slices.Contains(r.Perturbed, "trace-every 1") {
		t.Errorf("%d of 2000 traced, perturbed %q", r.Traces.Messages, r.Perturbed)
	}
}
