//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix/internal/gate"
)

// stopped starts an experiment that waits in the third pair of head, and ends it by a signal.
func (b *bench) stopped(sig syscall.Signal, args ...string) {
	b.t.Helper()
	cmd := exec.Command(executable(b.t), append([]string{"ab", "--cooldown", "0", "--sentinel", "0"}, args...)...)
	cmd.Env, cmd.Dir = append(slices.Clone(b.env), "FAKE_AB=head:wait"), b.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	waitFor(b.t, filepath.Join(b.dir, "state", "pids"))
	if err := cmd.Process.Signal(sig); err != nil {
		b.t.Fatal(err)
	}
	_ = cmd.Wait() // it was told to end
	if sig == syscall.SIGINT && !strings.Contains(said.String(), "resume with: matrix ab --resume") {
		b.t.Errorf("it does not say how to go on:\n%s", said.String())
	}
}

// An experiment that was interrupted or killed goes on where it was: what is recorded is not run again, a pair that was
// torn is run again as a whole, and the verdict is that of its records.
func TestABResume(t *testing.T) {
	for _, tt := range []struct {
		why string
		sig syscall.Signal
		// how the arms are made
		args func(b *bench) []string
		code int
		says string
	}{
		{"interrupted", syscall.SIGINT, func(b *bench) []string { return twoBinaries(b) }, 0, "PASS"},
		{"killed", syscall.SIGKILL, func(b *bench) []string { return twoBinaries(b) }, 0, "PASS"},
		{"three arms", syscall.SIGINT, func(b *bench) []string {
			return []string{"--bin", executable(b.t), "--arm", "a:", "--arm", "b:env.ARM=head", "--arm", "c:", "--looks", "10"}
		}, 0, "PASS at look 1 of 1, 10 rounds of a, b, c"},
		{"a canary", syscall.SIGINT, func(b *bench) []string { return []string{"--bin", executable(b.t), "--canary", "20%"} }, 1, "FAIL"},
		{"head's bench", syscall.SIGKILL, func(b *bench) []string { return b.twoBuilds()[:6] }, 0, "one bench, head's"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			dir := filepath.Join(b.dir, "s")
			args := append([]string{"--gate", b.gateFile(""), "--session-dir", dir}, tt.args(b)...)
			if tt.why == "a canary" { // its head is the same binary: it is told by the environment of no arm
				b.stoppedCanary(args...)
			} else {
				b.stopped(tt.sig, args...)
			}
			before, _ := b.records(dir)
			if len(before) == 0 {
				t.Fatal("nothing was recorded")
			}
			b.env = append(b.env, "FAKE_AB=none")
			code, stdout, stderr := b.ab0("ab", "--resume", dir)
			if code != tt.code || !strings.Contains(stdout, tt.says) || !strings.Contains(stderr, "pairs already") {
				t.Fatalf("exit code %d, want %d and %q:\n%s%s", code, tt.code, tt.says, stdout, stderr)
			}
			x, err := gate.ReadExperiment(dir)
			if err != nil {
				t.Fatal(err)
			}
			records, _ := b.records(dir)
			for i, r := range before {
				if records[i].RunID != r.RunID {
					t.Fatalf("record %d was changed", i)
				}
			}
			seen := map[string]int{}
			for _, r := range x.Counted(records) {
				if !r.Interrupted {
					seen[fmt.Sprint(*r.Pair, *r.Arm, r.Case.Batch)]++
				}
			}
			pairs := x.Spec.Looks[0] + 1
			if len(seen) != pairs*len(x.Arms)*2 {
				t.Errorf("%d trials count, want %d", len(seen), pairs*len(x.Arms)*2)
			}
			for at, n := range seen {
				if n != 1 {
					t.Errorf("%s counts %d times", at, n)
				}
			}
			// All is there: nothing is run, and the verdict is the same.
			again, stdout2, stderr := b.ab0("ab", "--resume", dir)
			after, _ := b.records(dir)
			if again != code || stdout2 != stdout || len(after) != len(records) {
				t.Errorf("once more: exit code %d, want %d; %d records, want %d\n%s\n%s%s", again, code, len(after), len(records), stdout, stdout2, stderr)
			}
		})
	}
}

// ab0 is ab without the flags that a resume refuses.
func (b *bench) ab0(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	cmd := exec.Command(executable(b.t), args...)
	cmd.Env, cmd.Dir = b.env, b.dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // told by the exit code
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// stoppedCanary interrupts a canary: both of its arms are one, and wait together.
func (b *bench) stoppedCanary(args ...string) {
	b.t.Helper()
	env := b.env
	b.env = append(slices.Clone(env), "ARM=head")
	defer func() { b.env = env }()
	b.stopped(syscall.SIGINT, args...)
}

func TestABResumeRefuses(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	dir := filepath.Join(b.dir, "s")
	args := append(twoBinaries(b), "--gate", b.gateFile(""), "--session-dir", dir)
	if code, _, stderr := b.ab("ab", args...); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	refuses := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := b.ab0(args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "matrix: hint: ") {
			t.Errorf("%q: exit code %d, want 2 and %q:\n%s%s", args, code, want, stdout, stderr)
		}
	}
	refuses("--seed cannot change it", "ab", "--resume", dir, "--seed", "3")
	refuses("stray word", "ab", "--resume", dir, "main")
	refuses("it is a session of matrix ab", "aa", "--resume", dir)
	refuses("--resume: ", "ab", "--resume", filepath.Join(b.dir, "nowhere"))
	env := b.env
	b.env = append(b.env, "GOGC=50")
	refuses(`the environment differs from that of the session's records: GOGC is "50" and was not set`, "ab", "--resume", dir)
	b.env = env
	if err := os.WriteFile(filepath.Join(dir, "head", binaryFile), []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	refuses("was changed since the session began", "ab", "--resume", dir)
	// A session of an older matrix does not say how to go on.
	x, err := gate.ReadExperiment(dir)
	if err != nil {
		t.Fatal(err)
	}
	x.Plan = nil
	if err := x.Write(dir); err != nil {
		t.Fatal(err)
	}
	refuses("an older matrix began it", "ab", "--resume", dir)
}

// The floor that an A/A measured is a gate's least margin.
func TestABNoiseFloor(t *testing.T) {
	b := newBench(t, "FAKE_AB=all:jitter")
	aa := filepath.Join(b.dir, "aa")
	if code, stdout, stderr := b.ab("aa", "--base", executable(t), "--gate", b.gateFile(""), "--session-dir", aa); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	dir := filepath.Join(b.dir, "s")
	args := append(twoBinaries(b), "--gate", b.gateFile(""), "--session-dir", dir)
	if code, _, stderr := b.ab("ab", append(args, "--noise-floor", aa)...); code > 1 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	x, err := gate.ReadExperiment(dir)
	if err != nil || !(x.Spec.NoiseFloor["p50_ns"] > 0) {
		t.Errorf("noise floor %v, %v", x.Spec.NoiseFloor, err)
	}
	for _, tt := range []struct{ why, text, more, want string }{
		{"not there", "", "", "no such file"},
		{"another key", "alpha: 1\n", "", "alpha"},
		{"empty", "# none\n", "", "no noise_floor in it"},
		{"below nothing", "noise_floor: {p50_ns: -1}\n", "", "want an sd of log ratios"},
		{"said twice", "noise_floor: {p50_ns: 0.1}\n", "noise_floor: {p50_ns: 0.1}\n", "has a noise_floor of its own"},
	} {
		file := filepath.Join(b.dir, "floor.yml")
		_ = os.Remove(file) // of the one before
		if tt.text != "" {
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args := append(twoBinaries(b), "--gate", b.gateFile(tt.more), "--noise-floor", file)
		if code, stdout, stderr := b.ab("ab", args...); code != 2 || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s%s", tt.why, code, tt.want, stdout, stderr)
		}
	}
}
