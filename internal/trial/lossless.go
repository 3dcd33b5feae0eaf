package trial

import (
	"felix/broker/service"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/workload"
)

// NotLossless is the warning of a plan that blocks at every subscriber queue and can drop all the same.
const NotLossless = service.NotLossless

// shedding is what a broker's configuration says about dropping; nil is what nobody knows.
type shedding struct {
	queue, lane *string // policies of checkpoints 5 and 6
	ingressWait *bool   // unacked publishes wait at 3 and 4
}

// sheddingOf is that of a broker of our own.
func sheddingOf(b *settings.Broker) shedding {
	return shedding{&b.SubscriberQueuePolicy, &b.SubscriberLanePolicy, &b.PubIngressWait}
}

// pageConfig is that of a broker that shows its configuration.
func pageConfig(doc settings.Document) shedding {
	var s shedding
	if v, ok := doc["subscriber_queue_policy"].Value.(string); ok {
		s.queue = &v
	}
	if v, ok := doc["subscriber_lane_queue_policy"].Value.(string); ok {
		s.lane = &v
	}
	if v, ok := doc["pub_ingress_wait"].Value.(bool); ok {
		s.ingressWait = &v
	}
	return s
}

// lossless says what the effective configuration promises. Of a broker that somebody else runs nothing is known until
// its admin page tells.
func (p *Plan) lossless() runrecord.Lossless {
	if p.Case.Probe != workload.ProbeNone {
		return runrecord.LosslessYes // it waits for whoever is slow
	}
	if p.External != nil {
		return losslessOf(shedding{}, p.Client.ClientSubQueuePolicy)
	}
	return losslessOf(sheddingOf(&p.Broker), p.Client.ClientSubQueuePolicy)
}

// promisesLossless reports whether any message that is lost is a fault. The policy says so, but of a broker that somebody
// else runs: if that one is known to drop, it shall only have counted what it dropped.
func (p *Plan) promisesLossless() bool {
	return p.Case.Policy == workload.PolicyLossless && (p.External == nil || p.Lossless != runrecord.LosslessNo)
}

// losslessOf: yes is block on 5, 6 and 7 and publishes that wait at 3 and 4; almost is without the latter, or with
// something that nobody knows; everything else is no.
func losslessOf(b shedding, client string) runrecord.Lossless {
	const block = "block"
	switch {
	case client != block || b.queue != nil && *b.queue != block || b.lane != nil && *b.lane != block:
		return runrecord.LosslessNo
	case b.queue == nil || b.lane == nil || b.ingressWait == nil || !*b.ingressWait:
		return runrecord.LosslessAlmost
	}
	return runrecord.LosslessYes
}
