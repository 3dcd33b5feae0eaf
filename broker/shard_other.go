//go:build !linux

package broker

// allowedCPUs says nothing: threads cannot be bound to CPUs here, and shards have to do with a
// thread of their own.
func allowedCPUs() []int { return nil }

func pin([]int, int) error { return nil }
