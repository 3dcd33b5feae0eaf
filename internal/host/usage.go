package host

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"slices"
)

// Usage is what this process used since it started, or, after Sub, between two moments.
type Usage struct {
	UserNs              *int64 `json:"user_ns"`
	SystemNs            *int64 `json:"system_ns"`
	VoluntarySwitches   *int64 `json:"voluntary_switches"`
	InvoluntarySwitches *int64 `json:"involuntary_switches"`
	MaxRSSBytes         *int64 `json:"max_rss_bytes"` // the peak so far, even after Sub

	GCCycles   int64  `json:"gc_cycles"`
	GCPauseNs  int64  `json:"gc_pause_ns"` // all stop-the-world pauses of the collector
	Allocs     uint64 `json:"allocs"`      // objects
	AllocBytes uint64 `json:"alloc_bytes"`

	// SchedLatencyP99Ns: how long goroutines were runnable before they ran; the upper edge of the
	// runtime's bucket. Null with fewer than 1,000 samples.
	SchedLatencyP99Ns *int64 `json:"sched_latency_p99_ns"`
	SchedLatencyN     uint64 `json:"sched_latency_n"`
	// MutexWaitNs: time that goroutines spent blocked on mutexes, summed.
	MutexWaitNs int64 `json:"mutex_wait_ns"`

	Unavailable map[string]string `json:"unavailable,omitempty"`

	sched *metrics.Float64Histogram
}

// CPUNs returns user and system time together, 0 if not known.
func (u Usage) CPUNs() int64 {
	if u.UserNs == nil || u.SystemNs == nil {
		return 0
	}
	return *u.UserNs + *u.SystemNs
}

// ReadUsage reads the usage of this process. It costs some microseconds and stops nothing.
func ReadUsage() Usage {
	var u Usage
	u.readRusage()

	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	u.GCCycles, u.GCPauseNs = gc.NumGC, int64(gc.PauseTotal)

	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/sync/mutex/wait/total:seconds"},
		{Name: "/sched/latencies:seconds"},
	}
	metrics.Read(samples)
	u.Allocs = uintOf(samples[0])
	u.AllocBytes = uintOf(samples[1])
	if v := samples[2].Value; v.Kind() == metrics.KindFloat64 {
		u.MutexWaitNs = int64(v.Float64() * 1e9)
	}
	if v := samples[3].Value; v.Kind() == metrics.KindFloat64Histogram {
		u.sched = v.Float64Histogram()
	}
	u.summarise()
	return u
}

func uintOf(s metrics.Sample) uint64 {
	if s.Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s.Value.Uint64()
}

// Sub returns what was used between before and u. MaxRSSBytes stays the peak of u.
func (u Usage) Sub(before Usage) Usage {
	d := u
	d.UserNs = subSigned(u.UserNs, before.UserNs)
	d.SystemNs = subSigned(u.SystemNs, before.SystemNs)
	d.VoluntarySwitches = subSigned(u.VoluntarySwitches, before.VoluntarySwitches)
	d.InvoluntarySwitches = subSigned(u.InvoluntarySwitches, before.InvoluntarySwitches)
	d.GCCycles -= before.GCCycles
	d.GCPauseNs -= before.GCPauseNs
	d.Allocs -= before.Allocs
	d.AllocBytes -= before.AllocBytes
	d.MutexWaitNs -= before.MutexWaitNs
	d.sched = subHistogram(u.sched, before.sched)
	d.summarise()
	return d
}

func subSigned(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}

func subHistogram(a, b *metrics.Float64Histogram) *metrics.Float64Histogram {
	if a == nil || b == nil || !slices.Equal(a.Buckets, b.Buckets) {
		return a
	}
	d := &metrics.Float64Histogram{Buckets: a.Buckets, Counts: slices.Clone(a.Counts)}
	for i, n := range b.Counts {
		d.Counts[i] -= min(n, d.Counts[i])
	}
	return d
}

// schedSamples is how many samples a p99 needs: 10 beyond it.
const schedSamples = 1000

func (u *Usage) summarise() {
	u.SchedLatencyN, u.SchedLatencyP99Ns = 0, nil
	if u.sched == nil {
		return
	}
	for _, n := range u.sched.Counts {
		u.SchedLatencyN += n
	}
	if u.SchedLatencyN < schedSamples {
		return
	}
	rank := u.SchedLatencyN - u.SchedLatencyN/100
	var seen uint64
	for i, n := range u.sched.Counts {
		if seen += n; seen < rank {
			continue
		}
		edge := u.sched.Buckets[i+1]
		if math.IsInf(edge, 1) {
			edge = u.sched.Buckets[i]
		}
		v := int64(edge * 1e9)
		u.SchedLatencyP99Ns = &v
		return
	}
}
