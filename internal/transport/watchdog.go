package transport

import (
	"errors"
	"fmt"
	"time"

	"github.com/quic-go/quic-go"
)

// CodeNoProgress is the code that the watchdog closes a connection with.
const CodeNoProgress ApplicationErrorCode = 5

const (
	defaultProgressTimeout = 10 * time.Second
	// watchTicks is how often the watchdog looks within its timeout.
	watchTicks = 10
	// enoughFull and enoughLost are the full packets that must have gone unanswered or were lost.
	enoughFull = 3
	enoughLost = 16
	// ackSize bounds a packet that only acknowledges: a few dozen bytes, more after losses.
	ackSize = 256
)

// IsNoProgress reports whether a connection ended because its full packets did not arrive for long
// (Config.ProgressTimeout), at this end or at the peer's. Dialled again with PacketSize 1200 and
// DisableMTUDiscovery, it gets through a path that carries small packets only.
func IsNoProgress(err error) bool {
	var app *quic.ApplicationError
	return errors.As(err, &app) && app.ErrorCode == CodeNoProgress
}

func noProgressMessage(timeout time.Duration, mtu int) string {
	return fmt.Sprintf("no progress for %v: the peer answers, but full packets (%d bytes) do not seem to reach it (MTU black hole?); dial again with packet_size 1200 and mtu_discovery false", timeout, mtu)
}

// watchSample is what the watchdog looks at.
type watchSample struct {
	at                     time.Time
	rtt                    [3]time.Duration // latest, smoothed, deviation: new with every acknowledgement
	packets, bytes         uint64           // sent
	lostPackets, lostBytes uint64
	received               uint64 // packets
}

// watchdog finds out that full packets do not arrive although the peer is alive. quic-go never
// makes packets smaller again once a path carried them, and while both ends keep the connection up
// with small ones, a stream whose full packets get lost would stand still for ever.
//
// quic-go does not say what was acknowledged, so it goes by two signs over the whole timeout.
// Either no acknowledgement came at all (which would have brought a new round trip) although full
// packets were sent and, later than those, something came from the peer. Or acknowledgements came,
// of small packets, but three quarters of all bytes sent were lost, in full packets. A path that
// carries nothing is no case for it: then the peer is not heard, and the idle timeout ends it.
type watchdog struct {
	timeout time.Duration
	acked   watchSample // when the newest acknowledgement was seen
	heard   bool        // the peer, since then, after it should have acknowledged full packets
	ticks   []watchSample
	strikes int
}

func newWatchdog(timeout time.Duration) *watchdog { return &watchdog{timeout: timeout} }

// interval is the time between two looks.
func (w *watchdog) interval() time.Duration { return max(w.timeout/watchTicks, time.Millisecond) }

// look takes a sample and reports whether the connection makes no progress. The sign must be there
// at two looks in a row: a peer that was stopped may be heard before its acknowledgement is.
func (w *watchdog) look(s watchSample) bool {
	var previous watchSample
	if n := len(w.ticks); n > 0 {
		previous = w.ticks[n-1]
	}
	if len(w.ticks) == 0 || s.rtt != w.acked.rtt {
		w.acked, w.heard = s, false
	} else if previous.fullSince(w.acked) >= enoughFull && s.received > previous.received {
		w.heard = true
	}
	w.ticks = append(w.ticks, s)
	if len(w.ticks) > watchTicks+1 {
		w.ticks = w.ticks[1:]
	}
	if w.unanswered(s) || w.lossy(s) {
		w.strikes++
	} else {
		w.strikes = 0
	}
	return w.strikes >= 2
}

func (w *watchdog) unanswered(s watchSample) bool {
	return w.heard && s.at.Sub(w.acked.at) >= w.timeout
}

func (w *watchdog) lossy(s watchSample) bool {
	first := w.ticks[0]
	if len(w.ticks) <= watchTicks || s.lostPackets < first.lostPackets+enoughLost || s.lostBytes < first.lostBytes {
		return false // lost ones can become fewer again
	}
	lost, packets := s.lostBytes-first.lostBytes, s.lostPackets-first.lostPackets
	return 4*lost >= 3*(s.bytes-first.bytes) && lost/packets > minPacketSize*9/10
}

// fullSince is the least number of full packets among those sent since before.
func (s watchSample) fullSince(before watchSample) int {
	bytes, packets := int(s.bytes-before.bytes), int(s.packets-before.packets)
	return (bytes - ackSize*packets) / (maxPacketSize - ackSize)
}

// watched reports whether a connection of the socket may send packets for which there is a smaller
// size to go back to. On simulated networks a round trip can be the same to the nanosecond each
// time, so there it is watched only with large packets asked for.
func (c Config) watched(sock *socket) bool {
	if c.ProgressTimeout < 0 {
		return false
	}
	if sock.counted == nil {
		return c.PacketSize > safePacketSize
	}
	return !c.DisableMTUDiscovery || c.PacketSize == 0 || c.PacketSize > minPacketSize
}

func (c *Conn) watchSample() watchSample {
	q := c.ConnectionStats()
	return watchSample{
		at: time.Now(), rtt: [3]time.Duration{q.LatestRTT, q.SmoothedRTT, q.MeanDeviation},
		packets: q.PacketsSent, bytes: q.BytesSent, received: q.PacketsReceived,
		lostPackets: q.PacketsLost, lostBytes: q.BytesLost,
	}
}

// giveUp closes the connection for want of progress.
func (c *Conn) giveUp() {
	mtu := max(c.cfg.PacketSize, safePacketSize)
	if c.peer != nil {
		mtu = max(mtu, c.peer.mtu())
	}
	text := noProgressMessage(c.cfg.ProgressTimeout, mtu)
	c.cfg.Logger.Warn("connection closed: "+text, "conn", c.id, "role", c.role)
	_ = c.CloseWithError(CodeNoProgress, text) // it has ended by itself: fine
}
