//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/runrecord"
)

// started is a latencydemo with its roles. All of them hold the write end of its stderr, so that end of file there
// says that no process is left.
type started struct {
	cmd  *exec.Cmd
	out  bytes.Buffer // its stdout, whole after Wait
	gone chan string  // what they said, when the last of them has ended
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{cmd: exec.Command(exe, args...), gone: make(chan string, 1)}
	s.cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+t.TempDir()) // a lock of its own
	s.cmd.Stdout = &s.out
	s.cmd.Stderr = w
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does, so that a signal reaches the whole group
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() {
		text, _ := io.ReadAll(r)
		s.gone <- string(text)
		_ = r.Close()
	}()
	t.Cleanup(func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }) // of a test that failed
	return s
}

// waitForRole returns when the process has a descendant of that role started by another runner
// than not, and says by which. The role ignores SIGINT by then: a process that has its name but has
// not come so far would be ended by a signal to the group.
func (s *started) waitForRole(t *testing.T, role string, not int) (runner int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s process", role)
		case text := <-s.gone:
			t.Fatalf("ended: %s", text)
		}
		parent := parents()
		for pid, runner := range parent {
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil || !strings.HasSuffix(string(cmdline), "role\x00"+role+"\x00") || runner == not {
				continue
			}
			if ours := s.cmd.Process.Pid; (runner == ours || parent[runner] == ours) && ignoresInterrupt(pid) {
				return runner
			}
		}
	}
}

// ignoresInterrupt reports whether the process ignores SIGINT, by its mask in /proc.
func ignoresInterrupt(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	m := regexp.MustCompile(`(?m)^SigIgn:\s*([0-9a-f]+)$`).FindSubmatch(status)
	if m == nil {
		return false
	}
	mask, err := strconv.ParseUint(string(m[1]), 16, 64)
	return err == nil && mask&(1<<(syscall.SIGINT-1)) != 0
}

// parents maps every process to its parent.
func parents() map[int]int {
	parent := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent[pid], err = strconv.Atoi(fields[1]); err != nil {
			delete(parent, pid)
		}
	}
	return parent
}

// exitCode waits for the process and returns its exit code.
func (s *started) exitCode(t *testing.T) int {
	t.Helper()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *started) waitUntilGone(t *testing.T) string {
	t.Helper()
	select {
	case text := <-s.gone:
		return text
	case <-time.After(20 * time.Second):
		t.Fatal("processes are left after 20 s")
		return ""
	}
}

func TestCtrlCDrainsAndRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.jsonl")
	s := start(t, "--topology", "split", "--warmup", "0", "--duration", "60s", "--json", file)
	s.waitForRole(t, "publisher", 0)
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := s.exitCode(t); code != exitInvalid {
		t.Errorf("exit code %d, want %d", code, exitInvalid)
	}
	if text := s.waitUntilGone(t); !strings.Contains(text, "interrupted: draining") {
		t.Errorf("stderr: %s", text)
	}
	records := recordsIn(t, file)
	if len(records) != 1 {
		t.Fatalf("%d records, want 1", len(records))
	}
	if r := records[0]; !r.Interrupted || r.Valid || r.Counts.Unaccounted != 0 {
		t.Errorf("interrupted %v, valid %v, unaccounted %d, reasons %v", r.Interrupted, r.Valid, r.Counts.Unaccounted, r.Reasons)
	}
}

func recordsIn(t *testing.T, file string) []*runrecord.Record {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []*runrecord.Record
	err = runrecord.Read(f, file, func(r *runrecord.Record) error { records = append(records, r); return nil },
		func(e *runrecord.SyntaxError) { t.Error(e) })
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// Ctrl-C in the middle of a sequence drains the trial in flight, and starts no other. A terminal signals the whole
// group, a supervisor the parent alone.
func TestCtrlCEndsTheSequence(t *testing.T) {
	for _, tt := range []struct {
		name  string
		who   func(pid int) int
		flags []string
	}{
		{"the whole group", func(pid int) int { return -pid }, nil},
		{"the parent alone", func(pid int) int { return pid }, nil},
		{"same process", func(pid int) int { return -pid }, []string{"--same-process"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "records.jsonl")
			s := start(t, append(tt.flags, "--repeat", "3", "--topology", "split", "--warmup", "0", "--duration", "60s", "--json", file)...)
			s.waitForRole(t, "publisher", 0)
			if err := syscall.Kill(tt.who(s.cmd.Process.Pid), syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if code := s.exitCode(t); code != exitInvalid {
				t.Errorf("exit code %d, want %d", code, exitInvalid)
			}
			if text := s.waitUntilGone(t); strings.Count(text, "interrupted: draining") != 1 {
				t.Errorf("stderr: %s", text)
			}
			for _, want := range []string{"trial 1 .* INTERRUPTED", "ended early after 1 of 3 trials", "valid       0 of 1 trials"} {
				if !regexp.MustCompile(want).Match(s.out.Bytes()) {
					t.Errorf("stdout lacks %q:\n%s", want, s.out.Bytes())
				}
			}
			if records := recordsIn(t, file); len(records) != 1 || !records[0].Interrupted || *records[0].Trial != 1 {
				t.Errorf("%d records, want the interrupted one", len(records))
			}
		})
	}
}

// A trial whose runner dies is counted, and the sequence goes on.
func TestSequenceOutlivesARunner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.jsonl")
	s := start(t, "--repeat", "2", "--topology", "split", "--warmup", "0", "--duration", "60s", "--json", file)
	first := s.waitForRole(t, "publisher", 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.waitForRole(t, "publisher", first)
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := s.exitCode(t); code != exitInvalid {
		t.Errorf("exit code %d, want %d", code, exitInvalid)
	}
	s.waitUntilGone(t)
	if !regexp.MustCompile("trial 1 +FAILED: .*signal: killed").Match(s.out.Bytes()) || !strings.Contains(s.out.String(), "0 of 2 trials") {
		t.Errorf("stdout:\n%s", s.out.Bytes())
	}
	if records := recordsIn(t, file); len(records) != 1 || *records[0].Trial != 2 {
		t.Errorf("%d records, want that of trial 2", len(records))
	}
}

// A runner that is killed cannot clean up. Its roles have to notice by themselves.
func TestKilledRunnerLeavesNothingBehind(t *testing.T) {
	s := start(t, "--topology", "split", "--duration", "60s")
	s.waitForRole(t, "publisher", 0)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // killed
	s.waitUntilGone(t)
}

// Nor can the parent of a sequence: its runner has to notice too.
func TestKilledSequenceLeavesNothingBehind(t *testing.T) {
	s := start(t, "--repeat", "2", "--topology", "split", "--duration", "60s")
	s.waitForRole(t, "publisher", 0)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // killed
	s.waitUntilGone(t)
}

// A contest outlives runners that die, drains what is in flight at Ctrl-C, records it and starts no other trial.
func TestCtrlCEndsTheContest(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--against", "relay", "--pairs", "3", "--payload", "4096", "--batch", "64", "--topology", "split", "--warmup", "0", "--duration", "60s", "--session", dir)
	runner := 0
	for range 2 { // pair 0
		runner = s.waitForRole(t, "publisher", runner)
		if err := syscall.Kill(runner, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.waitForRole(t, "publisher", runner)
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := s.exitCode(t); code != exitInvalid {
		t.Errorf("exit code %d, want %d", code, exitInvalid)
	}
	if text := s.waitUntilGone(t); strings.Count(text, "interrupted: draining") != 1 {
		t.Errorf("stderr: %s", text)
	}
	for _, want := range []string{"(?s)pair 0 .*FAILED: .*pair 0 .*FAILED: ", "pair 1 .* INTERRUPTED", "ended early after 0 of 3 pairs", "valid       0 pairs"} {
		if !regexp.MustCompile(want).Match(s.out.Bytes()) {
			t.Errorf("stdout lacks %q:\n%s", want, s.out.Bytes())
		}
	}
	records := recordsIn(t, filepath.Join(dir, runrecord.RecordsFile))
	if len(records) != 1 || !records[0].Interrupted || *records[0].Pair != 1 {
		t.Errorf("%d records, want the interrupted one of pair 1", len(records))
	}
}
