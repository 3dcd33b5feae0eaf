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

// place puts this process where the case wants it and returns what puts it back, nil if nothing was
// changed. With procs auto a process that is given processors runs as many goroutines at once as it
// has of them, as Go decides for a process that is started so.
func place(c *workload.Case, process string) (restore func() error, err error) {
	cpus := roleCPUs(c, process)
	procs := int(c.Procs)
	if procs == 0 && len(cpus) > 0 && os.Getenv("GOMAXPROCS") == "" {
		procs = len(cpus)
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
