//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
)

// twoBuilds is twoBinaries with a brokerd beside each.
func (b *bench) twoBuilds() []string {
	b.t.Helper()
	var args []string
	for _, arm := range []string{"base", "head"} {
		dir := filepath.Join(b.dir, "builds", arm)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		for _, name := range []string{binaryFile, brokerFile} {
			// A name of it is enough, where a copy of each would be 100 MB: matrix makes its own.
			if os.Link(executable(b.t), filepath.Join(dir, name)) == nil {
				continue
			}
			if err := copyBinary(executable(b.t), filepath.Join(dir, name)); err != nil {
				b.t.Fatal(err)
			}
		}
		args = append(args, "--"+arm, filepath.Join(dir, binaryFile))
	}
	return append(args, "--bench", "head", "--gate", b.gateFile(""), "--session-dir", filepath.Join(b.dir, "s"))
}

// state reads what the fakes left.
func (b *bench) state(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.dir, "state", name)) // none is ""
	return string(text)
}

// brokerGone fails unless the last broker has ended.
func (b *bench) brokerGone() {
	b.t.Helper()
	pid, err := strconv.Atoi(b.state("broker-pid"))
	if err != nil {
		b.t.Fatalf("no broker was started: %v", err)
	}
	if err := waitGone(pid); err != nil {
		b.t.Errorf("broker %d is left: %v", pid, err)
	}
}

// With head's bench, each trial drives its own arm's broker, and both arms are told the same.
func TestABBenchHead(t *testing.T) {
	b := newBench(t, "FAKE_AB=head:slow all:bench", "FELIX_KEEP_ALIVE_MS=9")
	code, stdout, stderr := b.ab("ab", append(b.twoBuilds(), "--base-set", "broker.log_capacity=9", "--head-set", "broker.log_capacity=9")...)
	if code != 1 || !strings.Contains(stdout, "FAIL: a regression") || !strings.Contains(stdout, "one bench, head's, drove the broker of each arm") {
		t.Fatalf("exit code %d, want 1\n%s%s", code, stdout, stderr)
	}
	dir := filepath.Join(b.dir, "s")
	s, err := runrecord.ReadSession(dir)
	if err != nil || s.Bench == nil || *s.Bench != "head" {
		t.Fatalf("session %+v, %v", s, err)
	}
	records, _ := b.records(dir)
	if len(records) != 9*4 {
		t.Errorf("%d records, want 36", len(records))
	}
	for _, r := range records {
		want := strings.Repeat(map[string]string{"base": "1", "head": "2"}[*r.Arm], 40)
		switch {
		case !r.Valid || r.Bench == nil || *r.Bench != "head" || r.BenchBuild == nil:
			t.Fatalf("%s: valid %v, bench %v, bench_build %v", *r.Arm, r.Valid, r.Bench, r.BenchBuild)
		case r.Build.Commit == nil || *r.Build.Commit != want || r.Build.BinarySHA256 == nil:
			t.Fatalf("%s: build %+v, want commit %s", *r.Arm, r.Build, want)
		case r.Build.BenchDigest == nil || *r.Build.BenchDigest != *r.BenchBuild.BenchDigest:
			t.Fatalf("%s: the bench is %v", *r.Arm, r.Build.BenchDigest)
		case !strings.Contains(r.Case.Key, "topology=external") || strings.Contains(r.Case.Key, "log_capacity"):
			t.Fatalf("case %s", r.Case.Key)
		}
	}
	base, head := b.state("broker-base.yml"), b.state("broker-head.yml")
	if want := "# What the bench sets on a broker of its own.\nkeep_alive_ms: 9\nlog_capacity: 9\nsubscriber_queue_policy: block\nstreams t1/default/latency\n"; base != want || head != want {
		t.Errorf("brokers were told\n%s\nand\n%s\nwant\n%s", base, head, want)
	}
	x, err := gate.ReadExperiment(dir)
	if err != nil || x.Bench != gate.BenchHead || x.Arms[0].Broker != "base/brokerd" || x.Arms[0].Binary != "head/latencydemo" || len(x.ArmFactors) > 0 {
		t.Errorf("experiment %+v, %v", x, err)
	}
	b.brokerGone()
	if left, _ := os.ReadDir(filepath.Join(dir, runrecord.RunsDir)); len(left) > 0 {
		t.Errorf("left in runs: %v", left)
	}
}

// A broker that fails is a failed trial of its arm, and never a hang; one that cannot be driven at all is found before
// the first trial.
func TestABBenchHeadFails(t *testing.T) {
	for _, tt := range []struct {
		why, fake, broker string
		args              []string
		code              int
		says              string // on stdout or stderr
		records           int    // -1: do not ask
	}{
		{"a broker dies during the trial", "base:kill-broker", "", nil, 2, "died during the trial (ended by SIGKILL)", -1},
		{"a broker that no longer comes up", "none", "head:refuse-later", nil, 2, "ended before it listened (exit code 2): address already in use", -1},
		{"a broker that never comes up", "none", "head:refuse", nil, 2, "head: the brokerd does not start as the bench sets it: its broker ended before it listened (exit code 2): no such port", 0},
		{"a key that base does not know", "none", "base:unknown=keep_alive_ms", nil, 2,
			"base: its brokerd does not know the setting keep_alive_ms, which head's bench gives to both arms\nmatrix: hint: a later commit; or --allow-unknown keep_alive_ms", 0},
		{"which it need not know", "none", "base:unknown=keep_alive_ms", []string{"--allow-unknown", "keep_alive_ms"}, 0, "the broker of base runs without keep_alive_ms, which it does not know", 36},
		{"no word may stand twice", "none", "", []string{"--bench", "mine"}, 2, `--bench "mine": want own or head`, 0},
		{"a topology that has no process of its own", "none", "", []string{"--base-set", "topology=inprocess", "--head-set", "topology=inprocess"}, 2, "topology is inprocess", 0},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "FAKE_AB="+tt.fake, "FAKE_BROKER="+tt.broker, "FELIX_KEEP_ALIVE_MS=9")
			code, stdout, stderr := b.ab("ab", append(b.twoBuilds(), tt.args...)...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
				var all []string
				if _, err := os.Stat(filepath.Join(b.dir, "s", runrecord.RecordsFile)); err == nil {
					records, _ := b.records(filepath.Join(b.dir, "s"))
					for _, r := range records {
						if r.Error != nil {
							all = append(all, *r.Error)
						}
					}
				}
				if code != tt.code || !strings.Contains(strings.Join(all, "\n"), tt.says) {
					t.Fatalf("exit code %d, want %d and %q:\n%s%s%q", code, tt.code, tt.says, stdout, stderr, all)
				}
			}
			_, err := os.Stat(filepath.Join(b.dir, "s"))
			switch {
			case tt.records == 0 && err == nil:
				t.Errorf("a session is left behind:\n%s", stderr)
			case tt.records > 0:
				if records, _ := b.records(filepath.Join(b.dir, "s")); len(records) != tt.records {
					t.Errorf("%d records, want %d", len(records), tt.records)
				}
			}
			if b.state("broker-pid") != "" {
				b.brokerGone()
			}
		})
	}
	// A probe has no broker, and settings of the broker tell no two cells apart for a bench that it is not part of.
	for text, want := range map[string]string{
		"{why: one, base: {probe: relay, batch: 64}}":                                             "a probe has no broker",
		"{why: one, base: {payload: 256}, factors: {broker.subscriber_queue_capacity: [8, 512]}}": "differ in settings of the broker alone",
	} {
		b := newBench(t, "FAKE_AB=none")
		args := b.twoBuilds()
		if err := os.WriteFile(filepath.Join(b.dir, "pairs.yml"), []byte("why: a test\nblocks: ["+text+"]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := b.ab("ab", args...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", text, code, want, stderr)
		}
	}
	// A build without its brokerd.
	b := newBench(t, "FAKE_AB=none")
	args := b.twoBuilds()
	if err := os.Remove(filepath.Join(b.dir, "builds", "base", brokerFile)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := b.ab("ab", args...); code != 2 || !strings.Contains(stderr, "base: --bench head drives a brokerd, and there is none beside") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// Whatever ends matrix ends the broker: Ctrl-C, which lets the trial drain first, and a kill.
func TestABBenchHeadEndsItsBroker(t *testing.T) {
	for _, tt := range []struct {
		why  string
		sig  syscall.Signal
		code int
	}{{"Ctrl-C", syscall.SIGINT, 2}, {"a kill", syscall.SIGKILL, -1}} {
		if _, err := os.Stat("/proc/self/stat"); err != nil && tt.sig == syscall.SIGKILL {
			continue // only Linux ties a process to its parent
		}
		b := newBench(t, "FAKE_AB=head:wait")
		cmd := exec.Command(executable(t), append([]string{"ab", "--cooldown", "0", "--sentinel", "0"}, b.twoBuilds()...)...)
		cmd.Env, cmd.Dir = b.env, b.dir
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, filepath.Join(b.dir, "state", "pids")) // a trial waits for Ctrl-C
		if err := cmd.Process.Signal(tt.sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // told by the exit code
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%s: exit code %d, want %d\n%s", tt.why, code, tt.code, said.String())
		}
		b.brokerGone()
	}
}

// A broker that does not drain is killed, and the trial says so.
func TestBrokerThatWillNotEnd(t *testing.T) {
	for _, tt := range []struct{ broker, want string }{
		{"base:stubborn", "did not end within 100ms of SIGTERM: killed"},
		{"base:panics", "did not drain (exit code 3)"},
		{"", ""},
	} {
		b := newBench(t)
		binary := filepath.Join(b.dir, brokerFile)
		if err := copyBinary(executable(t), binary); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(b.dir, "broker")
		srv, err := startBroker(t.Context(), binary, dir, []byte("a: 1\n"), []string{"t/n/s"}, append(b.env, "FAKE_BROKER="+tt.broker))
		if err != nil {
			t.Fatal(err)
		}
		if srv.addr != fakeBaseAddr || srv.admin != "http://127.0.0.1:3" {
			t.Errorf("listens on %s, admin %s", srv.addr, srv.admin)
		}
		if tt.want != "" && strings.Contains(tt.broker, "stubborn") {
			srv.patience = 100 * time.Millisecond
		}
		wrong := srv.stop(nil, dir)
		if wrong == "" != (tt.want == "") || !strings.Contains(wrong, tt.want) {
			t.Errorf("%q: %q, want %q", tt.broker, wrong, tt.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: its files are left", tt.broker)
		}
		b.brokerGone()
	}
	// Told to stop before it listens.
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	binary := filepath.Join(b.dir, brokerFile)
	if err := copyBinary(executable(t), binary); err != nil {
		t.Fatal(err)
	}
	srv, err := startBroker(ctx, binary, filepath.Join(b.dir, "broker"), nil, nil, b.env)
	var failed *brokerError
	if err == nil { // it was faster
		srv.stop(nil, filepath.Join(b.dir, "broker"))
	} else if !errors.As(err, &failed) {
		t.Errorf("%v, want a broker that was stopped", err)
	}
}
