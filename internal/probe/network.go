package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"felix/internal/transport"
)

// dialer opens streams to one listener.
type dialer struct {
	cfg  Config
	quic []*transport.Conn // by turn; nil: not dialled yet

	mu   sync.Mutex
	open []stream // over TCP: each is a connection to close
}

func newDialer(cfg Config) *dialer {
	d := &dialer{cfg: cfg}
	if cfg.Network == QUIC {
		d.quic = make([]*transport.Conn, max(cfg.Conns, 1))
	}
	return d
}

// stream opens the i-th stream and greets. One goroutine at a time.
func (d *dialer) stream(ctx context.Context, i int, h hello) (stream, error) {
	s, err := d.dial(ctx, i)
	if err != nil {
		return nil, err
	}
	if err := greet(ctx, s, h); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

func (d *dialer) dial(ctx context.Context, i int) (stream, error) {
	if d.cfg.Network != QUIC {
		return d.dialTCP(ctx)
	}
	conn := &d.quic[i%len(d.quic)]
	if *conn == nil {
		c, err := transport.Dial(ctx, d.cfg.Addr, d.cfg.TLS, d.cfg.Transport)
		if err != nil {
			return nil, err
		}
		*conn = c
	}
	s, err := (*conn).OpenStreamSync(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	return quicStream{s, *conn}, nil
}

func (d *dialer) dialTCP(ctx context.Context) (stream, error) {
	var nd net.Dialer
	c, err := nd.DialContext(ctx, "tcp", d.cfg.Addr)
	if err != nil {
		return nil, err
	}
	s := tcpStream{c.(*net.TCPConn)} // what a Dialer makes of "tcp"
	if d.cfg.Network == TLS {
		secure := tls.Client(c, d.cfg.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("dial %s: %w", d.cfg.Addr, err), c.Close())
		}
		s = tcpStream{secure}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, s)
	return s, nil
}

// close ends every stream and connection.
func (d *dialer) close() {
	for _, c := range d.quic {
		if c != nil {
			_ = c.Close(transport.CodeDone, "done") // it may have ended already: as wanted
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.open {
		s.cancel()
	}
}

// listener accepts streams and hands each to a handler in a goroutine of its own.
type listener struct {
	handle func(stream)
	quic   *transport.Listener
	tcp    net.Listener
	tls    *tls.Config // nil: none

	once     sync.Once
	closeErr error

	wg     sync.WaitGroup // of accept loops and handlers
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{} // over TCP
}

// listen begins to accept. close ends it.
func listen(cfg Config, handle func(stream)) (*listener, error) {
	l := &listener{handle: handle, open: map[net.Conn]struct{}{}}
	var err error
	if cfg.Network == QUIC {
		if l.quic, err = transport.Listen(cfg.Addr, cfg.TLS, cfg.Transport); err != nil {
			return nil, err
		}
		l.wg.Go(l.acceptQUIC)
		return l, nil
	}
	if l.tcp, err = net.Listen("tcp", cfg.Addr); err != nil {
		return nil, err
	}
	if cfg.Network == TLS {
		l.tls = cfg.TLS
	}
	l.wg.Go(l.acceptTCP)
	return l, nil
}

func (l *listener) addr() string {
	if l.quic != nil {
		return l.quic.Addr().String()
	}
	return l.tcp.Addr().String()
}

func (l *listener) acceptQUIC() {
	for {
		c, err := l.quic.Accept(context.Background())
		if err != nil {
			return // closed
		}
		l.wg.Go(func() {
			for {
				s, err := c.AcceptStream(context.Background())
				if err != nil {
					return // the connection has ended
				}
				l.wg.Go(func() { l.handle(quicStream{s, c}) })
			}
		})
	}
}

func (l *listener) acceptTCP() {
	for {
		c, err := l.tcp.Accept()
		if err != nil {
			return // closed
		}
		l.wg.Go(func() { l.serveTCP(c.(*net.TCPConn)) })
	}
}

func (l *listener) serveTCP(c *net.TCPConn) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = c.Close() // nobody will take it
		return
	}
	l.open[c] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
		_ = c.Close() // a second time after cancel
	}()
	s := tcpStream{c}
	if l.tls != nil {
		secure := tls.Server(c, l.tls)
		ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
		defer cancel()
		if secure.HandshakeContext(ctx) != nil {
			return // a stranger, or one that does not trust us: it knows
		}
		s = tcpStream{secure}
	}
	l.handle(s)
}

// close stops accepting, ends every connection and waits for the handlers. A second call returns what the first did.
func (l *listener) close() error {
	l.once.Do(func() {
		if l.quic != nil {
			l.closeErr = l.quic.Close()
		} else {
			l.closeErr = l.tcp.Close()
			l.mu.Lock()
			l.closed = true
			for c := range l.open {
				_ = c.Close() // its handler notices
			}
			l.mu.Unlock()
		}
		l.wg.Wait()
	})
	return l.closeErr
}
