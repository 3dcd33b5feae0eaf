package transport

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	receiveCounted = true // quic-go calls ReadBatch
)

// segmentSize returns the UDP_SEGMENT size in a control message, or 0. quic-go sets it on every
// send after the handshake, to the connection's packet size, also when the packet is alone.
func segmentSize(oob []byte) int {
	for len(oob) >= unix.SizeofCmsghdr { // the parser reads as much unasked
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		if header.Level == unix.IPPROTO_UDP && header.Type == unix.UDP_SEGMENT && len(data) >= 2 {
			return int(binary.NativeEndian.Uint16(data))
		}
		oob = rest
	}
	return 0
}

// errnoName returns the name of the error number in err, such as EMSGSIZE.
func errnoName(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return "other"
	}
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(errno))
}

// passingICMP tells whether a read failed by an ICMP error that says nothing final about the peer.
func passingICMP(err error) bool {
	for _, errno := range []syscall.Errno{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.EHOSTDOWN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// reportICMP turns the reporting of ICMP errors on an unconnected socket on or off. Off also
// empties the queue they were kept in.
func reportICMP(raw syscall.RawConn, on bool) {
	value := 0
	if on {
		value = 1
	}
	// Best effort: without it a refused dial ends by its timeout.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, value)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, value)
	})
}

func (d bufferDirection) options() (plain, force int) {
	if d == sendBuffer {
		return unix.SO_SNDBUF, unix.SO_SNDBUFFORCE
	}
	return unix.SO_RCVBUF, unix.SO_RCVBUFFORCE
}

// limitName is the sysctl that bounds the buffer.
func (d bufferDirection) limitName() string {
	if d == sendBuffer {
		return "net.core.wmem_max"
	}
	return "net.core.rmem_max"
}

// setBuffer asks for a buffer, past the system's limit if force is set.
func setBuffer(raw syscall.RawConn, d bufferDirection, bytes int, force bool) error {
	plain, forced := d.options()
	option := plain
	if force {
		option = forced
	}
	var err error
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, bytes) }); cerr != nil {
		return cerr
	}
	return err
}

// getBuffer reads what was granted. Linux keeps and reports twice what is set, for its bookkeeping.
func getBuffer(raw syscall.RawConn, d bufferDirection) (int, error) {
	plain, _ := d.options()
	var (
		n   int
		err error
	)
	if cerr := raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, plain) }); cerr != nil {
		return 0, cerr
	}
	return n / 2, err
}

const bufferUnavailable = ""

// probeGSO tells whether quic-go will send several packets a call on this socket.
func probeGSO(raw syscall.RawConn) (*bool, string) {
	if off, err := strconv.ParseBool(os.Getenv("QUIC_GO_DISABLE_GSO")); err == nil && off {
		return new(bool), ""
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, "uname: " + err.Error()
	}
	// quic-go leaves it off before Linux 5.
	major, _, _ := strings.Cut(unix.ByteSliceToString(uname.Release[:]), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 5 {
		return new(bool), ""
	}
	var err error
	cerr := raw.Control(func(fd uintptr) { _, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT) })
	gso := cerr == nil && err == nil
	return &gso, ""
}
