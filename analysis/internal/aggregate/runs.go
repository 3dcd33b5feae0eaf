package aggregate

import (
	"slices"
	"time"

	"felix/analysis/internal/load"
	"felix/internal/runrecord"
)

// run is a row of the runs table.
type run struct {
	*load.Record
	cellID string
}

// RunColumns describes the runs table.
func RunColumns() []Column { return columnsOf(runColumns) }

var runColumns = slices.Concat(
	[]column[run]{
		text("run_id", "UUIDv7 of the run", func(r run) string { return r.RunID }),
		text("session_id", "of the session that the record lay in", func(r run) string { return r.Session.SessionID }),
		text("session_kind", "grid, ab or single", func(r run) string { return r.Session.Kind.String() }),
		text("grid", "name of the session's grid", func(r run) string { return gridName(r.Session) }),
		text("cell_id", "the row of the cells table that the run belongs to", func(r run) string { return r.cellID }),
		text("cell", "what the session's grid calls the case", func(r run) string { return r.Cell }),
		text("kind", "case, or a probe: raw, relay, echo", func(r run) string { return r.Kind }),
		maybeInteger("trial", "", "place among the trials of its cell in the session", func(r run) *int64 { return widen(r.Trial) }),
		text("arm", "of an A/B session: what was measured against what", func(r run) string { return deref(r.Arm) }),
		maybeInteger("pair", "", "of an A/B session: trials of one number were run back to back", func(r run) *int64 { return widen(r.Pair) }),
		maybeInteger("order", "", "place among all trials of the session", func(r run) *int64 { return widen(r.Order) }),
		{Column{"started_at", "time", "", "RFC 3339, UTC"}, func(r run) any { return timeText(r.StartedAt) }},
		integer("duration_ns", "ns", "of the whole trial, processes and all", func(r run) int64 { return r.DurationNs }),
	},
	verdictColumns,
	caseColumns(func(r run) *runrecord.Case { return &r.Case }),
	sizeColumns,
	buildColumns(func(r run) *runrecord.Build { return &r.Build }),
	[]column[run]{
		text("host", "fingerprint of the machine", func(r run) string { return r.Host.Fingerprint }),
		text("noise", "of the machine during the run: quiet, noisy or contaminated", func(r run) string { return noise(r).Grade }),
		number("others_cpu", "share", "of the whole machine, used by others", func(r run) *float64 { return noise(r).OthersCPU }),
		number("steal", "share", "of the whole machine, taken by its host", func(r run) *float64 { return noise(r).Steal }),
		number("load1", "", "one-minute load average at the end", func(r run) *float64 { return noise(r).Load }),
	},
	countColumns,
	rateColumns,
	latencyColumns,
	costColumns,
)

var verdictColumns = []column[run]{
	yes("valid", "may be believed", func(r run) bool { return r.Valid }),
	text("reasons", "why it is not valid, joined by semicolons", func(r run) string { return joined(r.Reasons) }),
	text("error", "why it left no result", func(r run) string { return deref(r.Error) }),
	yes("interrupted", "ended by hand", func(r run) bool { return r.Interrupted }),
	integer("warnings", "", "how many", func(r run) int64 { return int64(len(r.Warnings)) }),
	text("perturbed", "instruments that were on, joined by semicolons", func(r run) string { return joined(r.Perturbed) }),
	text("lossless", "what the effective configuration promises: yes, almost or no", func(r run) string { return string(r.Lossless) }),
	text("size_grade", "of a throughput run: sized, capped, undersized, buffer-absorbed; n/a for a latency run", func(r run) string { return r.SizeGrade }),
}

// sizeColumns are what the key leaves out.
var sizeColumns = []column[run]{
	maybeInteger("asked_total", "messages", "of the measure phase; not known: automatic", func(r run) *int64 { return r.Case.Total }),
	maybeInteger("asked_duration_ns", "ns", "of the measure phase; not known: no limit", func(r run) *int64 { return r.Case.DurationNs }),
	maybeInteger("asked_warmup", "messages", "not known: automatic", func(r run) *int64 { return r.Case.Warmup }),
	integer("asked_send_window", "B", "of each of the broker's connections", func(r run) int64 { return r.Case.SendWindow }),
	integer("max_deliveries", "deliveries", "limit of an automatic total, 0 for none", func(r run) int64 { return r.Case.MaxDeliveries }),
	integer("idle_timeout_ns", "ns", "without a delivery", func(r run) int64 { return r.Case.IdleTimeoutNs }),
	{Column{"seed", "integer", "", "of payloads and Poisson arrivals; up to 2^64-1"}, func(r run) any { return r.Case.Seed }},
}

var countColumns = []column[run]{
	integer("published", "messages", "in the measure phase", func(r run) int64 { return r.Counts.Published }),
	integer("refused", "messages", "negative acks, all causes", func(r run) int64 { return sum(r.Counts.Refused) }),
	integer("failed", "messages", "send errors, all causes", func(r run) int64 { return sum(r.Counts.Failed) }),
	integer("expected", "deliveries", "messages not refused, times subscribers", func(r run) int64 { return r.Counts.Expected }),
	integer("delivered", "deliveries", "once each", func(r run) int64 { return r.Counts.Delivered }),
	maybeInteger("dropped_ingress", "deliveries", "shed by the broker's ingress", func(r run) *int64 { return r.Counts.Dropped.Ingress }),
	maybeInteger("dropped_subscriber", "deliveries", "shed by subscriber queues", func(r run) *int64 { return r.Counts.Dropped.Subscriber }),
	maybeInteger("dropped_writer", "deliveries", "shed by the broker's writers", func(r run) *int64 { return r.Counts.Dropped.Writer }),
	maybeInteger("dropped_client", "deliveries", "shed by the client's subscription queue", func(r run) *int64 { return r.Counts.Dropped.Client }),
	maybeInteger("discarded_on_close", "deliveries", "queued when a subscription ended", func(r run) *int64 { return r.Counts.DiscardedOnClose }),
	integer("lost", "deliveries", "expected but not delivered", func(r run) int64 { return r.Counts.Lost }),
	integer("unaccounted", "deliveries", "lost, and no counter says where", func(r run) int64 { return r.Counts.Unaccounted }),
	integer("duplicate", "deliveries", "delivered again", func(r run) int64 { return r.Counts.Duplicate }),
	integer("reordered", "deliveries", "after a later one", func(r run) int64 { return r.Counts.Reordered }),
	integer("foreign", "deliveries", "of another run", func(r run) int64 { return r.Counts.Foreign }),
	integer("corrupt", "deliveries", "with a payload that was changed", func(r run) int64 { return r.Counts.Corrupt }),
	integer("late_warmup", "deliveries", "of the warm-up, after its end", func(r run) int64 { return r.Counts.LateWarmup }),
	integer("flow_offered", "messages", "handed to the client", func(r run) int64 { return r.Flow.Offered }),
	maybeInteger("flow_written", "messages", "by the client, to QUIC", func(r run) *int64 { return r.Flow.Written }),
	maybeInteger("flow_received", "messages", "by the broker", func(r run) *int64 { return r.Flow.Received }),
	maybeInteger("flow_accepted", "messages", "by the broker's ingress", func(r run) *int64 { return r.Flow.Accepted }),
	maybeInteger("flow_published", "messages", "fanned out by the broker", func(r run) *int64 { return r.Flow.Published }),
	maybeInteger("flow_queued", "deliveries", "into subscriber queues", func(r run) *int64 { return r.Flow.Queued }),
	maybeInteger("flow_sent", "deliveries", "written to event streams", func(r run) *int64 { return r.Flow.Sent }),
	integer("flow_delivered", "deliveries", "to the application", func(r run) int64 { return r.Flow.Delivered }),
}

var rateColumns = []column[run]{
	integer("window_ns", "ns", "first measured publish to last measured delivery: the time of all rates", func(r run) int64 { return r.Rates.WindowNs }),
	number("published_msgs_per_sec", "msg/s", "all publishers together", func(r run) *float64 { return r.Rates.PublishedMsgsPerSec }),
	number("published_bytes_per_sec", "B/s", "payload, all publishers together", func(r run) *float64 { return r.Rates.PublishedBytesPerSec }),
	number("delivered_msgs_per_sec", "msg/s", "all subscribers together", func(r run) *float64 { return r.Rates.DeliveredMsgsPerSec }),
	number("delivered_bytes_per_sec", "B/s", "payload, all subscribers together", func(r run) *float64 { return r.Rates.DeliveredBytesPerSec }),
	number("steady_bytes_per_sec", "B/s", "from when the backlog stops growing until the last publish", func(r run) *float64 { return r.Rates.SteadyBytesPerSec }),
	number("last_half_bytes_per_sec", "B/s", "of the second half of the window", func(r run) *float64 { return r.Rates.LastHalfBytesPerSec }),
	number("offered_msgs_per_sec", "msg/s", "asked for by an open loop", func(r run) *float64 { return r.Rates.OfferedMsgsPerSec }),
	number("drain_share", "share", "of the window, after the last publish", func(r run) *float64 { return r.Rates.DrainShare }),
	integer("peak_backlog_bytes", "B", "published minus delivered, slowest subscriber", func(r run) int64 { return r.Rates.PeakBacklogBytes }),
	integer("run_bytes", "B", "payload published", func(r run) int64 { return r.Rates.RunBytes }),
	integer("send_window_bytes", "B", "W: what publishers can be ahead by inside QUIC", func(r run) int64 { return r.Rates.SendWindowBytes }),
	maybeInteger("absorption_bytes", "B", "all that the path can hold", func(r run) *int64 { return r.Rates.AbsorptionBytes }),
	number("delivered_share", "share", "delivered of expected", func(r run) *float64 { return r.Rates.DeliveredGoodputShare }),
	maybeInteger("wire_bytes_sent", "B", "UDP payload that all ends of all connections sent: with two hops each message is in it twice", func(r run) *int64 { return r.Rates.WireBytesSent }),
	number("wire_bytes_per_sec", "B/s", "of that", func(r run) *float64 { return r.Rates.WireBytesPerSec }),
}

var latencyColumns = slices.Concat(
	[]column[run]{
		text("latency_kind", "how the percentiles read: latency, or queueing_delay, which is no latency of a message", func(r run) string { return string(r.Latency.Kind) }),
	},
	distributionColumns("end_to_end", "received minus intended", func(r run) *runrecord.Distribution { return r.Latency.EndToEnd }),
	distributionColumns("network", "received minus sent", func(r run) *runrecord.Distribution { return r.Latency.Network }),
	distributionColumns("publish_delay", "sent minus intended", func(r run) *runrecord.Distribution { return r.Latency.PublishDelay }),
	distributionColumns("ack_rtt", "publish to ack", func(r run) *runrecord.Distribution { return r.Latency.AckRTT }),
)

// distributionColumns are the numbers of one distribution. A percentile is not known with fewer than 10 samples
// beyond it.
func distributionColumns[Row any](name, what string, of func(Row) *runrecord.Distribution) []column[Row] {
	get := func(of2 func(*runrecord.Distribution) *int64) func(Row) *int64 {
		return func(r Row) *int64 {
			if d := of(r); d != nil {
				return of2(d)
			}
			return nil
		}
	}
	return []column[Row]{
		maybeInteger(name+"_n", "deliveries", what+": samples", get(func(d *runrecord.Distribution) *int64 { return &d.N })),
		maybeInteger(name+"_p50_ns", "ns", what, get(func(d *runrecord.Distribution) *int64 { return d.P50Ns })),
		maybeInteger(name+"_p90_ns", "ns", what, get(func(d *runrecord.Distribution) *int64 { return d.P90Ns })),
		maybeInteger(name+"_p99_ns", "ns", what, get(func(d *runrecord.Distribution) *int64 { return d.P99Ns })),
		maybeInteger(name+"_p999_ns", "ns", what, get(func(d *runrecord.Distribution) *int64 { return d.P999Ns })),
		maybeInteger(name+"_max_ns", "ns", what, get(func(d *runrecord.Distribution) *int64 { return d.MaxNs })),
	}
}

var costColumns = []column[run]{
	maybeInteger("user_ns", "ns", "CPU of all processes, in user mode", func(r run) *int64 { return total(r, func(p *runrecord.Process) *int64 { return p.UserNs }) }),
	maybeInteger("system_ns", "ns", "CPU of all processes, in the kernel", func(r run) *int64 { return total(r, func(p *runrecord.Process) *int64 { return p.SystemNs }) }),
	number("cpu_seconds_per_gb", "s/GB", "CPU of all processes per 10^9 delivered bytes; not known at payload 0", cpuPerGB),
	maybeInteger("max_rss_bytes", "B", "peak memory, summed over the processes", func(r run) *int64 { return total(r, func(p *runrecord.Process) *int64 { return p.MaxRSSBytes }) }),
	maybeInteger("voluntary_switches", "", "context switches of all processes, to wait", func(r run) *int64 {
		return total(r, func(p *runrecord.Process) *int64 { return p.VoluntarySwitches })
	}),
	maybeInteger("involuntary_switches", "", "context switches of all processes, pushed off the CPU", func(r run) *int64 {
		return total(r, func(p *runrecord.Process) *int64 { return p.InvoluntarySwitches })
	}),
	maybeInteger("udp_rcvbuf_errors", "datagrams", "dropped by the kernel's receive buffers, machine-wide", func(r run) *int64 {
		if r.UDP == nil {
			return nil
		}
		return &r.UDP.RcvbufErrors
	}),
}

// total adds one figure of all processes; it is not known unless every one has it.
func total(r run, of func(*runrecord.Process) *int64) *int64 {
	if len(r.Processes) == 0 {
		return nil
	}
	var n int64
	for i := range r.Processes {
		v := of(&r.Processes[i])
		if v == nil {
			return nil
		}
		n += *v
	}
	return &n
}

func cpuPerGB(r run) *float64 {
	user := total(r, func(p *runrecord.Process) *int64 { return p.UserNs })
	system := total(r, func(p *runrecord.Process) *int64 { return p.SystemNs })
	bytes := float64(r.Counts.Delivered) * float64(r.Case.Payload)
	if user == nil || system == nil || !(bytes > 0) {
		return nil
	}
	v := float64(*user+*system) / bytes // ns per byte are seconds per 10^9 bytes
	return &v
}

func noise(r run) runrecord.Noise {
	if r.Host.Noise == nil {
		return runrecord.Noise{}
	}
	return *r.Host.Noise
}

func gridName(s *runrecord.Session) string {
	if s.Grid == nil {
		return ""
	}
	return s.Grid.Name
}

// timeText is nil for a time that nobody set.
func timeText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
