package trial_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"felix/internal/trial"
	"felix/internal/workload"
)

// Every process that carries load hands over what was asked for, of the measure phase alone, and nothing stays behind.
func TestProfiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := small(workload.Case{Payload: 64, Topology: workload.TopologyProcesses})
	s.Pprof = trial.Profiles{trial.ProfileCPU, trial.ProfileHeap, trial.ProfileBlock, trial.ProfileMutex, trial.ProfileTrace}
	out, err := trial.Run(t.Context(), resolve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	mustBeValid(t, out.Record)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(out.Extras)) {
		if strings.HasPrefix(name, "broker.") || strings.HasPrefix(name, "clients.") {
			names = append(names, name)
		}
	}
	want := []string{
		"broker.block.pprof", "broker.cpu.pprof", "broker.heap.pprof", "broker.mutex.pprof", "broker.trace",
		"clients.block.pprof", "clients.cpu.pprof", "clients.heap.pprof", "clients.mutex.pprof", "clients.trace",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("files %q, want %q", names, want)
	}
	for _, name := range names {
		if filepath.Ext(name) == ".trace" {
			if !strings.HasPrefix(string(out.Extras[name]), "go 1.") {
				t.Errorf("%s: no trace, it begins with %q", name, out.Extras[name][:min(16, len(out.Extras[name]))])
			}
			continue
		}
		p, err := profile.ParseData(out.Extras[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(name, ".cpu.") && (p.DurationNanos <= 0 || p.DurationNanos > out.Record.DurationNs) {
			t.Errorf("%s: over %v of a trial of %v", name, time.Duration(p.DurationNanos), time.Duration(out.Record.DurationNs))
		}
	}
	for _, mark := range []string{"pprof cpu", "pprof heap", "pprof block", "pprof mutex", "pprof trace"} {
		if !slices.Contains(out.Record.Perturbed, mark) {
			t.Errorf("perturbed %q, want %q in it", out.Record.Perturbed, mark)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "latencydemo-pprof-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A process that is killed takes its profiles with it, not the trial: the run ends as it does without them.
func TestProfilesOfAKilledBroker(t *testing.T) {
	s := small(workload.Case{Payload: 1024, Batch: 4, Topology: workload.TopologySplit})
	s.Pprof = trial.Profiles{trial.ProfileCPU, trial.ProfileMutex}
	r := killWhileMeasuring(t, s, "broker")
	if !slices.Contains(r.Perturbed, "pprof cpu") {
		t.Errorf("perturbed %q", r.Perturbed)
	}
}
