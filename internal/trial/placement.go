package trial

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"felix/internal/host"
	"felix/internal/workload"
)

// Placement is a function of role and case alone: how many goroutines of a process run at once, and
// on which processors. It is decided before the role opens anything, and stands in the record as
// the process ended with it.

// roleCPUs are the processors that the case gives to a process, by its name.
func roleCPUs(c *workload.Case, process string) []int {
	switch process {
	case "broker", "relay":
		return c.CPUs.Of(workload.RoleBroker)
	case "publisher":
		return c.CPUs.Of(workload.RolePublisher)
	case "subscriber", "clients": // clients are publishers too, and the case gives both the same
		return c.CPUs.Of(workload.RoleSubscriber)
	}
	return nil
}

// checkPlacement refuses processors that this machine does not give to the trial.
func checkPlacement(c *workload.Case) error {
	if c.CPUs == "" {
		return nil
	}
	const hint = "leave --cpus out, or name processors that this process may use"
	may, err := host.Affinity()
	if err != nil {
		return usage(hint, "--cpus %s: %w", c.CPUs, err)
	}
	for _, role := range []workload.Role{workload.RoleBroker, workload.RolePublisher, workload.RoleSubscriber} {
		for _, n := range c.CPUs.Of(role) {
			if !slices.Contains(may, n) {
				return usage(hint, "--cpus %s: processor %d is none of those that this process may use (%s)", c.CPUs, n, workload.FormatCPUs(may))
			}
		}
	}
	return nil
}

// autoProcs is how many goroutines a process runs at once with procs auto: one for each processor
// that it was given, as Go decides for a process that is started so; else its share of the machine
// among the processes that carry the load. 0 leaves it as it is: where one process carries it all,
// where a broker runs elsewhere, and where GOMAXPROCS says it.
//
// A process that may use every processor wakes its goroutines on the others, where they contend with
// the next process. On two processors, one goroutine at once in each process against two: p50 of
// single messages 0.87 [0.86, 0.99], p99 0.32 [0.26, 0.39], CPU of them 0.75 (pairs, n=8).
func autoProcs(c *workload.Case, cpus, procs int) int {
	switch {
	case os.Getenv("GOMAXPROCS") != "":
		return 0
	case cpus > 0:
		return cpus
	case c.Topology == workload.TopologyProcesses:
		return max(1, procs/2)
	case c.Topology == workload.TopologySplit && c.Probe != workload.ProbeNone && c.Probe.Hops() == 1:
		return max(1, procs/2)
	case c.Topology == workload.TopologySplit:
		return max(1, procs/3)
	}
	return 0
}

// place puts this process where the case wants it and returns what puts it back, nil if nothing was
// changed.
func place(c *workload.Case, process string) (restore func() error, err error) {
	cpus := roleCPUs(c, process)
	procs := int(c.Procs)
	if procs == 0 {
		procs = autoProcs(c, len(cpus), runtime.GOMAXPROCS(0))
	}
	var back []func() error
	if len(cpus) > 0 {
		was, err := host.Affinity()
		if err == nil {
			err = host.SetAffinity(cpus)
		}
		if err != nil {
			return nil, usage("leave --cpus out, or name processors that this process may use", "--cpus %s for the %s: %w", c.CPUs, process, err)
		}
		back = append(back, func() error { return host.SetAffinity(was) })
	}
	if procs > 0 {
		was := runtime.GOMAXPROCS(procs)
		back = append(back, func() error { runtime.GOMAXPROCS(was); return nil })
	}
	if len(back) == 0 {
		return nil, nil
	}
	return func() error {
		var errs error
		for _, f := range back {
			errs = errors.Join(errs, f())
		}
		return errs
	}, nil
}

func (t *trial) placeSelf(process string) (err error) {
	t.unplace, err = place(&t.Case, process)
	return err
}

// restore puts this process back, so that the next trial in it begins as this one did.
func (t *trial) restore() {
	if t.unplace == nil {
		return
	}
	if err := t.unplace(); err != nil {
		fmt.Fprintf(t.Stderr, "placement: %v\n", err)
	}
}
