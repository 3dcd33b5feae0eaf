package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/quic-go/quic-go"
)

// Dial opens a socket and a connection from it to addr ("host:port"), and returns when the
// handshake is complete. The socket belongs to the connection and is closed with it, unless
// Config.Shared says otherwise. The caller closes the connection.
//
// It fails after Config.HandshakeTimeout at the latest. Errors to tell apart: ErrUntrusted,
// ErrNoAnswer, ErrRefused (on Linux also at once if the host says that nobody listens).
func Dial(ctx context.Context, addr string, tlsConf *tls.Config, cfg Config) (*Conn, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	if err := checkTLS(tlsConf); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.HandshakeTimeout, errDialTimeout)
	defer cancel()
	remote, err := resolveAddr(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	if err := cfg.checkPacketSize(remote.IP); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	sock, first, release, err := socketFor(remote, cfg)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	p := sock.enlist(remote)
	before := uint64(0)
	if p != nil {
		before = p.received.Load()
	}
	qc, err := handshake(ctx, sock, first, remote, tlsConf, cfg)
	if err != nil {
		heard := p != nil && p.received.Load() > before
		if p != nil {
			sock.counted.peers.unregister(addrPort(remote), p, nil)
		}
		_ = release(err) // err is the cause
		return nil, dialError(addr, err, cfg.HandshakeTimeout, heard)
	}
	if first {
		sock.settle(cfg)
	}
	return newConn(qc, sock, p, cfg, nil, func() error { return release(nil) }), nil
}

// socketFor returns the socket to dial from, whether it is new, and what gives it back.
func socketFor(remote *net.UDPAddr, cfg Config) (sock *socket, first bool, release func(cause error) error, err error) {
	if cfg.Shared != nil {
		sock, first, err = cfg.Shared.acquire(remote, cfg)
		return sock, first, func(cause error) error { return cfg.Shared.release(sock, cause) }, err
	}
	sock, err = openSocket("udp", localFor(remote, cfg), cfg)
	return sock, true, func(error) error { return sock.close() }, err
}

// handshake dials, from a new socket with ICMP errors reported. They are reported no longer
// afterwards: then the peer's silence is for the idle timeout to judge, not for whoever can send
// ICMP, and one connection's bad luck does not end those beside it.
func handshake(ctx context.Context, sock *socket, first bool, remote net.Addr, tlsConf *tls.Config, cfg Config) (*quic.Conn, error) {
	if sock.counted != nil && first {
		reportICMP(sock.raw, true)
		defer reportICMP(sock.raw, false)
	}
	return sock.quic.Dial(ctx, remote, tlsConf, cfg.quicConfig())
}

// resolveAddr finds the address, the first IPv4 one before any other, as net.Dial does for names.
func resolveAddr(ctx context.Context, addr string) (*net.UDPAddr, error) {
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		return udpAddr(ap.Addr(), ap.Port()), nil
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("port %q: want 1 to 65535", service)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	chosen := ips[0]
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			chosen = ip
			break
		}
	}
	return udpAddr(chosen, uint16(port)), nil
}

// udpAddr keeps IPv4 in the 16-byte form that net.ParseIP and net.IPv4 make: a simulated network
// tells addresses apart by their bytes.
func udpAddr(ip netip.Addr, port uint16) *net.UDPAddr {
	ip = ip.Unmap()
	return &net.UDPAddr{IP: net.IP(ip.AsSlice()).To16(), Port: int(port), Zone: ip.Zone()}
}

// localFor returns the address to open a socket at for packets to remote. It is the one that the
// route to remote starts from, so that the connection knows the address its peer sees, and the
// kernel need not tell the address of each packet.
func localFor(remote *net.UDPAddr, cfg Config) string {
	if cfg.ListenPacket != nil {
		return ":0" // a simulated network has its own routes
	}
	// Connecting a UDP socket sends nothing; it only asks for the route.
	if route, err := net.DialUDP("udp", nil, remote); err == nil {
		defer func() { _ = route.Close() }()
		if local, ok := route.LocalAddr().(*net.UDPAddr); ok {
			return (&net.UDPAddr{IP: local.IP, Zone: local.Zone}).String()
		}
	}
	if remote.IP.To4() != nil {
		return "0.0.0.0:0"
	}
	return "[::]:0"
}
