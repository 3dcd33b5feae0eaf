package trial

import (
	"os"
	"runtime"
	"sync"

	"felix/internal/host"
	"felix/internal/measure"
	"felix/internal/workload"
)

// process is what this process spends between the mark and the end of the drain.
type process struct {
	name  string
	clock *measure.Clock

	mu     sync.Mutex
	before host.Usage
	frozen *host.Usage
}

// newProcess starts the clock: it belongs at the start of a process.
func newProcess(name string) *process {
	return &process{name: name, clock: measure.NewClock(), before: host.ReadUsage()}
}

func (p *process) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = host.ReadUsage()
}

// freeze ends the account; what closing costs is not the run's.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		u := host.ReadUsage()
		p.frozen = &u
	}
}

func (p *process) result() processResult {
	p.freeze()
	p.mu.Lock()
	defer p.mu.Unlock()
	return processResult{
		Name: p.name, Pid: os.Getpid(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		Usage: p.frozen.Sub(p.before), Clock: p.clock.Check(),
	}
}

// runnerName is what the runner's own process holds, by topology.
func runnerName(t workload.Topology) string {
	switch t {
	case workload.TopologySplit:
		return "runner"
	case workload.TopologyInprocess:
		return "all"
	}
	return "clients"
}

// processOf names the process that a role runs in.
func (p *Plan) processOf(role string) string {
	switch p.Case.Topology {
	case workload.TopologySplit:
		return role
	case workload.TopologyInprocess:
		return "all"
	}
	if role == "broker" {
		return "broker"
	}
	return "clients"
}
