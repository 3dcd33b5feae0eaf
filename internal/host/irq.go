package host

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
)

// irqOption is the kernel's build option that keeps interrupt time out of the time of the process
// that was interrupted.
const irqOption = "CONFIG_IRQ_TIME_ACCOUNTING"

// maxKernelConfig bounds what is read of a kernel's build configuration.
const maxKernelConfig = 4 << 20

// irqAccounting reports whether the kernel accounts interrupts apart, and whether it tells: in
// /proc/config.gz or /boot/config-RELEASE.
func irqAccounting(root fs.FS) (apart, known bool) {
	if b, err := fs.ReadFile(root, "proc/config.gz"); err == nil {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return false, false
		}
		text, err := io.ReadAll(io.LimitReader(z, maxKernelConfig))
		if err != nil {
			return false, false
		}
		return parseIRQOption(text)
	}
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return false, false
	}
	text, err := fs.ReadFile(root, "boot/config-"+strings.TrimSpace(string(release)))
	if err != nil {
		return false, false
	}
	return parseIRQOption(text)
}

func parseIRQOption(config []byte) (set, known bool) {
	for line := range bytes.Lines(config) {
		switch string(bytes.TrimSpace(line)) {
		case irqOption + "=y":
			return true, true
		case "# " + irqOption + " is not set":
			return false, true
		}
	}
	return false, false
}
