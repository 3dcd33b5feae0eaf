package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Affinity lists the processors that this process may run on, in ascending order: those of the
// calling thread.
func Affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	return cpusOf(&set), nil
}

func cpusOf(set *unix.CPUSet) []int {
	var cpus []int
	for n := range len(set) * strconv.IntSize {
		if set.IsSet(n) {
			cpus = append(cpus, n)
		}
	}
	return cpus
}

// SetAffinity makes every thread of this process run on these processors only, and with them those
// that they start. A processor that the process may not use is an error; then some threads may have
// been moved already.
func SetAffinity(cpus []int) error {
	var set unix.CPUSet
	for _, n := range cpus {
		if n >= 0 {
			set.Set(n)
		}
	}
	if set.Count() != len(cpus) || len(cpus) == 0 {
		return fmt.Errorf("processors %v: want at least one, each once and below %d", cpus, len(set)*strconv.IntSize)
	}
	// A thread that is started meanwhile may be its parent's child from before: look again until
	// there is none that is not known.
	moved := map[int]bool{}
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		fresh := false
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || moved[tid] {
				continue
			}
			moved[tid], fresh = true, true
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("sched_setaffinity: %w", err)
			}
		}
		if !fresh {
			break
		}
	}
	// The kernel leaves out what it does not have, and says so only if nothing is left.
	got, err := Affinity()
	if err != nil {
		return err
	}
	if !slices.Equal(got, cpus) {
		return fmt.Errorf("of the processors %v this process may use only %v", cpus, got)
	}
	return nil
}
