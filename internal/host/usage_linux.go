package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// peakRSS prefers VmHWM: ru_maxrss survives exec, so that a child which was started by a large
// process begins with its parent's peak.
func peakRSS(r unix.Rusage) int64 {
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		if n, ok := parseKiB(b, "VmHWM"); ok {
			return int64(n)
		}
	}
	return int64(r.Maxrss) << 10 // KiB
}
