package host

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Info is what is known of the machine. A null is explained in Unavailable, under its JSON name.
type Info struct {
	// Fingerprint is a short hash of what stays the same from run to run: system, architecture,
	// kernel, CPU, cores and memory. Two hosts with different ones are not compared.
	Fingerprint string `json:"fingerprint"`

	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	Kernel     *string `json:"kernel"`
	CPU        *string `json:"cpu"`   // model name
	Cores      int     `json:"cores"` // logical CPUs that this process may use
	GOMAXPROCS int     `json:"gomaxprocs"`

	MemoryBytes *uint64 `json:"memory_bytes"`
	// CPUQuotaCores is the cgroup's CPU limit: above it the kernel stops the process for the rest
	// of a period, which looks like a stall of whatever runs then.
	CPUQuotaCores  *float64 `json:"cpu_quota_cores"`
	Virtualised    *bool    `json:"virtualised"`    // a hint: what the CPU and the firmware admit
	Virtualisation *string  `json:"virtualisation"` // the name it goes by

	RmemMaxBytes *int64  `json:"rmem_max_bytes"` // net.core.rmem_max: the largest receive buffer granted
	WmemMaxBytes *int64  `json:"wmem_max_bytes"`
	Governor     *string `json:"governor"` // of CPU 0's frequency

	Unavailable map[string]string `json:"unavailable"`
}

// Facts reads them. It does not fail: what cannot be read is null.
func Facts() Info {
	i := Info{
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
		Cores:       runtime.NumCPU(),
		GOMAXPROCS:  runtime.GOMAXPROCS(0),
		Unavailable: map[string]string{},
	}
	i.read(os.DirFS("/"))
	i.Fingerprint = i.fingerprint()
	return i
}

// memoryStep is what MemoryBytes is rounded to in the fingerprint: kernels keep some megabytes
// more or less for themselves at each boot.
const memoryStep = 256 << 20

func (i *Info) fingerprint() string {
	var memory uint64
	if i.MemoryBytes != nil {
		memory = (*i.MemoryBytes + memoryStep/2) / memoryStep
	}
	text := fmt.Sprintf("%s\n%s\n%s\n%s\n%d\n%d\n", i.OS, i.Arch, orEmpty(i.Kernel), orEmpty(i.CPU), i.Cores, memory)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// missing notes why a fact is null.
func (i *Info) missing(name, reason string) { i.Unavailable[name] = reason }

// readLinux fills what Linux tells in /proc and /sys below root.
func (i *Info) readLinux(root fs.FS) {
	i.Kernel = i.line(root, "kernel", "proc/sys/kernel/osrelease")
	i.Governor = i.line(root, "governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	i.RmemMaxBytes = i.number(root, "rmem_max_bytes", "proc/sys/net/core/rmem_max")
	i.WmemMaxBytes = i.number(root, "wmem_max_bytes", "proc/sys/net/core/wmem_max")

	cpu, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		i.missing("cpu", reason(err))
	}
	model, hypervisor := parseCPUInfo(cpu)
	if model != "" {
		i.CPU = &model
	} else if err == nil {
		i.missing("cpu", "/proc/cpuinfo names no model")
	}
	i.readVirtualisation(root, cpu, hypervisor)

	if b, err := fs.ReadFile(root, "proc/meminfo"); err != nil {
		i.missing("memory_bytes", reason(err))
	} else if n, ok := parseMemTotal(b); ok {
		i.MemoryBytes = &n
	} else {
		i.missing("memory_bytes", "/proc/meminfo has no MemTotal")
	}

	if b, err := fs.ReadFile(root, "sys/fs/cgroup/cpu.max"); err != nil {
		i.missing("cpu_quota_cores", reason(err))
	} else if q, limited, ok := parseCPUMax(b); !ok {
		i.missing("cpu_quota_cores", "/sys/fs/cgroup/cpu.max is not understood")
	} else if limited {
		i.CPUQuotaCores = &q
	} else {
		i.missing("cpu_quota_cores", "no limit is set")
	}
}

func (i *Info) readVirtualisation(root fs.FS, cpu []byte, hypervisor bool) {
	for _, name := range []string{"sys/hypervisor/type", "sys/class/dmi/id/product_name", "sys/class/dmi/id/sys_vendor"} {
		b, err := fs.ReadFile(root, name)
		if text := strings.TrimSpace(string(b)); err == nil && knownVirtual(text) {
			hypervisor = true
			i.Virtualisation = &text
			break
		}
	}
	if i.Virtualisation == nil {
		i.missing("virtualisation", "firmware and hypervisor do not name one")
	}
	switch {
	case hypervisor:
		i.Virtualised = &hypervisor
	case runtimeArchHasFlag(cpu):
		no := false
		i.Virtualised = &no
	default:
		i.missing("virtualised", "this CPU has no flag for it")
	}
}

// runtimeArchHasFlag reports whether cpuinfo is of an architecture whose flags would say
// "hypervisor": x86 lists "flags", arm64 "Features".
func runtimeArchHasFlag(cpu []byte) bool { return bytes.Contains(cpu, []byte("\nflags")) }

func knownVirtual(name string) bool {
	name = strings.ToLower(name)
	for _, v := range []string{"xen", "kvm", "qemu", "vmware", "virtualbox", "virtual machine", "hvm domu", "bochs", "google compute", "amazon ec2", "firecracker", "parallels", "openstack", "droplet"} {
		if strings.Contains(name, v) {
			return true
		}
	}
	return false
}

// line reads a file of one line; an empty one counts as absent.
func (i *Info) line(root fs.FS, name, file string) *string {
	b, err := fs.ReadFile(root, file)
	if err != nil {
		i.missing(name, reason(err))
		return nil
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		i.missing(name, "/"+file+" is empty")
		return nil
	}
	return &text
}

func (i *Info) number(root fs.FS, name, file string) *int64 {
	text := i.line(root, name, file)
	if text == nil {
		return nil
	}
	n, err := strconv.ParseInt(*text, 10, 64)
	if err != nil {
		i.missing(name, "/"+file+" is not a number")
		return nil
	}
	return &n
}

func reason(err error) string { return strings.ReplaceAll(err.Error(), "open ", "open /") }

// parseCPUInfo returns the first model name and whether the flags of a CPU say "hypervisor".
func parseCPUInfo(b []byte) (model string, hypervisor bool) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "model name", "Model", "cpu model":
			if model == "" {
				model = value
			}
		case "flags":
			for _, f := range strings.Fields(value) {
				hypervisor = hypervisor || f == "hypervisor"
			}
		}
	}
	if model == "" {
		model = armModel(b)
	}
	return model, hypervisor
}

// armModel names a CPU by implementer and part where there is no model name, as on arm64.
func armModel(b []byte) string {
	var implementer, part string
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "CPU implementer":
			implementer = strings.TrimSpace(value)
		case "CPU part":
			part = strings.TrimSpace(value)
		}
	}
	if implementer == "" || part == "" {
		return ""
	}
	return "arm implementer " + implementer + " part " + part
}

// parseMemTotal reads MemTotal of /proc/meminfo, in bytes.
func parseMemTotal(b []byte) (uint64, bool) { return parseKiB(b, "MemTotal") }

// parseKiB reads a line "key:   123 kB", in bytes.
func parseKiB(b []byte, key string) (uint64, bool) {
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name != key {
			continue
		}
		f := strings.Fields(value)
		if len(f) != 2 || f[1] != "kB" {
			return 0, false
		}
		n, err := strconv.ParseUint(f[0], 10, 54)
		return n << 10, err == nil
	}
	return 0, false
}

// parseCPUMax reads cpu.max: "max 100000" or "150000 100000", quota and period in us.
func parseCPUMax(b []byte) (cores float64, limited, ok bool) {
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return 0, false, false
	}
	period, err := strconv.ParseUint(f[1], 10, 32)
	if err != nil || period == 0 {
		return 0, false, false
	}
	if f[0] == "max" {
		return 0, false, true
	}
	quota, err := strconv.ParseUint(f[0], 10, 63)
	if err != nil {
		return 0, false, false
	}
	return float64(quota) / float64(period), true, true
}
