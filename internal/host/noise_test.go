package host

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// machine is a /proc that can be changed while it is read.
type machine struct{ now atomic.Pointer[fstest.MapFS] }

func (m *machine) Open(name string) (fs.File, error) { return m.now.Load().Open(name) }

// set: ticks since boot of two CPUs together.
func (m *machine) set(user, system, idle, softirq, steal int, load string, more map[string]string) {
	all := map[string]string{
		"proc/stat":    fmt.Sprintf("cpu  %d 0 %d %d 0 0 %d %d 0 0\ncpu0 0\ncpu1 0\nintr 5\n", user, system, idle, softirq, steal),
		"proc/loadavg": load + " 0.00 0.00 1/90 4\n",
	}
	for name, text := range more {
		all[name] = text
	}
	f := files(all)
	m.now.Store(&f)
}

func kernelConfig(t *testing.T, line string) map[string]string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("CONFIG_X=y\n" + line + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"proc/config.gz": b.String()}
}

func TestNoiseGrades(t *testing.T) {
	apart := kernelConfig(t, "CONFIG_IRQ_TIME_ACCOUNTING=y")
	within := kernelConfig(t, "# CONFIG_IRQ_TIME_ACCOUNTING is not set")
	for _, tt := range []struct {
		name                               string
		user, system, idle, softirq, steal int // of 1,000 ticks: 5 s of two CPUs
		own                                time.Duration
		kernel                             map[string]string
		others                             float64
		grade                              Grade
	}{
		{name: "idle", idle: 1000, others: 0, grade: Quiet},
		{name: "all of it is ours", user: 500, system: 300, idle: 200, own: 8 * time.Second, others: 0, grade: Quiet},
		{name: "rusage counts finer than ticks", user: 500, idle: 500, own: 6 * time.Second, others: 0, grade: Quiet},
		{name: "five percent is still quiet", user: 550, idle: 450, own: 5 * time.Second, others: 0.05, grade: Quiet},
		{name: "a neighbour", user: 560, idle: 440, own: 5 * time.Second, others: 0.06, grade: Noisy},
		{name: "a build beside it", user: 700, idle: 300, own: 5 * time.Second, others: 0.2, grade: Contaminated},
		{name: "steal", idle: 920, steal: 80, others: 0, grade: Noisy},
		{name: "much steal", idle: 800, steal: 200, others: 0, grade: Contaminated},
		{name: "interrupts apart from processes", user: 400, idle: 400, softirq: 200, own: 4 * time.Second, kernel: apart, others: 0, grade: Quiet},
		{name: "interrupts within processes", user: 400, idle: 400, softirq: 200, own: 6 * time.Second, kernel: within, others: 0, grade: Quiet},
		{name: "a neighbour behind interrupts", user: 500, idle: 300, softirq: 200, own: 6 * time.Second, kernel: within, others: 0.1, grade: Noisy},
		{name: "interrupts of unknown account are left out", user: 400, idle: 400, softirq: 200, own: 4 * time.Second, others: 0, grade: Quiet},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{}
			m.set(1000, 1000, 1000, 1000, 1000, "0.10", tt.kernel)
			s := startNoise(m)
			time.Sleep(time.Second)
			m.set(1000, 1000, 1000, 1000, 1000, "3.50", tt.kernel)
			time.Sleep(time.Second)
			m.set(1000+tt.user, 1000+tt.system, 1000+tt.idle, 1000+tt.softirq, 1000+tt.steal, "0.20", tt.kernel)
			time.Sleep(time.Second)
			n := s.Stop(int64(tt.own))
			if n.Grade == nil {
				t.Fatalf("%s: no grade: %s", tt.name, n.Unavailable)
			}
			if *n.Grade != tt.grade || math.Abs(*n.OthersCPU-tt.others) > 1e-9 {
				t.Errorf("%s: %s, others %v, want %s, %v", tt.name, *n.Grade, *n.OthersCPU, tt.grade, tt.others)
			}
			if *n.Load != 3.5 {
				t.Errorf("%s: load %v, want the peak 3.5", tt.name, *n.Load)
			}
		})
	}
}

func TestNoiseUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		m.set(0, 0, 0, 0, 0, "1", nil)
		s := startNoise(m)
		m.set(10, 0, 10, 0, 0, "1", nil) // 100 ms
		if n := s.Stop(0); n.Grade != nil || n.Unavailable == "" {
			t.Errorf("100 ms: %+v, want no grade and a reason", n)
		}
		if n := s.Stop(0); n.Grade != nil {
			t.Errorf("second Stop: %+v", n)
		}
		broken := files(map[string]string{"proc/stat": "cpu 1 2 3\n"})
		if n := startNoise(broken).Stop(0); n.Grade != nil || n.Unavailable == "" || n.Load != nil {
			t.Errorf("broken /proc: %+v, want nulls and a reason", n)
		}
	})
}

func TestNoiseOfThisMachine(t *testing.T) {
	n := StartNoise().Stop(0) // too short for a grade, by design of the test
	if n.Unavailable == "" {
		t.Errorf("%+v, want a reason", n)
	}
	if runtime.GOOS == "linux" && n.Load == nil {
		t.Error("no load average")
	}
	if b, err := json.Marshal(n); err != nil || !bytes.Contains(b, []byte(`"grade":null`)) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestUsage(t *testing.T) {
	before := ReadUsage()
	var sink [][]byte
	for len(sink) < 1000 {
		sink = append(sink, make([]byte, 4096))
	}
	runtime.GC()
	runtime.KeepAlive(sink)
	d := ReadUsage().Sub(before)
	if d.GCCycles < 1 || d.Allocs < 1000 || d.AllocBytes < 4096*1000 {
		t.Errorf("after 1,000 allocations and a collection: %+v", d)
	}
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return
	}
	if d.UserNs == nil || *d.MaxRSSBytes < 1<<20 || d.CPUNs() < 0 || *d.VoluntarySwitches < 0 {
		b, _ := json.Marshal(d)
		t.Errorf("usage = %s", b)
	}
	if before.CPUNs() == 0 {
		t.Error("a running process has used no CPU")
	}
}

func TestSchedLatencyNeedsSamples(t *testing.T) {
	done := make(chan struct{})
	before := ReadUsage()
	for range 3000 { // each is scheduled once
		go func() { done <- struct{}{} }()
	}
	for range 3000 {
		<-done
	}
	d := ReadUsage().Sub(before)
	if d.SchedLatencyN >= 1000 && d.SchedLatencyP99Ns == nil || d.SchedLatencyN < 1000 && d.SchedLatencyP99Ns != nil {
		t.Errorf("n = %d, p99 known is %v", d.SchedLatencyN, d.SchedLatencyP99Ns != nil)
	}
	if z := ReadUsage(); z.Sub(z).SchedLatencyP99Ns != nil {
		t.Error("a p99 of no samples")
	}
}
