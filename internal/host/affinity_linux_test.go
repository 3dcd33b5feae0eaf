package host_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"felix/internal/host"
)

func TestAffinity(t *testing.T) {
	all, err := host.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.SetAffinity(all); err != nil {
			t.Error(err)
		}
	})
	// Threads that exist and threads that are still to come: as many as there are locked goroutines.
	look := func() chan []int {
		got := make(chan []int, 8)
		for range cap(got) {
			go func() {
				runtime.LockOSThread() // and ends with it: the thread is gone after the test
				cpus, _ := host.Affinity()
				got <- cpus
			}()
		}
		return got
	}
	before := look()
	one := all[len(all)-1:]
	if err := host.SetAffinity(one); err != nil {
		t.Fatal(err)
	}
	for range cap(before) {
		<-before
	}
	after := look()
	for range cap(after) {
		if cpus := <-after; !slices.Equal(cpus, one) {
			t.Errorf("a thread may run on %v, want %v", cpus, one)
		}
	}
	for _, cpus := range [][]int{nil, {-1}, {1 << 20}, {1023}} {
		if err := host.SetAffinity(cpus); err == nil && !slices.Contains(all, 1023) {
			t.Errorf("SetAffinity(%v) taken", cpus)
		}
	}
	if err := host.SetAffinity(append(slices.Clone(one), 1023)); err == nil || !strings.Contains(err.Error(), "may use only") {
		t.Errorf("SetAffinity with a processor that there is not: %v", err)
	}
}
