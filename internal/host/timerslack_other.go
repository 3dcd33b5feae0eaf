//go:build !linux

package host

import (
	"errors"
	"runtime"
	"time"
)

var errTimerSlack = errors.New("a process has no timer slack on " + runtime.GOOS)

// TimerSlack cannot be told here.
func TimerSlack() (time.Duration, error) { return 0, errTimerSlack }

// WithTimerSlack is an error here.
func WithTimerSlack(time.Duration) error { return errTimerSlack }
