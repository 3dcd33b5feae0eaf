package transport

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	defaultConnRecvWindow   = 64 << 20
	defaultStreamRecvWindow = 16 << 20
	defaultUDPBuffer        = 8 << 20
	defaultIdleTimeout      = 30 * time.Second
	defaultKeepAlive        = 10 * time.Second
	defaultIncomingStreams  = 4096
	defaultHandshakeTimeout = 5 * time.Second

	// The library's bounds of a packet: RFC 9000's minimum and its own buffer size.
	minPacketSize = 1200
	maxPacketSize = 1452
	// The largest size that is taken to pass everywhere: the library's own start value.
	safePacketSize = 1280

	maxUDPBuffer = 1 << 30

	// An idle timeout cannot be left out in quic-go (0 means its default), so "off" is ten years.
	noIdleTimeout = 10 * 365 * 24 * time.Hour
)

// Config sets one endpoint: a listener with all its connections, or one dialled connection.
// The zero value means the defaults below and is ready to use.
type Config struct {
	// ConnRecvWindow and StreamRecvWindow are the bytes of flow-control credit that the peer is
	// granted for all streams together and for each. The credit is granted whole from the start
	// (initial = maximum). If zero, 64 MiB and 16 MiB.
	ConnRecvWindow, StreamRecvWindow int64

	// UDPSendBuffer and UDPRecvBuffer are the bytes of socket buffer asked of the kernel, which
	// may grant less: see SocketInfo. If zero, 8 MiB.
	UDPSendBuffer, UDPRecvBuffer int
	// UDPBufferForce asks with SO_SNDBUFFORCE and SO_RCVBUFFORCE, which pass over the limits of
	// net.core.wmem_max and rmem_max and need CAP_NET_ADMIN. Linux only.
	UDPBufferForce bool

	// PacketSize is the size of the first packets in bytes, 1200 to 1452, and the size that is
	// never gone below: if the path does not carry it, the handshake fails. If zero, the library
	// starts at 1280. Above 1280 it is refused towards addresses that are not loopback, unless
	// PacketSizeAnywhere is set.
	PacketSize         int
	PacketSizeAnywhere bool
	// DisableMTUDiscovery keeps packets at their first size.
	DisableMTUDiscovery bool

	// GSO is segmentation offload: one send call carries several packets of a connection
	// (UDP_SEGMENT, Linux 5). GRO is its counterpart: one read brings several (UDP_GRO, Linux 5).
	// What is in effect is in SocketInfo.
	GSO, GRO Offload
	// GSOMerge joins send calls that segmentation offload has filled, up to what the kernel takes at
	// once: quic-go itself stops at 20 KiB, the kernel at 64.
	GSOMerge Offload
	// RecvGateBytes holds packets back in the kernel while a connection has more than so many bytes
	// in quic-go's receive queue, which drops beyond 256 packets. It costs latency under load. If
	// zero, nothing is held back.
	RecvGateBytes int64
	// Shared makes Dial use one socket for all connections that are dialled with it. If nil, each
	// has its own. A listener's connections share its socket anyway.
	Shared *SharedSocket

	// ProgressTimeout closes a connection (IsNoProgress) whose full packets have not arrived for so
	// long, while the peer is heard: an MTU black hole, which quic-go never leaves. It is watched
	// only where packets may be larger than the minimum of 1200. If zero, 10 s; if negative, never.
	ProgressTimeout time.Duration

	// IdleTimeout ends a connection on which nothing was received for so long. The smaller value
	// of both ends holds, but quic-go takes a peer's below 5 s for 5 s. If zero, 30 s; if
	// negative, never.
	IdleTimeout time.Duration
	// KeepAlive is the quiet time after which a packet is sent to keep the connection up; the
	// library uses at most half the idle timeout. If zero, 10 s; if negative, none is sent.
	KeepAlive time.Duration

	// MaxIncomingStreams and MaxIncomingUniStreams bound the streams that the peer may have open
	// at a time, bidirectional and unidirectional. If zero, 4,096.
	MaxIncomingStreams, MaxIncomingUniStreams int64

	// HandshakeTimeout bounds Dial as a whole, and on a listener the silence during a handshake.
	// If zero, 5 s.
	HandshakeTimeout time.Duration

	// Monitor keeps the statistics of the connections over time. If nil, only Conn.Stats gives them.
	Monitor *Monitor
	// Role labels the connections in the statistics: "broker", "publisher", "subscriber".
	Role string

	// ListenPacket opens the packet connection in place of a UDP socket; tests hand in simulated
	// ones. The endpoint closes it. A connection that is no *net.UDPConn is used as it is: it has
	// no buffers to set and no counters, and those facts are null with a reason.
	ListenPacket func(network, addr string) (net.PacketConn, error)

	// Logger receives warnings about sockets (once for each text in a process) and, at debug
	// level, the beginning and end of connections. If nil, nothing is logged.
	Logger *slog.Logger
}

// Resolve returns the configuration with its defaults filled in, or an error that names the field
// that makes no sense. Resolving twice changes nothing.
func (c Config) Resolve() (Config, error) {
	setDefault(&c.ConnRecvWindow, defaultConnRecvWindow)
	setDefault(&c.StreamRecvWindow, defaultStreamRecvWindow)
	setDefault(&c.UDPSendBuffer, defaultUDPBuffer)
	setDefault(&c.UDPRecvBuffer, defaultUDPBuffer)
	setDefault(&c.IdleTimeout, defaultIdleTimeout)
	setDefault(&c.KeepAlive, defaultKeepAlive)
	setDefault(&c.MaxIncomingStreams, defaultIncomingStreams)
	setDefault(&c.MaxIncomingUniStreams, defaultIncomingStreams)
	setDefault(&c.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&c.ProgressTimeout, defaultProgressTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) check() error {
	// The smallest windows that still carry a packet, so that no connection stands still by setting.
	if c.StreamRecvWindow < maxPacketSize {
		return fmt.Errorf("stream receive window of %d bytes: want at least %d", c.StreamRecvWindow, maxPacketSize)
	}
	if c.ConnRecvWindow < c.StreamRecvWindow {
		return fmt.Errorf("connection receive window of %d bytes: want at least the stream receive window of %d", c.ConnRecvWindow, c.StreamRecvWindow)
	}
	if c.UDPSendBuffer < 0 || c.UDPSendBuffer > maxUDPBuffer {
		return fmt.Errorf("udp send buffer of %d bytes: want 1 to %d", c.UDPSendBuffer, maxUDPBuffer)
	}
	if c.UDPRecvBuffer < 0 || c.UDPRecvBuffer > maxUDPBuffer {
		return fmt.Errorf("udp receive buffer of %d bytes: want 1 to %d", c.UDPRecvBuffer, maxUDPBuffer)
	}
	if c.PacketSize != 0 && (c.PacketSize < minPacketSize || c.PacketSize > maxPacketSize) {
		return fmt.Errorf("packet size of %d bytes: want %d to %d, or 0 for the library's choice", c.PacketSize, minPacketSize, maxPacketSize)
	}
	if c.GSO > OffloadOff || c.GRO > OffloadOff || c.GSOMerge > OffloadOff {
		return fmt.Errorf("gso %v, gro %v, gso_merge %v: want auto, on or off", c.GSO, c.GRO, c.GSOMerge)
	}
	if c.RecvGateBytes < 0 {
		return fmt.Errorf("receive gate of %d bytes: want at least 1, or 0 for none", c.RecvGateBytes)
	}
	if c.MaxIncomingStreams < 0 || c.MaxIncomingUniStreams < 0 {
		return fmt.Errorf("at most %d bidirectional and %d unidirectional incoming streams: want at least 1 each", c.MaxIncomingStreams, c.MaxIncomingUniStreams)
	}
	if c.HandshakeTimeout < 0 {
		return fmt.Errorf("handshake timeout of %v: want more than 0", c.HandshakeTimeout)
	}
	return nil
}

// checkPacketSize refuses packets that an address outside this machine may not be reached with.
func (c Config) checkPacketSize(ip net.IP) error {
	if c.PacketSize <= safePacketSize || c.PacketSizeAnywhere || ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("packet size of %d bytes towards %s: above %d only towards loopback, unless asked for everywhere", c.PacketSize, ip, safePacketSize)
}

// quicConfig translates a resolved configuration.
func (c Config) quicConfig() *quic.Config {
	q := &quic.Config{
		HandshakeIdleTimeout: c.HandshakeTimeout,
		MaxIdleTimeout:       c.IdleTimeout,
		KeepAlivePeriod:      max(c.KeepAlive, 0),
		// With only the maximum set the library starts at 512 KiB a stream and a writer waits
		// for its tuning; the credit is granted whole instead.
		InitialStreamReceiveWindow:     uint64(c.StreamRecvWindow),
		MaxStreamReceiveWindow:         uint64(c.StreamRecvWindow),
		InitialConnectionReceiveWindow: uint64(c.ConnRecvWindow),
		MaxConnectionReceiveWindow:     uint64(c.ConnRecvWindow),
		MaxIncomingStreams:             c.MaxIncomingStreams,
		MaxIncomingUniStreams:          c.MaxIncomingUniStreams,
		InitialPacketSize:              uint16(c.PacketSize),
		DisablePathMTUDiscovery:        c.DisableMTUDiscovery,
	}
	if c.IdleTimeout < 0 {
		q.MaxIdleTimeout = noIdleTimeout
	}
	return q
}
