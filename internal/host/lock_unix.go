//go:build linux || darwin

package host

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	canLock   = true
	openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK // a pipe put there must not hang the open
)

// tryFlock reports whether it got the lock, which belongs to the open file: it ends when the file is closed.
func tryFlock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}
