package transport

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// SharedSocket lets dialled connections share one UDP socket: it stands in Config.Shared of each
// Dial. The zero value is ready to use. The first Dial opens the socket with its settings, the end
// of the last connection closes it, and a later Dial opens the next one.
//
// A socket has one goroutine that reads it, which the connections then share too. Its figures are
// kept by the peer's address: of connections to the same address only their sum is known.
type SharedSocket struct {
	mu   sync.Mutex
	sock *socket // nil while nobody uses one
}

// acquire returns the socket for a connection to remote and whether it was opened for it.
func (s *SharedSocket) acquire(remote *net.UDPAddr, cfg Config) (sock *socket, first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	local := localFor(remote, cfg)
	if s.sock == nil {
		if s.sock, err = openSocket("udp", local, cfg); err != nil {
			return nil, false, err
		}
		s.sock.shared, s.sock.opened, first = true, local, true
	}
	if s.sock.opened != local {
		// A socket has one local address, and the route to this peer starts from another one.
		return nil, false, fmt.Errorf("the shared socket is at %s, and the way to %s starts at %s: dial it with a socket of its own", s.sock.opened, remote, local)
	}
	s.sock.users++
	return s.sock, first, nil
}

// release ends a connection's use of the socket. cause is why a handshake failed, nil otherwise.
func (s *SharedSocket) release(sock *socket, cause error) error {
	s.mu.Lock()
	sock.users--
	last := sock.users == 0
	// quic-go gives a socket up for good when a read fails by what ICMP told.
	if s.sock == sock && (last || errors.Is(cause, syscall.ECONNREFUSED)) {
		s.sock = nil
	}
	s.mu.Unlock()
	if last {
		return sock.close()
	}
	return nil
}
