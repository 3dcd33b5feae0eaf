package host

import "golang.org/x/sys/unix"

func peakRSS(r unix.Rusage) int64 { return r.Maxrss } // bytes on darwin
