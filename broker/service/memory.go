package service

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"felix/broker"
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
	SubscriberQueueSize int64 `json:"subscriber_queue_bytes"` // of each subscription
	Connections         int   `json:"connections"`
	ReceiveWindow       int64 `json:"receive_window_bytes"` // of each connection
}

// Sum is the memory limit that goes with it.
func (m MemoryUse) Sum() int64 {
	return m.RingBytes + m.ingress() + int64(m.Subscriptions)*m.SubscriberQueueSize + int64(m.Connections)*m.ReceiveWindow + memoryBase
}

// ingress is what checkpoint 3 lets so many connections hold.
func (m MemoryUse) ingress() int64 {
	return min(m.IngressBytes, int64(m.Connections)*m.ConnIngressBytes)
}

func (m MemoryUse) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("memory limit %d MiB + %d MiB a subscription + %d MiB a connection + %d MiB of publishes",
		(m.RingBytes+memoryBase)/mib, m.SubscriberQueueSize/mib, m.ReceiveWindow/mib, m.IngressBytes/mib)
}

// Memory adds up the byte bounds in use now.
func (s *Service) Memory() MemoryUse {
	b := s.opts.Broker
	return MemoryUse{
		RingBytes:           min(b.RingMaxBytesTotal, int64(len(b.Streams))*b.RingMaxBytes),
		IngressBytes:        b.PubInflightBytes,
		ConnIngressBytes:    b.PubConnInflight,
		SubscriberQueueSize: b.SubscriberQueueMaxBytes,
		ReceiveWindow:       s.tconf.ConnRecvWindow,
	}
}

func (s *Service) memoryInUse() int64 { return s.memoryWith(s.broker.Stats()).Sum() }

// memoryWith is Memory with the connections and subscriptions of a snapshot.
func (s *Service) memoryWith(st broker.Stats) MemoryUse {
	m := s.Memory()
	m.Connections = st.Connections
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
