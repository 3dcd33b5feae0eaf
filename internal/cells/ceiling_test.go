package cells_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

func inSession(id string) func(*runrecord.Record) {
	return func(r *runrecord.Record) { r.SessionID = &id }
}

// Every cell stands beside the relay of its shape and sitting, and beside no other.
func TestCeilings(t *testing.T) {
	relay := workload.Case{Probe: workload.ProbeRelay, Payload: 4096, Batch: 64}
	with := func(c workload.Case, edit func(*workload.Case)) workload.Case {
		edit(&c)
		return c
	}
	wide := func(c *workload.Case) { c.Fanout = 10 }
	four := func(c *workload.Case) { c.Publishers, c.PubConns = 4, 4 }
	tcp := func(c *workload.Case) { c.Transport = workload.TransportTCP }
	ping, echo := workload.Case{Payload: 256}, workload.Case{Probe: workload.ProbeEchoRelay, Payload: 256}
	cs := cells.Group([]*runrecord.Record{
		record(flood, 120), record(flood, 126), record(flood, 132), record(flood, 500, inSession("other")),
		record(relay, 190), record(relay, 200), record(relay, 210),
		record(with(flood, wide), 300), record(with(relay, wide), 400),
		record(with(flood, four), 150), record(with(relay, four), 300),
		record(with(relay, tcp), 600),
		record(workload.Case{Probe: workload.ProbeRaw, Payload: 4096, Batch: 64}, 290),
		record(workload.Case{Payload: 1024, Batch: 64}, 80),
		latency(ping, 60), latency(echo, 100),
	})
	ceilings := cells.Ceilings(cs)
	var got []string
	for _, c := range cs {
		got = append(got, ceilings[c.ID].Text)
		if strings.HasSuffix(ceilings[c.ID].Text, "%") == math.IsNaN(ceilings[c.ID].Share) {
			t.Errorf("%s: %+v", c.Key, ceilings[c.ID])
		}
	}
	if want := "63% ceiling 75% ceiling 50% ceiling 300% one hop - 120% ceiling"; strings.Join(got, " ") != want {
		t.Errorf("shares %q, want %q", strings.Join(got, " "), want)
	}
	if cells.Ceilings(cs[:1]) != nil {
		t.Error("a share without a probe")
	}
	var b bytes.Buffer
	if err := cells.WriteTable(&b, cs, cells.Text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of relay", "63%", "ceiling", "same payload, batch, fanout and topology"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := cells.WriteTable(&b, cs[:1], cells.Text); err != nil || strings.Contains(b.String(), "relay") {
		t.Errorf("a table without probes speaks of one (%v):\n%s", err, b.String())
	}
}
