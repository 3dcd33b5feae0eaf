package transport

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// enableGRO lets the kernel merge what it received of one sender. Linux has it since 5.0.
func enableGRO(raw syscall.RawConn) error {
	var err error
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("UDP_GRO: %w", err)
	}
	return nil
}

// splitControl appends to dst the control messages in oob without the UDP_GRO one, which only
// splitting needs, and returns the size of the segments that it told; 0 if there was none. What is
// no control message ends the list: quic-go would take it for the end of the socket.
func splitControl(dst, oob []byte) (segment int, control []byte) {
	for len(oob) >= unix.SizeofCmsghdr { // the parser reads as much unasked
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		switch {
		case header.Level != unix.IPPROTO_UDP || header.Type != unix.UDP_GRO:
			dst = append(dst, oob[:len(oob)-len(rest)]...)
		case len(data) >= 4:
			segment = int(int32(binary.NativeEndian.Uint32(data)))
		}
		oob = rest
	}
	return segment, dst
}
