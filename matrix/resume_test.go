//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
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

// kill -9 at random moments: nothing is measured twice, nothing is missing, and a torn line is not counted.
func TestKilledAtRandomMoments(t *testing.T) {
	payloads := []int{64, 80, 96, 112, 128, 144, 160, 176}
	const trials, kills = 100, 20
	b := newBench(t)
	dir := filepath.Join(b.dir, "s")
	random := rand.New(rand.NewPCG(7, 7))
	args := []string{"--grid", b.grid(trials, payloads...), "--session-dir", dir, "--bin", executable(t)}
	torn := 0
	records := filepath.Join(dir, runrecord.RecordsFile)
	for n := range kills {
		cmd := b.command(args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if n == 0 { // a session that does not exist cannot be resumed
			waitFor(t, records)
		}
		select {
		case <-within(time.Duration(random.IntN(250)) * time.Millisecond):
		case err := <-ended:
			t.Fatalf("kill %d: matrix ended before: %v\n%s", n, err, said.String())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Fatalf("kill %d: matrix ended by itself", n)
		}
		args = []string{"--session-dir", dir, "--resume"}
		if n%4 != 3 {
			continue
		}
		// What a power cut in the middle of a write leaves: half of a record, and no end of its line.
		text, err := os.ReadFile(records)
		if err != nil {
			t.Fatal(err)
		}
		if text[len(text)-1] != '\n' {
			continue // nothing was recorded since the last half: two halves on one line are one torn line
		}
		line := text[:bytes.IndexByte(text, '\n')]
		f, err := os.OpenFile(records, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(line[:random.IntN(len(line)-1)+1]); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		torn++
	}
	before, _ := b.records(dir)
	code, _, stderr := b.run(args...)
	if code != exitValid {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	after, skipped := b.records(dir)
	once(t, after, trials, payloads...)
	if skipped != torn {
		t.Errorf("%d lines are no records, want the %d that were planted", skipped, torn)
	}
	for i, r := range after {
		if *r.Order != i+1 {
			t.Errorf("record %d has order %d", i, *r.Order)
			break
		}
	}
	wantMatch(t, stderr, `recorded   `+strconv.Itoa(len(before))+` of `+strconv.Itoa(trials*len(payloads))+` trials already`)
	t.Logf("%d of %d trials were recorded in the %d sittings that were killed", len(before), trials*len(payloads), kills)

	if code, _, stderr := b.run(args...); code != exitValid || !strings.Contains(stderr, "800 of 800 trials recorded") {
		t.Errorf("a resume of what is complete: exit code %d\n%s", code, stderr)
	}
	if again, _ := b.records(dir); len(again) != len(after) {
		t.Errorf("a resume of what is complete made %d records of %d", len(again), len(after))
	}
}

// started is a matrix in a group of its own, as a shell starts it.
func (b *bench) start(args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	b.t.Helper()
	cmd = b.command(args...)
	said = &bytes.Buffer{}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that failed
	return cmd, said
}

func (b *bench) pids() []int {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "state", "pids"))
	if err != nil {
		b.t.Fatal(err)
	}
	var pids []int
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			b.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func wantCode(t *testing.T, cmd *exec.Cmd, said *bytes.Buffer, code int) {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if cmd.ProcessState.ExitCode() != code || err != nil && !errors.As(err, &exit) {
		t.Errorf("%v, want exit code %d\n%s", err, code, said)
	}
}

// The first Ctrl-C: the trial drains, its record is kept, and it is run again by the resume, which keeps both.
func TestCtrlCRecordsTheTrialInFlight(t *testing.T) {
	b := newBench(t, "FAKE=96:drain")
	dir := filepath.Join(b.dir, "s")
	cmd, said := b.start("--grid", b.grid(1, 64, 96, 128), "--session-dir", dir, "--bin", executable(t), "--order", "listed")
	waitFor(t, filepath.Join(b.dir, "state", "pids"))
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	wantCode(t, cmd, said, exitInvalid)
	wantMatch(t, said.String(), `interrupted: a trial in flight drains and is recorded, nothing else begins`)
	wantMatch(t, said.String(), `resume with: matrix run --resume --session-dir \S+/s\n`)
	records, _ := b.records(dir)
	if len(records) != 2 || !records[0].Valid || !records[1].Interrupted || records[1].Case.Payload != 96 {
		t.Fatalf("records: %d\n%s", len(records), said)
	}
	b.env = append(b.env, "FAKE=")
	if code, _, stderr := b.run("--resume", "--session-dir", dir); code != exitValid {
		t.Errorf("resume: exit code %d\n%s", code, stderr)
	}
	records, _ = b.records(dir)
	if len(records) != 4 {
		t.Fatalf("%d records, want 4", len(records))
	}
	once(t, append(records[:1:1], records[2:]...), 1, 64, 96, 128)
}

// The second Ctrl-C ends at once: a trial that does not drain is killed, and leaves no record.
func TestCtrlCTwiceQuits(t *testing.T) {
	b := newBench(t, "FAKE=96:hang")
	dir := filepath.Join(b.dir, "s")
	cmd := b.command("--grid", b.grid(1, 64, 96), "--session-dir", dir, "--bin", executable(t), "--order", "listed")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that failed
	_ = w.Close()
	waitFor(t, filepath.Join(b.dir, "state", "pids"))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for lines := bufio.NewScanner(r); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "once more quits at once") {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantCode(t, cmd, &said, exitInvalid)
	for _, pid := range b.pids() {
		if err := waitGone(pid); err != nil {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	if records, _ := b.records(dir); len(records) != 1 {
		t.Errorf("%d records, want 1\n%s", len(records), &said)
	}
	wantMatch(t, said.String(), `resume with: `)
}

// A matrix that is killed cannot end its trial; what it leaves must not run beside the resumed one.
func TestKilledMatrixLeavesNoTrial(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ties a child to its parent")
	}
	b := newBench(t, "FAKE=64:drain")
	cmd, _ := b.start("--grid", b.grid(1, 64), "--session-dir", filepath.Join(b.dir, "s"), "--bin", executable(t))
	waitFor(t, filepath.Join(b.dir, "state", "pids"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, pid := range b.pids() {
		if err := waitGone(pid); err != nil {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// Every way in which a resumed session would mix what does not belong together.
func TestResumeRefuses(t *testing.T) {
	b := newBench(t)
	dir := filepath.Join(b.dir, "s")
	grid := b.grid(1, 64, 96)
	if code, _, stderr := b.run("--grid", grid, "--session-dir", dir, "--bin", executable(t), "--seed", "5"); code != exitValid {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	other := filepath.Join(b.dir, "other.yml")
	if err := os.WriteFile(other, []byte("why: x\nblocks:\n  - base: {batch: 1}\n    factors: {payload: [64, 97]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(b.dir, "elsewhere")
	for _, tt := range []struct {
		name, want string
		env        string
		args       []string
	}{
		{"another session in the directory", `it holds session`, "", []string{"--grid", grid, "--session-dir", dir}},
		{"another grid", `measures another grid: tiny \(\w+\), not other`, "", []string{"--grid", other, "--session-dir", dir, "--resume"}},
		{"fewer cells", `measures another grid`, "", []string{"--grid", grid, "--only", "payload=64", "--session-dir", dir, "--resume"}},
		{"another order", `runs in order random`, "", []string{"--session-dir", dir, "--resume", "--order", "listed"}},
		{"another seed", `has seed 5`, "", []string{"--session-dir", dir, "--resume", "--seed", "6"}},
		{"another binary", `--resume uses the session's own binary`, "", []string{"--session-dir", dir, "--resume", "--bin", executable(t)}},
		{"other settings", `FELIX_LOG_CAPACITY is "9" and was not set`, "FELIX_LOG_CAPACITY=9", []string{"--session-dir", dir, "--resume"}},
		{"no session", `session.json: no such file`, "", []string{"--session-dir", elsewhere, "--resume"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := *b
			if tt.env != "" {
				c.env = append(c.env[:len(c.env):len(c.env)], tt.env)
			}
			code, stdout, stderr := c.run(tt.args...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, want %d\n%s", code, exitUsage, stdout)
			}
			wantMatch(t, stderr, tt.want)
			wantMatch(t, stderr, `\nmatrix: hint: .`)
		})
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a refused resume made a directory")
	}
	records, _ := b.records(dir)
	once(t, records, 1, 64, 96)

	f, err := os.OpenFile(filepath.Join(dir, binaryFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("x")
	_ = f.Close()
	code, _, stderr := b.run("--session-dir", dir, "--resume")
	if code != exitUsage {
		t.Errorf("a changed binary: exit code %d", code)
	}
	wantMatch(t, stderr, `latencydemo was changed: its SHA-256 is`)
}

// Two matrices at once: into one directory is refused, even if one of them resumes; otherwise the machine is taken in turn.
func TestTwoAtOnce(t *testing.T) {
	b := newBench(t, "FAKE=64:drain")
	dir := filepath.Join(b.dir, "s")
	cmd, said := b.start("--grid", b.grid(1, 64), "--session-dir", dir, "--bin", executable(t))
	waitFor(t, filepath.Join(b.dir, "state", "pids"))
	code, _, stderr := b.run("--session-dir", dir, "--resume")
	if code != exitUsage {
		t.Errorf("into one directory: exit code %d\n%s", code, stderr)
	}
	wantMatch(t, stderr, `another matrix is at work in it`)
	code, _, stderr = b.run("--grid", filepath.Join(b.dir, "tiny.yml"), "--session-dir", filepath.Join(b.dir, "s2"), "--bin", executable(t), "--no-wait")
	if code != exitUsage {
		t.Errorf("--no-wait: exit code %d\n%s", code, stderr)
	}
	wantMatch(t, stderr, `another measurement is running \(pid `+strconv.Itoa(cmd.Process.Pid))

	if _, err := os.Stat(filepath.Join(b.dir, "s2")); err == nil {
		t.Error("what was refused left a directory")
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	second := b.command("--grid", filepath.Join(b.dir, "tiny.yml"), "--session-dir", filepath.Join(b.dir, "s3"), "--bin", executable(t))
	second.Env = append(second.Env, "FAKE=")
	second.Stderr = w
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	lines := bufio.NewScanner(r)
	if !lines.Scan() || !strings.Contains(lines.Text(), "waiting for another measurement to end (pid "+strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("the second one says: %s", lines.Text())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	wantCode(t, cmd, said, exitInvalid)
	for lines.Scan() {
	}
	if err := second.Wait(); err != nil {
		t.Errorf("the second one, in its turn: %v", err)
	}
}

// A full disk stops the matrix between two trials, or at the record that does not fit; all that was recorded before can be
// read, and the resume goes on.
func TestFullDisk(t *testing.T) {
	b := newBench(t)
	disk := filepath.Join(b.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(executable(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := mountTmpfs(disk, st.Size()+16<<20); err != nil {
		t.Skipf("cannot mount a small tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(disk); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	dir := filepath.Join(disk, "s")
	b.env = append(b.env, "FAKE=96:fill")
	code, _, stderr := b.run("--grid", b.grid(2, 64, 96, 128), "--session-dir", dir, "--bin", executable(t), "--order", "listed")
	if code != exitInvalid {
		t.Errorf("exit code %d, want %d\n%s", code, exitInvalid, stderr)
	}
	wantMatch(t, stderr, `matrix: \S+/s: the disk is full: `)
	wantMatch(t, stderr, `hint: what is recorded is safe; make space, then resume with: matrix run --resume`)
	records, _ := b.records(dir)
	once(t, records, 1, 64)

	// Still full: nothing is begun.
	code, _, stderr = b.run("--resume", "--session-dir", dir)
	if code != exitInvalid {
		t.Errorf("still full: exit code %d\n%s", code, stderr)
	}
	wantMatch(t, stderr, `the disk is full`)

	large, err := filepath.Glob(filepath.Join(dir, "runs", "*", "large"))
	if err != nil || len(large) == 0 {
		t.Fatalf("no large file: %v", err)
	}
	for _, name := range large {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(b.env, "FAKE=")
	code, _, stderr = b.run("--resume", "--session-dir", dir)
	if code != exitValid {
		t.Errorf("with space again: exit code %d\n%s", code, stderr)
	}
	records, _ = b.records(dir)
	once(t, records, 2, 64, 96, 128)
}
