//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	gone chan string // what they said, when the last of them has ended
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
	s.cmd.Env = append(os.Environ(), asCommand+"=1")
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

// waitForRole returns when the process has a child of that role.
func (s *started) waitForRole(t *testing.T, role string) {
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
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, f := range files {
			stat, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			if len(fields) < 2 || fields[1] != strconv.Itoa(s.cmd.Process.Pid) {
				continue
			}
			cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			if err == nil && strings.HasSuffix(string(cmdline), "role\x00"+role+"\x00") {
				return
			}
		}
	}
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
	s.waitForRole(t, "publisher")
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInvalid {
		t.Errorf("latencydemo: %v, want exit code %d", err, exitInvalid)
	}
	if text := s.waitUntilGone(t); !strings.Contains(text, "interrupted: draining") {
		t.Errorf("stderr: %s", text)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	err = runrecord.Read(f, file, func(r *runrecord.Record) error {
		n++
		if !r.Interrupted || r.Valid || r.Counts.Unaccounted != 0 {
			t.Errorf("interrupted %v, valid %v, unaccounted %d, reasons %v", r.Interrupted, r.Valid, r.Counts.Unaccounted, r.Reasons)
		}
		return nil
	}, func(e *runrecord.SyntaxError) { t.Error(e) })
	if err != nil || n != 1 {
		t.Errorf("%d records, %v; want 1", n, err)
	}
}

// A runner that is killed cannot clean up. Its roles have to notice by themselves.
func TestKilledRunnerLeavesNothingBehind(t *testing.T) {
	s := start(t, "--topology", "split", "--duration", "60s")
	s.waitForRole(t, "publisher")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // killed
	s.waitUntilGone(t)
}
