//go:build !linux && !darwin

package host

func (u *Usage) readRusage() {
	u.Unavailable = map[string]string{}
	for _, name := range []string{"user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "max_rss_bytes"} {
		u.Unavailable[name] = "getrusage is not used on this system"
	}
}
