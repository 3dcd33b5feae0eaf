package aggregate

import (
	"cmp"
	"maps"
	"slices"

	"felix/internal/cells"
	"felix/internal/runrecord"
)

// cell is a row of the cells table.
type cell struct {
	*cells.Cell
	origin   *origin
	endToEnd *runrecord.Distribution // merged; nil if it could not be
	ofRelay  *float64
}

// origin is where a cell's runs came from.
type origin struct {
	names    []string // what the sessions' grids call the case, each once
	sessions []string // ids, in the order of reading
}

// CellColumns describes the cells table.
func CellColumns() []Column { return columnsOf(cellColumns) }

var cellColumns = slices.Concat(
	[]column[cell]{
		text("cell_id", "of everything that sets its runs apart from others: the same wherever one build of analysis reads them", func(c cell) string { return c.ID }),
		text("cell", "what the sessions' grids call the case, joined by semicolons", func(c cell) string { return joined(c.origin.names) }),
		text("session_ids", "that its runs lay in, joined by semicolons", func(c cell) string { return joined(c.origin.sessions) }),
		text("kind", "case, or a probe: raw, relay, echo", func(c cell) string { return c.Kind }),
		text("arm", "of an A/B session: what was measured against what", func(c cell) string { return c.Arm }),
	},
	caseColumns(func(c cell) *runrecord.Case { return &c.Case }),
	[]column[cell]{
		integer("asked_send_window", "B", "of each of the broker's connections", func(c cell) int64 { return c.Case.SendWindow }),
	},
	buildColumns(func(c cell) *runrecord.Build { return &c.Build }),
	[]column[cell]{
		text("host", "fingerprint of the machine", func(c cell) string { return c.Host }),
		text("env", "variables that can change what is measured, as NAME=VALUE, joined by semicolons", func(c cell) string { return joined(assignments(c.Env)) }),
		text("lossless", "what the effective configuration promises: yes, almost or no", func(c cell) string { return string(c.Lossless) }),
		text("perturbed", "instruments that were on, joined by semicolons", func(c cell) string { return joined(c.Perturbed) }),
	},
	[]column[cell]{
		integer("n", "trials", "valid: what the figures are made of", func(c cell) int64 { return int64(c.N) }),
		integer("invalid", "trials", "ran to their end, and may not be believed; in no figure", func(c cell) int64 { return int64(c.Invalid) }),
		integer("failed", "trials", "left no result; in no figure", func(c cell) int64 { return int64(c.Failed) }),
		integer("interrupted", "trials", "ended by hand; in no figure", func(c cell) int64 { return int64(c.Interrupted) }),
		integer("superseded", "trials", "noisy, and repeated in quiet; in no figure", func(c cell) int64 { return int64(c.Superseded) }),
		integer("noisy", "trials", "of the n, on a machine that did something else", func(c cell) int64 { return int64(c.Noisy) }),
		text("reasons", "why trials were invalid or failed, with how many, joined by semicolons", func(c cell) string {
			return joined(numbered(c.Reasons, slices.Sorted(maps.Keys(c.Reasons))))
		}),
		yes("publishable", "n >= 5, all valid, none noisy, spread < 1.5, and nothing else against it", func(c cell) bool { return c.Publishable }),
		text("marks", "what stands against publishing, joined by semicolons", func(c cell) string { return joined(words(c.Marks)) }),
		text("caveats", "what has to be said with the figures, joined by semicolons", func(c cell) string { return joined(words(c.Caveats)) }),
		number("of_relay", "ratio", "of the main figure to the relay's with the same payload, batch, fanout and topology in the same session; of a latency to half the round trip of the echo-relay", func(c cell) *float64 { return c.ofRelay }),
		text("main_unit", "B/s or msg/s of a throughput cell, ns of a latency cell", func(c cell) string { return c.Main.Unit }),
	},
	figureColumns("main", "", "the figure that the cell is about: delivered payload (at payload 0: messages), or p50 end to end", func(c cell) *cells.Figure { return &c.Main }),
	figureColumns("end_to_end_p50_ns", "ns", "p50 end to end of each trial", func(c cell) *cells.Figure { return &c.P50 }),
	figureColumns("end_to_end_p99_ns", "ns", "p99 end to end of each trial", func(c cell) *cells.Figure { return &c.P99 }),
	figureColumns("delivered_msgs_per_sec", "msg/s", "all subscribers together", func(c cell) *cells.Figure { return &c.Rate }),
	figureColumns("cpu_seconds_per_gb", "s/GB", "CPU of all processes per 10^9 delivered bytes", func(c cell) *cells.Figure { return &c.CPUPerGB }),
	[]column[cell]{
		integer("slow_trials", "trials", "in a slow mode: below 1/1.5 of the 90th percentile of the main figure", func(c cell) int64 { return int64(c.SlowModes.K) }),
		integer("slow_of", "trials", "that have the main figure", func(c cell) int64 { return int64(c.SlowModes.N) }),
		number("slow_share", "share", "of slow trials", func(c cell) *float64 { return &c.SlowModes.Share }),
		number("slow_share_low", "share", "exact 95 % interval (Clopper-Pearson)", func(c cell) *float64 { return &c.SlowModes.Low }),
		number("slow_share_high", "share", "exact 95 % interval (Clopper-Pearson)", func(c cell) *float64 { return &c.SlowModes.High }),
		text("latency_kind", "how the percentiles read: latency, or queueing_delay, which is no latency of a message", func(c cell) string { return string(c.Case.LatencyKind()) }),
	},
	distributionColumns("merged_end_to_end", "received minus intended, all messages of the n trials together", func(c cell) *runrecord.Distribution { return c.endToEnd }),
	[]column[cell]{
		text("merged_end_to_end_hdr", "that histogram, in ns: HdrHistogram V2, compressed, base64", func(c cell) string {
			if c.endToEnd == nil {
				return ""
			}
			return deref(c.endToEnd.HDR)
		}),
		text("config", "every effective setting, as broker.KEY=VALUE, joined by semicolons", func(c cell) string { return joined(assignments(c.Config)) }),
	},
)

// figureColumns are one measure over the trials that have it.
func figureColumns(name, unit, what string, of func(cell) *cells.Figure) []column[cell] {
	get := func(of2 func(*cells.Figure) *float64) func(cell) *float64 {
		return func(c cell) *float64 { return of2(of(c)) }
	}
	return []column[cell]{
		integer(name+"_n", "trials", cmp.Or(what, name)+": trials that have it", func(c cell) int64 { return int64(of(c).N) }),
		number(name+"_median", unit, "of the trials", get(func(f *cells.Figure) *float64 { return &f.Median })),
		number(name+"_low", unit, "interval of the median, by order statistics", get(func(f *cells.Figure) *float64 { return &f.Low })),
		number(name+"_high", unit, "interval of the median, by order statistics", get(func(f *cells.Figure) *float64 { return &f.High })),
		number(name+"_coverage", "share", "of that interval: 0.95 or more; less where n is too small for it, and it is the range", get(func(f *cells.Figure) *float64 { return &f.Coverage })),
		number(name+"_worst", unit, "the slowest or costliest trial", get(func(f *cells.Figure) *float64 { return &f.Worst })),
		number(name+"_spread", "ratio", "90th over 10th percentile", get(func(f *cells.Figure) *float64 { return &f.Spread })),
	}
}

func words(marks []cells.Mark) []string {
	list := make([]string, len(marks))
	for i, m := range marks {
		list[i] = string(m)
	}
	return list
}

// assignments writes a map as "k=v", sorted.
func assignments(kv map[string]string) []string {
	list := make([]string, 0, len(kv))
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		list = append(list, k+"="+kv[k])
	}
	return list
}
