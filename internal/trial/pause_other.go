//go:build !linux

package trial

import "time"

// A pauser sleeps for short times as exactly as the system lets it.
type pauser struct{}

func newPauser() *pauser { return &pauser{} }

func (*pauser) pause(d time.Duration) { time.Sleep(d) }
func (*pauser) close()                {}
