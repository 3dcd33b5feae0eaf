package main

import (
	"fmt"
	"io"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// probeText says what a probe is, and what its figures may be held against.
func probeText(c *workload.Case) string {
	over := "over " + strings.ToUpper(c.Transport.String())
	switch c.Probe {
	case workload.ProbeRaw:
		return "one hop " + over + ", publisher to subscriber: compare it on wire bytes only, through a broker a message crosses the wire twice"
	case workload.ProbeRelay:
		return "two hops " + over + " through a minimal store-and-forward relay: the ceiling of a broker"
	case workload.ProbeEcho:
		return "ping-pong of one hop " + over + ": latencies are round trips"
	}
	return "ping-pong of two hops " + over + " through the relay: latencies are round trips, half of one is the ceiling of a delivery"
}

// probeHead is the head of a probe's summary.
func (s *summary) probeHead() {
	s.line("probe", "%s", s.r.Case.Key)
	s.line("", "%s", probeText(&s.r.Case.Case))
	s.line("lossless", "it waits for whoever is slow   topology %s   seed %d", s.r.Case.Topology, s.r.Case.Seed)
}

// wire shows what all connections carried together.
func (s *summary) wire() {
	if x := s.r.Rates; x.WireBytesPerSec != nil && x.WireBytesSent != nil && s.r.Case.Throughput() {
		s.line("wire", "%s MB/s   %s sent by all ends of all connections", mb(*x.WireBytesPerSec), workload.MB(*x.WireBytesSent))
	}
}

// names of the latencies of a record: those of an echo are round trips.
func latencyNames(r *runrecord.Record) (endToEnd, network string) {
	if r.Case.Probe.Echo() {
		return "round trip", "one way"
	}
	return "end to end", "network"
}

// printProbePlan is what a dry run of a probe has in place of the broker's and the client's settings.
func printProbePlan(w io.Writer, p *trial.Plan) (sections []string) {
	fmt.Fprintf(w, "probe      %s\n", probeText(&p.Case))
	if p.Case.Transport == workload.TransportQUIC {
		sections = []string{"transport"}
	}
	return sections
}
