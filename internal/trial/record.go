package trial

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"felix/broker"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// maxIntervals bounds the series in the record; the whole one is in the files.
const maxIntervals = 100

// record makes the record of what happened, and the merged measurements, nil if there are none.
func (t *trial) record() (*runrecord.Record, *measure.Merged) {
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: uuid.Must(uuid.NewV7()).String(), StartedAt: t.started.UTC(), Kind: t.Case.Kind(),
		Case: t.caseRecord(), Command: t.Args, Env: recordedEnv(os.Environ()), Rerun: rerun(t.Args),
		Lossless: t.Lossless, Interrupted: t.interrupted, SizeGrade: string(workload.GradeNone),
		Perturbed: []string{}, Stages: []runrecord.Stage{}, Trimmed: []string{}, Files: []runrecord.File{},
	}
	t.buildAndHost(r)
	r.Latency.Kind, r.Latency.Inflight = t.Case.LatencyKind(), t.Case.Inflight
	var merged *measure.Merged
	if t.markAt == 0 {
		if len(t.reasons) == 0 {
			t.invalid("nothing was measured")
		}
	} else {
		merged = t.account(r)
		t.stages(r, merged)
	}
	t.connections(r)
	t.costs(r)
	r.Config = t.configRecord()
	t.probeRecord(r)
	r.Perturbed = append(r.Perturbed, t.Pprof.perturb()...)
	for _, side := range []*sideResult{t.results.broker, t.results.subs, t.results.pubs} {
		if side != nil {
			t.warnings = append(t.warnings, side.Warn...)
		}
	}
	r.Reasons, r.Warnings = distinct(t.reasons), distinct(t.warnings)
	r.Valid = len(r.Reasons) == 0
	if t.interrupted || t.aborted {
		text := strings.Join(r.Reasons, "; ")
		r.Error = &text
	}
	r.DurationNs = int64(time.Since(t.started))
	if t.endAt > t.markAt && t.markAt > 0 {
		ns := t.endAt - t.markAt
		r.CostNs = &ns
	}
	return r, merged
}

func (t *trial) caseRecord() runrecord.Case {
	z := t.Sizes
	c := runrecord.Case{Key: t.Case.Key(), Case: t.Case, SendWindow: t.brokerConnWindow(), MaxDeliveries: z.MaxDeliveries, IdleTimeoutNs: int64(z.IdleTimeout), Seed: z.Seed}
	if z.Total > 0 {
		c.Total = &z.Total
	}
	if z.Duration > 0 {
		ns := int64(z.Duration)
		c.DurationNs = &ns
	}
	if z.Warmup >= 0 {
		c.Warmup = &z.Warmup
	}
	return c
}

// recordedEnv are the variables that can change what is measured.
func recordedEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		if strings.Contains(k, "TOKEN") || k == "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING" { // a secret; set by ourselves
			continue
		}
		if strings.HasPrefix(k, "FELIX_") || strings.HasPrefix(k, "QUIC_GO_") || slices.Contains([]string{"GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG"}, k) {
			env[k] = v
		}
	}
	return env
}

// rerun quotes the command for a shell.
func rerun(args []string) string {
	quoted := []string{"latencydemo"}
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted = append(quoted, a)
	}
	return strings.Join(quoted, " ")
}

func distinct(texts []string) []string {
	out := []string{}
	for _, s := range texts {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// account fills counts, flow, rates, latency, subscribers and intervals, and finds what makes the run invalid.
func (t *trial) account(r *runrecord.Record) *measure.Merged {
	receivers := t.receiverResults()
	senders := t.senderResults(receivers)
	plain := make([]measure.ReceiverResult, len(receivers))
	for i := range receivers {
		plain[i] = receivers[i].ReceiverResult
	}
	merged, err := measure.Merge(senders, plain)
	if err != nil {
		t.invalid("the results of the processes do not fit together: %v", err)
		return nil
	}
	ledger := measure.Account(senders, plain, t.reported(receivers))
	t.reasons = append(t.reasons, ledger.Faults(t.promisesLossless())...)

	r.Counts = counts(merged, ledger)
	r.Flow = t.flow(merged)
	r.Subscribers = t.subscriberRecords(ledger)
	r.Tenants = t.tenantRecords(senders, plain, ledger)
	t.rates(r, merged, ledger)
	t.latency(r, merged)
	for _, iv := range merged.Series(maxIntervals) {
		r.Intervals = append(r.Intervals, runrecord.Interval{AtNs: iv.AtNs, Published: int64(iv.Published), PublishedBytes: int64(iv.PublishedBytes), Delivered: int64(iv.Delivered), DeliveredBytes: int64(iv.DeliveredBytes), P50Ns: iv.P50Ns, P99Ns: iv.P99Ns})
	}
	if n := len(r.Intervals); n > 1 {
		r.IntervalNs = r.Intervals[1].AtNs - r.Intervals[0].AtNs
	}
	if merged.Delivered == 0 {
		t.invalid("nothing was delivered")
	}
	t.judgeOpenLoop(r, merged)
	if r.Counts.Lost > 0 && r.Counts.Expected > 0 {
		t.warn("latencies are of what was delivered: %.1f %% of the expected deliveries were lost, and have none", 100*float64(r.Counts.Lost)/float64(r.Counts.Expected))
	}
	for _, s := range t.Case.Stall {
		w := merged.Window
		if lasted := time.Duration(max(w.LastPublishAt, w.LastDeliveryAt) - w.FirstPublishAt); s.At >= lasted {
			t.warn("--stall %v: all was over %v after the first publish: nobody stalled", s, lasted.Round(time.Millisecond))
		}
	}
	if r.Counts.LateWarmup > 0 {
		t.warn("%d warm-up deliveries arrived after the mark", r.Counts.LateWarmup)
	}
	return &merged
}

// senderResults are those of the publishers. For a process that is gone they are made of what arrived: so much at least
// was published.
func (t *trial) senderResults(receivers []receiverResult) []measure.SenderResult {
	if t.results.pubs != nil {
		return t.results.pubs.Senders
	}
	t.warn("what was published is not known, its process is gone: it is taken to be what arrived at any subscriber")
	heads := make([][]uint64, t.Case.AllPublishers())
	for p := range heads {
		heads[p] = make([]uint64, t.Case.AllStreams())
	}
	for _, r := range receivers {
		for _, got := range r.Publishers {
			heads[got.Publisher][r.Stream] = max(heads[got.Publisher][r.Stream], got.Head)
		}
	}
	var out []measure.SenderResult
	for p, streams := range heads {
		sender := measure.SenderResult{
			Publisher: uint16(p), PayloadLen: t.Case.MessageBytes(), IntervalNs: measure.DefaultIntervalNs,
			PublishDelay: measure.NewHistogram(), AckRTT: measure.NewHistogram(),
		}
		for stream, n := range streams {
			if n > 0 {
				sender.Offered += n
				sender.Published += n
				sender.PublishedBytes += n * uint64(t.Case.MessageBytes())
				sender.Streams = append(sender.Streams, measure.SentStream{Stream: uint16(stream), Offered: n})
			}
		}
		out = append(out, sender)
	}
	return out
}

// receiverResults are those of the subscribers. For a process that is gone they are made of what it last said: up to
// there its messages had arrived, what came after is missing by name.
func (t *trial) receiverResults() []receiverResult {
	if t.results.subs != nil {
		return t.results.subs.Receivers
	}
	var out []receiverResult
	for i := range t.Case.Subscribers() {
		stream := i / t.Case.Fanout
		res := receiverResult{}
		res.ID = fmt.Sprintf("%d.%d", stream, i%t.Case.Fanout)
		res.Stream = uint16(stream)
		res.PayloadLen, res.IntervalNs = t.Case.MessageBytes(), measure.DefaultIntervalNs
		res.EndToEnd, res.Network = measure.NewHistogram(), measure.NewHistogram()
		if i < len(t.lastSubs) {
			last := t.lastSubs[i]
			res.Delivered = uint64(last.Measured)
			res.DeliveredBytes = uint64(last.Bytes)
			for p, next := range last.Next {
				if next > 0 {
					res.Publishers = append(res.Publishers, measure.Received{Publisher: uint16(p), Head: uint64(next), Delivered: uint64(next)})
				}
			}
		}
		out = append(out, res)
	}
	return out
}

// reported is what broker and clients say they dropped in the measure phase.
func (t *trial) reported(receivers []receiverResult) measure.Reported {
	rep := measure.Reported{Subscribers: map[string]measure.SubscriberDrops{}, Discarded: map[string]uint64{}}
	if now, was := t.results.counters, t.base; now != nil && was != nil {
		rep.Ingress = t.ingressOf(now, was)
	}
	for _, r := range receivers {
		client := r.Stats.DroppedMsgs
		drops := measure.SubscriberDrops{Client: &client}
		if now := findSubscription(t.results.counters, r); now != nil {
			was := broker.SubscriptionStats{}
			if b := findSubscription(t.base, r); b != nil {
				was = *b
			}
			queue, writer := now.DroppedQueue-was.DroppedQueue, now.DroppedWriter-was.DroppedWriter
			drops.Subscriber, drops.Writer = &queue, &writer
			rep.Discarded[r.ID] = now.DiscardedClosed - was.DiscardedClosed
		}
		rep.Subscribers[r.ID] = drops
	}
	return rep
}

// findSubscription matches by the client's UDP address and the subscription id: ids alone are unique only within a
// broker's life, and addresses only within the client's.
func findSubscription(stats *broker.Stats, r receiverResult) *broker.SubscriptionStats {
	if stats == nil {
		return nil
	}
	for i := range stats.Subscriptions {
		if s := &stats.Subscriptions[i]; s.ID == r.Subscription && sameSocket(s.Remote, r.LocalAddr) {
			return s
		}
	}
	return nil
}

func counts(m measure.Merged, l measure.Ledger) runrecord.Counts {
	return runrecord.Counts{
		Published: int64(m.Offered), Refused: signed(m.Refused), Failed: signed(m.Failed),
		Expected: int64(l.Expected), Delivered: int64(l.Delivered), Dropped: dropped(l.Dropped),
		DiscardedOnClose: signedPtr(l.Discarded), Lost: l.Lost, Unaccounted: l.Unaccounted,
		Duplicate: int64(l.Duplicate), Reordered: int64(l.Reordered), Foreign: int64(l.Foreign),
		Corrupt: int64(l.Corrupt), LateWarmup: int64(l.LateWarmup),
	}
}

func signed(m map[string]uint64) map[string]int64 {
	out := map[string]int64{}
	for k, v := range m {
		out[k] = int64(v)
	}
	return out
}

func signedPtr(v *uint64) *int64 {
	if v == nil {
		return nil
	}
	n := int64(*v)
	return &n
}

func dropped(d measure.Dropped) runrecord.Dropped {
	return runrecord.Dropped{Ingress: signedPtr(d.Ingress), Subscriber: signedPtr(d.Subscriber), Writer: signedPtr(d.Writer), Client: signedPtr(d.Client)}
}

// flow counts every station since the mark.
func (t *trial) flow(m measure.Merged) runrecord.Flow {
	f := runrecord.Flow{Offered: int64(m.Offered), Delivered: int64(m.Delivered)}
	if p := t.results.pubs; p != nil && p.Publisher != nil {
		written := int64(p.Publisher.Written)
		f.Written = &written
	}
	if m := t.results.broker; m != nil && m.Relay != nil {
		received, sent := int64(m.Relay.ReceivedMsgs), int64(m.Relay.SentMsgs)
		f.Received, f.Sent = &received, &sent
	}
	if now, was := t.results.counters, t.base; now != nil && was != nil {
		since := func(now, was uint64) *int64 {
			n := int64(now) - int64(was)
			return &n
		}
		a, b := now.Flow, was.Flow
		f.Received, f.Accepted = since(a.ReceivedMsgs, b.ReceivedMsgs), since(a.AcceptedMsgs, b.AcceptedMsgs)
		f.Published, f.Queued, f.Sent = since(a.PublishedMsgs, b.PublishedMsgs), since(a.QueuedMsgs, b.QueuedMsgs), since(a.SentMsgs, b.SentMsgs)
	}
	return f
}

// maxMissing bounds the ranges that the record names for one subscriber.
const maxMissing = 8

func (t *trial) subscriberRecords(l measure.Ledger) []runrecord.Subscriber {
	out := make([]runrecord.Subscriber, 0, len(l.Subscribers))
	for _, a := range l.Subscribers {
		s := runrecord.Subscriber{
			ID: a.ID, Stream: int(a.Stream), Expected: int64(a.Expected), Delivered: int64(a.Delivered), Lost: a.Lost,
			Duplicate: int64(a.Duplicate), Dropped: dropped(a.Dropped), Unacc: a.Unaccounted, P50Ns: a.P50Ns, P99Ns: a.P99Ns,
			Missing: []runrecord.Missing{},
		}
		for i, m := range a.Missing {
			if i == maxMissing {
				t.warn("subscriber %s: %d more ranges are missing than the record names", a.ID, len(a.Missing)-maxMissing)
				break
			}
			s.Missing = append(s.Missing, runrecord.Missing{Publisher: int(m.Publisher), Stream: int(m.Stream), FirstSeq: m.FirstSeq, LastSeq: m.LastSeq})
		}
		out = append(out, s)
	}
	return out
}

func (t *trial) latency(r *runrecord.Record, m measure.Merged) {
	r.Latency.EndToEnd = distribution(m.EndToEnd)
	r.Latency.Network = distribution(m.Network)
	r.Latency.PublishDelay = distribution(m.PublishDelay)
	r.Latency.AckRTT = distribution(m.AckRTT)
	if t.Case.Probe.Echo() { // the round trip; what the other end saw is network
		r.Latency.EndToEnd = r.Latency.AckRTT
	}
}

// distribution is nil for no samples.
func distribution(h *measure.Histogram) *runrecord.Distribution {
	if h == nil || h.N() == 0 {
		return nil
	}
	s := h.Summary()
	d := &runrecord.Distribution{N: s.N, P50Ns: s.P50Ns, P90Ns: s.P90Ns, P99Ns: s.P99Ns, P999Ns: s.P999Ns, MaxNs: s.MaxNs}
	if text, err := h.Encode(); err == nil {
		d.HDR = &text
	}
	return d
}
