package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/stat"
	"felix/internal/workload"
)

// figure is one measure of a trial that a case and its probe have in common.
type figure struct {
	name, unit string
	of         func(*runrecord.Record) float64 // NaN: it has none
	probe      func(float64) float64           // what of the probe's is compared; nil: all of it
	format     string
	scale      float64 // from the unit recorded to the one printed
	shown      string  // that one
}

// figuresAgainst are what is compared. Of one hop only what it puts on the wire is comparable: a message crosses the
// wire once there and twice through a broker.
func figuresAgainst(c, probe workload.Case) []figure {
	oneHop := probe.Probe.Hops() == 1
	per := func(name string, n func(*runrecord.Record) float64, unit, shown string, scale float64) figure {
		bytes, of := payloadBytes, ""
		if oneHop {
			bytes, of = wireBytes, " of wire"
		}
		return figure{name: name, unit: unit, format: "%.3g", scale: scale, shown: shown + of, of: func(r *runrecord.Record) float64 { return n(r) / bytes(r) }}
	}
	wire := figure{name: "wire", unit: "B/s", format: "%.1f", scale: 1e-6, shown: "MB/s", of: func(r *runrecord.Record) float64 { return known64(r.Rates.WireBytesPerSec) }}
	costs := []figure{
		per("CPU user", userNs, "ns/B", "s/GB", 1),
		per("CPU system", systemNs, "ns/B", "s/GB", 1),
		per("switches", switches, "1/B", "per MB", 1e6),
		per("wake-ups", wakeups, "1/B", "per MB", 1e6),
	}
	if oneHop {
		return append([]figure{wire}, costs...)
	}
	payload := figure{name: "payload", unit: "B/s", format: "%.1f", scale: 1e-6, shown: "MB/s", of: func(r *runrecord.Record) float64 {
		if r.Case.Payload == 0 {
			return math.NaN()
		}
		return known64(r.Rates.DeliveredBytesPerSec)
	}}
	percentile := func(name string, of func(*runrecord.Distribution) *int64) figure {
		f := figure{name: name, unit: "ns", format: "%.1f", scale: 1e-3, shown: "us", of: func(r *runrecord.Record) float64 {
			if r.Latency.EndToEnd == nil {
				return math.NaN()
			}
			ns := of(r.Latency.EndToEnd)
			if ns == nil {
				return math.NaN()
			}
			return float64(*ns)
		}}
		if probe.Probe.Echo() {
			f.probe = func(rtt float64) float64 { return rtt / 2 }
		}
		return f
	}
	delays := []figure{
		percentile("p50", func(d *runrecord.Distribution) *int64 { return d.P50Ns }),
		percentile("p99", func(d *runrecord.Distribution) *int64 { return d.P99Ns }),
	}
	if c.Throughput() {
		return append(append([]figure{payload, wire}, costs...), delays...)
	}
	return append(append(delays, payload, wire), costs...)
}

// headline is the figure that a ratio without a name is of.
func headline(c, probe workload.Case) figure { return figuresAgainst(c, probe)[0] }

// values of a pair, NaN where one is not known or a ratio would be to nothing.
func (f figure) values(p pairOf) (kase, probe float64) {
	kase, probe = math.NaN(), math.NaN()
	if !p.valid() {
		return kase, probe
	}
	kase, probe = f.of(p.kase), f.of(p.probe)
	if f.probe != nil {
		probe = f.probe(probe)
	}
	return kase, probe
}

func (f figure) ratio(p pairOf) *float64 {
	kase, probe := f.values(p)
	return finite(kase / probe)
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func known64(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func payloadBytes(r *runrecord.Record) float64 {
	return orNaN(float64(r.Counts.Delivered) * float64(r.Case.Payload))
}

func wireBytes(r *runrecord.Record) float64 {
	if r.Rates.WireBytesSent == nil {
		return math.NaN()
	}
	return orNaN(float64(*r.Rates.WireBytesSent))
}

func orNaN(v float64) float64 {
	if v > 0 {
		return v
	}
	return math.NaN()
}

// sumOf adds up one figure of all processes; NaN unless each is known.
func sumOf(r *runrecord.Record, of func(*runrecord.Process) *int64) float64 {
	if len(r.Processes) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range r.Processes {
		n := of(&r.Processes[i])
		if n == nil {
			return math.NaN()
		}
		sum += float64(*n)
	}
	return sum
}

func userNs(r *runrecord.Record) float64 {
	return sumOf(r, func(p *runrecord.Process) *int64 { return p.UserNs })
}

func systemNs(r *runrecord.Record) float64 {
	return sumOf(r, func(p *runrecord.Process) *int64 { return p.SystemNs })
}

func switches(r *runrecord.Record) float64 {
	return sumOf(r, func(p *runrecord.Process) *int64 { return p.VoluntarySwitches }) +
		sumOf(r, func(p *runrecord.Process) *int64 { return p.InvoluntarySwitches })
}

func wakeups(r *runrecord.Record) float64 {
	if len(r.Wakeups) == 0 {
		return math.NaN()
	}
	n := 0.0
	for _, w := range r.Wakeups {
		n += float64(w.Count)
	}
	return n
}

// summarize compares the pairs whose trials are both valid.
func summarize(c, probe workload.Case, pairs []pairOf) *runrecord.Paired {
	s := &runrecord.Paired{Metrics: []runrecord.PairedMetric{}}
	for _, p := range pairs {
		switch {
		case p.valid():
			s.Pairs++
		case !p.caseOK():
			s.DroppedByCase++
		default:
			s.DroppedByProbe++
		}
	}
	for _, f := range figuresAgainst(c, probe) {
		s.Metrics = append(s.Metrics, f.paired(pairs))
	}
	return s
}

func (f figure) paired(pairs []pairOf) runrecord.PairedMetric {
	var logs, ofCase, ofProbe []float64
	for _, p := range pairs {
		a, b := f.values(p)
		if d := math.Log(a / b); !math.IsNaN(d) && !math.IsInf(d, 0) {
			logs, ofCase, ofProbe = append(logs, d), append(ofCase, a), append(ofProbe, b)
		}
	}
	m := runrecord.PairedMetric{Name: f.name, Unit: f.unit, N: len(logs)}
	if len(logs) == 0 {
		return m
	}
	center, iv, _ := stat.HodgesLehmann(logs, level)
	m.Ratio, m.Low, m.High, m.Coverage = finite(math.Exp(center)), finite(math.Exp(iv.Low)), finite(math.Exp(iv.High)), finite(iv.Coverage)
	m.Case, m.Probe = finite(stat.Median(ofCase)), finite(stat.Median(ofProbe))
	m.CaseSpread, m.ProbeSpread = finite(stat.Spread(ofCase)), finite(stat.Spread(ofProbe))
	return m
}

// printPaired is the summary of all pairs.
func printPaired(w io.Writer, c, probe workload.Case, s *runrecord.Paired) {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	dropped := ""
	if n := s.DroppedByCase + s.DroppedByProbe; n > 0 {
		dropped = fmt.Sprintf("; %d dropped: invalid were %d of the case, %d of %s alone", n, s.DroppedByCase, s.DroppedByProbe, probe.Probe)
	}
	line("valid", "%d pairs%s", s.Pairs, dropped)
	small := false
	for i, f := range figuresAgainst(c, probe) {
		m := s.Metrics[i]
		if m.N == 0 {
			line(f.name, "n/a: no valid pair has it")
			continue
		}
		mark := ""
		if *m.Coverage < level {
			mark, small = "*", true
		}
		half := ""
		if f.probe != nil {
			half = " (half the round trip)"
		}
		spread := "spread n/a"
		if m.CaseSpread != nil && m.ProbeSpread != nil {
			spread = fmt.Sprintf("spread %.2f and %.2f", *m.CaseSpread, *m.ProbeSpread)
		}
		line(f.name, "case / %s %.3f  [%.3f, %.3f]%s n=%d   case "+f.format+"  %s "+f.format+" %s%s   %s", probe.Probe, *m.Ratio, *m.Low, *m.High, mark, m.N,
			*m.Case*f.scale, probe.Probe, *m.Probe*f.scale, f.shown, half, spread)
	}
	if !c.Throughput() && probe.Probe.Hops() > 1 {
		line("payload", "and wire rates are the pace of these loads: no throughput, and no ceiling of one")
	}
	if small {
		line("", "*: too few pairs for 95 %%: the range of the ratios' averages")
	}
	if probe.Probe.Hops() == 1 {
		line("one hop", "compared on wire bytes only: through a broker every message crosses the wire twice")
	}
	if c.Throughput() && probe.Probe.Hops() > 1 {
		line("p50, p99", "queueing delay, NOT per-message latency: the generators keep the queues full")
	}
	fmt.Fprint(w, b.String())
}
