//go:build !linux

package trial

import "time"

func pause(d time.Duration) { time.Sleep(d) }
