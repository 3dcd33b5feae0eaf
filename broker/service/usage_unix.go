//go:build unix

package service

import (
	"runtime"
	"syscall"
)

// usage fills in what getrusage knows.
func (p *Process) usage() {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return
	}
	rss := int64(ru.Maxrss)
	if runtime.GOOS != "darwin" {
		rss <<= 10 // KiB everywhere else
	}
	user, system := ru.Utime.Nano(), ru.Stime.Nano()
	voluntary, involuntary := int64(ru.Nvcsw), int64(ru.Nivcsw)
	p.UserNs, p.SystemNs = &user, &system
	p.VoluntarySwitches, p.InvoluntarySwitches, p.MaxRSSBytes = &voluntary, &involuntary, &rss
}
