package measure

import "golang.org/x/sys/unix"

// clockUptimeRaw is CLOCK_UPTIME_RAW of <time.h>: mach_absolute_time in nanoseconds, which the Go
// runtime counts with. Darwin's CLOCK_MONOTONIC goes on while the machine sleeps and is slewed.
const clockUptimeRaw = 8

const clockSource = "clock_gettime(CLOCK_UPTIME_RAW)"

func monotonicNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockUptimeRaw, &ts); err != nil {
		return 0 // cannot happen: the clock exists since macOS 10.12
	}
	return ts.Nano()
}
