package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
)

// stream is a byte stream each way between two parties: a QUIC stream, or a connection over TCP.
type stream interface {
	io.Reader
	io.Writer
	// closeWrite says that nothing follows; the other direction lives on.
	closeWrite() error
	// cancel ends both directions at once. What is blocked in them fails.
	cancel()
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	localAddr() string
	connID() string
}

type quicStream struct {
	*quic.Stream
	conn *transport.Conn
}

func (s quicStream) closeWrite() error { return s.Close() }
func (s quicStream) localAddr() string { return s.conn.LocalAddr().String() }
func (s quicStream) connID() string    { return s.conn.ID() }

func (s quicStream) cancel() {
	s.CancelRead(quic.StreamErrorCode(transport.CodeDone))
	s.CancelWrite(quic.StreamErrorCode(transport.CodeDone))
}

// halfCloser is what *net.TCPConn and *tls.Conn have in common.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

type tcpStream struct{ halfCloser }

func (s tcpStream) closeWrite() error { return s.CloseWrite() }
func (s tcpStream) cancel()           { _ = s.Close() } // whoever uses it gets the error
func (s tcpStream) localAddr() string { return s.LocalAddr().String() }
func (s tcpStream) connID() string    { return s.LocalAddr().String() }

// party says who opened a stream.
type party byte

const (
	fromPublisher  party = 1
	fromSubscriber party = 2
)

// hello is the first thing on every stream, from whoever dialled: who it is and which logical stream this is about. The
// other side answers with one byte when it is ready, so that nothing is published into the void.
type hello struct {
	from   party
	stream uint16
}

const (
	helloMagic = 0x46505242 // "FPRB"
	helloLen   = 7
	readyByte  = 'k'
)

func (h hello) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, helloMagic)
	dst = append(dst, byte(h.from))
	return binary.BigEndian.AppendUint16(dst, h.stream)
}

func parseHello(b []byte) (hello, error) {
	h := hello{from: party(b[4]), stream: binary.BigEndian.Uint16(b[5:])}
	if binary.BigEndian.Uint32(b) != helloMagic || h.from != fromPublisher && h.from != fromSubscriber {
		return h, errors.New("its first bytes are no hello of a probe")
	}
	return h, nil
}

// greet sends the hello and waits for the answer.
func greet(ctx context.Context, s stream, h hello) error {
	stop := interrupt(ctx, s.SetReadDeadline)
	defer stop()
	if _, err := s.Write(h.append(nil)); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	var ready [1]byte
	if _, err := io.ReadFull(s, ready[:]); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("hello: %w", err)
	}
	if ready[0] != readyByte {
		return errors.New("hello: what answers is no probe")
	}
	return nil
}

// readHello reads the hello of a stream that was accepted.
func readHello(s stream, streams int) (hello, error) {
	if err := s.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return hello{}, err
	}
	var b [helloLen]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return hello{}, fmt.Errorf("hello: %w", err)
	}
	h, err := parseHello(b[:])
	if err != nil {
		return h, err
	}
	if int(h.stream) >= streams {
		return h, fmt.Errorf("hello: stream %d of %d", h.stream, streams)
	}
	return h, s.SetReadDeadline(time.Time{})
}

func ready(s stream) error {
	_, err := s.Write([]byte{readyByte})
	return err
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// interrupt lets the end of ctx end a blocked read or write, by way of its deadline. stop undoes it and returns when
// nothing of it can act any more.
func interrupt(ctx context.Context, setDeadline func(time.Time) error) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		_ = setDeadline(past) // of a stream that has ended it has no effect
		close(done)
	})
	return func() {
		if !cancel() {
			<-done
		}
		_ = setDeadline(time.Time{})
	}
}

// watch is an interrupt that stays between calls: callers mostly pass the same context again. One goroutine at a time
// may use it.
type watch struct {
	setDeadline func(time.Time) error
	done        <-chan struct{} // of the context watched; nil: none
	stop        func()
}

func (w *watch) on(ctx context.Context) {
	if ctx.Done() == w.done {
		return
	}
	w.off()
	if w.done = ctx.Done(); w.done != nil {
		w.stop = interrupt(ctx, w.setDeadline)
	}
}

func (w *watch) off() {
	if w.stop != nil {
		w.stop()
	}
	w.done, w.stop = nil, nil
}
