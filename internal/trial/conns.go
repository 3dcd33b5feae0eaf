package trial

import (
	"net"
	"slices"

	"felix/internal/runrecord"
	"felix/internal/transport"
)

// maxConns bounds the connections in the record; the busiest stay.
const maxConns = 24

// end is one end of a connection with the process it is in.
type end struct {
	transport.Timeline
	process string
	record  runrecord.Conn
}

// connections joins both ends of every connection, attributes what was lost, and picks the one that carries the load.
func (t *trial) connections(r *runrecord.Record) {
	ends := t.ends()
	for _, e := range ends {
		e.record = connRecord(e)
	}
	for _, e := range ends {
		e.record.WriteBlockedNs = t.writeBlocked(e, ends)
		if other := peerOf(e, ends); other != nil {
			id := other.record.ID
			e.record.Peer = &id
			e.record.LostBy = t.attribute(e, other)
		} else {
			e.record.LostBy = &runrecord.LostBy{}
		}
	}
	// The connection that carries the load, by what it sent: idle ones would hide its state in an average.
	slices.SortStableFunc(ends, func(a, b *end) int { return int(b.record.BytesSent - a.record.BytesSent) })
	r.Conns = []runrecord.Conn{}
	t.wireBytes(r, ends)
	for i, e := range ends {
		if i == maxConns {
			r.Trimmed = append(r.Trimmed, "conns beyond the busiest")
			break
		}
		e.record.Busiest = i == 0
		r.Conns = append(r.Conns, e.record)
		if e.Final.NoProgress {
			t.warn("connection %s ended because its full packets did not arrive (MTU black hole?): try --transport-set packet_size=1200 --transport-set mtu_discovery=false", e.record.ID)
		}
		for name, n := range e.record.SendErrors {
			t.warn("connection %s: %d send calls failed with %s", e.record.ID, n, name)
		}
	}
}

// wireBytes is what all ends together put on the wire, each hop once. Over TCP nobody tells.
func (t *trial) wireBytes(r *runrecord.Record, ends []*end) {
	if !t.overQUIC() || len(ends) == 0 || t.markAt == 0 {
		return
	}
	var n int64
	for _, e := range ends {
		n += e.record.BytesSent
	}
	r.Rates.WireBytesSent = &n
	if r.Rates.WindowNs > 0 {
		perSec := float64(n) / (float64(r.Rates.WindowNs) / 1e9)
		r.Rates.WireBytesPerSec = &perSec
	}
}

// ends are all connection ends, each with an id that says its process.
func (t *trial) ends() []*end {
	var out []*end
	for _, side := range []struct {
		res     *sideResult
		process string
	}{{t.results.pubs, t.processOf("publisher")}, {t.results.subs, t.processOf("subscriber")}, {t.results.broker, t.processOf("broker")}} {
		if side.res == nil {
			continue
		}
		for _, c := range side.res.Conns {
			if t.External != nil && side.res == t.results.broker && peerIn(c, t.results.pubs, t.results.subs) == nil {
				continue // another client's
			}
			out = append(out, &end{Timeline: c, process: side.process})
		}
	}
	return out
}

func peerIn(c transport.Timeline, sides ...*sideResult) *transport.Timeline {
	for _, s := range sides {
		if s == nil {
			continue
		}
		for i := range s.Conns {
			if mine := s.Conns[i].Final; mine.Pair != "" && mine.Pair == c.Final.Pair || sameSocket(mine.Local, c.Final.Remote) {
				return &s.Conns[i]
			}
		}
	}
	return nil
}

// peerOf finds the other end: by the name that only the two of them have, or by the addresses where an end has none.
func peerOf(e *end, all []*end) *end {
	for _, o := range all {
		if o == e {
			continue
		}
		if e.Final.Pair != "" && o.Final.Pair != "" {
			if e.Final.Pair == o.Final.Pair {
				return o
			}
			continue
		}
		if sameSocket(o.Final.Local, e.Final.Remote) && sameSocket(o.Final.Remote, e.Final.Local) {
			return o
		}
	}
	return nil
}

// sameSocket compares UDP addresses of this machine. A client's socket is bound to every address, and the broker
// sees the one that the packets came from: then the port alone tells.
func sameSocket(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	ipA, ipB := net.ParseIP(hostA), net.ParseIP(hostB)
	if ipA == nil || ipB == nil || ipA.IsUnspecified() || ipB.IsUnspecified() {
		return true
	}
	return ipA.Equal(ipB)
}

// connRecord is one end since the mark.
func connRecord(e *end) runrecord.Conn {
	f := e.Final
	was := transport.ConnStats{}
	if e.Marked != nil {
		was = *e.Marked
	}
	c := runrecord.Conn{
		ID: e.process + "/" + f.ID, Process: e.process, Role: f.Role, Local: f.Local, Remote: f.Remote,
		MTUBytes: f.MTUBytes, CwndBytes: f.CwndBytes,
		RTTMinNs: int64(f.RTTMin), RTTSmoothedNs: int64(f.RTTSmoothed), RTTLatestNs: int64(f.RTTLatest),
		PacketsSent: since(f.PacketsSent, was.PacketsSent), PacketsReceived: since(f.PacketsReceived, was.PacketsReceived),
		PacketsLost: since(f.PacketsLost, was.PacketsLost), BytesSent: since(f.BytesSent, was.BytesSent),
		BytesReceived: since(f.BytesReceived, was.BytesReceived),
		DatagramsSent: sincePtr(f.DatagramsSent, was.DatagramsSent), SendCalls: sincePtr(f.SendCalls, was.SendCalls),
		SendErrors: map[string]uint64{}, SharedSocket: f.SharedSocket, Samples: len(e.Samples), CloseReason: f.CloseReason,
	}
	for name, n := range f.SendErrors {
		if n -= was.SendErrors[name]; n > 0 {
			c.SendErrors[name] = n
		}
	}
	return c
}

// writeBlocked is how long stream writes of this end took, which is mostly waiting; null where nobody measures it for
// the connection alone.
func (t *trial) writeBlocked(e *end, all []*end) *int64 {
	for _, o := range all {
		if o != e && o.process == e.process && o.Final.Remote == e.Final.Remote && o.Final.Local == e.Final.Local {
			return nil // with sockets shared, the broker's subscriptions cannot be told apart by address
		}
	}
	switch {
	case e.Final.Role == "broker" && t.results.counters != nil:
		var ns int64
		for _, s := range t.results.counters.Subscriptions {
			if s.Remote == e.Final.Remote {
				ns += s.WriteNs
			}
		}
		if t.base != nil {
			for _, s := range t.base.Subscriptions {
				if s.Remote == e.Final.Remote {
					ns -= s.WriteNs
				}
			}
		}
		return &ns
	case e.Final.Role == "publisher" && t.Case.PubConns*t.Case.TenantCount() == 1 && t.results.pubs.Publisher != nil:
		ns := t.results.pubs.Publisher.BlockedWriteNs
		return &ns
	}
	return nil
}

func since(now, was uint64) int64 { return int64(now) - int64(was) }

func sincePtr(now, was *uint64) *int64 {
	if now == nil {
		return nil
	}
	n := int64(*now)
	if was != nil {
		n -= int64(*was)
	}
	return &n
}

// attribute says where what e sent and lost went: its receiver's own queue (what the socket gave minus what the
// connection took), the receiving kernel (drops of that socket, when it belongs to this connection alone or nothing
// was dropped at all), and the rest the path.
func (t *trial) attribute(e, receiver *end) *runrecord.LostBy {
	by := &runrecord.LostBy{}
	lost := max(0, e.record.PacketsLost)
	f := receiver.Final
	if f.DatagramsReceived != nil {
		was := transport.ConnStats{}
		if receiver.Marked != nil {
			was = *receiver.Marked
		}
		read := sincePtr(f.DatagramsReceived, was.DatagramsReceived)
		own := min(lost, max(0, *read-since(f.PacketsReceived, was.PacketsReceived)))
		by.OwnQueue = &own
	}
	if t.udp != nil && (t.udp.RcvbufErrors == 0 || !f.SharedSocket) {
		kernel := min(lost-value(by.OwnQueue), t.udp.RcvbufErrors)
		by.Kernel = &kernel
	}
	if by.Kernel != nil && by.OwnQueue != nil {
		path := max(0, lost-*by.Kernel-*by.OwnQueue)
		by.Path = &path
	}
	return by
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// socketWakeups are those of the loops that read the sockets, by role: how many datagrams a call of the kernel brought.
func (t *trial) socketWakeups() []runrecord.Wakeup {
	type sum struct{ count, items, bytes uint64 }
	sums := map[string]*sum{}
	var places []string
	seen := map[string]bool{}
	for _, e := range t.ends() {
		reads := e.Socket.Reads
		// Connections that share a socket tell its count each: it is one per local address.
		id := e.process + " " + e.Final.Local
		if reads == nil || seen[id] {
			continue
		}
		seen[id] = true
		place := "socket read (" + e.Final.Role + ")"
		if sums[place] == nil {
			sums[place] = &sum{}
			places = append(places, place)
		}
		s := sums[place]
		s.count, s.items, s.bytes = s.count+reads.Count, s.items+reads.Items, s.bytes+reads.Bytes
		if was := e.SocketMarked; was != nil && was.Reads != nil {
			s.count, s.items, s.bytes = s.count-was.Reads.Count, s.items-was.Reads.Items, s.bytes-was.Reads.Bytes
		}
	}
	var out []runrecord.Wakeup
	for _, place := range places {
		s := sums[place]
		out = append(out, wakeupRecord(place, s.count, s.items, s.bytes))
	}
	return out
}

// sockets are the buffers as granted, once for each role.
func (t *trial) sockets() []runrecord.Socket {
	var out []runrecord.Socket
	seen := map[string]bool{}
	for _, e := range t.ends() {
		key := e.process + "/" + e.Final.Role
		if seen[key] {
			continue
		}
		seen[key] = true
		s := runrecord.Socket{Process: e.process, Role: e.Final.Role, GSO: e.Socket.GSO, GRO: e.Socket.GRO, Shared: e.Socket.Shared, RecvGateBytes: e.Socket.RecvGateBytes}
		if e.Socket.Gate != nil {
			s.GateWaits, s.GateWaitNs = int64(e.Socket.Gate.Waits), int64(e.Socket.Gate.WaitNs)
			if was := e.SocketMarked; was != nil && was.Gate != nil {
				s.GateWaits -= int64(was.Gate.Waits)
				s.GateWaitNs -= int64(was.Gate.WaitNs)
			}
		}
		if n := e.Socket.SendBufferGranted; n >= 0 {
			s.SendBufferBytes = &n
		}
		if n := e.Socket.RecvBufferGranted; n >= 0 {
			s.RecvBufferBytes = &n
		}
		out = append(out, s)
		t.warnings = append(t.warnings, e.Socket.Warnings...)
	}
	return out
}
