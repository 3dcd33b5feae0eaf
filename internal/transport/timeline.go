package transport

import "time"

// Timeline is the history of one connection.
type Timeline struct {
	// Interval is the time between the samples; 0 if there are none but the final one.
	Interval time.Duration `json:"interval_ns"`
	// Socket is the socket at the moment of Final, and SocketMarked at that of Marked. What it
	// counts is the socket's, so with several connections on it also theirs.
	Socket       SocketInfo  `json:"socket"`
	SocketMarked *SocketInfo `json:"socket_marked,omitempty"`
	// Samples are in order of time, at most 2,048. When they are full, every second one is dropped
	// and the interval doubles.
	Samples []ConnStats `json:"samples,omitempty"`
	// Marked is the connection at the last Monitor.Mark: its last state if it had ended by then,
	// nil if it began later or there was no mark.
	Marked *ConnStats `json:"marked,omitempty"`
	// Final is the newest state: of this moment, or of the end if the connection has ended.
	Final ConnStats `json:"final"`
}

const maxSamples = 2048

// timeline is what the monitor keeps of a connection. All but conn and the first interval is under
// the monitor's lock.
type timeline struct {
	conn     *Conn // nil once it has ended
	seq      uint64
	interval time.Duration
	began    time.Time
	samples  []sample
	socket   SocketInfo
	marked   *ConnStats
	final    ConnStats // of the end

	socketMarked *SocketInfo
}

// sample is a ConnStats without what does not change: 136 bytes instead of 350, of which a
// connection can have 2,048.
type sample struct {
	after                     time.Duration // since the timeline began
	cwnd                      int64
	rttMin, rttSmooth, rttNow time.Duration
	packets                   [3]uint64 // sent, received, lost
	bytes                     [3]uint64
	socket                    [4]uint64 // datagrams sent, send calls, datagrams received, bytes handed over
	errors                    map[string]uint64
	mtu                       int32 // 0: not known
	sent, received            bool  // the socket's figures are known
}

func (t *timeline) compact(s ConnStats) sample {
	c := sample{
		after: s.At.Sub(t.began), cwnd: s.CwndBytes,
		rttMin: s.RTTMin, rttSmooth: s.RTTSmoothed, rttNow: s.RTTLatest,
		packets: [3]uint64{s.PacketsSent, s.PacketsReceived, s.PacketsLost},
		bytes:   [3]uint64{s.BytesSent, s.BytesReceived, s.BytesLost},
		errors:  s.SendErrors,
	}
	if s.MTUBytes != nil {
		c.mtu = int32(*s.MTUBytes)
	}
	if s.DatagramsSent != nil {
		c.sent, c.socket[0], c.socket[1] = true, *s.DatagramsSent, *s.SendCalls
	}
	if s.DatagramsReceived != nil {
		c.received, c.socket[2], c.socket[3] = true, *s.DatagramsReceived, *s.BytesHandedOver
	}
	return c
}

// expand makes a full sample again. What names the connection comes from its final statistics.
func (t *timeline) expand(c sample, final ConnStats) ConnStats {
	s := ConnStats{
		At: t.began.Add(c.after), ID: final.ID, Pair: final.Pair, Role: final.Role, Local: final.Local, Remote: final.Remote,
		CwndBytes: c.cwnd, RTTMin: c.rttMin, RTTSmoothed: c.rttSmooth, RTTLatest: c.rttNow,
		PacketsSent: c.packets[0], PacketsReceived: c.packets[1], PacketsLost: c.packets[2],
		BytesSent: c.bytes[0], BytesReceived: c.bytes[1], BytesLost: c.bytes[2],
		SendErrors: c.errors, SharedSocket: final.SharedSocket, Unavailable: final.Unavailable,
	}
	if c.mtu > 0 {
		s.MTUBytes = pointer(int(c.mtu))
	}
	if c.sent {
		s.DatagramsSent, s.SendCalls = pointer(c.socket[0]), pointer(c.socket[1])
	}
	if c.received {
		s.DatagramsReceived, s.BytesHandedOver = pointer(c.socket[2]), pointer(c.socket[3])
	}
	return s
}

// add appends a sample, thinning them out when they are full.
func (t *timeline) add(s ConnStats) {
	if len(t.samples) >= maxSamples {
		kept := t.samples[:0]
		for i := 0; i < len(t.samples); i += 2 { // even ones: the new sample then keeps the step
			kept = append(kept, t.samples[i])
		}
		clear(t.samples[len(kept):])
		t.samples = kept
		t.interval *= 2
	}
	t.samples = append(t.samples, t.compact(s))
}
