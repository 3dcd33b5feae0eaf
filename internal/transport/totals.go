package transport

import "maps"

// Totals are sums over the connections of one role since the monitor began, ended ones included.
type Totals struct {
	Conns                                     uint64 // begun
	Open                                      uint64 // of those, not ended
	PacketsSent, PacketsReceived, PacketsLost uint64
	BytesSent, BytesReceived, BytesLost       uint64
	DatagramsSent, SendCalls, SendErrors      uint64 // 0 where the sockets do not count
	DatagramsReceived, BytesHandedOver        uint64
}

func (t *Totals) add(s ConnStats) {
	t.Conns++
	if !s.Closed {
		t.Open++
	}
	t.PacketsSent += s.PacketsSent
	t.PacketsReceived += s.PacketsReceived
	t.PacketsLost += s.PacketsLost
	t.BytesSent += s.BytesSent
	t.BytesReceived += s.BytesReceived
	t.BytesLost += s.BytesLost
	for _, n := range s.SendErrors {
		t.SendErrors += n
	}
	if s.DatagramsSent != nil {
		t.DatagramsSent += *s.DatagramsSent
		t.SendCalls += *s.SendCalls
	}
	if s.DatagramsReceived != nil {
		t.DatagramsReceived += *s.DatagramsReceived
		t.BytesHandedOver += *s.BytesHandedOver
	}
}

// Totals returns the sums by role. Unlike the timelines they forget nothing, so that they can be
// exported as counters.
func (m *Monitor) Totals() map[string]Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := maps.Clone(m.endedTotals)
	for t := range m.live {
		role := sums[t.conn.role]
		role.add(t.conn.Stats())
		sums[t.conn.role] = role
	}
	return sums
}
