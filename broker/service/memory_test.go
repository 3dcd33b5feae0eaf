package service_test

import (
	"testing"

	"felix/broker/service"
)

// The sum takes the bounds of each subscription and connection, or the one over all subscriptions,
// whichever is less.
func TestMemorySum(t *testing.T) {
	const mib = 1 << 20
	m := service.MemoryUse{
		RingBytes: 10 * mib, SubscriberQueueSize: 64 * mib, SubscriberEgress: 256 * mib, SubscriberTotal: 512 * mib,
		ReceiveWindow: 20 * mib,
	}
	for _, tt := range []struct {
		subscriptions, subscribers, connections int
		egress                                  int64
	}{
		{0, 0, 0, 0},
		{0, 0, 3, 0},
		{1, 1, 1, 64 + 256},
		{3, 1, 1, 3*64 + 256},
		{4, 1, 1, 512}, // exactly
		{2, 2, 2, 512}, // 640 by the bounds of each
	} {
		m.Subscriptions, m.Subscribers, m.Connections = tt.subscriptions, tt.subscribers, tt.connections
		want := (10 + 96 + tt.egress + 20*int64(tt.connections)) * mib
		if m.Egress() != tt.egress*mib || m.Sum() != want {
			t.Errorf("%d subscriptions on %d of %d connections: %d, sum %d; want %d, %d", tt.subscriptions, tt.subscribers, tt.connections,
				m.Egress()/mib, m.Sum()/mib, tt.egress, want/mib)
		}
	}
}
