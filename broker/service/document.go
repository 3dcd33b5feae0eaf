package service

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"felix/broker"
	"felix/internal/settings"
	"felix/internal/transport"
)

// Document is what /stats shows.
type Document struct {
	At     time.Time    `json:"at"`
	Broker broker.Stats `json:"broker"`
	// Conns are the newest statistics of the open connections and of the last that ended.
	Conns []transport.ConnStats `json:"conns"`
	// ConnsForgotten counts ended connections that are no longer in Conns.
	ConnsForgotten uint64                       `json:"conns_forgotten"`
	Socket         transport.SocketInfo         `json:"socket"`
	Config         map[string]settings.Document `json:"config"`
	// Memory is the byte bounds in use, and MemorySum what they add up to.
	Memory    MemoryUse `json:"memory"`
	MemorySum int64     `json:"memory_sum_bytes"`
	Process   Process   `json:"process"`
}

// Process is what the process has used since it began. A nil pointer is a fact that this
// system does not tell.
type Process struct {
	UserNs              *int64 `json:"user_ns"`
	SystemNs            *int64 `json:"system_ns"`
	VoluntarySwitches   *int64 `json:"voluntary_switches"`
	InvoluntarySwitches *int64 `json:"involuntary_switches"`
	MaxRSSBytes         *int64 `json:"max_rss_bytes"`
	GCCycles            uint32 `json:"gc_cycles"`
	GCPauseNs           uint64 `json:"gc_pause_ns"`
	Allocs              uint64 `json:"allocs"` // objects
	AllocBytes          uint64 `json:"alloc_bytes"`
	HeapBytes           uint64 `json:"heap_bytes"`
	MutexWaitNs         int64  `json:"mutex_wait_ns"` // of all goroutines, summed
	MemoryLimitBytes    int64  `json:"memory_limit_bytes"`
	Goroutines          int    `json:"goroutines"`
	GOMAXPROCS          int    `json:"gomaxprocs"`
}

// Document puts together what /stats shows.
func (s *Service) Document() Document {
	d := Document{
		At: time.Now(), Broker: s.broker.Stats(), Conns: []transport.ConnStats{},
		ConnsForgotten: s.monitor.Forgotten(), Config: s.opts.Config, Memory: s.memoryInUse(), Process: processNow(),
	}
	d.MemorySum = d.Memory.Sum()
	for _, t := range s.monitor.Finals() {
		d.Conns = append(d.Conns, t.Final)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		d.Socket = s.listener.SocketInfo()
	}
	return d
}

func mutexWait() int64 {
	wait := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	if metrics.Read(wait); wait[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return int64(wait[0].Value.Float64() * 1e9)
}

func processNow() Process {
	var m runtime.MemStats
	runtime.ReadMemStats(&m) // stops the world for some 20 us: /stats is read by hand or once a trial
	p := Process{
		GCCycles: m.NumGC, GCPauseNs: m.PauseTotalNs, Allocs: m.Mallocs, AllocBytes: m.TotalAlloc, HeapBytes: m.HeapAlloc,
		MutexWaitNs:      mutexWait(),
		MemoryLimitBytes: debug.SetMemoryLimit(-1), Goroutines: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0),
	}
	p.usage()
	return p
}
