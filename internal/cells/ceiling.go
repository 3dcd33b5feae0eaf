package cells

import (
	"fmt"
	"math"
	"slices"

	"felix/internal/stat"
	"felix/internal/workload"
)

// Ceiling is how a cell stands to its probe.
type Ceiling struct {
	// Share is the cell's median over the probe's: of a rate that of the relay, of a latency half the round trip of the
	// echo-relay. NaN where there is none.
	Share float64
	Text  string // "63%", or what a probe is instead: "ceiling", "one hop"; "-" without a probe that fits
}

// Ceilings says of every cell, by its ID, how it stands to the probe of the same payload, batch, fanout and topology in
// the same session and on the same machine. Where several probes fit, it is the one that has most else in common. It is
// nil where no cell is a probe.
func Ceilings(cells []Cell) map[string]Ceiling {
	if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Case.Probe != workload.ProbeNone }) {
		return nil
	}
	out := map[string]Ceiling{}
	for i := range cells {
		out[cells[i].ID] = ceiling(&cells[i], cells)
	}
	return out
}

func ceiling(c *Cell, all []Cell) Ceiling {
	want := workload.ProbeRelay
	if !c.Throughput {
		want = workload.ProbeEchoRelay
	}
	switch {
	case c.Case.Probe != workload.ProbeNone && c.Case.Probe.Hops() == 1:
		return Ceiling{math.NaN(), "one hop"}
	case c.Case.Probe == want && c.Case.Transport == workload.TransportQUIC:
		return Ceiling{math.NaN(), "ceiling"}
	}
	var best *Cell
	score := -1
	for i := range all {
		p := &all[i]
		if p.Case.Probe != want || p.Case.Transport != workload.TransportQUIC || !sameShape(c, p) {
			continue
		}
		if n := alike(c, p); n > score {
			best, score = p, n
		}
	}
	if best == nil {
		return Ceiling{math.NaN(), "-"}
	}
	share := shareOf(c, best)
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return Ceiling{math.NaN(), "n/a"}
	}
	return Ceiling{share, fmt.Sprintf("%.0f%%", 100*share)}
}

// sameShape reports whether the probe is of the cell's shape, machine and sitting.
func sameShape(c, p *Cell) bool {
	return c.Case.Payload == p.Case.Payload && c.Case.Batch == p.Case.Batch && c.Case.Fanout == p.Case.Fanout &&
		c.Case.Topology == p.Case.Topology && c.Host == p.Host && c.Throughput == p.Throughput && len(common(c, p)) > 0
}

// common lists the sessions that have trials of both.
func common(c, p *Cell) []string {
	var out []string
	for i := range c.Trials {
		session := c.Trials[i].Session
		if slices.Contains(out, session) {
			continue
		}
		if slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.Session == session }) {
			out = append(out, session)
		}
	}
	return out
}

// alike counts what else the two have in common.
func alike(c, p *Cell) int {
	n := 0
	for _, same := range []bool{
		c.Case.Publishers == p.Case.Publishers, c.Case.Streams == p.Case.Streams, c.Case.PubConns == p.Case.PubConns,
		c.Case.SubConns == p.Case.SubConns, c.Case.Inflight == p.Case.Inflight, c.Case.Rate == p.Case.Rate,
		c.Case.Profile == p.Case.Profile, c.Case.SendWindow == p.Case.SendWindow, c.Arm == p.Arm,
		word(c.Build.BinarySHA256) == word(p.Build.BinarySHA256),
	} {
		if same {
			n += 100
		}
	}
	for k, v := range p.Config { // of a probe these are the transport's
		if c.Config[k] == v {
			n++
		}
	}
	return n
}

// shareOf is the ratio of the medians, over the trials of the sessions that both are in.
func shareOf(c, p *Cell) float64 {
	sessions := common(c, p)
	median := func(cell *Cell, of func(*Trial) float64) float64 {
		var xs []float64
		for i := range cell.Trials {
			if t := &cell.Trials[i]; t.used() && slices.Contains(sessions, t.Session) {
				xs = append(xs, of(t))
			}
		}
		return stat.Median(xs)
	}
	if !c.Throughput {
		p50 := func(t *Trial) float64 { return t.P50Ns }
		half := median(p, p50) / 2
		if c.Case.Probe.Echo() {
			half *= 2 // both are round trips
		}
		return median(c, p50) / half
	}
	rate := func(t *Trial) float64 { return t.DeliveredBytesPerSec }
	if c.Case.Payload == 0 {
		rate = func(t *Trial) float64 { return t.DeliveredMsgsPerSec }
	}
	return median(c, rate) / median(p, rate)
}

// ceilingLegend explains the column.
const ceilingLegend = "of relay: the median over that of the relay probe with the same payload, batch, fanout and topology in the same session; of a latency the p50 over half the round trip of the echo-relay. one hop: comparable on wire bytes only."
