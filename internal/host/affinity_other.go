//go:build !linux

package host

import (
	"errors"
	"runtime"
)

var errAffinity = errors.New("a process cannot be given processors on " + runtime.GOOS)

// Affinity lists the processors that this process may run on; here it cannot be told.
func Affinity() ([]int, error) { return nil, errAffinity }

// SetAffinity is an error here.
func SetAffinity([]int) error { return errAffinity }
