package broker

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

const (
	// authTimeout is how long a stream may take from its first byte to a whole auth frame.
	authTimeout = 5 * time.Second
	// authFrameBytes bounds a frame before authentication: room for a token with many permissions,
	// no room to make the broker hold megabytes for strangers.
	authFrameBytes = 32 << 10
	// replyBytes is how much of replies is collected before they are written although more
	// requests are buffered.
	replyBytes = 16 << 10
	// finishTimeout is how long the broker waits for the client's end after it has finished a
	// stream of its own accord.
	finishTimeout = 5 * time.Second
	// resetLinger is how long a reset waits for replies that were owed.
	resetLinger = 200 * time.Millisecond
)

// receiver is the receiving half of either kind of QUIC stream.
type receiver interface {
	io.Reader
	CancelRead(quic.StreamErrorCode)
	SetReadDeadline(time.Time) error
}

// A clientStream is one QUIC stream that a client opened: a control or publish stream, or, with
// send nil, a publish-only one. One goroutine reads it, executes what it reads as far as that does
// not wait, and writes the replies, so that neither a publish nor its ack costs a hand-over when
// the broker is idle; replies are joined into one write for as long as further requests are
// buffered.
type clientStream struct {
	conn *conn
	recv receiver
	send *quic.Stream // nil: publish-only
	in   frameReader

	replies replies
	scratch []byte // JSON bodies

	grant   *Grant
	offsets bool // the client takes event frames with offsets

	routes    map[wire.Scope]*stream // that this stream may publish to, as found so far
	admission admission
}

func newClientStream(c *conn, recv receiver, send *quic.Stream) *clientStream {
	s := &clientStream{conn: c, recv: recv, send: send}
	cfg := &c.broker.cfg
	s.replies.ackWait = cfg.AckWait
	s.replies.changed.L = &s.replies.mu
	if send != nil {
		s.replies.send = send
	}
	s.in = frameReader{src: recv, maxBytes: min(authFrameBytes, cfg.MaxFrameBytes), counters: &c.readCounts, beforeRead: s.replies.flush}
	if cfg.AckOnCommit && send != nil {
		s.replies.commit, s.replies.attended = true, true
		s.in.afterRead = s.replies.attend
	}
	s.admission.admitted = make(chan struct{}, 1)
	return s
}

// The ways in which a stream ends other than by the client's end or the connection's.
type (
	// refusal ends the stream after an error message, or a publish_error if there is a request id.
	// On a publish-only stream nobody reads it, and the stream is reset.
	refusal struct {
		code    transport.ApplicationErrorCode
		message string
		request *uint64
	}
	// violation resets both directions: there is no telling what the client meant.
	violation struct {
		code transport.ApplicationErrorCode
		err  error
	}
)

func (r *refusal) Error() string   { return r.message }
func (v *violation) Error() string { return v.err.Error() }

var (
	// errFinished: the broker has answered what ends a stream by the protocol.
	errFinished = errors.New("finished")
	// errGone: the connection ended while a publish waited.
	errGone = errors.New("connection ended")
	// errReply: a reply could not be written.
	errReply = errors.New("client stopped reading replies")
)

func protocolError(err error) error { return &violation{transport.CodeProtocol, err} }

func (s *clientStream) serve() {
	defer s.conn.readers.done()
	defer s.conn.removeStream(s)
	defer s.in.close()
	if s.replies.commit {
		// What waits for replies shall not outwait the connection.
		defer context.AfterFunc(s.conn.quic.Context(), s.replies.end)()
		defer s.replies.end()
	}
	s.conn.addStream(s)
	s.conn.setReadDeadline(s, time.Now().Add(authTimeout))
	err := s.authenticate()
	if err == nil {
		s.conn.setReadDeadline(s, time.Time{})
		s.in.maxBytes = s.conn.broker.cfg.MaxFrameBytes
		err = s.requests()
	}
	s.end(err)
}

// requests executes frames until the stream ends; the error is never nil.
func (s *clientStream) requests() error {
	for {
		h, err := s.in.header()
		if err != nil {
			return headerError(err)
		}
		kind, _ := h.Flags.Kind()
		switch {
		case kind == wire.KindPublish || kind == wire.KindPublishAcked:
			err = s.publishBinary(h)
		case kind == wire.KindJSON:
			err = s.message(h)
		default:
			// The bits say what the body is; without knowing them it can only be passed over.
			if err = s.in.discard(h.Length); err != nil {
				break
			}
			if s.send == nil {
				err = protocolError(wire.ErrUnsupportedFlags)
			} else {
				s.replies.message(wire.Error{Message: "unsupported frame flags"})
			}
		}
		if err == nil && s.replies.full() {
			err = s.replies.flush()
			s.replies.attend()
		}
		if err != nil {
			return err
		}
	}
}

// headerError makes violations of bad headers: nothing says where the next frame begins.
func headerError(err error) error {
	switch {
	case errors.Is(err, wire.ErrFrameTooLarge):
		return &violation{transport.CodeLimit, err}
	case errors.Is(err, wire.ErrMagic), errors.Is(err, wire.ErrVersion):
		return protocolError(err)
	}
	return err
}

// authenticate reads the first frame, which must be auth, and answers it.
func (s *clientStream) authenticate() error {
	required := &refusal{code: transport.CodeAuth, message: "auth required"}
	h, err := s.in.header()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && !s.conn.isDraining() {
			s.authFailed("", errors.New("no auth frame in time"))
			return required
		}
		return headerError(err)
	}
	if h.Flags != 0 {
		s.authFailed("", errors.New("first frame is no auth"))
		return required
	}
	m, err := s.readMessage(h)
	switch {
	case errors.Is(err, wire.ErrUnknownType):
		s.authFailed("", errors.New("first frame is no auth"))
		return required
	case errors.Is(err, os.ErrDeadlineExceeded) && !s.conn.isDraining():
		s.authFailed("", errors.New("no auth frame in time"))
		return required
	case err != nil:
		return err
	}
	auth, ok := m.(wire.Auth)
	if !ok {
		s.authFailed("", errors.New("first frame is no auth"))
		return required
	}
	grant, err := s.conn.broker.cfg.Verifier.Verify(auth.TenantID, auth.Token)
	if err != nil {
		s.authFailed(auth.TenantID, err)
		return &refusal{code: transport.CodeAuth, message: "auth failed"}
	}
	s.grant = grant
	switch {
	case s.send == nil:
	case auth.ClientFlags == nil:
		s.replies.message(wire.OK{})
	default:
		s.replies.message(wire.AuthOK{ServerFlags: wire.KnownFlags})
	}
	s.offsets = auth.ClientFlags != nil && auth.ClientFlags.Has(wire.FlagEventOffsets)
	return nil
}

func (s *clientStream) authFailed(tenant string, err error) {
	s.conn.broker.authFails.Add(1)
	s.conn.broker.cfg.Logger.Warn("authentication refused", "remote", s.conn.remote, "tenant", tenant, "cause", err)
}

// readMessage reads and parses a JSON body. A body that does not parse is a violation, but for an
// unknown type, which is returned as it is.
func (s *clientStream) readMessage(h wire.Header) (wire.Message, error) {
	if cap(s.scratch) < h.Length {
		s.scratch = make([]byte, h.Length)
	}
	body := s.scratch[:h.Length]
	if cap(s.scratch) > 4*largeReadBuffer {
		s.scratch = nil // one large message does not stay with the stream
	}
	if err := s.in.body(body); err != nil {
		return nil, err
	}
	m, err := wire.ParseMessage(body)
	if err != nil && !errors.Is(err, wire.ErrUnknownType) {
		err = protocolError(err)
	}
	return m, err
}

// message executes one JSON message.
func (s *clientStream) message(h wire.Header) error {
	m, err := s.readMessage(h)
	if err != nil && !errors.Is(err, wire.ErrUnknownType) {
		return err
	}
	switch m := m.(type) {
	case wire.Publish:
		return s.publishJSON(m.Scope, [][]byte{m.Payload}, m.RequestID, m.Ack)
	case wire.PublishMany:
		return s.publishJSON(m.Scope, m.Payloads, m.RequestID, m.Ack)
	}
	if s.send != nil {
		switch m := m.(type) {
		case wire.Subscribe:
			return s.subscribe(m)
		case wire.CachePut:
			return s.cachePut(m)
		case wire.CacheGet:
			return s.cacheGet(m)
		case wire.Auth:
			return &refusal{code: transport.CodeProtocol, message: "auth already established"}
		}
	}
	return &refusal{code: transport.CodeProtocol, message: "unexpected message type"}
}

// allowed is nil or the refusal of an action on a scope by the stream's grant.
func (s *clientStream) allowed(action Action, scope wire.Scope) *refusal {
	switch {
	case scope.Tenant != s.grant.Tenant():
		return &refusal{code: transport.CodeAuth, message: "tenant mismatch"}
	case !s.grant.Allows(action, scope):
		return &refusal{code: transport.CodeAuth, message: "forbidden"}
	}
	return nil
}

func streamNotFound(scope wire.Scope) string {
	return "stream not found: tenant=" + scope.Tenant + " namespace=" + scope.Namespace + " stream=" + scope.Stream
}

// subscribe answers one subscribe request. Only when `subscribed` has been handed to QUIC does the
// feeder start, so that no replayed byte leaves before it.
func (s *clientStream) subscribe(m wire.Subscribe) error {
	b := s.conn.broker
	if r := s.allowed(ActionSubscribe, m.Scope); r != nil {
		b.refused.Add(1)
		return r
	}
	// What is owed before may take time to be known; a subscription that is set up meanwhile would
	// fill its queue.
	if _, err := s.replies.drain(); err != nil {
		return err
	}
	st := b.streams[m.Scope]
	if st == nil {
		b.refused.Add(1)
		s.replies.message(wire.Error{Message: streamNotFound(m.Scope)})
		return nil
	}
	sub, err := s.conn.subscribe(st, m.SubscriptionID, m.Start, s.offsets)
	if err != nil {
		b.refused.Add(1)
		var cursor *cursorError
		if errors.As(err, &cursor) {
			s.replies.message(wire.SubscribeCursorError{Reason: cursor.reason, Requested: cursor.requested, Available: cursor.available})
		} else {
			s.replies.message(wire.Error{Message: err.Error()})
		}
		return nil
	}
	b.accepted.Add(1)
	s.replies.message(wire.Subscribed{SubscriptionID: sub.id})
	_, err = s.replies.drain()
	if err != nil {
		sub.close()
	}
	s.conn.start(sub)
	return err
}

// end ends both directions as the cause demands. All that was owed is written first.
func (s *clientStream) end(cause error) {
	var (
		r *refusal
		v *violation
	)
	switch {
	case errors.Is(cause, io.EOF):
		// The client's end. Ours tells it that everything before was read.
		s.finish()
	case errors.Is(cause, errFinished):
		s.finish()
		s.awaitEnd()
	case errors.As(cause, &r):
		s.refuse(r)
	case errors.As(cause, &v):
		s.log(cause)
		s.reset(v.code)
	case errors.Is(cause, io.ErrUnexpectedEOF):
		s.log(cause)
		s.reset(transport.CodeProtocol)
	case errors.Is(cause, os.ErrDeadlineExceeded):
		// Shutdown. The sending side stays open until the connection closes: its end would say
		// that all of the client's stream was read.
		_, _ = s.replies.drain() // if the client does not take them, there is nobody to tell
		s.recv.CancelRead(quic.StreamErrorCode(transport.CodeShutdown))
	default:
		s.reset(transport.CodeDone)
	}
}

func (s *clientStream) log(cause error) {
	s.conn.broker.cfg.Logger.Debug("stream reset", "remote", s.conn.remote, "cause", cause)
}

func (s *clientStream) finish() {
	if s.send == nil {
		return
	}
	if _, err := s.replies.drain(); err != nil {
		s.send.CancelWrite(quic.StreamErrorCode(transport.CodeDone))
		return
	}
	s.send.Close()
}

func (s *clientStream) refuse(r *refusal) {
	if r.request != nil {
		s.replies.message(wire.PublishError{RequestID: *r.request, Message: r.message})
	} else {
		s.replies.message(wire.Error{Message: r.message})
	}
	s.recv.CancelRead(quic.StreamErrorCode(r.code))
	s.finish()
}

func (s *clientStream) reset(code transport.ApplicationErrorCode) {
	s.recv.CancelRead(quic.StreamErrorCode(code))
	if s.send == nil {
		return
	}
	if had, err := s.replies.drain(); had && err == nil {
		// A reset overtakes what was written just before, and the peer throws away what it has
		// not read. The requests before the bad one were good: their replies get a moment.
		select {
		case <-time.After(resetLinger):
		case <-s.conn.gone:
		}
	}
	s.send.CancelWrite(quic.StreamErrorCode(code))
}

// awaitEnd reads the client's end, which comes of itself. A client that sends on instead is
// stopped.
func (s *clientStream) awaitEnd() {
	s.conn.setReadDeadline(s, time.Now().Add(finishTimeout))
	if err := s.in.fill(1); !errors.Is(err, io.EOF) {
		s.recv.CancelRead(quic.StreamErrorCode(transport.CodeDone))
	}
}
