package service

import (
	"felix/broker"
	"felix/internal/transport"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registry is the service's own: two brokers in one process do not share counters, and
// nothing that a library registers by itself gets in.
func (s *Service) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{s},
	)
	return r
}

// collector turns one snapshot of the statistics into metrics when they are asked for, so
// that the hot paths know nothing of Prometheus. Label sets are bounded: policy, result, reason
// and role come from short lists, tenants are those that have a stream registered, and no address
// or stream is a label.
type collector struct{ s *Service }

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newMetric(kind prometheus.ValueType, name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), kind}
}

func (m metric) send(ch chan<- prometheus.Metric, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var (
	subscribeDropped  = newMetric(counter, "felix_subscribe_dropped_total", "Deliveries dropped at checkpoint 5.", "policy")
	writerDropped     = newMetric(counter, "felix_sub_queue_dropped_total", "Deliveries dropped at checkpoint 6.", "policy")
	subQueueLen       = newMetric(gauge, "felix_sub_queue_len", "Messages queued at checkpoint 5, over all subscriptions.")
	subQueueHeld      = newMetric(gauge, "felix_sub_queue_held_bytes", "Bytes held at checkpoint 5, over all subscriptions.")
	subLaneLen        = newMetric(gauge, "felix_sub_lane_queue_len", "Frames queued at checkpoint 6, over all subscriptions.")
	subEgressHeld     = newMetric(gauge, "felix_sub_egress_held_bytes", "Bytes held between checkpoint 5 and the wire, over all subscriptions.")
	publishRequests   = newMetric(counter, "felix_publish_requests_total", "Published messages by what became of them at ingress; a batch counts each of its messages.", "result")
	publishBytes      = newMetric(counter, "felix_publish_bytes_total", "Payload bytes received in publishes.")
	subscribeRequests = newMetric(counter, "felix_subscribe_requests_total", "Subscribe requests by their answer.", "result")
	subscribeBytes    = newMetric(counter, "felix_subscribe_bytes_total", "Payload bytes written to subscriptions.")

	connOpen     = newMetric(gauge, "felix_conn_open", "Open connections.", "role")
	connMTU      = newMetric(gauge, "felix_conn_mtu_bytes", "Packet size of the open connection with the smallest.", "role")
	connCwnd     = newMetric(gauge, "felix_conn_cwnd_bytes", "Congestion windows of the open connections, summed.", "role")
	connRTT      = newMetric(gauge, "felix_conn_rtt_seconds", "Smoothed round trip of the open connection with the longest.", "role")
	connSent     = newMetric(counter, "felix_conn_packets_sent", "Packets sent, ended connections included.", "role")
	connReceived = newMetric(counter, "felix_conn_packets_received", "Packets received, ended connections included.", "role")
	// A packet taken for lost that arrives after all is taken off again, so it is no counter.
	connLost      = newMetric(gauge, "felix_conn_packets_lost", "Packets taken for lost, ended connections included.", "role")
	connBytesOut  = newMetric(counter, "felix_conn_bytes_sent", "Bytes sent, ended connections included.", "role")
	connBytesIn   = newMetric(counter, "felix_conn_bytes_received", "Bytes received, ended connections included.", "role")
	connSendCalls = newMetric(counter, "felix_conn_send_calls", "Send calls that the kernel took, ended connections included.", "role")
	connSendErrs  = newMetric(counter, "felix_conn_send_errors", "Send calls that failed, ended connections included.", "role")

	allMetrics = []metric{
		subscribeDropped, writerDropped, subQueueLen, subQueueHeld, subLaneLen, subEgressHeld, publishRequests, publishBytes, subscribeRequests, subscribeBytes,
		connOpen, connMTU, connCwnd, connRTT, connSent, connReceived, connLost, connBytesOut, connBytesIn, connSendCalls, connSendErrs,
	}
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, set := range [][]metric{allMetrics, ingressMetrics} {
		for _, m := range set {
			ch <- m.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.s.broker.Stats()
	collectBroker(ch, st)
	collectIngress(ch, st.Ingress)
	collectConns(ch, c.s.monitor)
}

func collectBroker(ch chan<- prometheus.Metric, st broker.Stats) {
	var queued uint64
	var held, egress int64
	var frames int
	for _, sub := range st.Subscriptions {
		queued += sub.Queued
		held += sub.QueuedBytes
		egress += sub.EgressHeldBytes
		frames += sub.LaneQueueLen
	}
	subQueueLen.send(ch, float64(queued))
	subQueueHeld.send(ch, float64(held))
	subEgressHeld.send(ch, float64(egress))
	subLaneLen.send(ch, float64(frames))
	for _, cp := range st.Checkpoints {
		switch cp.Number {
		case 5:
			subscribeDropped.send(ch, float64(cp.Dropped), cp.Policy)
		case 6:
			writerDropped.send(ch, float64(cp.Dropped), cp.Policy)
		}
	}
	checkpointWait.sendHistogram(ch, st.WriterBlocked, "6")
	publishRequests.send(ch, float64(st.Flow.AcceptedMsgs), "accepted")
	publishRequests.send(ch, float64(st.Flow.RejectedMsgs), "rejected")
	publishRequests.send(ch, float64(st.Flow.IngressDroppedMsgs), "dropped")
	publishBytes.send(ch, float64(st.Flow.BytesIn))
	subscribeRequests.send(ch, float64(st.SubscribesAccepted), "accepted")
	subscribeRequests.send(ch, float64(st.SubscribesRefused), "refused")
	subscribeBytes.send(ch, float64(st.Flow.BytesOut))
}

func collectConns(ch chan<- prometheus.Metric, m *transport.Monitor) {
	type newest struct {
		mtu  int
		cwnd int64
		rtt  float64
	}
	open := map[string]newest{}
	for _, t := range m.Finals() {
		s := t.Final
		if s.Closed {
			continue
		}
		n := open[s.Role]
		if s.MTUBytes != nil && (n.mtu == 0 || *s.MTUBytes < n.mtu) {
			n.mtu = *s.MTUBytes
		}
		n.cwnd += s.CwndBytes
		n.rtt = max(n.rtt, s.RTTSmoothed.Seconds())
		open[s.Role] = n
	}
	for role, n := range open {
		if n.mtu > 0 { // absent where it cannot be known
			connMTU.send(ch, float64(n.mtu), role)
		}
		connCwnd.send(ch, float64(n.cwnd), role)
		connRTT.send(ch, n.rtt, role)
	}
	for role, t := range m.Totals() {
		connOpen.send(ch, float64(t.Open), role)
		connSent.send(ch, float64(t.PacketsSent), role)
		connReceived.send(ch, float64(t.PacketsReceived), role)
		connLost.send(ch, float64(t.PacketsLost), role)
		connBytesOut.send(ch, float64(t.BytesSent), role)
		connBytesIn.send(ch, float64(t.BytesReceived), role)
		connSendCalls.send(ch, float64(t.SendCalls), role)
		connSendErrs.send(ch, float64(t.SendErrors), role)
	}
}
