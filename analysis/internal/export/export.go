// Package export writes what was measured in formats of other tools: the Go benchmark format for benchstat, those of
// HdrHistogram, and the lists of a benchmark tracker. Only valid trials go out, and none that was noisy and repeated:
// those formats have no place for why a figure may not be believed.
package export

import (
	"math"
	"slices"
	"strings"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Run is what is kept of a record beside its cell's trial.
type Run struct {
	Delivered   int64
	StartUnixNs int64 // 0 not known
	LengthNs    int64
	MaxNs       int64  // of EndToEnd; -1 not known
	HDR         string // EndToEnd, HdrHistogram V2 compressed, base64; "" none
}

// RunOf takes it from a record. The histogram is left out unless it is wanted: it is most of the record.
func RunOf(r *runrecord.Record, histogram bool) Run {
	run := Run{Delivered: r.Counts.Delivered, LengthNs: r.DurationNs, MaxNs: -1}
	if !r.StartedAt.IsZero() {
		run.StartUnixNs = r.StartedAt.UnixNano()
	}
	if d := r.Latency.EndToEnd; d != nil {
		if d.MaxNs != nil {
			run.MaxNs = *d.MaxNs
		}
		if histogram && d.HDR != nil {
			run.HDR = strings.Clone(*d.HDR)
		}
	}
	return run
}

// Set is what is exported.
type Set struct {
	Cells []cells.Cell
	Names map[string]string // the grid's names of its cells, by case key
	Runs  map[string]Run    // by run id
}

// metric is one figure of a cell, with its direction.
type metric struct {
	name   string // for people
	unit   string
	higher bool // is better
	of     func(*cells.Trial) float64
	figure func(*cells.Cell) cells.Figure
}

// metricsOf are the figures that mean something for the cell: throughput cells have no latency, and latency cells no
// rate of their own.
func metricsOf(c *cells.Cell) []metric {
	rate := func(t *cells.Trial) float64 { return t.DeliveredMsgsPerSec }
	if c.Throughput {
		out := []metric{{"delivered messages", "msgs/s", true, rate, func(c *cells.Cell) cells.Figure { return c.Rate }}}
		if c.Case.Payload > 0 {
			out = slices.Insert(out, 0, metric{"delivered bytes", "B/s", true,
				func(t *cells.Trial) float64 { return t.DeliveredBytesPerSec }, func(c *cells.Cell) cells.Figure { return c.Main }})
			out = append(out, metric{"CPU", "cpu-sec/GB", false,
				func(t *cells.Trial) float64 { return t.CPUSecondsPerGB }, func(c *cells.Cell) cells.Figure { return c.CPUPerGB }})
		}
		return out
	}
	what := "latency"
	if c.Case.LatencyKind() == workload.KindQueueingDelay {
		what = "queueing" // delay, NOT the latency of a message
	}
	return []metric{
		{"p50", "p50-" + what + "-ns", false, func(t *cells.Trial) float64 { return t.P50Ns }, func(c *cells.Cell) cells.Figure { return c.P50 }},
		{"p99", "p99-" + what + "-ns", false, func(t *cells.Trial) float64 { return t.P99Ns }, func(c *cells.Cell) cells.Figure { return c.P99 }},
	}
}

// used reports whether the trial is part of the figures.
func used(t *cells.Trial) bool { return t.Valid && !t.Superseded }

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// names gives every cell a name of its own: what the grid calls it, or its key, and where two would have one name what
// else tells them apart.
func (s *Set) names() []string {
	out := make([]string, len(s.Cells))
	for i := range s.Cells {
		c := &s.Cells[i]
		name := s.Names[c.Key]
		if name == "" {
			name = c.Key
		}
		if c.Kind != "" && c.Kind != "case" && !strings.Contains(name, "probe=") {
			name = "probe=" + c.Kind + " " + name
		}
		if c.Arm != "" {
			name += " arm=" + c.Arm
		}
		if len(c.Perturbed) > 0 {
			name += " perturbed=" + strings.ReplaceAll(strings.Join(c.Perturbed, "+"), " ", "_")
		}
		out[i] = name
	}
	for _, extra := range []func(*cells.Cell) string{
		func(c *cells.Cell) string {
			for _, id := range []*string{c.Build.TreeDigest, c.Build.BinarySHA256, c.Build.Commit} {
				if id != nil && *id != "" {
					return " build=" + (*id)[:min(len(*id), 9)]
				}
			}
			return " build=unknown"
		},
		func(c *cells.Cell) string { return " cell=" + c.ID },
	} {
		// Only where it tells cells apart, so that a cell has the same name in sessions of other builds.
		extras := map[string]map[string]bool{}
		for i, name := range out {
			if s.Cells[i].N == 0 {
				continue // it is not written
			}
			if extras[name] == nil {
				extras[name] = map[string]bool{}
			}
			extras[name][extra(&s.Cells[i])] = true
		}
		for i, name := range slices.Clone(out) {
			if len(extras[name]) > 1 {
				out[i] += extra(&s.Cells[i])
			}
		}
	}
	return out
}

// single makes one word of a name: "payload=256 batch=1" is payload=256/batch=1.
func single(name, separator string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r <= ' ' || r == 0x7f || r == ',':
			return '_'
		}
		return r
	}, strings.Join(strings.Fields(name), separator))
}
