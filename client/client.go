package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"felix/internal/transport"
)

var errClientClosed = fmt.Errorf("client: %w", net.ErrClosed)

// Client is an identity towards one broker. Its methods may be called from several goroutines.
type Client struct {
	cfg    Config
	events *eventPool

	mu         sync.Mutex
	done       bool
	spare      *spareConn // what Dial opened, until the first need takes it
	publishers map[*Publisher]struct{}

	closeOnce sync.Once
	closeErr  error
}

// spareConn is a connection with one authenticated stream that nothing uses yet.
type spareConn struct {
	conn   *transport.Conn
	stream *authStream
}

// Dial opens and authenticates one connection, so that a wrong address, certificate or token
// fails here, as ErrUnreachable, ErrCertificate, ErrHandshake or ErrAuth. That connection becomes
// the first one of the first publisher pool or of the event pool; all others open when they are
// needed. Without a deadline in ctx the transport's handshake timeout and 5 s for the
// authentication bound it.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("client configuration: %w", err)
	}
	c := &Client{cfg: cfg, publishers: map[*Publisher]struct{}{}}
	c.events = newEventPool(c)
	conn, stream, err := c.dialConn(ctx, "client")
	if err != nil {
		return nil, err
	}
	c.spare = &spareConn{conn, stream}
	return c, nil
}

// takeConn returns the connection that Dial opened, if it is still unused and alive, or a new one.
func (c *Client) takeConn(ctx context.Context, role string) (*transport.Conn, *authStream, error) {
	c.mu.Lock()
	s := c.spare
	c.spare = nil
	c.mu.Unlock()
	if s != nil {
		if s.conn.Context().Err() == nil {
			return s.conn, s.stream, nil
		}
		s.conn.Close(transport.CodeDone, "") // it is gone already; this frees its socket
	}
	return c.dialConn(ctx, role)
}

// Close closes the publishers, as Publisher.Close within ctx, then the subscriptions and the
// connections. It returns what the publishers could not confirm. Every goroutine of the Client
// has ended when it returns. A second call waits for the first and returns the same.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.mu.Lock()
		c.done = true
		spare := c.spare
		c.spare = nil
		var publishers []*Publisher
		for p := range c.publishers {
			publishers = append(publishers, p)
		}
		c.mu.Unlock()

		errs := make([]error, len(publishers))
		var wg sync.WaitGroup
		for i, p := range publishers {
			wg.Go(func() { errs[i] = p.Close(ctx) })
		}
		wg.Go(c.events.close)
		if spare != nil {
			closeConns([]*transport.Conn{spare.conn})
		}
		wg.Wait()
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

func (c *Client) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// addPublisher reports false if the Client is closed already.
func (c *Client) addPublisher(p *Publisher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	c.publishers[p] = struct{}{}
	return true
}

func (c *Client) removePublisher(p *Publisher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.publishers, p)
}
