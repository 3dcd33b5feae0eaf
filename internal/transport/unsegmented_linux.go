package transport

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsegmented is the raw socket as quic-go is shown it when it shall not use segmentation offload.
// quic-go asks the kernel for the offload, and the only switch of its own is an environment
// variable, which would hold for every socket of the process. So the socket answers the question
// with an error. It is the one that quic-go asks after it has turned on the reception of ECN bits.
type unsegmented struct{ syscall.RawConn }

var errUnsegmented = errors.New("segmentation offload is off")

func (u unsegmented) Control(f func(fd uintptr)) error {
	refused := false
	err := u.RawConn.Control(func(fd uintptr) {
		on, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS)
		if refused = err == nil && on != 0; !refused {
			f(fd)
		}
	})
	if err == nil && refused {
		return errUnsegmented
	}
	return err
}
