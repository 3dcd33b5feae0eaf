//go:build linux || darwin

package host

import (
	"golang.org/x/sys/unix"
)

func (u *Usage) readRusage() {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		u.Unavailable = map[string]string{"user_ns": "getrusage: " + err.Error()}
		return
	}
	user, system := r.Utime.Nano(), r.Stime.Nano()
	voluntary, involuntary := int64(r.Nvcsw), int64(r.Nivcsw)
	u.UserNs, u.SystemNs = &user, &system
	u.VoluntarySwitches, u.InvoluntarySwitches = &voluntary, &involuntary
	peak := peakRSS(r)
	u.MaxRSSBytes = &peak
}
