package host

import (
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// UDP are the kernel's counters of UDP over IPv4 and IPv6 together, for the whole machine (its
// network namespace). Null where the system does not tell; Unavailable then says why.
type UDP struct {
	InDatagrams  *uint64 `json:"in_datagrams"`
	OutDatagrams *uint64 `json:"out_datagrams"`
	InErrors     *uint64 `json:"in_errors"`
	RcvbufErrors *uint64 `json:"rcvbuf_errors"` // dropped, because a socket's receive buffer was full
	SndbufErrors *uint64 `json:"sndbuf_errors"`

	// Drops are datagrams that a socket's receive buffer had no room for, by local port. A port
	// without a socket is not in it.
	Drops map[int]uint64 `json:"drops,omitempty"`

	Unavailable string `json:"unavailable,omitempty"`
}

// ReadUDP reads the counters, and the drops of the given local ports (of every port, if none is
// given).
func ReadUDP(ports ...int) UDP {
	if runtime.GOOS != "linux" {
		return UDP{Unavailable: "only Linux tells"}
	}
	return readUDP(os.DirFS("/"), ports)
}

func readUDP(root fs.FS, ports []int) UDP {
	var u UDP
	b, err := fs.ReadFile(root, "proc/net/snmp")
	if err != nil {
		return UDP{Unavailable: reason(err)}
	}
	counters, ok := parseSNMP(b)
	if !ok {
		return UDP{Unavailable: "/proc/net/snmp has no Udp lines"}
	}
	// Without IPv6 the file is absent, and there is nothing to add.
	if b, err := fs.ReadFile(root, "proc/net/snmp6"); err == nil {
		for name, n := range parseSNMP6(b) {
			if _, known := counters[name]; known {
				counters[name] += n
			}
		}
	}
	for name, p := range map[string]**uint64{
		"InDatagrams":  &u.InDatagrams,
		"OutDatagrams": &u.OutDatagrams,
		"InErrors":     &u.InErrors,
		"RcvbufErrors": &u.RcvbufErrors,
		"SndbufErrors": &u.SndbufErrors,
	} {
		if n, ok := counters[name]; ok {
			*p = &n
		}
	}
	for _, file := range []string{"proc/net/udp", "proc/net/udp6"} {
		b, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		for port, n := range parseSockets(b) {
			if len(ports) > 0 && !contains(ports, port) {
				continue
			}
			if u.Drops == nil {
				u.Drops = map[int]uint64{}
			}
			u.Drops[port] += n
		}
	}
	return u
}

func contains(ports []int, port int) bool {
	for _, p := range ports {
		if p == port {
			return true
		}
	}
	return false
}

// Sub returns what was counted between before and u. A socket that was opened in between counts
// from 0; one that was closed takes its drops with it. A counter that went backwards is null.
func (u UDP) Sub(before UDP) UDP {
	d := UDP{
		InDatagrams:  sub(u.InDatagrams, before.InDatagrams),
		OutDatagrams: sub(u.OutDatagrams, before.OutDatagrams),
		InErrors:     sub(u.InErrors, before.InErrors),
		RcvbufErrors: sub(u.RcvbufErrors, before.RcvbufErrors),
		SndbufErrors: sub(u.SndbufErrors, before.SndbufErrors),
		Drops:        maps.Clone(u.Drops),
		Unavailable:  u.Unavailable,
	}
	if d.Unavailable == "" {
		d.Unavailable = before.Unavailable
	}
	for port, n := range d.Drops {
		if was := before.Drops[port]; was <= n { // else another socket has the port now
			d.Drops[port] = n - was
		}
	}
	return d
}

func sub(a, b *uint64) *uint64 {
	if a == nil || b == nil || *a < *b {
		return nil
	}
	d := *a - *b
	return &d
}

// parseSNMP reads the pair of Udp lines of /proc/net/snmp: names, then values.
func parseSNMP(b []byte) (map[string]uint64, bool) {
	var names []string
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, "Udp:")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if names == nil {
			names = f
			continue
		}
		if len(f) != len(names) {
			return nil, false
		}
		out := make(map[string]uint64, len(f))
		for i, name := range names {
			n, err := strconv.ParseUint(f[i], 10, 64)
			if err != nil {
				return nil, false
			}
			out[name] = n
		}
		return out, true
	}
	return nil, false
}

// parseSNMP6 reads the lines "Udp6Name value" of /proc/net/snmp6.
func parseSNMP6(b []byte) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		name, ok := strings.CutPrefix(f[0], "Udp6")
		if n, err := strconv.ParseUint(f[1], 10, 64); ok && err == nil {
			out[name] = n
		}
	}
	return out
}

// parseSockets reads /proc/net/udp or udp6: drops, the last column, by local port. Sockets that
// share a port are added up.
func parseSockets(b []byte) map[int]uint64 {
	out := map[int]uint64{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 13 {
			continue // the heading, or not a socket
		}
		colon := strings.LastIndexByte(f[1], ':')
		if colon < 0 {
			continue
		}
		port, err := strconv.ParseUint(f[1][colon+1:], 16, 16)
		if err != nil {
			continue
		}
		drops, err := strconv.ParseUint(f[len(f)-1], 10, 64)
		if err != nil {
			continue
		}
		out[int(port)] += drops
	}
	return out
}
