package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"felix/internal/host"
)

// command is latencydemo with flags for a short run, in the environment of the test.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"--total", "200", "--warmup", "10"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// holdMachine takes the lock as another measuring command would.
func holdMachine(t *testing.T) (release func()) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	release, err := host.Lock(t.Context(), false, func(text string) { t.Skip(text) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return release
}

func TestNoWaitRefuses(t *testing.T) {
	holdMachine(t)
	cmd := command(t, "--no-wait")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		t.Errorf("%v, want exit code %d", err, exitUsage)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(lines[1], "--no-wait") {
		t.Errorf("stderr, want who holds the lock, and a hint:\n%s", stderr.Bytes())
	}
}

func TestWaitsForTheOther(t *testing.T) {
	release := holdMachine(t)
	cmd := command(t)
	r, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(r)
	if !said.Scan() || !strings.HasPrefix(said.Text(), "latencydemo: waiting for another measurement to end (pid "+fmt.Sprint(os.Getpid())) {
		t.Errorf("stderr: %q", said.Text())
	}
	release()
	for said.Scan() {
		t.Errorf("stderr: %q", said.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

// A parent that measures holds the lock for its children, and looking is no measuring.
func TestNoLockIsTaken(t *testing.T) {
	holdMachine(t)
	for _, tt := range []struct {
		name string
		held string
		args []string
	}{
		{"held by the parent", host.LockHeld, nil},
		{"held by the parent of a sequence", host.LockHeld, []string{"--repeat", "2"}},
		{"dry run", "", []string{"--dry-run"}},
		{"version", "", []string{"--version"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command(t, append(tt.args, "--no-wait")...)
			cmd.Env = append(cmd.Env, host.LockHeldEnv+"="+tt.held)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
