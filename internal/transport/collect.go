package transport

import (
	"context"
	"time"
)

// Stats returns the statistics of this moment. It takes no lock that sending or receiving takes and
// may be called at any time, also after the end.
func (c *Conn) Stats() ConnStats {
	q := c.ConnectionStats()
	s := ConnStats{
		At:              time.Now(),
		ID:              c.id,
		Pair:            c.pair,
		Role:            c.role,
		Local:           c.LocalAddr().String(),
		Remote:          c.RemoteAddr().String(),
		CwndBytes:       int64(q.CongestionWindow),
		RTTMin:          q.MinRTT,
		RTTSmoothed:     q.SmoothedRTT,
		RTTLatest:       q.LatestRTT,
		PacketsSent:     q.PacketsSent,
		PacketsReceived: q.PacketsReceived,
		PacketsLost:     q.PacketsLost,
		BytesSent:       q.BytesSent,
		BytesReceived:   q.BytesReceived,
		BytesLost:       q.BytesLost,
		SharedSocket:    c.sock.shared,
		Unavailable:     c.sock.connUnavailable,
	}
	if reason := context.Cause(c.Context()); reason != nil {
		s.Closed, s.CloseReason, s.NoProgress = true, reason.Error(), IsNoProgress(reason)
	}
	if c.peer != nil {
		c.addSocketFacts(&s)
	}
	return s
}

// addSocketFacts fills in what only the socket knows.
func (c *Conn) addSocketFacts(s *ConnStats) {
	why := c.sock.counted.peers.whyUncounted(c.peer)
	if why == "" && addrPort(c.RemoteAddr()) != c.remote {
		why = "the peer moved to another address"
	}
	if why != "" {
		s.Unavailable = uncounted(why)
		if mtu := c.peer.mtu(); mtu > 0 && c.sock.counted.peers.isMixed(c.peer) {
			s.MTUBytes = &mtu
			delete(s.Unavailable, "mtu_bytes")
		}
		return
	}
	s.DatagramsSent, s.SendCalls = pointer(c.peer.datagrams.Load()), pointer(c.peer.sendCalls.Load())
	s.SendErrors = c.peer.sendErrors()
	if receiveCounted {
		s.DatagramsReceived, s.BytesHandedOver = pointer(c.peer.received.Load()), pointer(c.peer.receivedBytes.Load())
	}
	if mtu := c.peer.mtu(); mtu > 0 {
		s.MTUBytes = &mtu
	} else {
		s.Unavailable = withFact(s.Unavailable, "mtu_bytes", "no full packet was sent yet")
	}
}

func withFact(m map[string]string, fact, why string) map[string]string {
	out := map[string]string{fact: why}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func pointer[T any](v T) *T { return &v }
