package service

import (
	"strconv"

	"felix/broker"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	ingressDropped  = newMetric(counter, "felix_broker_ingress_dropped_total", "Unacked messages shed at checkpoint 3 or 4; reason gone: whose connection ended while they waited there.", "checkpoint", "reason", "tenant")
	ingressRejected = newMetric(counter, "felix_broker_ingress_rejected_total", "Acked messages answered overloaded at checkpoint 3 or 4.", "checkpoint", "reason", "tenant")
	ingressWaited   = newMetric(counter, "felix_broker_ingress_waited_total", "Publishes that waited for room at checkpoint 3 or 4.")
	ingressWait     = newHistogram("felix_broker_ingress_wait_seconds", "How long publishes waited at checkpoints 3 and 4 together.")
	ingressDepth    = newMetric(gauge, "felix_broker_ingress_queue_depth", "Publishes queued at checkpoint 4.")
	ingressHeld     = newMetric(gauge, "felix_broker_ingress_held_bytes", "Bytes held at checkpoint 3.")
	checkpointWait  = newHistogram("felix_broker_checkpoint_blocked_seconds", "How long publishes, at checkpoint 6 feeders, waited at a checkpoint.", "checkpoint")

	ingressMetrics = []metric{ingressDropped, ingressRejected, ingressWaited, ingressWait, ingressDepth, ingressHeld, checkpointWait}
)

// collectIngress shows a dropped or rejected counter from its first message on, so that tenants
// that have nothing to show have no series.
func collectIngress(ch chan<- prometheus.Metric, in broker.IngressStats) {
	for _, c := range in.Counts {
		at := strconv.Itoa(c.Checkpoint)
		if c.DroppedMsgs > 0 {
			ingressDropped.send(ch, float64(c.DroppedMsgs), at, c.Reason, c.Tenant)
		}
		if c.RejectedMsgs > 0 {
			ingressRejected.send(ch, float64(c.RejectedMsgs), at, c.Reason, c.Tenant)
		}
	}
	ingressWaited.send(ch, float64(in.WaitedPublishes))
	ingressWait.sendHistogram(ch, in.WaitHist)
	ingressDepth.send(ch, float64(in.QueueDepth))
	ingressHeld.send(ch, float64(in.HeldBytes))
	checkpointWait.sendHistogram(ch, in.Blocked3, "3")
	checkpointWait.sendHistogram(ch, in.Blocked4, "4")
	checkpointWait.sendHistogram(ch, in.Blocked5, "5")
}

// newHistogram is a metric for sendHistogram, which alone knows its kind.
func newHistogram(name, help string, labels ...string) metric {
	return newMetric(prometheus.UntypedValue, name, help, labels...)
}

func (m metric) sendHistogram(ch chan<- prometheus.Metric, h broker.WaitHistogram, labels ...string) {
	buckets := make(map[float64]uint64)
	n := uint64(0)
	for i, bound := range broker.WaitBounds() {
		n += h.Counts[i]
		buckets[bound.Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(m.desc, h.Total(), float64(h.SumNs)/1e9, buckets, labels...)
}
