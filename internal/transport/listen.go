package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// Listener accepts connections on one socket, which all of them share.
type Listener struct {
	cfg  Config
	quic *quic.Listener
	sock *socket
	addr *net.UDPAddr

	mu     sync.Mutex
	conns  map[*Conn]struct{} // accepted and not ended
	closed bool

	closeOnce sync.Once
	closeErr  error
}

// Listen opens a socket at addr ("127.0.0.1:0" takes a free port) and listens for connections.
func Listen(addr string, tlsConf *tls.Config, cfg Config) (*Listener, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if err := checkTLS(tlsConf); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	sock, err := openSocket("udp", addr, cfg)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	sock.shared = true
	l := &Listener{cfg: cfg, sock: sock, conns: make(map[*Conn]struct{})}
	if err := l.start(tlsConf); err != nil {
		_ = sock.close() // err is the cause
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

func (l *Listener) start(tlsConf *tls.Config) error {
	local, ok := l.sock.conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return fmt.Errorf("local address is a %T, want a UDP address", l.sock.conn.LocalAddr())
	}
	l.addr = local
	if err := l.cfg.checkPacketSize(local.IP); err != nil {
		return err
	}
	var err error
	if l.quic, err = l.sock.quic.Listen(tlsConf, l.cfg.quicConfig()); err != nil {
		return err
	}
	l.sock.settle(l.cfg)
	return nil
}

// Accept returns the next connection whose handshake is complete, blocking until there is one, ctx
// is done, or the listener is closed (then errors.Is(err, net.ErrClosed)). Call it in a loop that
// does nothing else: beyond 32 waiting connections quic-go refuses clients. The caller closes the
// connection.
//
// A connection that its client closed before the handshake was complete here is never handed out,
// although the client's Dial succeeded: a client is done with the handshake first.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	qc, err := l.quic.Accept(ctx)
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	// The lock makes sure that Close sees the connection or Accept sees that it is closed.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = qc.CloseWithError(CodeShutdown, "shutting down") // nobody will take it
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
	var p *peer
	if l.sock.counted != nil {
		p = l.sock.counted.peers.register(addrPort(qc.RemoteAddr()))
	}
	c := newConn(qc, l.sock, p, l.cfg, l.forget, nil)
	l.conns[c] = struct{}{}
	return c, nil
}

// forget is called by each connection's goroutine as its last act.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// Addr returns the address listened on, with the port that was given.
func (l *Listener) Addr() *net.UDPAddr { return l.addr }

// SocketInfo describes the socket.
func (l *Listener) SocketInfo() SocketInfo { return l.sock.info(nil) }

// StopAccepting is the first step of a drain: handshakes under way are refused, later ones get no
// answer, and established connections live on. Accept hands out what is waiting and then returns
// net.ErrClosed.
func (l *Listener) StopAccepting() error { return l.quic.Close() }

// Close stops accepting, closes the connections that are still open with CodeShutdown, waits for
// their goroutines, and closes the socket.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Listener) close() error {
	l.mu.Lock()
	l.closed = true
	open := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		open = append(open, c)
	}
	l.mu.Unlock()

	err := l.quic.Close()
	l.refuseWaiting()
	var stay time.Duration
	for _, c := range open {
		stay = max(stay, c.lingerTimeAfterClose())
	}
	linger(stay)
	return errors.Join(err, l.sock.close())
}

// refuseWaiting closes the connections that nobody accepted.
func (l *Listener) refuseWaiting() {
	for {
		qc, err := l.quic.Accept(context.Background())
		if err != nil {
			return // the queue is empty and closed
		}
		_ = qc.CloseWithError(CodeShutdown, "shutting down") // there is nobody to tell
	}
}

// lingerTimeAfterClose closes an accepted connection and returns how long the socket should stay.
func (c *Conn) lingerTimeAfterClose() time.Duration {
	_ = c.Close(CodeShutdown, "shutting down") // an accepted connection has no socket to fail on
	return c.lingerTime()
}

// checkTLS refuses what would only fail in the handshake, with less to say.
func checkTLS(conf *tls.Config) error {
	if conf == nil {
		return errors.New("no TLS configuration: QUIC needs one")
	}
	if len(conf.NextProtos) > 0 {
		return fmt.Errorf("TLS configuration offers the protocols %q: Felix uses no ALPN", conf.NextProtos)
	}
	return nil
}
