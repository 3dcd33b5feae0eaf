package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/settings"
)

// through is the whole story in one line: so many in, so many through, so many dropped, and where.
func (s *summary) through() {
	c := s.r.Counts
	if c.Lost == 0 && s.r.Case.Burst == 0 {
		return
	}
	text := fmt.Sprintf("%d in", c.Expected)
	if n := len(s.r.Subscribers); n > 1 {
		text = fmt.Sprintf("%d in (%d messages to their subscribers)", c.Expected, c.Published-sum(c.Refused)-sum(c.Failed))
	}
	text += fmt.Sprintf(", %d through", c.Delivered)
	var at []string
	dropped := int64(0)
	for _, d := range []struct {
		name string
		n    *int64
	}{{"at ingress (3, 4)", c.Dropped.Ingress}, {"at the subscriber queue (5)", c.Dropped.Subscriber}, {"at the writer (6)", c.Dropped.Writer}, {"at the client (7)", c.Dropped.Client}, {"on close", c.DiscardedOnClose}} {
		if n := value(d.n); n != 0 {
			at = append(at, fmt.Sprintf("%d %s", n, d.name))
			dropped += n
		}
	}
	text += fmt.Sprintf(", %d dropped", dropped)
	if len(at) > 0 {
		text += ": " + strings.Join(at, ", ")
	}
	if c.Unaccounted != 0 {
		text += fmt.Sprintf("; %d UNACCOUNTED", c.Unaccounted)
	}
	s.line("through", "%s", text)
}

// checkpoints is a line for each bounded place, if anything waited or was dropped anywhere, or that was to be seen.
func (s *summary) checkpoints() {
	c := s.r.Case
	show := c.Overload || c.Burst > 0 || len(c.Stall)+len(c.Slow)+len(c.Tenants) > 0
	for _, p := range s.r.Checkpoints {
		show = show || value(p.Dropped) != 0 || value(p.Rejected) != 0 || value(p.BlockedNs) > s.r.Rates.WindowNs/100
	}
	if !show {
		return
	}
	label := "checkpoints"
	for _, p := range s.r.Checkpoints {
		s.line(label, "%s", checkpointText(&p))
		label = ""
	}
	s.waited()
	if b := s.r.Rates.DelayBoundNs; b != nil && s.r.Rates.AbsorptionBytes != nil {
		s.line("bound", "a message that is delivered waits at most %s behind what the queues can hold, at the pace of --slow", duration(*b))
	}
}

// checkpointText is one line: where, what happens when it is full, how full it was, how long was waited, what was
// dropped. "?" is what nobody counts.
func checkpointText(p *runrecord.Checkpoint) string {
	var high []string
	if p.BoundItems != nil {
		high = append(high, fmt.Sprintf("%s of %s", known(p.HighWater), itemsText(p)))
	}
	if p.BoundBytes != nil {
		high = append(high, fmt.Sprintf("%s of %s", sizeOr(p.HighWaterBytes), settings.FormatSize(*p.BoundBytes)))
	}
	if p.ConnBoundBytes != nil {
		high = append(high, fmt.Sprintf("%s of %s a connection", sizeOr(p.ConnHighWaterBytes), settings.FormatSize(*p.ConnBoundBytes)))
	}
	full := "most " + strings.Join(high, ", ")
	switch {
	case len(high) == 0 && p.HighWater != nil: // the record of an older bench, without numbers
		full = fmt.Sprintf("most %d of %s", *p.HighWater, p.Bound)
	case len(high) == 0:
		full = p.Bound
	}
	var then []string
	if p.BlockedNs != nil {
		then = append(then, "blocked "+duration(*p.BlockedNs))
	}
	if p.Dropped != nil {
		then = append(then, fmt.Sprintf("dropped %d", *p.Dropped))
	}
	if p.Rejected != nil {
		then = append(then, fmt.Sprintf("rejected %d", *p.Rejected))
	}
	return fmt.Sprintf("%d %-26s %-12s %-52s %s", p.Number, p.Name, p.Policy, full, strings.Join(then, "  "))
}

// itemsText is the bound in items with its unit, which the record has in its text.
func itemsText(p *runrecord.Checkpoint) string {
	text, _, _ := strings.Cut(p.Bound, ",")
	return text
}

func sizeOr(n *int64) string {
	if n == nil {
		return "?"
	}
	// in the unit of the bound beside it: 4.1 MB of 4MiB reads as more than all
	if *n < 100<<10 {
		return fmt.Sprintf("%.1fKiB", float64(*n)/(1<<10))
	}
	return fmt.Sprintf("%.1fMiB", float64(*n)/(1<<20))
}

// waited names the checkpoints by the time that was spent waiting there, the longest first: when nothing is dropped,
// that is where overload went. Waiting upstream is part of waiting further down the path, so that the times do not add
// up to anything.
func (s *summary) waited() {
	var at []runrecord.Checkpoint
	for _, p := range s.r.Checkpoints {
		if value(p.BlockedNs) > 0 {
			at = append(at, p)
		}
	}
	if len(at) == 0 {
		return
	}
	slices.SortStableFunc(at, func(a, b runrecord.Checkpoint) int { return cmp.Compare(*b.BlockedNs, *a.BlockedNs) })
	var parts []string
	for _, p := range at {
		parts = append(parts, fmt.Sprintf("%d %s %s", p.Number, p.Name, duration(*p.BlockedNs)))
	}
	s.line("waited", "%s", strings.Join(parts, "   "))
}

// tenants is a line for each of several.
func (s *summary) tenants() {
	for _, t := range s.r.Tenants {
		rate := "n/a"
		if t.PublishedMsgsPerSec != nil {
			rate = thousands(*t.PublishedMsgsPerSec)
		}
		delivered := "n/a"
		if t.DeliveredMsgsPerSec != nil {
			delivered = thousands(*t.DeliveredMsgsPerSec)
		}
		s.line("tenant "+t.Name, "published %s of %s msg/s   delivered %s msg/s   p50 %s  p99 %s  n=%d", rate, thousands(t.RateMsgsPerSec), delivered, quantile(t.P50Ns, t.Delivered), quantile(t.P99Ns, t.Delivered), t.Delivered)
		s.line("", "offered %d   dropped: ingress %s, subscriber queue %s, writer %s, client %s", t.Offered, known(t.Dropped.Ingress), known(t.Dropped.Subscriber), known(t.Dropped.Writer), known(t.Dropped.Client))
	}
}

// deliveredBytes is the payload that arrived, as messages really had it.
func deliveredBytes(r *runrecord.Record) float64 {
	if rate := r.Rates.DeliveredBytesPerSec; rate != nil {
		return *rate * float64(r.Rates.WindowNs) / 1e9
	}
	return float64(r.Counts.Delivered) * float64(r.Case.MessageBytes())
}
