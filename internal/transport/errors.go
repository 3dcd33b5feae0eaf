package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

// ApplicationErrorCode is the code a connection is closed with.
type ApplicationErrorCode = quic.ApplicationErrorCode

// The codes Felix closes connections with.
const (
	CodeDone     ApplicationErrorCode = 0 // finished, nothing is wrong
	CodeProtocol ApplicationErrorCode = 1 // the peer broke the protocol
	CodeAuth     ApplicationErrorCode = 2 // not authenticated or not permitted
	CodeLimit    ApplicationErrorCode = 3 // a limit was exceeded
	CodeShutdown ApplicationErrorCode = 4 // this end is shutting down
	// CodeNoProgress (5) is the watchdog's: full packets did not arrive.
)

var (
	// ErrUntrusted means that the server's certificate is not one that the client trusts.
	ErrUntrusted = errors.New("the server's certificate is not trusted")
	// ErrNoAnswer means that the handshake did not complete in time.
	ErrNoAnswer = errors.New("no answer")
	// ErrRefused means that nobody listens at the address, or that the server refuses connections.
	ErrRefused = errors.New("connection refused")
)

// errDialTimeout is the cause of the context that bounds a handshake.
var errDialTimeout = errors.New("handshake timeout")

// dialError says in one line why a handshake failed. heard tells whether anything came back.
func dialError(addr string, err error, timeout time.Duration, heard bool) error {
	var (
		idle      *quic.IdleTimeoutError
		handshake *quic.HandshakeTimeoutError
		transport *quic.TransportError
	)
	switch {
	case errors.Is(err, errDialTimeout), errors.As(err, &idle), errors.As(err, &handshake):
		if heard {
			return fmt.Errorf("dial %s: %w: the handshake did not complete within %v", addr, ErrNoAnswer, timeout)
		}
		return fmt.Errorf("dial %s: %w within %v: nothing came back from that address", addr, ErrNoAnswer, timeout)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("dial %s: %w", addr, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("dial %s: %w: nobody listens there", addr, ErrRefused)
	}
	if cause := untrusted(err); cause != nil {
		return fmt.Errorf("dial %s: %w: %w", addr, ErrUntrusted, cause)
	}
	if errors.As(err, &transport) && transport.Remote && transport.ErrorCode == quic.ConnectionRefused {
		return fmt.Errorf("dial %s: %w by the server", addr, ErrRefused)
	}
	return fmt.Errorf("dial %s: %w", addr, err)
}

// untrusted returns why a certificate was refused, without the layers around it, or nil.
func untrusted(err error) error {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		pin          *PinError
	)
	switch {
	case errors.As(err, &pin):
		return pin
	case errors.As(err, &verification):
		return verification.Err
	case errors.As(err, &authority):
		return authority
	case errors.As(err, &hostname):
		return hostname
	case errors.As(err, &invalid):
		return invalid
	}
	return nil
}
