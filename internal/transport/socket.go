package transport

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/quic-go/quic-go"
)

// socket is a packet connection with its quic.Transport, owned by one listener or one dialled
// connection.
type socket struct {
	quic    *quic.Transport
	conn    net.PacketConn
	counted *countedConn    // nil if conn is no *net.UDPConn
	raw     syscall.RawConn // of counted
	shared  bool            // carries several connections
	gso     *bool
	gro     *bool

	// settle may come while another connection of the socket is in use already.
	buffersMu sync.Mutex
	buffers   [2]buffer // of counted

	warnings []string // beside those of the buffers; not written after openSocket

	opened string // by a SharedSocket: the address asked for
	users  int    // under its lock

	unavailable     map[string]string // of SocketInfo; not written after openSocket
	connUnavailable map[string]string // of ConnStats; likewise

	closeOnce sync.Once
	closeErr  error
}

// openSocket opens a packet connection at the local address and sets its buffers, before quic-go
// sees it.
func openSocket(network, addr string, cfg Config) (*socket, error) {
	open := cfg.ListenPacket
	if open == nil {
		open = net.ListenPacket
	}
	conn, err := open(network, addr)
	if err != nil {
		return nil, fmt.Errorf("open udp socket: %w", err)
	}
	s := &socket{conn: conn}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		why := fmt.Sprintf("the packet connection is a %T, not a UDP socket", conn)
		s.setUncounted(why)
		s.warnUnmet(cfg, why)
		s.quic = &quic.Transport{Conn: conn}
		return s, nil
	}
	if s.raw, err = udp.SyscallConn(); err != nil {
		return nil, fmt.Errorf("open udp socket: %w", closing(conn, err))
	}
	silenceLibrary()
	s.buffers[sendBuffer] = openBuffer(udp, s.raw, sendBuffer, cfg.UDPSendBuffer, cfg.UDPBufferForce)
	s.buffers[recvBuffer] = openBuffer(udp, s.raw, recvBuffer, cfg.UDPRecvBuffer, cfg.UDPBufferForce)
	s.counted = newCountedConn(udp)
	s.setOffloads(cfg)
	if bufferUnavailable != "" {
		s.setUnavailable("send_buffer_granted", bufferUnavailable)
		s.setUnavailable("recv_buffer_granted", bufferUnavailable)
	}
	if !receiveCounted {
		why := "not counted on " + runtime.GOOS
		s.connUnavailable = map[string]string{"datagrams_received": why, "bytes_handed_over": why}
	}
	s.quic = &quic.Transport{Conn: s.counted}
	return s, nil
}

func (s *socket) setUncounted(why string) {
	for _, fact := range []string{"gso", "gro", "send_buffer_granted", "recv_buffer_granted", "reads"} {
		s.setUnavailable(fact, why)
	}
	s.connUnavailable = uncounted(why)
}

func (s *socket) setUnavailable(fact, why string) {
	if s.unavailable == nil {
		s.unavailable = make(map[string]string)
	}
	s.unavailable[fact] = why
}

// uncounted explains all of a connection's facts that come from the socket.
func uncounted(why string) map[string]string {
	m := make(map[string]string)
	for _, fact := range []string{"mtu_bytes", "datagrams_sent", "send_calls", "send_errors", "datagrams_received", "bytes_handed_over"} {
		m[fact] = why
	}
	return m
}

// enlist returns the counters of what is exchanged with a peer that is to be dialled, nil if the
// socket does not count.
func (s *socket) enlist(remote *net.UDPAddr) *peer {
	switch {
	case s.counted == nil:
		return nil
	case s.shared:
		return s.counted.peers.register(addrPort(remote))
	}
	return s.counted.peers.setSole(addrPort(remote))
}

// settle puts the buffers back to what was asked, after quic-go took the socket into use, and says
// what the socket lacks.
func (s *socket) settle(cfg Config) {
	for _, w := range s.warnings {
		warnOnce(cfg.Logger, w)
	}
	if s.counted == nil {
		return
	}
	s.buffersMu.Lock()
	defer s.buffersMu.Unlock()
	for i := range s.buffers {
		s.buffers[i].restore(s.raw)
		if w := s.buffers[i].warning; w != "" {
			warnOnce(cfg.Logger, w)
		}
	}
}

// info describes the socket. gso is the connection's own word on it, if there is a connection.
func (s *socket) info(gso *bool) SocketInfo {
	info := SocketInfo{
		SendBufferGranted: -1, RecvBufferGranted: -1, GSO: s.gso, GRO: s.gro, Shared: s.shared,
		Warnings: slices.Clone(s.warnings), Unavailable: s.unavailable,
	}
	if s.counted == nil {
		return info
	}
	s.buffersMu.Lock()
	defer s.buffersMu.Unlock()
	info.SendBufferGranted = s.buffers[sendBuffer].granted
	info.RecvBufferGranted = s.buffers[recvBuffer].granted
	for _, b := range s.buffers {
		if b.warning != "" {
			info.Warnings = append(info.Warnings, b.warning)
		}
	}
	if s.gso != nil && gso != nil {
		info.GSO = gso
	}
	if g := s.counted.gate; g != nil {
		info.RecvGateBytes, info.Gate = g.limit, g.stats()
	}
	if receiveCounted {
		info.Reads = pointer(s.counted.reads.snapshot())
	}
	return info
}

// close ends the quic.Transport, waiting for its goroutines, and then the socket. Connections must
// have been closed before, or their peers are told nothing.
func (s *socket) close() error {
	s.closeOnce.Do(func() {
		s.closeErr = s.quic.Close()
		if err := s.conn.Close(); s.closeErr == nil {
			s.closeErr = err
		}
	})
	return s.closeErr
}

// closing closes what was opened before err.
func closing(c net.PacketConn, err error) error {
	_ = c.Close() // err is the cause
	return err
}
