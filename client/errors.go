package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// What Dial, NewPublisher and Subscribe can fail with, for errors.Is. The cause stays in the
// chain.
var (
	// ErrUnreachable: nobody answered at the address within the time given.
	ErrUnreachable = errors.New("broker unreachable")
	// ErrCertificate: the broker's certificate is not trusted, or is for another name.
	ErrCertificate = errors.New("broker's certificate not trusted")
	// ErrHandshake: the peer answered but refused the QUIC or TLS handshake.
	ErrHandshake = errors.New("handshake refused by the peer")
	// ErrAuth: the broker does not accept the tenant and token. The error is an *AuthError.
	ErrAuth = errors.New("authentication failed")
	// ErrConnectionLost: a connection that worked has ended, and not by Close.
	ErrConnectionLost = errors.New("connection lost")
)

// AuthError is the broker's refusal of a tenant and token. It is ErrAuth.
type AuthError struct {
	Tenant  string
	Message string // the broker's words
}

func (e *AuthError) Error() string {
	return fmt.Sprintf("tenant %s: %v: %s", e.Tenant, ErrAuth, e.Message)
}

// Is reports whether target is ErrAuth.
func (e *AuthError) Is(target error) bool { return target == ErrAuth }

// BrokerError is an `error` message of the broker in answer to a request.
type BrokerError struct{ Message string }

func (e *BrokerError) Error() string { return e.Message }

// CursorError is the broker's answer to a start position that it cannot serve.
type CursorError struct {
	Reason    string // "too_old" or "in_future"
	Requested uint64 // the offset asked for
	Available uint64 // the nearest offset that the broker can serve
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("start offset %d is %s: available is %d", e.Requested, e.Reason, e.Available)
}

// PublishError is a negative ack: the broker refused this publish, and only this one.
type PublishError struct{ Message string }

func (e *PublishError) Error() string { return "publish refused: " + e.Message }

// FailCause names why a worker ended. Its text is the key in PublisherStats.Failed.
type FailCause string

const (
	// CauseTimeout: an ack did not come within Config.AckTimeout.
	CauseTimeout FailCause = "ack_timeout"
	// CauseDecode: what the broker answered is not an ack.
	CauseDecode FailCause = "ack_decode"
	// CauseOrder: an ack came for another request than the oldest outstanding one.
	CauseOrder FailCause = "ack_order"
	// CauseBroker: the broker sent an `error`, reset the stream or ended it too early.
	CauseBroker FailCause = "broker_ended"
	// CauseConnection: the connection was lost.
	CauseConnection FailCause = "connection_lost"
	// CauseClosed: Close ran out of time.
	CauseClosed FailCause = "closed"
)

// WorkerError is why a publish worker ended. Everything that was queued or outstanding there
// fails with it, and so does every later Publish to that worker.
type WorkerError struct {
	Worker int // index in the pool
	Cause  FailCause
	Err    error
}

func (e *WorkerError) Error() string {
	return fmt.Sprintf("publish worker %d ended (%s): %v", e.Worker, e.Cause, e.Err)
}

func (e *WorkerError) Unwrap() error { return e.Err }

// UnconfirmedError is what Publisher.Close could not confirm: batches that were accepted by
// Publish but neither acked or refused nor, for unacked ones, known to be read by the broker.
type UnconfirmedError struct {
	Batches, Messages uint64
	Cause             error // the first reason known; never nil
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%d batches (%d messages) not confirmed: %v", e.Batches, e.Messages, e.Cause)
}

func (e *UnconfirmedError) Unwrap() error { return e.Cause }

// ResetError says that the broker ended a subscription by resetting its event stream.
type ResetError struct {
	SubscriptionID uint64
	Scope          wire.Scope
	Code           uint64 // application error code, transport.CodeDone …
}

func (e *ResetError) Error() string {
	return fmt.Sprintf("subscription %d of %s: ended by the broker (%s)", e.SubscriptionID, e.Scope, codeName(e.Code))
}

// lostError hides net.ErrClosed in the errors of quic-go, so that errors.Is(err, net.ErrClosed)
// means "closed by this program" throughout the package.
type lostError struct{ cause error }

func (e *lostError) Error() string { return fmt.Sprintf("%v: %v", ErrConnectionLost, e.cause) }

func (e *lostError) Is(target error) bool {
	return target == ErrConnectionLost || target != net.ErrClosed && errors.Is(e.cause, target)
}

func (e *lostError) As(target any) bool { return errors.As(e.cause, target) }

// isConnectionError reports whether err says that the whole connection is gone.
func isConnectionError(err error) bool {
	return errors.As(err, new(*quic.ApplicationError)) || errors.As(err, new(*quic.TransportError)) ||
		errors.As(err, new(*quic.IdleTimeoutError)) || errors.As(err, new(*quic.StatelessResetError)) ||
		errors.Is(err, net.ErrClosed)
}

// kindError adds a sentinel to an error that already says everything in words.
type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// dialError gives an error of transport.Dial its sentinel.
func dialError(err error) error {
	var te *quic.TransportError
	kind := ErrUnreachable
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, transport.ErrUntrusted):
		kind = ErrCertificate
	case errors.As(err, &te) && te.ErrorCode.IsCryptoError(),
		errors.As(err, new(*quic.ApplicationError)), errors.As(err, new(*quic.VersionNegotiationError)):
		kind = ErrHandshake
	}
	return &kindError{kind, err}
}

// authError explains a failed exchange of auth and its reply.
func authError(tenant string, err error) error {
	var ae *quic.ApplicationError
	switch {
	case errors.As(err, &ae) && ae.Remote && uint64(ae.ErrorCode) == uint64(transport.CodeAuth):
		msg := ae.ErrorMessage
		if msg == "" {
			msg = "connection closed"
		}
		return &AuthError{Tenant: tenant, Message: msg}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: no answer to auth", ErrUnreachable)
	case isConnectionError(err):
		return &lostError{err}
	}
	return err
}

func codeName(code uint64) string {
	switch code {
	case uint64(transport.CodeDone):
		return "done"
	case uint64(transport.CodeProtocol):
		return "protocol error"
	case uint64(transport.CodeAuth):
		return "not authorized"
	case uint64(transport.CodeLimit):
		return "limit exceeded"
	case uint64(transport.CodeShutdown):
		return "shutting down"
	}
	return fmt.Sprintf("code %d", code)
}
