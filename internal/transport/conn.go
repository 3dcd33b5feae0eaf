package transport

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// maxLinger bounds how long a closed socket is kept for the peer's sake.
const maxLinger = 250 * time.Millisecond

var connNumber atomic.Uint64

// Conn is a QUIC connection with its statistics. The methods of quic.Conn are used directly.
// Whoever dials or accepts it closes it.
type Conn struct {
	*quic.Conn

	id       string
	role     string
	remote   netip.AddrPort
	sock     *socket
	peer     *peer     // nil if the socket does not count
	timeline *timeline // nil without a Monitor
	cfg      Config
	forget   func(*Conn)  // of the listener, nil on a dialled connection
	release  func() error // gives the socket back; nil on an accepted connection
	pair     string

	done     chan struct{} // closed when watch returns
	closeErr error         // of the socket; read after done
}

// newConn takes over an established connection and starts its one goroutine, which ends with it.
// One of forget and release is set.
func newConn(qc *quic.Conn, sock *socket, p *peer, cfg Config, forget func(*Conn), release func() error) *Conn {
	c := &Conn{
		Conn:   qc,
		id:     fmt.Sprintf("c%d", connNumber.Add(1)),
		role:   cfg.Role,
		remote: addrPort(qc.RemoteAddr()),
		sock:   sock,
		peer:   p,
		cfg:    cfg,
		forget: forget,
		done:   make(chan struct{}),

		release: release,
		pair:    pairName(qc),
	}
	if p != nil {
		sock.counted.peers.attach(p, c)
	}
	if cfg.Monitor != nil {
		c.timeline = cfg.Monitor.open(c)
	}
	cfg.Logger.Debug("connection opened", "conn", c.id, "role", c.role, "local", qc.LocalAddr(), "remote", qc.RemoteAddr())
	go c.watch()
	return c
}

// pairName names the connection by the keys of its session, which only its two ends have.
func pairName(qc *quic.Conn) string {
	state := qc.ConnectionState().TLS
	name, err := state.ExportKeyingMaterial("EXPORTER-felix-connection-name", nil, 8)
	if err != nil {
		return "" // not with TLS 1.3
	}
	return hex.EncodeToString(name)
}

// bytesTaken counts what the connection took from its receive queue.
func (c *Conn) bytesTaken() int64 { return int64(c.ConnectionStats().BytesReceived) }

// ID returns the name of the connection in the statistics, unique in the process.
func (c *Conn) ID() string { return c.id }

// SocketInfo describes the socket under the connection.
func (c *Conn) SocketInfo() SocketInfo {
	gso := c.ConnectionState().GSO
	return c.sock.info(&gso)
}

// Close closes the connection with a code and a message for the peer and waits until its goroutine
// and, if it was dialled, its socket are closed too. Data that was written and not yet sent is
// lost. A connection that has ended already keeps its reason; Close then only waits.
//
// The socket of a dialled connection stays open for a few round trips (at most 250 ms), to repeat
// the closing packet if the peer goes on sending: a lost one would cost the peer its idle timeout.
func (c *Conn) Close(code ApplicationErrorCode, msg string) error {
	err := c.CloseWithError(code, msg)
	<-c.done
	if err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	if c.closeErr != nil {
		return fmt.Errorf("close connection's socket: %w", c.closeErr)
	}
	return nil
}

// watch samples the connection until it ends, then takes its last statistics and gives up what it
// holds, whoever ended it.
func (c *Conn) watch() {
	defer close(c.done)
	c.sampleUntilDone()
	reason := context.Cause(c.Context())
	if c.peer != nil {
		if m := c.peer.merge.Load(); m != nil {
			m.flush() // or the last statistics would lack it
		}
	}
	if c.timeline != nil {
		c.cfg.Monitor.close(c.timeline, c.Stats(), c.SocketInfo())
	}
	c.cfg.Logger.Debug("connection closed", "conn", c.id, "role", c.role, "reason", reason)
	if c.peer != nil {
		c.sock.counted.peers.unregister(c.remote, c.peer, c)
	}
	if c.forget != nil {
		c.forget(c)
		return
	}
	linger(c.lingerTime())
	c.closeErr = c.release()
}

// sampleUntilDone keeps the time line and watches the progress until the connection ends.
func (c *Conn) sampleUntilDone() {
	var (
		ended             = c.Context().Done()
		interval          time.Duration
		ticker            *time.Ticker
		sampling, looking <-chan time.Time // nil: never
		dog               *watchdog
	)
	if c.timeline != nil && c.timeline.interval > 0 {
		interval = c.timeline.interval
		ticker = time.NewTicker(interval)
		defer ticker.Stop()
		sampling = ticker.C
	}
	if c.cfg.watched(c.sock) {
		dog = newWatchdog(c.cfg.ProgressTimeout)
		looks := time.NewTicker(dog.interval())
		defer looks.Stop()
		looking = looks.C
	}
	for {
		select {
		case <-ended:
			return
		case <-looking:
			if dog.look(c.watchSample()) {
				c.giveUp()
				return
			}
		case <-sampling:
			if next := c.cfg.Monitor.add(c.timeline, c.Stats()); next != interval {
				interval = next
				ticker.Reset(interval)
			}
		}
	}
}

// lingerTime is three probe timeouts (RFC 9000, 10.2) if this end closed the connection, else 0.
func (c *Conn) lingerTime() time.Duration {
	var (
		app       *quic.ApplicationError
		transport *quic.TransportError
		reason    = context.Cause(c.Context())
	)
	local := errors.As(reason, &app) && !app.Remote || errors.As(reason, &transport) && !transport.Remote
	if !local {
		return 0
	}
	s := c.ConnectionStats()
	probe := s.SmoothedRTT + max(4*s.MeanDeviation, time.Millisecond)
	return min(3*probe, maxLinger)
}

func linger(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
