//go:build linux || darwin

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// other is another measuring command (see holdLock), as a process of its own.
type other struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func startOther(t *testing.T, mode string) *other {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &other{cmd: exec.Command(exe, lockHolderArg, mode)}
	o.cmd.Stderr = os.Stderr
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.lines = bufio.NewScanner(stdout)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.stdin.Close()
		_ = o.cmd.Process.Kill() // of a test that failed
		_ = o.cmd.Wait()
	})
	return o
}

// line waits for the next thing that the process says.
func (o *other) line(t *testing.T) string {
	t.Helper()
	if !o.lines.Scan() {
		t.Fatalf("the other process ended: %v", o.lines.Err())
	}
	return o.lines.Text()
}

func silent(t *testing.T) func(string) {
	return func(text string) { t.Errorf("said %q", text) }
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestLockKeepsOutAnotherProcess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := startOther(t, "wait")
	if got := o.line(t); got != "held" {
		t.Fatal(got)
	}
	_, err := Lock(within(t), false, silent(t))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", o.cmd.Process.Pid)) || !strings.Contains(err.Error(), lockHolderArg) {
		t.Errorf("without waiting: %v, want ErrLocked with pid %d and its command", err, o.cmd.Process.Pid)
	}
	var said []string
	release, err := Lock(within(t), true, func(text string) {
		said = append(said, text)
		_ = o.stdin.Close() // now it may end
	})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if len(said) != 1 || !strings.Contains(said[0], fmt.Sprintf("pid %d", o.cmd.Process.Pid)) {
		t.Errorf("said %q, want one line with the pid", said)
	}
}

// The two ways of another process to meet our lock: one waits and gets it, one is refused.
func TestLockIsSeenByOtherProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	release, err := Lock(within(t), false, silent(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := startOther(t, "refuse").line(t); !strings.HasPrefix(got, "refused: "+ErrLocked.Error()) {
		t.Errorf("without waiting it said %q", got)
	}
	waiting := startOther(t, "wait")
	if got := waiting.line(t); !strings.Contains(got, fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("it said %q, want our pid", got)
	}
	release()
	release() // twice does no harm
	if got := waiting.line(t); got != "held" {
		t.Errorf("after our release it said %q", got)
	}
}

// A process that is killed cannot release. Its lock ends with it, and what it wrote in the file means nothing.
func TestLockEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o := startOther(t, "wait")
	o.line(t)
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.cmd.Wait() // killed
	if b, err := os.ReadFile(filepath.Join(dir, lockName)); err != nil || !strings.Contains(string(b), lockHolderArg) {
		t.Fatalf("nothing stale to test with: %q, %v", b, err)
	}
	release, err := Lock(within(t), false, silent(t))
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLockStopsWaiting(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	release, err := Lock(within(t), false, silent(t))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, true, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	cancel()
}

func TestLockOnWhatItFinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(path string) error
		err     string // "" = the lock is got
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"garbage", func(path string) error { return os.WriteFile(path, []byte("\x00{\"pid\":"), 0o600) }, ""},
		{"a file that is not ours to write", func(path string) error { return os.WriteFile(path, nil, 0o444) }, ""},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o755) }, "machine lock: "},
		{"a link", func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "victim"), path) }, "machine lock: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			if err := tt.prepare(filepath.Join(dir, lockName)); err != nil {
				t.Fatal(err)
			}
			release, err := Lock(within(t), false, silent(t))
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) || errors.Is(err, ErrLocked) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				if _, err := os.Lstat(filepath.Join(dir, "victim")); err == nil {
					t.Error("the link was followed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Lock(within(t), false, silent(t)); !errors.Is(err, ErrLocked) {
				t.Errorf("a second lock: %v", err)
			}
			release()
		})
	}
}

// Cleaners of temporary directories remove files. Whoever opened the old one must not believe that it locks.
func TestLockNoticesARemovedFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	path := filepath.Join(dir, lockName)
	release, err := Lock(within(t), false, silent(t))
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	release()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if sameFile(old, path) {
		t.Error("a removed file passes for the lock")
	}
	again, err := Lock(within(t), false, silent(t))
	if err != nil {
		t.Fatal(err)
	}
	defer again()
	if sameFile(old, path) {
		t.Error("a replaced file passes for the lock")
	}
}

func FuzzParseHolder(f *testing.F) {
	f.Add([]byte(`{"pid":12,"command":"latencydemo --batch 64","started_at":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Add([]byte("{\"pid\":1,\"command\":\"\x1b[2J\\n\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if text := parseHolder(b).String(); strings.ContainsAny(text, "\n\r\x1b") || len([]rune(text)) > 300 {
			t.Errorf("%q would upset a terminal", text)
		}
	})
}
