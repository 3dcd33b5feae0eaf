package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Grade is how much else the machine did during a run.
type Grade string

// The grades. Shares are of the whole machine's CPU time.
const (
	Quiet        Grade = "quiet"
	Noisy        Grade = "noisy"        // others or steal above NoisyShare
	Contaminated Grade = "contaminated" // above ContaminatedShare
)

// Thresholds of the grades.
const (
	NoisyShare        = 0.05
	ContaminatedShare = 0.15
)

const (
	noiseInterval = 250 * time.Millisecond
	// shortestNoise is the shortest run that is graded: /proc/stat counts in ticks of 10 ms.
	shortestNoise = 300 * time.Millisecond
	tick          = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
)

// Noise is what the machine did besides the trial. Null where not known; Unavailable says why.
type Noise struct {
	Grade *Grade `json:"grade"`
	// OthersCPU: CPU time of what is not the trial's, share of the machine. The trial's datagrams
	// cause most of the soft interrupts. A kernel that accounts interrupts apart charges them to no
	// process, and they are left out; one that does not charges them to the trial, and they are in
	// both sums. If the kernel does not tell which it is, they are left out: a lower bound.
	OthersCPU *float64 `json:"others_cpu"`
	Steal     *float64 `json:"steal"` // taken by the hypervisor, share of the machine
	StealPeak *float64 `json:"steal_peak"`
	IRQ       *float64 `json:"irq"` // hard and soft interrupts, whoever caused them
	// Load is the largest one-minute load average seen. The trial's own processes are in it, and
	// the minute before; it is information, and not graded.
	Load *float64 `json:"load"`

	Unavailable string `json:"unavailable,omitempty"`
}

// Sampler watches the machine from StartNoise to Stop.
type Sampler struct {
	root      fs.FS
	before    cpuTimes
	err       error
	load      float64
	loadKnown bool
	last      cpuTimes
	after     cpuTimes // set by Freeze
	stealPeak float64
	irqInUse  bool // the usage of processes holds the interrupts they were hit by

	quit chan struct{}
	done chan struct{} // closed when the sampling goroutine has ended
}

// StartNoise begins to watch. Stop must be called: it ends the goroutine.
func StartNoise() *Sampler {
	if runtime.GOOS != "linux" {
		return &Sampler{err: errors.New("only Linux tells")}
	}
	return startNoise(os.DirFS("/"))
}

func startNoise(root fs.FS) *Sampler {
	s := &Sampler{root: root, quit: make(chan struct{}), done: make(chan struct{})}
	s.before, s.err = readCPU(root)
	s.last = s.before
	apart, known := irqAccounting(root)
	s.irqInUse = known && !apart
	s.sampleLoad()
	go s.run()
	return s
}

func (s *Sampler) run() {
	defer close(s.done)
	t := time.NewTicker(noiseInterval)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
			s.sample()
		}
	}
}

func (s *Sampler) sample() {
	s.sampleLoad()
	now, err := readCPU(s.root)
	if err != nil {
		return // Stop reads once more, and says so
	}
	if d := now.sub(s.last); d.total() > 0 {
		s.stealPeak = max(s.stealPeak, float64(d.steal)/float64(d.total()))
	}
	s.last = now
}

func (s *Sampler) sampleLoad() {
	b, err := fs.ReadFile(s.root, "proc/loadavg")
	if err != nil {
		return
	}
	if l, ok := parseLoad(b); ok {
		s.load, s.loadKnown = max(s.load, l), true
	}
}

// Freeze ends the watch; Stop then judges what was seen up to here. It is for a trial that learns
// what its processes used only when they have ended.
func (s *Sampler) Freeze() {
	if s.quit == nil {
		return
	}
	close(s.quit)
	<-s.done
	s.quit = nil
	s.sample()
	s.after, s.err = readCPU(s.root)
}

// Stop ends the watch. ownCPUNs is the user and system time that all processes of the trial used
// since StartNoise, together.
func (s *Sampler) Stop(ownCPUNs int64) Noise {
	s.Freeze()
	var n Noise
	if s.loadKnown {
		n.Load = &s.load
	}
	if s.err != nil {
		n.Unavailable = s.err.Error()
		return n
	}
	d := s.after.sub(s.before)
	if wall := time.Duration(d.total()) * tick / time.Duration(max(s.after.cpus, 1)); wall < shortestNoise {
		n.Unavailable = fmt.Sprintf("watched for %v: too short for ticks of %v", wall, tick)
		return n
	}
	n.judge(d, ownCPUNs, s.irqInUse)
	n.StealPeak = &s.stealPeak
	return n
}

func (n *Noise) judge(d cpuTimes, ownCPUNs int64, irqInUse bool) {
	total := float64(d.total())
	busy := d.user + d.system
	if irqInUse {
		busy += d.irq
	}
	others := max(0, (float64(busy)-float64(ownCPUNs)/float64(tick))/total)
	steal := float64(d.steal) / total
	irq := float64(d.irq) / total
	n.OthersCPU, n.Steal, n.IRQ = &others, &steal, &irq
	g := Quiet
	switch worst := max(others, steal); {
	case worst > ContaminatedShare:
		g = Contaminated
	case worst > NoisyShare:
		g = Noisy
	}
	n.Grade = &g
}

// cpuTimes are the machine's CPU times in ticks. user holds nice and guest time too.
type cpuTimes struct {
	user, system, idle, irq, steal uint64
	cpus                           int
}

func (c cpuTimes) total() uint64 { return c.user + c.system + c.idle + c.irq + c.steal }

// sub returns the ticks from before to c. Idle time can step back on some kernels: then it is 0.
func (c cpuTimes) sub(before cpuTimes) cpuTimes {
	d := func(a, b uint64) uint64 { return a - min(a, b) }
	return cpuTimes{
		user:   d(c.user, before.user),
		system: d(c.system, before.system),
		idle:   d(c.idle, before.idle),
		irq:    d(c.irq, before.irq),
		steal:  d(c.steal, before.steal),
		cpus:   c.cpus,
	}
}

func readCPU(root fs.FS) (cpuTimes, error) {
	b, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return cpuTimes{}, errors.New(reason(err))
	}
	c, ok := parseStat(b)
	if !ok {
		return cpuTimes{}, errors.New("/proc/stat is not understood")
	}
	return c, nil
}

// parseStat reads the "cpu" line of /proc/stat (user nice system idle iowait irq softirq steal
// guest guest_nice; guest is in user already) and counts the "cpuN" lines.
func parseStat(b []byte) (cpuTimes, bool) {
	var c cpuTimes
	found := false
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			c.cpus++
			continue
		}
		if len(f) < 9 {
			return cpuTimes{}, false
		}
		var v [8]uint64
		for i := range v {
			n, err := strconv.ParseUint(f[i+1], 10, 56)
			if err != nil {
				return cpuTimes{}, false
			}
			v[i] = n
		}
		c.user, c.system, c.idle, c.irq, c.steal = v[0]+v[1], v[2], v[3]+v[4], v[5]+v[6], v[7]
		found = true
	}
	return c, found
}

// parseLoad reads the one-minute average of /proc/loadavg.
func parseLoad(b []byte) (float64, bool) {
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return 0, false
	}
	l, err := strconv.ParseFloat(f[0], 64)
	return l, err == nil && l >= 0 && l < 1e9
}
