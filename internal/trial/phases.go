package trial

import (
	"context"
	"math"
	"slices"
	"time"

	"felix/broker"
	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// warmupPhase publishes until MTU and congestion window have settled. It reports false if the run ends with it.
func (t *trial) warmupPhase(ctx context.Context) bool {
	idle := t.idleWatch()
	t.warm = t.publishing(ctx, t.pubs.warmup, func() bool {
		t.report("warm-up", 0)
		return idle.stalled(t.warmProgress())
	})
	if t.interrupted || t.aborted || t.warm == nil {
		return false
	}
	return true
}

func (t *trial) warmProgress() int64 {
	var n int64
	for _, s := range t.subs.progress().Subs {
		n += s.Warmup
	}
	return n
}

// barrier waits until every subscription has its share of the warm-up, or the counters say why it never will, or
// nothing arrives any more.
func (t *trial) barrier(ctx context.Context) {
	want := t.warm.perStream(t.Case.AllStreams())
	complete := func(subs []subProgress) bool {
		for i, s := range subs {
			if s.Warmup < want[i/t.Case.Fanout] {
				return false
			}
		}
		return true
	}
	idle := t.idleWatch()
	for ctx.Err() == nil && !t.sideGone() {
		now := t.subs.progress().Subs
		if len(now) > 0 && complete(now) {
			return
		}
		if t.explained(nil, now, want, func(s subProgress) int64 { return s.Warmup }) {
			return
		}
		if idle.stalled(t.warmProgress()) {
			t.warn("warm-up: not everything arrived within the idle timeout of %v", t.Sizes.IdleTimeout)
			return
		}
		sleep(ctx, pollEvery)
	}
}

// markAll begins the measure phase: one common time for every process.
func (t *trial) markAll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	counters, err := t.broker.counters(ctx)
	if err != nil {
		t.invalid("the broker's counters at the mark: %v", err)
		return false
	}
	t.base = counters
	t.markAt = t.proc.clock.Now()
	t.noise = host.StartNoise()
	t.proc.mark()
	t.udpAt = host.ReadUDP()
	for _, s := range []interface {
		mark(context.Context, int64) error
	}{t.broker, t.subs, t.pubs} {
		if err := s.mark(ctx, t.markAt); err != nil {
			t.invalid("mark: %v", err)
			return false
		}
	}
	return true
}

func (t *trial) measurePhase(ctx context.Context) {
	idle := t.idleWatch()
	sizing := t.sizing()
	auto := t.Sizes.Total == 0 && t.Sizes.Duration == 0 && t.Case.Throughput()
	var peak, began int64 // began: at the latest, when the first message was published
	t.measured = t.publishing(ctx, t.pubs.measure, func() bool {
		pub, subs := t.pubs.progress(), t.subs.progress().Subs
		peak = max(peak, (pub.Published-doneWith(subs, t.Case.Fanout))*int64(t.Case.MessageBytes()))
		t.lastSubs = subs
		t.report("measure", pub.Published)
		now := t.proc.clock.Now()
		if began == 0 && pub.Published > 0 {
			began = now
		}
		for i, s := range subs {
			if s.Err != "" {
				t.invalid("subscriber %d ended: %s", i, s.Err)
				t.aborted = true
				return true
			}
		}
		if idle.stalled(pub.Published) && t.Case.Load != workload.LoadOpen {
			t.invalid("stalled: nothing could be published for %v", t.Sizes.IdleTimeout)
			return true
		}
		return auto && began != 0 && sizing.Enough(workload.Reached{
			RunBytes: pub.PublishedBytes, PeakBacklog: peak,
			Deliveries: pub.Published * int64(t.Case.Fanout),
			Elapsed:    time.Duration(now - began), // not since the mark: the run is judged from its first message on
		})
	})
	if t.bothHere() {
		pub, subs := t.pubs.progress(), t.subs.progress().Subs
		t.peakBacklog = max(peak, (pub.Published-doneWith(subs, t.Case.Fanout))*int64(t.Case.MessageBytes()))
	}
	if t.measured == nil {
		t.aborted = true // the publishers' process is gone, or could not finish: what it knows it says when it is stopped
	}
}

// doneWith is how many messages the subscriber that is furthest behind is done with, summed over the streams: a
// subscriber gets only its own stream's messages, while what is published counts all of them. What was skipped is done
// with too: it was dropped, and a backlog that held it would never end.
func doneWith(subs []subProgress, fanout int) int64 {
	var sum int64
	for stream := range slices.Chunk(subs, fanout) {
		slowest := int64(math.MaxInt64)
		for _, s := range stream {
			var n int64
			for _, head := range s.Next {
				n += head
			}
			slowest = min(slowest, n)
		}
		sum += slowest
	}
	return sum
}

// drain waits until everything published has arrived, or the broker's drops explain what has not, or nothing arrives
// any more.
func (t *trial) drain(ctx context.Context) {
	if t.aborted || t.measured == nil {
		t.settleDown()
		t.lastSubs = t.subs.progress().Subs
		return
	}
	want := t.measured.perStream(t.Case.AllStreams())
	idle := t.idleWatch()
	nextAsk := time.Now()
	for {
		now := t.subs.progress().Subs
		t.lastSubs = now
		var got, missing int64
		for i, s := range now {
			got += s.Measured
			missing += max(0, want[i/t.Case.Fanout]-s.Measured)
			if s.Err != "" {
				t.invalid("subscriber %d ended: %s", i, s.Err)
				return
			}
		}
		t.report("drain", 0)
		if missing == 0 {
			return
		}
		if time.Now().After(nextAsk) {
			if t.explained(t.base, now, want, func(s subProgress) int64 { return s.Measured }) {
				return
			}
			nextAsk = time.Now().Add(explainEvery)
		}
		if idle.stalled(got) {
			t.warn("drain: %d deliveries had not arrived when nothing had for %v", missing, t.Sizes.IdleTimeout)
			return
		}
		if t.sideGone() {
			return
		}
		select {
		case <-t.subs.dead():
			t.died(t.subs)
			return
		case <-t.broker.dead():
			t.died(t.broker)
			return
		case <-time.After(pollEvery):
		}
		if ctx.Err() != nil {
			t.interrupt()
		}
	}
}

// settleDown lets a run whose publishers are gone come to rest: what the broker still holds is delivered, and not
// discarded by the end of the trial.
func (t *trial) settleDown() {
	if t.sideGoneBut(t.pubs) {
		return
	}
	last, since := int64(-1), time.Now()
	for end := time.Now().Add(t.Sizes.IdleTimeout); time.Now().Before(end) && time.Since(since) < endGrace/2; {
		var n int64
		for _, s := range t.subs.progress().Subs {
			n += s.Measured
		}
		if n != last {
			last, since = n, time.Now()
		}
		sleep(context.Background(), pollEvery)
	}
}

// explained reports whether what the broker dropped since base makes up for everything that has not arrived. With
// lossless settings nothing is dropped and the broker need not be asked.
func (t *trial) explained(base *broker.Stats, now []subProgress, want []int64, got func(subProgress) int64) bool {
	if t.Lossless == runrecord.LosslessYes {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	counters, err := t.broker.counters(ctx)
	if err != nil || counters == nil {
		return false
	}
	var missing int64
	for i, s := range now {
		missing += want[i/t.Case.Fanout] - got(s)
	}
	return missing > 0 && missing == t.droppedSince(counters, base)
}

// droppedSince counts deliveries that were dropped: at 3 and 4 a message is lost to every subscriber of its stream.
func (t *trial) droppedSince(now, base *broker.Stats) int64 {
	if base == nil {
		base = &broker.Stats{}
	}
	var n int64
	for _, dropped := range t.ingressOf(now, base) {
		n += int64(dropped) * int64(t.Case.Fanout)
	}
	for _, s := range now.Subscriptions {
		n += int64(s.DroppedQueue + s.DroppedWriter)
	}
	for _, s := range base.Subscriptions {
		n -= int64(s.DroppedQueue + s.DroppedWriter)
	}
	return n
}
