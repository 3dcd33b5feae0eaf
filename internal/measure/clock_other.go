//go:build !(linux || freebsd || netbsd || openbsd || dragonfly || darwin)

package measure

import "time"

// Without a monotonic clock that processes share, the wall clock is the base: one machine's
// processes then agree as long as nobody sets it between their starts.
const clockSource = "wall clock"

func monotonicNs() int64 { return time.Now().UnixNano() }
