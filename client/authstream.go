package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// authTimeout bounds opening and authenticating one stream: one round trip and a signature check.
const authTimeout = 5 * time.Second

// authStream is a bidirectional stream whose first exchange is done.
type authStream struct {
	stream *quic.Stream
	in     *frameReader
	flags  wire.Flags // what the broker advertised
}

// dialConn opens a connection and authenticates its first stream. The role is for connections
// whose configuration names none.
func (c *Client) dialConn(ctx context.Context, role string) (*transport.Conn, *authStream, error) {
	tc := c.cfg.Transport
	if tc.Role == "" {
		tc.Role = role
	}
	conn, err := transport.Dial(ctx, c.cfg.Addr, c.cfg.TLS, tc)
	if err != nil {
		return nil, nil, dialError(err)
	}
	s, err := c.openStream(ctx, conn)
	if err != nil {
		conn.Close(transport.CodeDone, "")
		return nil, nil, fmt.Errorf("%s: %w", c.cfg.Addr, err)
	}
	return conn, s, nil
}

// openStream opens a bidirectional stream and authenticates it.
func (c *Client) openStream(ctx context.Context, conn *transport.Conn) (*authStream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, authTimeout, fmt.Errorf("%w: no answer to auth within %v", ErrUnreachable, authTimeout))
	defer cancel()
	stream, err := conn.OpenStreamSync(ctx)
	if err == nil {
		var s *authStream
		if s, err = c.authenticate(ctx, stream); err == nil {
			return s, nil
		}
		abandon(stream)
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) { // the caller's
		return nil, &kindError{ErrUnreachable, fmt.Errorf("no answer to auth: %w", cause)}
	} else if cause != nil {
		return nil, cause
	}
	return nil, authError(c.cfg.Tenant, err)
}

func (c *Client) authenticate(ctx context.Context, stream *quic.Stream) (*authStream, error) {
	s := &authStream{stream: stream, in: newFrameReader(stream, replyBuffer, c.cfg.MaxFrameBytes)}
	stop := interrupt(ctx, stream.SetDeadline)
	defer stop()
	offer := wire.KnownFlags
	frame := wire.AppendMessage(nil, wire.Auth{TenantID: c.cfg.Tenant, Token: c.cfg.Token, ClientFlags: &offer})
	if _, err := stream.Write(frame); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	m, err := s.reply()
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	switch m := m.(type) {
	case wire.AuthOK:
		s.flags = m.ServerFlags
	case wire.OK: // a broker that ignored the offer
		s.flags = wire.OriginalV1Flags
	case wire.Error:
		return nil, &AuthError{Tenant: c.cfg.Tenant, Message: m.Message}
	default:
		return nil, fmt.Errorf("auth: answered with %q", m.Type())
	}
	return s, nil
}

// reply reads one JSON message.
func (s *authStream) reply() (wire.Message, error) {
	h, body, err := s.in.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the broker ended the stream without an answer")
	}
	if err != nil {
		return nil, err
	}
	if h.Flags != 0 {
		return nil, fmt.Errorf("frame with flags %s in place of an answer", h.Flags)
	}
	return wire.ParseMessage(body)
}

// abandon gives a stream up in both directions. What the broker still wants to say on it is lost.
func abandon(s *quic.Stream) {
	s.CancelRead(quic.StreamErrorCode(transport.CodeDone))
	s.CancelWrite(quic.StreamErrorCode(transport.CodeDone))
}

// interrupt lets ctx end blocked reads or writes by way of a deadline. The returned function ends
// that and clears the deadline.
func interrupt(ctx context.Context, setDeadline func(time.Time) error) (stop func()) {
	fired := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		_ = setDeadline(time.Now()) // of a QUIC stream: cannot fail
		close(fired)
	})
	return func() {
		if !unwatch() {
			<-fired
			_ = setDeadline(time.Time{})
		}
	}
}

// closeConns closes connections side by side; nil ones are skipped.
func closeConns(conns []*transport.Conn) {
	var wg sync.WaitGroup
	for _, c := range conns {
		if c != nil {
			wg.Go(func() { c.Close(transport.CodeDone, "") })
		}
	}
	wg.Wait()
}
