package trial_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// labCase is a case with factors of the overload lab, by their texts.
func labCase(t *testing.T, c workload.Case, texts map[string]string) workload.Case {
	t.Helper()
	for name, text := range texts {
		var err error
		switch name {
		case "stall":
			err = c.Stall.Set(text)
		case "slow":
			err = c.Slow.Set(text)
		case "mix":
			err = c.PayloadMix.Set(text)
		case "tenants":
			err = c.Tenants.Set(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// accounted wants every expected delivery through, or dropped at a named checkpoint.
func accounted(t *testing.T, r *runrecord.Record) {
	t.Helper()
	c := r.Counts
	named := int64(0)
	for _, n := range []*int64{c.Dropped.Ingress, c.Dropped.Subscriber, c.Dropped.Writer, c.Dropped.Client, c.DiscardedOnClose} {
		if n == nil {
			t.Errorf("a place did not count: %+v", c.Dropped)
			continue
		}
		named += *n
	}
	if bad := faults(r); len(bad) > 0 || c.Unaccounted != 0 || c.Expected == 0 || c.Delivered+named != c.Expected {
		t.Errorf("%v: %d expected, %d delivered, %d dropped by name, %d unaccounted", bad, c.Expected, c.Delivered, named, c.Unaccounted)
	}
}

// A burst is as many messages as it says, at once, and each of them is through or dropped by name.
func TestBurstIsAccountedFor(t *testing.T) {
	for _, policy := range []workload.Policy{workload.PolicyLossless, workload.PolicyProduction} {
		t.Run(policy.String(), func(t *testing.T) {
			s := small(workload.Case{Payload: 1024, Burst: 400, Publishers: 2, Fanout: 2, Policy: policy, Overload: true})
			s.Sizes.Total = 0
			r := run(t, t.Context(), s)
			accounted(t, r)
			if r.Counts.Expected != 800 || r.Flow.Offered != 400 || r.Latency.Kind != workload.KindQueueingDelay || r.SizeGrade != string(workload.GradeNone) {
				t.Errorf("expected %d, offered %d, kind %s, size grade %s", r.Counts.Expected, r.Flow.Offered, r.Latency.Kind, r.SizeGrade)
			}
			if policy == workload.PolicyLossless && r.Counts.Delivered != 800 {
				t.Errorf("lossless: %d of 800", r.Counts.Delivered)
			}
			if r.Latency.AckRTT != nil {
				t.Error("a burst is unacked: the acks of its warm-up are in the record")
			}
		})
	}
}

// Bytes are those that messages really had: a mix of sizes is no mean times a count.
func TestMixedPayloadsAreCountedAsTheyAre(t *testing.T) {
	s := small(labCase(t, workload.Case{Batch: 4, Acks: workload.AcksPerBatch, Fanout: 2, Topology: workload.TopologySplit}, map[string]string{"mix": "100:90%,20000:10%"}))
	s.Sizes.Total = 400
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	p := resolve(t, s)
	draw := p.Case.NewMixDraw(0, s.Sizes.Seed)
	var want int64
	for range 100 {
		want += 4 * int64(p.Case.PayloadSizes()[draw.Next()])
	}
	if r.Rates.RunBytes != want {
		t.Errorf("%d bytes were published, the seed says %d", r.Rates.RunBytes, want)
	}
	var delivered int64
	for _, iv := range r.Intervals {
		delivered += iv.DeliveredBytes
	}
	if delivered != 2*want {
		t.Errorf("intervals hold %d bytes delivered, want %d", delivered, 2*want)
	}
	if got := *r.Rates.DeliveredBytesPerSec * float64(r.Rates.WindowNs) / 1e9; int64(got+0.5) != 2*want {
		t.Errorf("the delivered rate is of %.0f bytes, want %d", got, 2*want)
	}
}

// Every tenant has its own rate, its own ledger and its own latency.
func TestTenantsHaveTheirOwnFigures(t *testing.T) {
	s := small(labCase(t, workload.Case{Payload: 256, Batch: 2, Fanout: 2, Streams: 2, Publishers: 2, Overload: true}, map[string]string{"tenants": "loud:3000,quiet:1000"}))
	s.Sizes.Total = 2000
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	if len(r.Tenants) != 2 {
		t.Fatalf("%d tenants in the record, want 2", len(r.Tenants))
	}
	var sum int64
	for i, want := range []struct {
		name    string
		rate    float64
		offered int64
	}{{"loud", 3000, 1500}, {"quiet", 1000, 500}} {
		got := r.Tenants[i]
		sum += got.Delivered
		if got.Name != want.name || got.RateMsgsPerSec != want.rate || got.Offered != want.offered || got.Expected != 2*want.offered || got.Delivered != got.Expected || got.Unaccounted != 0 {
			t.Errorf("tenant %+v, want %+v", got, want)
		}
		if got.PublishedMsgsPerSec == nil || *got.PublishedMsgsPerSec < 0.5*want.rate || *got.PublishedMsgsPerSec > 1.4*want.rate || got.P50Ns == nil || got.P99Ns == nil && want.offered >= 1000 {
			t.Errorf("tenant %s: published %v/s, p50 %v p99 %v", got.Name, got.PublishedMsgsPerSec, got.P50Ns, got.P99Ns)
		}
	}
	if sum != r.Counts.Delivered {
		t.Errorf("tenants have %d deliveries, all together %d", sum, r.Counts.Delivered)
	}
	if len(r.Subscribers) != 8 {
		t.Errorf("%d subscribers, want 2 of 2 streams of 2 tenants", len(r.Subscribers))
	}
}

// A stalled subscriber gets everything in the end when nothing may be dropped, and nothing while it stalls.
func TestStalledSubscriberCatchesUp(t *testing.T) {
	s := small(labCase(t, workload.Case{Payload: 256, Batch: 4, Fanout: 2, Rate: 4000, Overload: true}, map[string]string{"stall": "0.1:100ms:900ms"}))
	s.Sizes.Total, s.Sizes.Duration = 0, time.Second
	r := run(t, t.Context(), s)
	mustBeValid(t, r)
	stalled, other := r.Subscribers[1], r.Subscribers[0]
	if stalled.ID != "0.1" || stalled.P50Ns == nil || other.P50Ns == nil || *stalled.P50Ns < int64(100*time.Millisecond) || *other.P50Ns > *stalled.P50Ns/2 {
		t.Errorf("p50 of the stalled one %v, of the other %v", stalled.P50Ns, other.P50Ns)
	}
}

// A stall that the run ended before would be a case under a name that it does not have.
func TestStallThatNeverBegins(t *testing.T) {
	s := small(labCase(t, workload.Case{Payload: 256, Rate: 200}, map[string]string{"stall": "*:10s:1s"}))
	s.Sizes.Total, s.Sizes.Duration = 0, 200*time.Millisecond
	r := run(t, t.Context(), s)
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "nobody stalled") }) {
		t.Errorf("warnings: %q", r.Warnings)
	}
}

// What a slow subscriber gets is what its rate allows, and what does not fit the queues is dropped by name.
func TestSlowSubscriberHoldsTheRate(t *testing.T) {
	const rate = 1_000_000
	s := small(labCase(t, workload.Case{Payload: 1000, Batch: 10, Rate: 4000, Policy: workload.PolicyProduction, Overload: true,
		BrokerSet: map[string]string{"subscriber_queue_max_bytes": "64KiB", "subscriber_egress_max_bytes": "64KiB"}, TransportSet: map[string]string{"stream_recv_window": "64KiB"}},
		map[string]string{"slow": "*:1MB"}))
	s.Sizes.Total, s.Sizes.Duration = 0, 2*time.Second
	r := run(t, t.Context(), s)
	accounted(t, r)
	got := *r.Rates.DeliveredBytesPerSec
	if got > 1.15*rate || got < 0.5*rate {
		t.Errorf("delivered %.0f B/s of 4 MB/s offered, to a subscriber that reads 1 MB/s", got)
	}
	if r.Counts.Lost == 0 {
		t.Error("nothing was dropped of four times what can be carried")
	}
	if r.Rates.DelayBoundNs == nil || r.Latency.EndToEnd.MaxNs == nil || *r.Latency.EndToEnd.MaxNs > *r.Rates.DelayBoundNs+int64(500*time.Millisecond) {
		t.Errorf("the longest delay %v, bound %v", r.Latency.EndToEnd.MaxNs, r.Rates.DelayBoundNs)
	}
}

// In a case marked overload a rate that is not achieved is what was to be seen.
func TestOverloadWarnsOfTheRate(t *testing.T) {
	for _, marked := range []bool{false, true} {
		s := small(labCase(t, workload.Case{Payload: 4096, Batch: 16, Rate: 4000, Overload: marked}, map[string]string{"slow": "*:1MB"}))
		s.Case.BrokerSet = map[string]string{"pub_conn_inflight_bytes": "256KiB", "subscriber_queue_max_bytes": "128KiB", "subscriber_egress_max_bytes": "128KiB"}
		s.Case.TransportSet = map[string]string{"stream_recv_window": "128KiB"}
		s.Case.ClientSet = map[string]string{"publish_inflight_bytes": "128KiB"}
		s.Sizes.Total, s.Sizes.Duration = 0, 2*time.Second
		r := run(t, t.Context(), s)
		said := func(texts []string) bool {
			return slices.ContainsFunc(texts, func(s string) bool {
				return strings.HasPrefix(s, "rate-not-achieved") || strings.HasPrefix(s, "generator-bound")
			})
		}
		if r.Valid != marked || said(r.Reasons) == marked || said(r.Warnings) != marked {
			t.Errorf("overload %v: valid %v, reasons %q, warnings %q", marked, r.Valid, r.Reasons, r.Warnings)
		}
		if r.Counts.Delivered != r.Counts.Expected || r.Counts.Unaccounted != 0 {
			t.Errorf("lossless: %d of %d", r.Counts.Delivered, r.Counts.Expected)
		}
		blocked := int64(0)
		for _, c := range r.Checkpoints {
			if c.BlockedNs != nil {
				blocked += *c.BlockedNs
			}
		}
		if blocked < int64(500*time.Millisecond) {
			t.Errorf("no checkpoint says where the time went: %+v", r.Checkpoints)
		}
	}
}

func TestCheckpointsShowTheirBounds(t *testing.T) {
	r := run(t, t.Context(), small(workload.Case{Payload: 256, Batch: 8, Acks: workload.AcksPerBatch}))
	mustBeValid(t, r)
	numbers := []int{}
	for _, c := range r.Checkpoints {
		numbers = append(numbers, c.Number)
		if c.Bound == "" || c.Policy == "" || c.Name == "" {
			t.Errorf("checkpoint %+v", c)
		}
		if c.BoundBytes != nil && c.HighWaterBytes == nil || c.BoundItems != nil && c.HighWater == nil {
			t.Errorf("checkpoint %d has a bound and no high-water mark", c.Number)
		}
		if c.BoundBytes != nil && c.HighWaterBytes != nil && *c.HighWaterBytes > *c.BoundBytes {
			t.Errorf("checkpoint %d held %d of %d bytes", c.Number, *c.HighWaterBytes, *c.BoundBytes)
		}
	}
	for _, c := range r.Checkpoints {
		if each := c.ConnBoundBytes != nil; each != (c.Number == 3) {
			t.Errorf("checkpoint %d has a bound for each connection: %v", c.Number, each)
		} else if each && (*c.ConnBoundBytes != 16<<20 || *c.ConnHighWaterBytes < 8*256 || *c.ConnHighWaterBytes > *c.HighWaterBytes ||
			c.Bound != "64MiB, 16MiB a connection") {
			t.Errorf("checkpoint 3 of one publisher: %q, most %d in all, %d in a connection", c.Bound, *c.HighWaterBytes, *c.ConnHighWaterBytes)
		}
	}
	if !slices.IsSorted(numbers) || !slices.Contains(numbers, 1) || !slices.Contains(numbers, 2) || !slices.Contains(numbers, 3) || !slices.Contains(numbers, 5) || !slices.Contains(numbers, 7) {
		t.Errorf("checkpoints %v", numbers)
	}
	if high := *r.Checkpoints[0].HighWaterBytes; high < 8*256 {
		t.Errorf("checkpoint 1: most %d bytes, though a batch of 2 KiB was published", high)
	}
}

func TestLabRefuses(t *testing.T) {
	s := trial.Spec{Case: workload.Case{Payload: 64, Burst: 4}, Sizes: trial.Sizes{Total: 9}}
	if _, err := s.Resolve(); err == nil || !strings.Contains(err.Error(), "--burst 4") {
		t.Errorf("a burst with a total: %v", err)
	}
}
