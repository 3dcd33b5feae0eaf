package verdict

import (
	"fmt"
	"slices"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Metric is one figure of a trial, by the name that records and gates use. Its direction is declared here: a name that
// is not, has none, and a gate that asks for it is misconfigured.
type Metric string

// The metrics.
const (
	DeliveredBytesPerSec Metric = "delivered_bytes_per_sec"
	DeliveredMsgsPerSec  Metric = "delivered_msgs_per_sec"
	CPUSecondsPerGB      Metric = "cpu_s_per_gb" // of all processes, per 10^9 delivered bytes
	P50                  Metric = "p50_ns"       // percentiles are of EndToEnd
	P90                  Metric = "p90_ns"
	P99                  Metric = "p99_ns"
	P999                 Metric = "p999_ns"
	Max                  Metric = "max_ns"
)

// Direction says which way a metric is better.
type Direction int8

// The directions. A metric without one cannot be judged.
const (
	NoDirection  Direction = 0
	HigherBetter Direction = 1
	LowerBetter  Direction = -1
)

func (d Direction) String() string {
	switch d {
	case HigherBetter:
		return "higher is better"
	case LowerBetter:
		return "lower is better"
	}
	return "no direction"
}

// metricInfo is what is declared of a metric.
type metricInfo struct {
	name      Metric
	unit      string
	direction Direction
	shown     bool // and never gated: an extreme of a trial says more about the machine
	// gateable reports whether the metric means something in the case, and byDefault whether a gate that names no
	// metrics takes it.
	gateable  func(c *runrecord.Case) bool
	byDefault func(c *runrecord.Case) bool
	value     func(r *runrecord.Record) (float64, bool)
}

// Percentiles of batches are those of the batch's last message, and the rate of single messages is the latency once
// more, with the noise of both: neither is gated.
var metrics = []metricInfo{
	{
		name: DeliveredBytesPerSec, unit: "B/s", direction: HigherBetter, gateable: batchRate, byDefault: bytesRate,
		value: func(r *runrecord.Record) (float64, bool) { return positive(r.Rates.DeliveredBytesPerSec) },
	},
	{
		name: DeliveredMsgsPerSec, unit: "msg/s", direction: HigherBetter, gateable: batchRate,
		byDefault: func(c *runrecord.Case) bool { return batchRate(c) && c.Payload == 0 }, // the stamp alone: no bytes
		value:     func(r *runrecord.Record) (float64, bool) { return positive(r.Rates.DeliveredMsgsPerSec) },
	},
	{
		name: CPUSecondsPerGB, unit: "s/GB", direction: LowerBetter, gateable: hasBytes,
		byDefault: func(c *runrecord.Case) bool { return c.Throughput() && hasBytes(c) },
		value:     cpuPerGB,
	},
	{name: P50, unit: "ns", direction: LowerBetter, gateable: messageLatency, byDefault: messageLatency,
		value: percentile(func(d *runrecord.Distribution) *int64 { return d.P50Ns })},
	{name: P90, unit: "ns", direction: LowerBetter, gateable: messageLatency, byDefault: never,
		value: percentile(func(d *runrecord.Distribution) *int64 { return d.P90Ns })},
	{name: P99, unit: "ns", direction: LowerBetter, gateable: messageLatency, byDefault: messageLatency,
		value: percentile(func(d *runrecord.Distribution) *int64 { return d.P99Ns })},
	{name: P999, unit: "ns", direction: LowerBetter, shown: true, gateable: messageLatency, byDefault: never,
		value: percentile(func(d *runrecord.Distribution) *int64 { return d.P999Ns })},
	{name: Max, unit: "ns", direction: LowerBetter, shown: true, gateable: messageLatency, byDefault: never,
		value: percentile(func(d *runrecord.Distribution) *int64 { return d.MaxNs })},
}

func never(*runrecord.Case) bool { return false }

func batchRate(c *runrecord.Case) bool { return c.Throughput() && c.Batch > 1 }
func bytesRate(c *runrecord.Case) bool { return batchRate(c) && hasBytes(c) }
func hasBytes(c *runrecord.Case) bool  { return c.Payload > 0 }

func messageLatency(c *runrecord.Case) bool {
	return !c.Throughput() && c.LatencyKind() == workload.KindLatency && c.Batch == 1
}

func (m Metric) info() *metricInfo {
	i := slices.IndexFunc(metrics, func(x metricInfo) bool { return x.name == m })
	if i < 0 {
		return nil
	}
	return &metrics[i]
}

// Direction returns the declared direction, NoDirection for a metric that is not known.
func (m Metric) Direction() Direction {
	if i := m.info(); i != nil {
		return i.direction
	}
	return NoDirection
}

// Unit returns the unit of the metric's values, "" for one that is not known.
func (m Metric) Unit() string {
	if i := m.info(); i != nil {
		return i.unit
	}
	return ""
}

// Value returns the metric of one trial. Ok is false where the trial does not have it: a percentile of too few samples,
// a rate of nothing delivered, a value that is not above 0 and so has no ratio to another, a metric that is not known.
func (m Metric) Value(r *runrecord.Record) (value float64, ok bool) {
	i := m.info()
	if i == nil || r == nil {
		return 0, false
	}
	return i.value(r)
}

// gateError says why the metric cannot be gated in any case; nil if it can.
func (m Metric) gateError() error {
	i := m.info()
	switch {
	case i == nil:
		return fmt.Errorf("metric %q has no declared direction: want %s", m, oneOf(gateableNames()))
	case i.shown:
		return fmt.Errorf("metric %s is shown and never gated: want %s", m, oneOf(gateableNames()))
	}
	return nil
}

func gateableNames() []string {
	var names []string
	for _, i := range metrics {
		if !i.shown {
			names = append(names, string(i.name))
		}
	}
	return names
}

// Gated returns the metrics that a gate over a case judges: those named that mean something in it, in the order of the
// declaration; with none named, throughput cases have the delivered rate and the CPU seconds per GB, latency cases the
// p50 and the p99. A batch of 1 has no rate, a larger one no percentile, and payload 0 no bytes: it can be empty.
func Gated(named []Metric, c *runrecord.Case) []Metric {
	var out []Metric
	for i := range metrics {
		m := &metrics[i]
		if len(named) == 0 && m.byDefault(c) || slices.Contains(named, m.name) && !m.shown && m.gateable(c) {
			out = append(out, m.name)
		}
	}
	return out
}

func percentile(of func(*runrecord.Distribution) *int64) func(*runrecord.Record) (float64, bool) {
	return func(r *runrecord.Record) (float64, bool) {
		d := r.Latency.EndToEnd
		if d == nil {
			return 0, false
		}
		ns := of(d)
		if ns == nil || *ns <= 0 {
			return 0, false
		}
		return float64(*ns), true
	}
}

// cpuPerGB is the CPU time of all processes per 10^9 delivered bytes, known only if that of each is.
func cpuPerGB(r *runrecord.Record) (float64, bool) {
	bytes := float64(r.Counts.Delivered) * float64(r.Case.Payload)
	if len(r.Processes) == 0 || !(bytes > 0) {
		return 0, false
	}
	ns := int64(0)
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.UserNs == nil || p.SystemNs == nil {
			return 0, false
		}
		ns += *p.UserNs + *p.SystemNs
	}
	perGB := float64(ns) / bytes // ns per byte are seconds per 10^9 bytes
	return positive(&perGB)
}
