//go:build !linux

package transport

import (
	"errors"
	"runtime"
	"syscall"
)

func enableGRO(syscall.RawConn) error {
	return errors.New("no UDP receive offload on " + runtime.GOOS)
}

// splitControl keeps everything: nothing is merged here.
func splitControl(dst, oob []byte) (segment int, control []byte) { return 0, append(dst, oob...) }
