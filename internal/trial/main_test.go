package trial_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/internal/racetest"
	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// The test binary plays the roles of the trials that it runs: os.Executable of a test is the test.
func TestMain(m *testing.M) {
	if code, isRole := trial.Role(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); isRole {
		os.Exit(code)
	}
	racetest.EndAtOnce()
	goleak.VerifyTestMain(m)
}

// small is a trial that takes a moment: the bars of real runs are for real machines.
func small(c workload.Case) trial.Spec {
	return trial.Spec{
		Case:   c,
		Sizes:  trial.Sizes{Total: 2000, Warmup: 100, AllowUndersized: true, Seed: 7, IdleTimeout: 2 * time.Second},
		Stderr: os.Stderr,
	}
}

func resolve(t *testing.T, s trial.Spec) *trial.Plan {
	t.Helper()
	p, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t *testing.T, ctx context.Context, s trial.Spec) *runrecord.Record {
	t.Helper()
	out, err := trial.Run(ctx, resolve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	line, err := out.Record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := runrecord.Parse(bytes.TrimSpace(line)) // judged as a reader would see it
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// faults are the reasons that tests of small runs look at: buffers may hold a quarter of a run of a few milliseconds, and
// a machine that runs other tests beside this one may not keep up a rate; to say so is right.
func faults(r *runrecord.Record) []string {
	return slices.DeleteFunc(slices.Clone(r.Reasons), func(reason string) bool {
		kind, _, _ := strings.Cut(reason, ":")
		return slices.Contains([]string{"buffer-absorbed", "generator-bound", "rate-not-achieved"}, kind)
	})
}

func mustBeValid(t *testing.T, r *runrecord.Record) {
	t.Helper()
	if bad := faults(r); len(bad) > 0 {
		t.Fatalf("invalid: %v (warnings %v)", bad, r.Warnings)
	}
	if r.Counts.Delivered != r.Counts.Expected || r.Counts.Unaccounted != 0 || r.Counts.Expected == 0 {
		t.Errorf("delivered %d of %d, %d unaccounted", r.Counts.Delivered, r.Counts.Expected, r.Counts.Unaccounted)
	}
}

// children lists the pids of this process's children whose command line holds the words.
func children(t *testing.T, words ...string) []int {
	t.Helper()
	var pids []int
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(dirs) == 0 {
		t.Skip("no /proc: cannot find child processes on this system")
	}
	for _, file := range dirs {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		after := string(stat[bytes.LastIndexByte(stat, ')')+1:])
		f := strings.Fields(after)
		if len(f) < 2 || f[1] != strconv.Itoa(os.Getpid()) || f[0] == "Z" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		if args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"); len(args) > len(words) && strings.Join(args[1:], " ") == strings.Join(words, " ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("kill %d: %v", pid, err)
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
