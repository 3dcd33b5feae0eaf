// Package probe holds the minimal senders, receivers and relay that a broker's figures are held against: the honest
// ceiling of what the same transport carries on the same machine.
//
// A raw probe is one hop, publisher to subscriber. A relay probe is two: the relay reads whole frames into pooled
// buffers and writes them to every subscriber of their stream. The echo forms send every frame back. There is no
// authentication, no routing and no policy: a stream says once whose it is, and whoever is slow is waited for, so that
// nothing is ever dropped. A frame is the broker's shared event batch, byte for byte, so that payloads and batches cost
// the same bytes.
//
// Over QUIC the probes use package transport as the broker does. TLS and TCP carry the same frames over a connection
// for each stream, for scale.
package probe

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"felix/internal/transport"
)

// Network is what carries the frames.
type Network string

// The networks.
const (
	QUIC Network = "quic"
	TLS  Network = "tls" // over TCP, one connection for each stream
	TCP  Network = "tcp" // without encryption
)

// ParseNetwork reads a network's name; the error lists the choices.
func ParseNetwork(s string) (Network, error) {
	if n := Network(s); slices.Contains([]Network{QUIC, TLS, TCP}, n) {
		return n, nil
	}
	return "", fmt.Errorf("network %q: want one of %s", s, strings.Join([]string{string(QUIC), string(TLS), string(TCP)}, ", "))
}

// Config is how one party reaches the others, or is reached by them.
type Config struct {
	Network Network
	// Addr is "host:port", of the listener to dial or to listen at.
	Addr string
	// TLS is the configuration of this end: a listener's or a dialler's. TCP needs none.
	TLS *tls.Config
	// Transport sets the QUIC endpoint; TLS and TCP use the system's own settings.
	Transport transport.Config
	// Conns is how many QUIC connections a dialler spreads its streams over, in turn. If zero, one. TLS and TCP have a
	// connection for each stream.
	Conns int
}

const (
	// helloTimeout bounds how long a new stream may take to say whose it is.
	helloTimeout = 10 * time.Second
	// maxFrameBytes bounds the body of a frame, as the broker does by default.
	maxFrameBytes = 16 << 20
	// chunkBytes is what a read asks for at a time. Whole frames that arrive together travel on together: one wake-up
	// and one write for many small ones.
	chunkBytes = 64 << 10
)
