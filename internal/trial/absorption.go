package trial

import (
	"time"

	"felix/internal/probe"
	"felix/internal/settings"
	"felix/internal/workload"
)

// path is what every place between a publisher and the slowest subscriber of each stream can hold, in bytes, under the
// effective configuration. Where items bound a place too, the smaller of both counts, at the size of this case's
// batches.
type path struct {
	clientAdmission int64 // 1, which what waits at 2 is part of
	publishWindow   int64 // W: inside QUIC, towards the broker
	ingress         int64 // 3 and 4, and the frame in hand of each publish stream that waits for them
	queue           int64 // 5
	egress          int64 // 6
	eventWindow     int64 // inside QUIC, towards the subscribers
	clientQueue     int64 // 7
	sockets         int64
}

func (p path) sum() int64 {
	return p.clientAdmission + p.publishWindow + p.ingress + p.queue + p.egress + p.eventWindow + p.clientQueue + p.sockets
}

// downstream is what stands between the broker's fanout and a subscriber.
func (p path) downstream() int64 {
	return p.queue + p.egress + p.eventWindow + p.clientQueue + p.sockets
}

// pathOf is nil where a broker that is not ours, or TCP, is part of it.
func (t *trial) pathOf(window int64) *path {
	if t.External != nil || !t.overQUIC() {
		return nil
	}
	p := newPath(&t.Case, &t.Broker, &t.Client, &t.Transport, window)
	if t.Case.Probe != workload.ProbeNone {
		p = path{publishWindow: window, eventWindow: p.eventWindow}
		if !t.oneHop() {
			p.queue = probe.Holds(t.Case.Fanout, t.Case.Batch*(t.Case.MessageBytes()+4))
		}
	}
	for _, s := range t.sockets() {
		if s.RecvBufferBytes != nil {
			p.sockets += int64(*s.RecvBufferBytes)
		}
	}
	return &p
}

// newPath computes the path of a case without its sockets. window is W.
func newPath(c *workload.Case, b *settings.Broker, cl *settings.Client, tr *settings.Transport, window int64) path {
	tenants, streams := int64(c.TenantCount()), int64(c.AllStreams())
	batch := int64(c.Batch * c.LargestMessage())
	// A batch that is larger than a whole budget passes alone.
	atLeast := func(n int64) int64 { return max(n, batch) }

	conns := tenants * int64(c.PubConns)
	items := max(int64(b.PubQueueDepth)*int64(b.PubWorkersPerConn), int64(b.PubQueueDepth)*tenants)
	admitted := min(atLeast(b.PubInflightBytes), conns*atLeast(b.PubConnInflight), items*batch)
	inHand := min(streams, conns*int64(c.PubStreamsPerConn)) * batch

	queue := min(atLeast(b.SubscriberQueueMaxBytes), int64(b.SubscriberQueueCapacity)*batch)
	// What is joined into a frame is bounded; a batch that is larger than the bound goes as it is.
	frame := max(batch, int64(b.EventBatchMaxBytes))
	perConn := (int64(c.Fanout*c.Streams) + int64(c.SubConns) - 1) / int64(c.SubConns) // subscriptions of a connection
	share := atLeast(b.SubscriberEgressMax / perConn)
	lane := min(share, int64(b.SubscriberLaneDepth)*frame+frame) // and the one being written

	p := path{
		clientAdmission: tenants * cl.PublishInflightBytes,
		publishWindow:   window,
		ingress:         admitted + inHand,
		queue:           streams * queue,
		egress:          streams * lane,
		eventWindow:     min(tenants*int64(c.SubConns)*tr.ConnRecvWindow, streams*tr.StreamRecvWindow),
	}
	// The broker-wide bound covers a batch from 5 until it is written.
	if both := p.queue + p.egress; both > b.SubscriberQueueMaxTotal {
		p.queue = max(0, b.SubscriberQueueMaxTotal-p.egress)
		p.egress = min(p.egress, b.SubscriberQueueMaxTotal)
	}
	if cl.ClientSubQueuePolicy != "block" {
		p.clientQueue = streams * int64(cl.ClientSubQueueCapacity) * frame
	}
	return p
}

// delayBound is how long a message can be under way from the fanout on when every subscriber is held to one pace: what
// stands before it, at that pace, in ns. Nil if they are not. Beyond it, a delivered message has waited somewhere that
// nobody bounds.
func (p path) delayBound(c *workload.Case) *int64 {
	var slowest int64
	for stream := range c.AllStreams() {
		for i := range c.Fanout {
			rate := c.Slow.Of(stream, i)
			if rate == 0 {
				return nil
			}
			if slowest == 0 || rate < slowest {
				slowest = rate
			}
		}
	}
	perStream := float64(p.downstream()) / float64(c.AllStreams())
	ns := int64(perStream/float64(slowest)*1e9) + int64(c.Stall.Longest()/time.Nanosecond)
	return &ns
}
