package host

import (
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

func files(m map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range m {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// Whatever the system: each null has its reason, and what is known has none.
func checkReasons(t *testing.T, i Info) {
	t.Helper()
	v := reflect.ValueOf(i)
	for k := range v.NumField() {
		f := v.Field(k)
		name, _, _ := strings.Cut(v.Type().Field(k).Tag.Get("json"), ",")
		if f.Kind() != reflect.Pointer {
			continue
		}
		if why := i.Unavailable[name]; f.IsNil() != (why != "") {
			t.Errorf("%s: null is %v, reason %q", name, f.IsNil(), why)
		}
	}
}

func TestFactsOfThisMachine(t *testing.T) {
	i := Facts()
	checkReasons(t, i)
	if i.OS != runtime.GOOS || i.Cores < 1 || i.GOMAXPROCS < 1 || len(i.Fingerprint) != 12 {
		t.Errorf("Facts = %+v", i)
	}
	if again := Facts(); again.Fingerprint != i.Fingerprint {
		t.Errorf("fingerprint %s, then %s", i.Fingerprint, again.Fingerprint)
	}
	if runtime.GOOS == "linux" && (i.Kernel == nil || i.MemoryBytes == nil) {
		t.Errorf("kernel and memory are not known: %v", i.Unavailable)
	}
	if _, err := json.Marshal(i); err != nil {
		t.Error(err)
	}
}

func TestFactsOfLinux(t *testing.T) {
	i := Info{Unavailable: map[string]string{}}
	i.readLinux(files(map[string]string{
		"proc/cpuinfo":                "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: other\n",
		"proc/meminfo":                "MemTotal:        8055276 kB\nMemFree: 1 kB\n",
		"proc/sys/kernel/osrelease":   "6.1.0-9\n",
		"proc/sys/net/core/rmem_max":  "212992\n",
		"proc/sys/net/core/wmem_max":  "many\n",
		"sys/fs/cgroup/cpu.max":       "150000 100000\n",
		"sys/class/dmi/id/sys_vendor": "QEMU\n",
	}))
	checkReasons(t, i)
	if *i.CPU != "AMD EPYC" || *i.MemoryBytes != 8055276<<10 || *i.Kernel != "6.1.0-9" || *i.RmemMaxBytes != 212992 ||
		*i.CPUQuotaCores != 1.5 || !*i.Virtualised || *i.Virtualisation != "QEMU" {
		b, _ := json.Marshal(i)
		t.Errorf("Info = %s", b)
	}
	if i.WmemMaxBytes != nil || i.Governor != nil {
		t.Error("what is not there or no number is not null")
	}

	empty := Info{Unavailable: map[string]string{}}
	empty.readLinux(files(nil))
	checkReasons(t, empty)
	if why := empty.Unavailable["kernel"]; !strings.Contains(why, "/proc/sys/kernel/osrelease") {
		t.Errorf("reason %q does not name the file", why)
	}
}

func TestARMAndBareMetal(t *testing.T) {
	for _, tt := range []struct {
		name, cpuinfo, model string
		virtualised          *bool
	}{
		{"arm64 has neither model nor flag", "processor: 0\nFeatures : fp\nCPU implementer : 0x41\nCPU part : 0xd0c\n", "arm implementer 0x41 part 0xd0c", nil},
		{"x86 without the flag is bare metal", "model name : X\nflags : fpu\n", "X", new(bool)},
	} {
		i := Info{Unavailable: map[string]string{}}
		i.readLinux(files(map[string]string{"proc/cpuinfo": tt.cpuinfo}))
		checkReasons(t, i)
		if *i.CPU != tt.model || !reflect.DeepEqual(i.Virtualised, tt.virtualised) {
			t.Errorf("%s: CPU %q virtualised %v", tt.name, *i.CPU, i.Virtualised)
		}
	}
}

func TestFingerprintIgnoresWhatMoves(t *testing.T) {
	kernel, cpu, memory := "6.1", "X", uint64(8<<30)
	a := Info{OS: "linux", Arch: "amd64", Kernel: &kernel, CPU: &cpu, Cores: 2, MemoryBytes: &memory}
	b, less := a, memory-1<<20
	b.MemoryBytes, b.GOMAXPROCS = &less, 1
	if a.fingerprint() != b.fingerprint() {
		t.Error("a megabyte and GOMAXPROCS make another host")
	}
	b.Cores = 4
	if a.fingerprint() == b.fingerprint() {
		t.Error("two more cores make the same host")
	}
}

func TestParseCPUMax(t *testing.T) {
	for _, tt := range []struct {
		text        string
		cores       float64
		limited, ok bool
	}{
		{"max 100000\n", 0, false, true}, {"50000 100000", 0.5, true, true}, {"50000 0", 0, false, false}, {"", 0, false, false}, {"x 100", 0, false, false},
	} {
		if cores, limited, ok := parseCPUMax([]byte(tt.text)); cores != tt.cores || limited != tt.limited || ok != tt.ok {
			t.Errorf("parseCPUMax(%q) = %v %v %v, want %v %v %v", tt.text, cores, limited, ok, tt.cores, tt.limited, tt.ok)
		}
	}
}

func FuzzParsers(f *testing.F) {
	for _, name := range []string{"/proc/stat", "/proc/net/snmp", "/proc/net/udp", "/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg"} {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte(snmp))
	f.Add([]byte(sockets))
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"))
	f.Add([]byte("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseCPUInfo(b)
		parseMemTotal(b)
		parseCPUMax(b)
		parseSNMP6(b)
		parseIRQOption(b)
		for port := range parseSockets(b) {
			if port < 0 || port > 65535 {
				t.Errorf("port %d", port)
			}
		}
		if counters, ok := parseSNMP(b); ok && counters == nil {
			t.Error("counters without names")
		}
		if l, ok := parseLoad(b); ok && !(l >= 0) {
			t.Errorf("load %v", l)
		}
		if c, ok := parseStat(b); ok {
			var n Noise
			n.judge(c, 0, true)
			if !(*n.OthersCPU >= 0 && *n.OthersCPU <= 1) && c.total() > 0 {
				t.Errorf("others %v of %+v", *n.OthersCPU, c)
			}
		}
	})
}
