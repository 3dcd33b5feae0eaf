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
	// Where it ran, as of the freeze.
	gomaxprocs int
	cpus       *string // nil where the system does not tell
	timerSlack *int64  // nanoseconds; nil where the system has none
	frozen     *host.Usage
	profiler   *profiler // nil: nothing is profiled
}

// newProcess starts the clock: it belongs at the start of a process.
func newProcess(name string) *process {
	return &process{name: name, clock: measure.NewClock(), before: host.ReadUsage()}
}

func (p *process) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.profiler.mark()
	p.before = host.ReadUsage()
}

// freeze ends the account and the profiles; what closing costs is not the run's, nor is the writing of a profile.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		u := host.ReadUsage()
		p.frozen = &u
		p.gomaxprocs = runtime.GOMAXPROCS(0)
		if cpus, err := host.Affinity(); err == nil {
			text := workload.FormatCPUs(cpus)
			p.cpus = &text
		}
		if slack, err := host.TimerSlack(); err == nil {
			ns := slack.Nanoseconds()
			p.timerSlack = &ns
		}
		p.profiler.end()
	}
}

func (p *process) result() processResult {
	p.freeze()
	p.mu.Lock()
	defer p.mu.Unlock()
	return processResult{
		Name: p.name, Pid: os.Getpid(), GOMAXPROCS: p.gomaxprocs, CPUs: p.cpus, TimerSlack: p.timerSlack,
		Usage: p.frozen.Sub(p.before), Clock: p.clock.Check(), Warn: p.profiler.warnings(),
	}
}

// runnerName is what the runner's own process holds.
func (p *Plan) runnerName() string {
	switch {
	case p.Case.Topology == workload.TopologySplit:
		return "runner"
	case p.Case.Topology == workload.TopologyInprocess:
		return "all"
	case p.oneHop():
		return "publisher"
	}
	return "clients"
}

// processOf names the process that a role runs in.
func (p *Plan) processOf(role string) string {
	if role == "broker" && p.Case.Probe != workload.ProbeNone {
		role = "relay"
	}
	switch {
	case p.Case.Topology == workload.TopologyInprocess:
		return "all"
	case p.Case.Topology == workload.TopologySplit, p.oneHop(), role == "broker", role == "relay":
		return role
	}
	return "clients"
}

// bothHere reports whether publishers and subscribers share the runner's process: what they have done is known there at
// any moment, while another process tells now and then.
func (p *Plan) bothHere() bool {
	return p.Case.Topology == workload.TopologyInprocess || p.Case.Topology != workload.TopologySplit && !p.oneHop()
}
