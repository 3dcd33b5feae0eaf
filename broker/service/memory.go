package service

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

const (
	// memoryBase is what the process needs besides the bytes it holds for others.
	memoryBase = 96 << 20
	// memoryEvery is how often the limit follows the connections. A limit that is late by a
	// second costs some garbage collection, never an allocation.
	memoryEvery = time.Second
)

// MemoryUse is what a broker may come to hold, in bytes, with the connections and
// subscriptions that it has: the bounds, not what is held now.
type MemoryUse struct {
	RingBytes           int64 `json:"ring_bytes"`
	IngressBytes        int64 `json:"ingress_bytes"`      // checkpoint 3, over all connections
	ConnIngressBytes    int64 `json:"conn_ingress_bytes"` // and of each connection
	Subscriptions       int   `json:"subscriptions"`
	SubscriberQueueSize int64 `json:"subscriber_queue_bytes"`  // of each subscription, checkpoint 5
	Subscribers         int   `json:"subscribers"`             // connections with subscriptions
	SubscriberEgress    int64 `json:"subscriber_egress_bytes"` // of each of them, checkpoint 6
	SubscriberTotal     int64 `json:"subscriber_total_bytes"`  // of all subscriptions at 5 and 6
	Connections         int   `json:"connections"`
	ReceiveWindow       int64 `json:"receive_window_bytes"` // of each connection
}

// Egress is what the bounds let subscriptions hold: those of each, or that of all, whichever is
// less.
func (m MemoryUse) Egress() int64 {
	return min(int64(m.Subscriptions)*m.SubscriberQueueSize+int64(m.Subscribers)*m.SubscriberEgress, m.SubscriberTotal)
}

// Sum is the memory limit that goes with it.
func (m MemoryUse) Sum() int64 {
	return m.RingBytes + m.ingress() + m.Egress() + int64(m.Connections)*m.ReceiveWindow + memoryBase
}

// ingress is what checkpoint 3 lets so many connections hold.
func (m MemoryUse) ingress() int64 {
	return min(m.IngressBytes, int64(m.Connections)*m.ConnIngressBytes)
}

func (m MemoryUse) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("memory limit %d MiB + %d MiB a subscription and %d MiB a connection that has any (at most %d MiB) + %d MiB of publishes a connection (at most %d MiB) + %d MiB a connection",
		(m.RingBytes+memoryBase)/mib, m.SubscriberQueueSize/mib, m.SubscriberEgress/mib, m.SubscriberTotal/mib,
		m.ConnIngressBytes/mib, m.IngressBytes/mib, m.ReceiveWindow/mib)
}

// Memory is the byte bounds of a broker that nobody uses yet.
func (s *Service) Memory() MemoryUse {
	b := s.opts.Broker
	return MemoryUse{
		RingBytes:           min(b.RingMaxBytesTotal, int64(len(b.Streams))*b.RingMaxBytes),
		IngressBytes:        b.PubInflightBytes,
		ConnIngressBytes:    b.PubConnInflight,
		SubscriberQueueSize: b.SubscriberQueueMaxBytes,
		SubscriberEgress:    b.SubscriberEgressMax,
		SubscriberTotal:     b.SubscriberQueueMaxTotal,
		ReceiveWindow:       s.tconf.ConnRecvWindow,
	}
}

// memoryInUse is Memory with the connections and subscriptions that the broker has now.
func (s *Service) memoryInUse() MemoryUse {
	m, st := s.Memory(), s.broker.Stats()
	m.Connections, m.Subscribers = st.Connections, st.Subscribers
	for _, stream := range st.Streams {
		m.Subscriptions += stream.Subscriptions
	}
	return m
}

// memoryLimit keeps the Go memory limit at what inUse says.
type memoryLimit struct {
	before int64
	quit   chan struct{} // closed by stop
	done   chan struct{} // closed when follow returns
}

// startMemoryLimit returns nil if GOMEMLIMIT decides.
func startMemoryLimit(inUse func() int64) *memoryLimit {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	m := &memoryLimit{before: debug.SetMemoryLimit(inUse()), quit: make(chan struct{}), done: make(chan struct{})}
	go m.follow(inUse)
	return m
}

func (m *memoryLimit) follow(inUse func() int64) {
	defer close(m.done)
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			debug.SetMemoryLimit(inUse())
		case <-m.quit:
			debug.SetMemoryLimit(m.before)
			return
		}
	}
}

func (m *memoryLimit) stop() {
	close(m.quit)
	<-m.done
}
