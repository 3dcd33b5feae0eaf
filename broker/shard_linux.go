package broker

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// allowedCPUs are those that the calling thread may run on, in ascending order; nil if they cannot
// be told.
func allowedCPUs() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// pin binds the calling thread to one of the CPUs. Shards take them in turn.
func pin(cpus []int, shard int) error {
	if len(cpus) == 0 {
		return errors.New("the CPUs of the process are not known")
	}
	cpu := cpus[shard%len(cpus)]
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	return nil
}
