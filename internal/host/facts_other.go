//go:build !linux && !darwin

package host

import "io/fs"

const onlyLinux = "only Linux tells"

func (i *Info) read(fs.FS) {
	for _, name := range []string{
		"kernel", "cpu", "memory_bytes", "virtualised", "virtualisation", "cpu_quota_cores",
		"rmem_max_bytes", "wmem_max_bytes", "governor",
	} {
		i.missing(name, onlyLinux)
	}
}
