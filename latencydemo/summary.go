package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// printSummary is the one screen that a run ends with.
func printSummary(w io.Writer, r *runrecord.Record) {
	s := summary{r: r}
	s.head()
	if r.Counts.Expected > 0 || r.Counts.Published > 0 {
		s.latency()
		s.rates()
		s.ledger()
		s.tenants()
		s.checkpoints()
		s.stages()
	}
	s.busiest()
	s.cost()
	s.remarks()
	fmt.Fprint(w, s.String())
}

// printVerdict is what stderr says when stdout holds the record alone.
func printVerdict(w io.Writer, r *runrecord.Record) {
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "latencydemo: warning: %s\n", text)
	}
	for _, text := range r.Reasons {
		fmt.Fprintf(w, "latencydemo: INVALID RUN: %s\n", text)
	}
}

type summary struct {
	strings.Builder
	r *runrecord.Record
}

func (s *summary) line(label, format string, args ...any) {
	fmt.Fprintf(s, "%-11s %s\n", label, fmt.Sprintf(format, args...))
}

func (s *summary) head() {
	r := s.r
	if r.Case.Probe != workload.ProbeNone {
		s.probeHead()
		return
	}
	s.line("case", "%s", r.Case.Key)
	policy := "lossless: nothing may be dropped"
	if r.Case.Policy == workload.PolicyProduction {
		policy = "production: full queues drop and count"
	} else if r.Lossless == runrecord.LosslessNo {
		policy = "lossless was asked for, but full queues drop"
	}
	s.line("policy", "%s (by the configuration: lossless %s)   topology %s   seed %d", policy, r.Lossless, r.Case.Topology, r.Case.Seed)
}

func (s *summary) latency() {
	l := s.r.Latency
	if l.EndToEnd == nil {
		return
	}
	if l.Kind == workload.KindLatency {
		depth := ""
		if s.r.Case.Load == workload.LoadClosed {
			depth = fmt.Sprintf(", %d in flight per publisher", l.Inflight)
		}
		s.line("latency", "%s loop%s", s.r.Case.Load, depth)
	} else {
		s.line("queueing", "queueing delay (NOT per-message latency: the generator keeps the queues full, it grows with them)")
	}
	endToEnd, network := latencyNames(s.r)
	for _, d := range []struct {
		name string
		d    *runrecord.Distribution
	}{{endToEnd, l.EndToEnd}, {network, l.Network}, {"publish delay", l.PublishDelay}, {"ack rtt", l.AckRTT}} {
		if d.name == "ack rtt" && s.r.Case.Probe.Echo() {
			continue // the round trip
		}
		if d.d == nil || d.name == "network" && s.r.Case.Load != workload.LoadOpen || d.name == "publish delay" && s.r.Case.Load != workload.LoadOpen {
			continue // equal to end to end, and 0, where intended = sent
		}
		n := d.d.N
		s.line("", "%-13s p50 %s  p90 %s  p99 %s  p99.9 %s  max %s  n=%d", d.name, quantile(d.d.P50Ns, n), quantile(d.d.P90Ns, n), quantile(d.d.P99Ns, n), quantile(d.d.P999Ns, n), quantile(d.d.MaxNs, n), n)
	}
}

// quantile prints a percentile, or why there is none.
func quantile(ns *int64, n int64) string {
	if ns == nil {
		return fmt.Sprintf("n/a (n=%d)", n)
	}
	return duration(*ns)
}

func duration(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < 0:
		return d.String()
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.0f us", float64(ns)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(ns)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func (s *summary) rates() {
	x := s.r.Rates
	mark := ""
	switch g := workload.Grade(s.r.SizeGrade); g {
	case workload.GradeUndersized, workload.GradeBufferAbsorbed:
		mark = "   [" + strings.ToUpper(string(g)) + ": not a sustained rate]"
	case workload.GradeCapped:
		mark = "   [capped]"
	case workload.GradeNone:
		mark = "   [the pace of this load: no throughput]"
	}
	if x.PublishedMsgsPerSec != nil && x.PublishedBytesPerSec != nil {
		s.line("published", "%s msg/s  %s MB/s   %d messages, %s%s", thousands(*x.PublishedMsgsPerSec), mb(*x.PublishedBytesPerSec), s.r.Counts.Published, workload.MB(x.RunBytes), mark)
	}
	if x.DeliveredMsgsPerSec != nil && x.DeliveredBytesPerSec != nil {
		s.line("delivered", "%s msg/s  %s MB/s   to %d subscriber(s) in all, over %.2f s%s", thousands(*x.DeliveredMsgsPerSec), mb(*x.DeliveredBytesPerSec), len(s.r.Subscribers), float64(x.WindowNs)/1e9, mark)
	}
	if !s.r.Case.Throughput() {
		return
	}
	var parts []string
	add := func(name string, v *float64) {
		if v != nil {
			parts = append(parts, name+" "+mb(*v)+" MB/s")
		}
	}
	add("steady", x.SteadyBytesPerSec)
	add("last half", x.LastHalfBytesPerSec)
	if x.DrainShare != nil {
		parts = append(parts, fmt.Sprintf("drain %.1f %% of the time", 100**x.DrainShare))
	}
	s.line("", "%s", strings.Join(parts, "   "))
	s.wire()
	absorbs := ""
	if x.AbsorptionBytes != nil {
		absorbs = fmt.Sprintf(", the path can hold %s", workload.MB(*x.AbsorptionBytes))
	}
	s.line("size", "%s   peak backlog %s (%.0f %% of the run)   send window %s%s", s.r.SizeGrade, workload.MB(x.PeakBacklogBytes), 100*float64(x.PeakBacklogBytes)/float64(max(1, x.RunBytes)), workload.MB(x.SendWindowBytes), absorbs)
}

func mb(bytesPerSec float64) string { return fmt.Sprintf("%.1f", bytesPerSec/1e6) }

func thousands(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// ledger shows the way of the messages: what came into every station and what went out.
func (s *summary) ledger() {
	f, c := s.r.Flow, s.r.Counts
	station := func(name string, n *int64) string {
		if n == nil {
			return name + " ?"
		}
		return fmt.Sprintf("%s %d", name, *n)
	}
	stations := []string{
		station("offered", &f.Offered), station("written", f.Written), station("received", f.Received),
		station("published", f.Published), station("queued", f.Queued), station("sent", f.Sent), station("delivered", &f.Delivered),
	}
	if s.r.Case.Probe != workload.ProbeNone { // what it has not got is no question
		stations = slices.DeleteFunc(stations, func(text string) bool { return strings.HasSuffix(text, " ?") })
	}
	s.line("flow", "%s", strings.Join(stations, " -> "))
	text := fmt.Sprintf("expected %d = delivered %d + lost %d", c.Expected, c.Delivered, c.Lost)
	if n := sum(c.Refused) + sum(c.Failed); n > 0 {
		text += fmt.Sprintf("; of the %d published %d were refused or never confirmed, and are not expected", c.Published, n)
	}
	if c.Lost != 0 || c.Unaccounted != 0 {
		text += fmt.Sprintf(" (dropped: ingress %s, subscriber queue %s, writer %s, client %s; discarded on close %s; unaccounted %d)", known(c.Dropped.Ingress), known(c.Dropped.Subscriber), known(c.Dropped.Writer), known(c.Dropped.Client), known(c.DiscardedOnClose), c.Unaccounted)
	}
	s.line("ledger", "%s", text)
	s.through()
	var odd []string
	for _, o := range []struct {
		name string
		n    int64
	}{{"refused", sum(c.Refused)}, {"failed", sum(c.Failed)}, {"duplicate", c.Duplicate}, {"reordered", c.Reordered}, {"foreign", c.Foreign}, {"corrupt", c.Corrupt}} {
		if o.n != 0 {
			odd = append(odd, fmt.Sprintf("%s %d", o.name, o.n))
		}
	}
	if len(odd) > 0 {
		s.line("", "%s", strings.Join(odd, "   "))
	}
	s.missing()
}

// missing names what subscribers did not get, a few lines at most.
func (s *summary) missing() {
	const most = 6
	n := 0
	for _, sub := range s.r.Subscribers {
		for _, m := range sub.Missing {
			if n++; n <= most {
				s.line("missing", "subscriber %s: publisher %d stream %d seq %d-%d", sub.ID, m.Publisher, m.Stream, m.FirstSeq, m.LastSeq)
			}
		}
	}
	if n > most {
		s.line("", "and %d more ranges, in the record", n-most)
	}
}

func known(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

func sum(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n += v
	}
	return n
}

// busiest shows the connection that carries the load: an average over idle ones would hide its state.
func (s *summary) busiest() {
	i := slices.IndexFunc(s.r.Conns, func(c runrecord.Conn) bool { return c.Busiest })
	if i < 0 {
		return
	}
	c := s.r.Conns[i]
	mtu := "?"
	if c.MTUBytes != nil {
		mtu = fmt.Sprint(*c.MTUBytes)
	}
	loss := "0"
	if c.PacketsLost != 0 {
		loss = fmt.Sprintf("%d of %d packets", c.PacketsLost, c.PacketsSent)
		if by := c.LostBy; by != nil {
			loss += fmt.Sprintf(" (receiver's own queue %s, kernel %s, path %s)", known(by.OwnQueue), known(by.Kernel), known(by.Path))
		}
	}
	s.line("busiest", "%s %s: mtu %s  cwnd %d kB  rtt %s (min %s)  lost %s", c.Process, c.Role, mtu, c.CwndBytes/1000, duration(c.RTTSmoothedNs), duration(c.RTTMinNs), loss)
	if c.SendCalls != nil && c.DatagramsSent != nil && *c.SendCalls > 0 {
		s.line("", "%s in %d datagrams, %.1f a send call", workload.MB(c.BytesSent), *c.DatagramsSent, float64(*c.DatagramsSent)/float64(*c.SendCalls))
	}
}

func (s *summary) cost() {
	if s.r.Rates.WindowNs == 0 {
		return
	}
	var parts []string
	var total, switches int64
	for _, p := range s.r.Processes {
		if p.UserNs == nil || p.SystemNs == nil {
			continue
		}
		cpu := *p.UserNs + *p.SystemNs
		total += cpu
		if p.VoluntarySwitches != nil {
			switches += *p.VoluntarySwitches + value(p.InvoluntarySwitches)
		}
		text := fmt.Sprintf("%s %.2f s", p.Name, float64(cpu)/1e9)
		if p.MaxRSSBytes != nil {
			text += fmt.Sprintf(", peak %d MB", *p.MaxRSSBytes/1e6)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return
	}
	busy := ""
	if s.r.CostNs != nil && *s.r.CostNs > 0 {
		busy = fmt.Sprintf("   %.2f cores busy for %.2f s", float64(total)/float64(*s.r.CostNs), float64(*s.r.CostNs)/1e9)
	}
	s.line("cost", "CPU %s%s", strings.Join(parts, "   "), busy)
	if n := s.r.Counts.Delivered; n > 0 {
		per := fmt.Sprintf("%.1f us CPU and %.2f context switches a delivery", float64(total)/1e3/float64(n), float64(switches)/float64(n))
		if bytes := deliveredBytes(s.r); s.r.Case.Throughput() {
			per += fmt.Sprintf("   %.1f CPU s per GB delivered", float64(total)/1e9/(bytes/1e9))
		}
		s.line("", "%s", per)
	}
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func (s *summary) remarks() {
	for _, text := range s.r.Warnings {
		s.line("warning", "%s", text)
	}
	if len(s.r.Perturbed) > 0 {
		s.line("perturbed", "%s: shown, never compared", strings.Join(s.r.Perturbed, ", "))
	}
	if s.r.Valid {
		s.line("valid", "%d of %d expected deliveries, 0 unaccounted", s.r.Counts.Delivered, s.r.Counts.Expected)
		return
	}
	for _, text := range s.r.Reasons {
		fmt.Fprintf(s, "INVALID RUN %s\n", text)
	}
}
