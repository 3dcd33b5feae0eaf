package trial

import (
	"fmt"
	"slices"
	"strings"

	"felix/broker"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/workload"
)

// checkpointUnits are what the items of a checkpoint's queue are.
var checkpointUnits = map[int]string{1: "batches", 2: "batches", 3: "publishes", 4: "publishes", 5: "batches", 6: "frames", 7: "frames"}

// checkpoints are the bounded places of the path, in its order: the client's two on the way in, the broker's four, and
// the client's own queue on the way out.
func (t *trial) checkpoints() []runrecord.Checkpoint {
	if t.Case.Probe != workload.ProbeNone {
		return []runrecord.Checkpoint{} // it has none of them
	}
	out := t.publishCheckpoints()
	if now := t.results.counters; now != nil {
		for _, c := range now.Checkpoints {
			out = append(out, t.brokerCheckpoint(now, c))
		}
	}
	if c := t.clientQueueCheckpoint(); c != nil {
		out = append(out, *c)
	}
	slices.SortStableFunc(out, func(a, b runrecord.Checkpoint) int { return a.Number - b.Number })
	return out
}

func (t *trial) publishCheckpoints() []runrecord.Checkpoint {
	p := t.results.pubs
	if p == nil || p.Publisher == nil {
		return []runrecord.Checkpoint{}
	}
	s := p.Publisher
	bytes, items, queued := t.Client.PublishInflightBytes, int64(t.Client.PublishQueueDepth), int64(s.QueueHighWater)
	return []runrecord.Checkpoint{
		{Number: 1, Name: "client admission", Policy: "wait", Bound: boundText(1, nil, &bytes), BoundBytes: &bytes, HighWaterBytes: &s.AdmittedHighWaterBytes, BlockedNs: &s.BlockedAdmissionNs},
		{Number: 2, Name: "client queue", Policy: "wait", Bound: boundText(2, &items, nil), BoundItems: &items, HighWater: &queued, BlockedNs: &s.BlockedQueueNs},
	}
}

// brokerCheckpoint is one of the broker's since the mark; the high-water marks are those of its life.
func (t *trial) brokerCheckpoint(now *broker.Stats, c broker.Checkpoint) runrecord.Checkpoint {
	was := checkpointOf(t.base, c.Number)
	dropped, blocked := int64(c.Dropped)-int64(was.Dropped), c.BlockedNs-was.BlockedNs
	r := runrecord.Checkpoint{Number: c.Number, Name: c.Name, Policy: c.Policy, BlockedNs: &blocked, Dropped: &dropped}
	if c.Bound > 0 {
		r.BoundItems, r.HighWater = &c.Bound, &c.HighWater
	}
	if c.BoundBytes > 0 {
		r.BoundBytes, r.HighWaterBytes = &c.BoundBytes, &c.HighWaterBytes
	}
	if c.ConnBoundBytes > 0 {
		r.ConnBoundBytes, r.ConnHighWaterBytes = &c.ConnBoundBytes, &c.ConnHighWaterBytes
	}
	if c.Number == 3 || c.Number == 4 {
		rejected := rejectedAt(now, c.Number) - rejectedAt(t.base, c.Number)
		r.Rejected = &rejected
	}
	r.Bound = boundText(c.Number, r.BoundItems, r.BoundBytes)
	if r.ConnBoundBytes != nil {
		r.Bound += ", " + settings.FormatSize(*r.ConnBoundBytes) + " a connection"
	}
	return r
}

// clientQueueCheckpoint is checkpoint 7, nil if the subscribers are gone.
func (t *trial) clientQueueCheckpoint() *runrecord.Checkpoint {
	subs := t.results.subs
	if subs == nil {
		return nil
	}
	c := &runrecord.Checkpoint{Number: 7, Name: "client subscription queue", Bound: "QUIC flow control", Policy: t.Client.ClientSubQueuePolicy, Dropped: new(int64)}
	for _, r := range subs.Receivers {
		*c.Dropped += int64(r.Stats.DroppedMsgs)
	}
	if c.Policy != "block" {
		items := int64(t.Client.ClientSubQueueCapacity)
		c.BoundItems, c.HighWater, c.Bound = &items, new(int64), boundText(7, &items, nil)
		for _, r := range subs.Receivers {
			*c.HighWater = max(*c.HighWater, int64(r.Stats.QueueHighWater))
		}
	}
	return c
}

func boundText(number int, items, bytes *int64) string {
	var parts []string
	if items != nil {
		parts = append(parts, fmt.Sprintf("%d %s", *items, checkpointUnits[number]))
	}
	if bytes != nil {
		parts = append(parts, settings.FormatSize(*bytes))
	}
	return strings.Join(parts, ", ")
}

func checkpointOf(s *broker.Stats, number int) broker.Checkpoint {
	if s != nil {
		for _, c := range s.Checkpoints {
			if c.Number == number {
				return c
			}
		}
	}
	return broker.Checkpoint{}
}

// rejectedAt counts messages that were answered `overloaded`, over all tenants.
func rejectedAt(s *broker.Stats, number int) int64 {
	var n int64
	if s != nil {
		for _, c := range s.Ingress.Counts {
			if c.Checkpoint == number {
				n += int64(c.RejectedMsgs)
			}
		}
	}
	return n
}
