package trial

import (
	"math"
	"time"

	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Limits of an open loop that still offers what it was asked to.
const (
	minRateShare = 0.98
	// A generator that is this late in the median, though nothing blocked it, measures itself.
	maxGeneratorDelay = 5 * time.Millisecond
)

// minRateDeliveries is how many deliveries a rate takes: below, it says when the first and the last happened to come.
const minRateDeliveries = 10

// sizing is the size rule of this run, with the send window as it is used.
func (t *trial) sizing() workload.Sizing {
	var used []int
	if t.warm != nil {
		used = t.warm.StreamsUse
	}
	if t.measured != nil {
		used = t.measured.StreamsUse
	}
	return workload.Sizing{
		WindowBytes: workload.Window(t.brokerConnWindow(), t.brokerStreamWindow(), used), MessageBytes: t.Case.MessageBytes(),
		Subscribers: t.Case.Fanout, MaxDeliveries: t.Sizes.MaxDeliveries,
	}
}

// brokerConnWindow is the credit that the listening end grants a connection: ours as configured, an external broker's
// and that of TCP as --send-window states.
func (t *trial) brokerConnWindow() int64 {
	if t.External != nil || !t.overQUIC() {
		if t.Sizes.SendWindow > 0 {
			return t.Sizes.SendWindow
		}
		return workload.DefaultSendWindow
	}
	return t.BrokerTransport.ConnRecvWindow
}

func (t *trial) brokerStreamWindow() int64 {
	if t.External != nil || !t.overQUIC() {
		return t.brokerConnWindow() / 4
	}
	return t.BrokerTransport.StreamRecvWindow
}

func (t *trial) rates(r *runrecord.Record, m measure.Merged, l measure.Ledger) {
	sizing := t.sizing()
	x := m.Rates
	r.Rates = runrecord.Rates{
		WindowNs:             m.Window.DurationNs(),
		PublishedMsgsPerSec:  x.PublishedMsgsPerSec,
		PublishedBytesPerSec: x.PublishedBytesPerSec,
		DeliveredMsgsPerSec:  x.DeliveredMsgsPerSec,
		DeliveredBytesPerSec: x.DeliveredBytesPerSec,
		SteadyBytesPerSec:    x.SteadyBytesPerSec,
		LastHalfBytesPerSec:  x.LastHalfBytesPerSec,
		DrainShare:           x.DrainShare,
		PeakBacklogBytes:     x.PeakBacklogBytes,
		RunBytes:             int64(x.RunBytes),
		SendWindowBytes:      sizing.WindowBytes,
	}
	if path := t.pathOf(sizing.WindowBytes); path != nil {
		n := path.sum()
		r.Rates.AbsorptionBytes = &n
		if t.Lossless == runrecord.LosslessNo { // else an open loop waits at its publisher, without a bound
			r.Rates.DelayBoundNs = path.delayBound(&t.Case)
		}
	}
	// Backlog at the ends of intervals misses a burst between them; where both sides are in this process, the moment
	// at which publishing ended is known.
	r.Rates.PeakBacklogBytes = max(r.Rates.PeakBacklogBytes, t.peakBacklog)
	t.correctPublished(&r.Rates, int64(m.Published))
	if m.Delivered < minRateDeliveries {
		r.Rates.PublishedMsgsPerSec, r.Rates.PublishedBytesPerSec = nil, nil
		r.Rates.DeliveredMsgsPerSec, r.Rates.DeliveredBytesPerSec = nil, nil
		r.Rates.SteadyBytesPerSec, r.Rates.LastHalfBytesPerSec, r.Rates.DrainShare = nil, nil, nil
		t.warn("no rates: %d deliveries, want at least %d", m.Delivered, minRateDeliveries)
	}
	if t.Case.Load == workload.LoadOpen {
		r.Rates.OfferedMsgsPerSec = &t.Case.Rate
	}
	if l.Expected > 0 {
		share := float64(l.Delivered) / float64(l.Expected)
		r.Rates.DeliveredGoodputShare = &share
	}
	if !t.Case.Throughput() {
		return
	}
	if text := x.Disagreement(); text != "" {
		t.warn("%s", text)
	}
	reached := workload.Reached{
		RunBytes: r.Rates.RunBytes, PeakBacklog: r.Rates.PeakBacklogBytes,
		Deliveries: int64(m.Offered) * int64(t.Case.Fanout), Elapsed: time.Duration(r.Rates.WindowNs),
	}
	grade, reason := sizing.Grade(reached)
	r.SizeGrade = string(grade)
	if text := sizing.Absorbed(reached); text != "" {
		t.invalid("%s", text)
	}
	switch {
	case grade == workload.GradeUndersized && t.Sizes.AllowUndersized:
		t.warn("%s (allowed by --allow-undersized)", reason)
	case reason != "":
		t.invalid("%s", reason)
	case grade == workload.GradeCapped:
		t.warn("capped: ended at %d deliveries before %s were published", t.Sizes.MaxDeliveries, workload.MB(sizing.NeedBytes()))
	}
}

// correctPublished makes a rate of publishes out of a count over a span that begins with the first of them: n publishes
// lie n-1 intervals apart.
func (t *trial) correctPublished(x *runrecord.Rates, published int64) {
	if x.PublishedMsgsPerSec == nil {
		return
	}
	batches := float64(published) / float64(t.Case.Batch)
	intervals := batches - float64(t.Case.AllPublishers())
	if intervals < 1 {
		x.PublishedMsgsPerSec, x.PublishedBytesPerSec = nil, nil
		return
	}
	msgs, bytes := *x.PublishedMsgsPerSec*intervals/batches, *x.PublishedBytesPerSec*intervals/batches
	x.PublishedMsgsPerSec, x.PublishedBytesPerSec = &msgs, &bytes
}

// judgeOpenLoop finds a generator that measured itself, and a rate that was not offered. In a case marked overload
// that is what was to be seen, and a warning.
func (t *trial) judgeOpenLoop(r *runrecord.Record, m measure.Merged) {
	if t.Case.Load != workload.LoadOpen || r.Rates.PublishedMsgsPerSec == nil || m.Published < 2 {
		return
	}
	blocked := time.Duration(0)
	if p := t.results.pubs; p != nil && p.Publisher != nil {
		blocked = time.Duration(p.Publisher.BlockedAdmissionNs + p.Publisher.BlockedQueueNs)
	}
	say := t.invalid
	if t.Case.Overload {
		say = t.warn
	}
	late := m.PublishDelay.Summary().P50Ns
	span := time.Duration(r.Rates.WindowNs)
	least := minRateShare * t.Case.Rate
	if t.Case.Arrival == workload.ArrivalPoisson {
		// Three standard deviations of the count itself are no fault of anybody's.
		least -= 3 / math.Sqrt(float64(m.Published)/float64(t.Case.Batch)) * t.Case.Rate
	}
	if *r.Rates.PublishedMsgsPerSec < least {
		if blocked > span/20 {
			say("rate-not-achieved: %.0f of %.0f messages/s could be published: the system pushed back for %v", *r.Rates.PublishedMsgsPerSec, t.Case.Rate, blocked.Round(time.Millisecond))
		} else {
			say("generator-bound: %.0f of %.0f messages/s were published though nothing blocked: the generator itself was the limit", *r.Rates.PublishedMsgsPerSec, t.Case.Rate)
		}
		return
	}
	if late != nil && time.Duration(*late) > maxGeneratorDelay && blocked < span/20 {
		say("generator-bound: the generator was %v late in the median though nothing blocked it", time.Duration(*late).Round(time.Microsecond))
	}
}
