//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/runrecord"
)

// A trial that hangs, and whose own process outlives it, must cost its timeout and no more.
func TestHangingTrialIsKilledWithItsGroup(t *testing.T) {
	b := newBench(t, "FAKE=64:hang")
	dir := filepath.Join(b.dir, "s")
	began := time.Now()
	code, _, stderr := b.run("--grid", b.grid(2, 64, 128), "--session-dir", dir, "--bin", executable(t), "--timeout", "300ms", "--retries", "1")
	if code != exitInvalid {
		t.Errorf("exit code %d, want %d\n%s", code, exitInvalid, stderr)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	records, _ := b.records(dir)
	var hung, valid int
	for _, r := range records {
		switch {
		case r.Case.Payload == 128 && r.Valid:
			valid++
		case r.Case.Payload == 64 && r.Error != nil && strings.Contains(*r.Error, "killed at the timeout of 300ms (SIGKILL)") && strings.Contains(*r.Error, "hanging"):
			hung++
		default:
			t.Errorf("payload %d: valid %v, error %v", r.Case.Payload, r.Valid, r.Error)
		}
	}
	if hung != 4 || valid != 2 {
		t.Errorf("%d attempts hung and %d trials are valid, want 4 and 2", hung, valid)
	}
	wantMatch(t, stderr, `4 of 4 trials recorded: 2 valid, 0 invalid, 2 failed, 0 noisy; 4 of 6 attempts failed \(66.7 %\)`)
	pids, err := os.ReadFile(filepath.Join(b.dir, "state", "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Fields(string(pids)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := waitGone(pid); err != nil {
			t.Errorf("process %d of the hanging trial is left: %v", pid, err)
		}
	}
}

// waitGone waits until no process has that id, or only a dead one that nobody has waited for: in a container without
// an init that reaps, orphans stay so.
func waitGone(pid int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := within(20 * time.Second)
	for {
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil {
			if _, after, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(after, "Z") {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			return os.ErrDeadlineExceeded
		}
	}
}

func TestFailedTrials(t *testing.T) {
	for _, tt := range []struct {
		fake  string
		code  int
		want  []string // the errors of the records, in order; "" is a valid one
		files bool
	}{
		{"64:crash", 1, []string{"attempt 1 of 3: exit code 3: it printed no record\npanic: the trial broke", "attempt 2 of 3", "attempt 3 of 3"}, true},
		{"64:crash-once", 0, []string{"attempt 1 of 3: exit code 3", ""}, true},
		{"64:killed", 1, []string{"ended by SIGKILL", "attempt 2", "attempt 3"}, false},
		{"64:garbage", 1, []string{"exit code 0: the last line it printed is no record", "attempt 2", "attempt 3"}, true},
		{"64:other", 1, []string{"its record is of another case: payload=1 of another case", "attempt 2", "attempt 3"}, true},
	} {
		t.Run(tt.fake, func(t *testing.T) {
			b := newBench(t, "FAKE="+tt.fake)
			dir := filepath.Join(b.dir, "s")
			code, stdout, stderr := b.run("--grid", b.grid(1, 64), "--session-dir", dir, "--bin", executable(t))
			if code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", code, tt.code, stderr)
			}
			records, torn := b.records(dir)
			if len(records) != len(tt.want) || torn != 0 {
				t.Fatalf("%d records and %d torn lines, want %d and 0\n%s", len(records), torn, len(tt.want), stderr)
			}
			for i, want := range tt.want {
				r := records[i]
				if want == "" {
					if !r.Valid || r.Error != nil {
						t.Errorf("record %d: valid %v, error %v", i, r.Valid, r.Error)
					}
					continue
				}
				if r.Valid || r.Error == nil || !strings.Contains(*r.Error, want) || len(r.Reasons) == 0 || len(r.Build.Source) == 0 {
					t.Fatalf("record %d: valid %v, error %v, reasons %v; want %q", i, r.Valid, *r.Error, r.Reasons, want)
				}
				if *r.Trial != 1 || *r.Order != i+1 {
					t.Errorf("record %d: trial %d, order %d", i, *r.Trial, *r.Order)
				}
				if line, err := r.Encode(); err != nil || len(line) > runrecord.MaxBytes {
					t.Errorf("record %d: %d bytes, %v", i, len(line), err)
				}
				if !tt.files {
					continue
				}
				if len(r.Files) != 1 || r.Files[0].Name != outputFile {
					t.Fatalf("record %d: files %v", i, r.Files)
				}
				st, err := os.Stat(filepath.Join(dir, runrecord.RunsDir, r.RunID, outputFile))
				if err != nil || st.Size() > keptOutput || st.Size() != r.Files[0].Bytes {
					t.Errorf("record %d: output of %d bytes, %v", i, st.Size(), err)
				}
			}
			if !strings.Contains(stdout, "64") {
				t.Errorf("no table on stdout:\n%s", stdout)
			}
		})
	}
}

// An invalid trial is a result: it is not tried again, and the matrix says so.
func TestInvalidTrialIsAResult(t *testing.T) {
	b := newBench(t, "FAKE=64:invalid")
	dir := filepath.Join(b.dir, "s")
	code, _, stderr := b.run("--grid", b.grid(2, 64, 128), "--session-dir", dir, "--bin", executable(t))
	if code != exitInvalid {
		t.Errorf("exit code %d, want %d", code, exitInvalid)
	}
	if records, _ := b.records(dir); len(records) != 4 {
		t.Errorf("%d records, want 4", len(records))
	}
	wantMatch(t, stderr, `trial 1: INVALID: unaccounted: 3 deliveries`)
	wantMatch(t, stderr, `2 valid, 2 invalid, 0 failed, 0 noisy\n`)
}

func TestRepeatNoisy(t *testing.T) {
	b := newBench(t, "FAKE=64:noisy-first")
	dir := filepath.Join(b.dir, "s")
	args := []string{"--grid", b.grid(3, 64, 128), "--session-dir", dir, "--bin", executable(t), "--repeat-noisy", "2"}
	code, _, stderr := b.run(args...)
	if code != exitValid {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	records, _ := b.records(dir)
	var grades []string
	for _, r := range records {
		if r.Case.Payload == 64 {
			grades = append(grades, strconv.Itoa(*r.Trial)+r.Host.Noise.Grade)
		}
	}
	got := strings.Join(grades, " ")
	if got != "1noisy 2noisy 3quiet 1quiet 2quiet" && got != "1noisy 2noisy 3quiet 2quiet 1quiet" {
		t.Errorf("trials of the noisy cell: %s", got)
	}
	wantMatch(t, stderr, `repeats of noisy trials: a trial that was measured in noise only is measured again, at most 2 times; every record is kept`)
	s, err := runrecord.ReadSession(dir)
	if err != nil || len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "repeats of noisy trials") {
		t.Errorf("notes %q, %v", s.Notes, err)
	}
	if s.Build.Go != "go1.26" || !s.Build.PGO || s.Build.Commit == nil || s.Build.QuicGo == nil || *s.Build.QuicGo != "v0" {
		t.Errorf("the session's build is %+v, which is not what the binary said of itself", s.Build)
	}
}

// A trial that slows as the session goes on, by whatever: in listed order the last cells would look slower than the first;
// the random order spreads it evenly.
func TestDriftIsSpreadOverTheCells(t *testing.T) {
	payloads := []int{64, 80, 96, 112, 128, 144, 160, 176}
	const trials = 12
	means := func(order ...string) (lowest, highest float64) {
		b := newBench(t, "FAKE=all:drift")
		dir := filepath.Join(b.dir, "s")
		code, _, stderr := b.run(append([]string{"--grid", b.grid(trials, payloads...), "--session-dir", dir, "--bin", executable(t)}, order...)...)
		if code != exitValid {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		records, _ := b.records(dir)
		once(t, records, trials, payloads...)
		sums := map[int]float64{}
		for i, r := range records {
			if want := int64(1000 + 10*(i+1)); *r.Latency.EndToEnd.P50Ns != want {
				t.Fatalf("record %d: %d ns, want the planted %d", i, *r.Latency.EndToEnd.P50Ns, want)
			}
			if trial := i/len(payloads) + 1; *r.Trial != trial {
				t.Errorf("record %d: trial %d, want %d: blocks come one after the other", i, *r.Trial, trial)
			}
			sums[r.Case.Payload] += float64(*r.Latency.EndToEnd.P50Ns) / trials
		}
		lowest, highest = sums[payloads[0]], sums[payloads[0]]
		for _, p := range payloads {
			lowest, highest = min(lowest, sums[p]), max(highest, sums[p])
		}
		return lowest, highest
	}
	// The drift is 10 ns a trial, 960 in all. Listed, the first and the last cell of a block are always 7 trials apart,
	// hence 70 ns; at random the mean place of a cell has a standard deviation of 2.3 / sqrt(12) trials, 6.6 ns.
	if low, high := means("--order", "listed"); high-low != 70 {
		t.Errorf("listed: cells are %v ns apart, want 70", high-low)
	}
	if low, high := means("--seed", "1"); high-low > 35 {
		t.Errorf("random: cells are %v ns apart, of a drift of 960", high-low)
	}
}

// A budget is kept by what trials really take, not by what they were expected to.
func TestBudgetIsKeptOnTheWay(t *testing.T) {
	b := newBench(t, "FAKE=64:slow")
	dir := filepath.Join(b.dir, "s")
	code, _, stderr := b.run("--grid", b.grid(4, 64), "--session-dir", dir, "--bin", executable(t), "--budget", "4s")
	if code != exitValid {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if records, _ := b.records(dir); len(records) == 0 || len(records) > 2 {
		t.Errorf("%d records in 4 s, want 1 or 2 of 1.5 s", len(records))
	}
	wantMatch(t, stderr, `matrix: budget 4s: \S+ are used, and one more trial of every cell takes about 1.\ds: the last \d of 4 trials of every cell are dropped\n`)
	wantMatch(t, stderr, `resume with: `)
	s, err := runrecord.ReadSession(dir)
	if err != nil || !strings.Contains(strings.Join(s.Notes, " "), "budget 4s") {
		t.Errorf("notes %q, %v", s.Notes, err)
	}
}

// A machine that is never quiet is waited for up to the limit, and the trial runs all the same.
func TestWaitQuiet(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("only Linux tells what else the machine does")
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	b := newBench(t)
	code, _, stderr := b.run("--grid", b.grid(1, 64), "--session-dir", filepath.Join(b.dir, "s"), "--bin", executable(t), "--wait-quiet", "2s")
	close(stop)
	<-stopped
	if code != exitValid {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	wantMatch(t, stderr, `waiting up to 2s for a quiet machine: (noisy|contaminated) \(others \d+ % of the CPU, steal \d+ %\)`)
	wantMatch(t, stderr, `still (noisy|contaminated) .* after 2s: the trial runs all the same`)
}
