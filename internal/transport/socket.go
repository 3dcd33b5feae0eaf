package transport

import (
	"fmt"
	"net"
	"runtime"
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
	buffers [2]buffer       // of counted
	gso     *bool

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
		s.setUncounted(fmt.Sprintf("the packet connection is a %T, not a UDP socket", conn))
		s.quic = &quic.Transport{Conn: conn}
		return s, nil
	}
	if s.raw, err = udp.SyscallConn(); err != nil {
		return nil, fmt.Errorf("open udp socket: %w", closing(conn, err))
	}
	silenceLibrary()
	s.buffers[sendBuffer] = openBuffer(udp, s.raw, sendBuffer, cfg.UDPSendBuffer, cfg.UDPBufferForce)
	s.buffers[recvBuffer] = openBuffer(udp, s.raw, recvBuffer, cfg.UDPRecvBuffer, cfg.UDPBufferForce)
	var why string
	if s.gso, why = probeGSO(s.raw); s.gso == nil {
		s.setUnavailable("gso", why)
	}
	if bufferUnavailable != "" {
		s.setUnavailable("send_buffer_granted", bufferUnavailable)
		s.setUnavailable("recv_buffer_granted", bufferUnavailable)
	}
	if !receiveCounted {
		why := "not counted on " + runtime.GOOS
		s.connUnavailable = map[string]string{"datagrams_received": why, "bytes_handed_over": why}
	}
	s.counted = newCountedConn(udp)
	s.quic = &quic.Transport{Conn: s.counted}
	return s, nil
}

func (s *socket) setUncounted(why string) {
	for _, fact := range []string{"gso", "send_buffer_granted", "recv_buffer_granted"} {
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

// settle puts the buffers back to what was asked, after quic-go took the socket into use.
func (s *socket) settle(cfg Config) {
	if s.counted == nil {
		return
	}
	for i := range s.buffers {
		s.buffers[i].restore(s.raw)
		if w := s.buffers[i].warning; w != "" {
			warnOnce(cfg.Logger, w)
		}
	}
}

// info describes the socket. gso is the connection's own word on it, if there is a connection.
func (s *socket) info(gso *bool) SocketInfo {
	info := SocketInfo{SendBufferGranted: -1, RecvBufferGranted: -1, GSO: s.gso, Unavailable: s.unavailable}
	if s.counted == nil {
		return info
	}
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
