//go:build !linux

package transport

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
)

const (
	// quic-go calls ReadBatch on these systems only.
	receiveCounted = runtime.GOOS == "darwin" || runtime.GOOS == "freebsd"
)

// segmentSize is 0: there is no UDP_SEGMENT here, each datagram is a send call.
func segmentSize([]byte) int { return 0 }

func errnoName(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return "other"
	}
	return "errno " + strconv.Itoa(int(errno))
}

// passingICMP is false: ICMP errors are not reported on unconnected sockets here.
func passingICMP(error) bool { return false }

func reportICMP(syscall.RawConn, bool) {}

func (d bufferDirection) limitName() string { return "" }

// setBuffer does nothing here; the caller falls back on the portable call.
func setBuffer(syscall.RawConn, bufferDirection, int, bool) error { return errors.ErrUnsupported }

func getBuffer(syscall.RawConn, bufferDirection) (int, error) { return -1, errors.ErrUnsupported }

// bufferUnavailable is why the granted buffers are unknown.
const bufferUnavailable = "not read back on " + runtime.GOOS

func probeGSO(syscall.RawConn) (*bool, string) {
	return nil, "no UDP segmentation offload on " + runtime.GOOS
}
