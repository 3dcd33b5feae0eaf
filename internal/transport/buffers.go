package transport

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

type bufferDirection uint8

const (
	sendBuffer bufferDirection = iota
	recvBuffer
)

func (d bufferDirection) String() string {
	if d == sendBuffer {
		return "send"
	}
	return "receive"
}

// buffer is one socket buffer: what was asked, and what is there.
type buffer struct {
	direction bufferDirection
	asked     int
	force     bool
	granted   int // -1 if it cannot be read
	warning   string
}

// openBuffer sets a buffer and reads it back. It never fails: a socket with a small buffer works,
// and the warning says what it lacks.
func openBuffer(conn *net.UDPConn, raw syscall.RawConn, d bufferDirection, asked int, force bool) buffer {
	b := buffer{direction: d, asked: asked, force: force, granted: -1}
	var forceErr error
	if force {
		forceErr = setBuffer(raw, d, asked, true)
	}
	var err error
	if !force || forceErr != nil {
		if d == sendBuffer {
			err = conn.SetWriteBuffer(asked)
		} else {
			err = conn.SetReadBuffer(asked)
		}
	}
	if n, gerr := getBuffer(raw, d); gerr == nil {
		b.granted = n
	}
	switch {
	case err != nil:
		b.warning = fmt.Sprintf("udp %s buffer: asked for %d bytes: %v", d, asked, err)
	case b.granted >= 0 && b.granted < asked:
		b.warning = fmt.Sprintf("udp %s buffer: asked for %d bytes, granted %d: set %s=%d", d, asked, b.granted, d.limitName(), asked)
	}
	if forceErr != nil {
		b.warning = joinSentences(b.warning, fmt.Sprintf("udp %s buffer: force: %v", d, forceErr))
	}
	return b
}

// restore undoes what quic-go did to the buffer: it raises any below 7 MiB, past the system's
// limit if the process may, whatever was asked for. It needs the socket in use by then.
func (b *buffer) restore(raw syscall.RawConn) {
	if b.granted < 0 {
		return
	}
	n, err := getBuffer(raw, b.direction)
	if err != nil || n == b.granted {
		return
	}
	if !b.force || setBuffer(raw, b.direction, b.granted, true) != nil {
		_ = setBuffer(raw, b.direction, b.granted, false) // what came of it is read back
	}
	if n, err = getBuffer(raw, b.direction); err == nil {
		b.granted = n
	}
}

func joinSentences(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// silenceLibrary keeps quic-go from logging its own, less exact, warning of small buffers to the
// process's standard error. Its only switch is the environment.
var silenceLibrary = sync.OnceFunc(func() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "true")
	}
})
