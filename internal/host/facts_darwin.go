package host

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

const onlyLinux = "only Linux tells"

func (i *Info) read(fs.FS) {
	i.Kernel = i.sysctl("kernel", "kern.osrelease")
	i.CPU = i.sysctl("cpu", "machdep.cpu.brand_string")
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		i.MemoryBytes = &n
	} else {
		i.missing("memory_bytes", "sysctl hw.memsize: "+err.Error())
	}
	if n, err := unix.SysctlUint32("kern.hv_vmm_present"); err == nil {
		virtual := n != 0
		i.Virtualised = &virtual
	} else {
		i.missing("virtualised", "sysctl kern.hv_vmm_present: "+err.Error())
	}
	for _, name := range []string{"virtualisation", "cpu_quota_cores", "rmem_max_bytes", "wmem_max_bytes", "governor"} {
		i.missing(name, onlyLinux)
	}
}

func (i *Info) sysctl(name, key string) *string {
	text, err := unix.Sysctl(key)
	if err != nil {
		i.missing(name, "sysctl "+key+": "+err.Error())
		return nil
	}
	return &text
}
