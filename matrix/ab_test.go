//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// gateFile writes a gate over one grid of a latency case and a throughput case.
func (b *bench) gateFile(more string) string {
	b.t.Helper()
	grid := "why: a test\nblocks:\n  - why: one\n    base: {payload: 256}\n  - why: two\n    base: {payload: 4096, batch: 64}\n"
	text := "grids: [pairs.yml]\nlooks: [8]\nsentinel_optional: true\n" + more
	for name, text := range map[string]string{"pairs.yml": grid, "gate.yml": text} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	return filepath.Join(b.dir, "gate.yml")
}

// ab runs matrix ab or aa, without pauses and probes.
func (b *bench) ab(command string, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	cmd := exec.Command(executable(b.t), append([]string{command, "--cooldown", "0", "--sentinel", "0"}, args...)...)
	cmd.Env, cmd.Dir = b.env, b.dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// Two files are two binaries: the same bytes, in a directory each.
func twoBinaries(b *bench) []string {
	other := filepath.Join(b.dir, "other")
	if err := copyBinary(executable(b.t), other); err != nil {
		b.t.Fatal(err)
	}
	return []string{"--base", executable(b.t), "--head", other}
}

// Every exit code, by what head does.
func TestABExitCodes(t *testing.T) {
	for _, tt := range []struct {
		why, fake, more string
		code            int
		says            string // in the verdict
		pairs           int    // that were run, the discarded one too; 0 = do not ask
	}{
		{"nothing differs", "none", "", 0, "PASS at look 1 of 1, 8 pairs", 9},
		{"throughput and latency are half as good", "head:slow", "", 1, "FAIL: a regression", 9},
		{"and twice as good", "head:fast", "", 0, "PASS", 9},
		{"head loses messages", "head:lose", "", 1, "invalid only in head", 4},
		{"head crashes", "head:crash", "", 2, "dropped", 3},
		{"both crash", "all:crash", "", 2, "dropped", 3},
		{"the arms ran on two machines", "head:elsewhere", "", 2, "different hosts", 2},
		{"head has no percentiles", "head:no-percentiles", "", 2, "p50_ns", 9},
		{"the bench differs", "head:bench base:", "", 0, "do not know which bench", 9},
		{"a margin below the noise", "none", "fail_margin: 0.0001\npass_margin: 0.0002\n", 3, "INCONCLUSIVE", 9},
		{"which the gate may call a failure", "none", "fail_margin: 0.0001\npass_margin: 0.0002\non_inconclusive: fail\n", 1, "INCONCLUSIVE", 9},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "FAKE_AB="+tt.fake)
			dir := filepath.Join(b.dir, "s")
			summary := filepath.Join(b.dir, "summary.md")
			code, stdout, stderr := b.ab("ab", append(twoBinaries(b), "--gate", b.gateFile(tt.more), "--session-dir", dir, "--markdown", summary)...)
			if text, err := os.ReadFile(summary); err != nil || !strings.HasPrefix(string(text), "### ") {
				t.Errorf("summary %.100q, %v", text, err)
			}
			if code != tt.code || !strings.Contains(stdout, tt.says) {
				t.Fatalf("exit code %d, want %d and %q:\n%s%s", code, tt.code, tt.says, stdout, stderr)
			}
			records, torn := b.records(dir)
			if got := len(records); tt.pairs > 0 && got != tt.pairs*4 && got != tt.pairs*4-2 || torn > 0 {
				t.Errorf("%d records and %d torn lines, want those of %d pairs of two cells\n%s", got, torn, tt.pairs, stderr)
			}
		})
	}
}

// What a session of pairs records: both arms in every pair, once, with one seed, in balanced order.
func TestABKeepsPairs(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	dir := filepath.Join(b.dir, "s")
	code, _, stderr := b.ab("ab", "--bin", executable(t), "--head-set", "env.ARM=head,broker.subscriber_queue_capacity=8",
		"--gate", b.gateFile(""), "--session-dir", dir, "--seed", "5", "--sentinel", "1ms")
	if code != 0 && code != 3 { // the sentinel may have moved: other tests run beside this one
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	s, err := runrecord.ReadSession(dir)
	if err != nil || s.Kind != runrecord.SessionKindAB || s.EndedAt == nil || *s.Seed != 5 {
		t.Fatalf("session %+v, %v", s, err)
	}
	x, err := gate.ReadExperiment(dir)
	if err != nil || len(x.Arms) != 2 || len(x.ArmFactors) != 1 || x.ArmFactors[0] != "broker.subscriber_queue_capacity" || x.Arms[1].Set[1] != "env.ARM=head" {
		t.Fatalf("experiment %+v, %v", x, err)
	}
	records, _ := b.records(dir)
	f, err := os.Open(filepath.Join(dir, gate.SentinelsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = runrecord.Read(f, "sentinels", func(r *runrecord.Record) error {
		records = append(records, r)
		return nil
	}, func(e *runrecord.SyntaxError) { t.Error(e) })
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		pair    int
		payload int
		arm     string
	}
	trials, probes := map[place]*runrecord.Record{}, map[place]int{}
	orders := map[int]bool{}
	for _, r := range records {
		at := place{*r.Pair, r.Case.Payload, *r.Arm}
		if r.SessionID == nil || *r.SessionID != s.SessionID || *r.Trial != *r.Pair+1 {
			t.Errorf("%v: session %v, trial %d", at, r.SessionID, *r.Trial)
		}
		if r.Kind == verdict.SentinelKind {
			probes[at]++
			if *r.Rates.DeliveredMsgsPerSec <= 0 || *r.Rates.DeliveredBytesPerSec <= 0 || r.Order != nil {
				t.Errorf("%v: sentinel %+v, order %v", at, r.Rates, r.Order)
			}
			continue
		}
		if trials[at] != nil || orders[*r.Order] {
			t.Errorf("%v, order %d: there twice", at, *r.Order)
		}
		trials[at], orders[*r.Order] = r, true
	}
	if len(trials) != 9*2*2 || len(probes) != len(trials) || !orders[1] || !orders[len(trials)] {
		t.Errorf("%d trials and %d sentinels, want 36 of each", len(trials), len(probes))
	}
	for _, payload := range []int{256, 4096} {
		baseFirst := 0
		for pair := range 9 {
			base, head := trials[place{pair, payload, "base"}], trials[place{pair, payload, "head"}]
			if base == nil || head == nil {
				t.Fatalf("payload %d pair %d is not complete", payload, pair)
			}
			if base.Case.Seed != head.Case.Seed || base.Case.Seed != uint64(pair+1) {
				t.Errorf("payload %d pair %d: seeds %d and %d", payload, pair, base.Case.Seed, head.Case.Seed)
			}
			if d := *base.Order - *head.Order; d != 1 && d != -1 {
				t.Errorf("payload %d pair %d: orders %d and %d are not back to back", payload, pair, *base.Order, *head.Order)
			}
			if head.Case.BrokerSet["subscriber_queue_capacity"] != "8" || len(base.Case.BrokerSet) > 0 {
				t.Errorf("payload %d pair %d: settings %v and %v", payload, pair, base.Case.BrokerSet, head.Case.BrokerSet)
			}
			if pair > 0 && *base.Order < *head.Order {
				baseFirst++
			}
		}
		if baseFirst != 4 {
			t.Errorf("payload %d: base came first in %d of 8 pairs, want 4", payload, baseFirst)
		}
	}
}

// The plan comes first, and can be had alone.
func TestABPlan(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	code, stdout, _ := b.ab("ab", "--bin", executable(t), "--head-set", "env.ARM=head", "--dry-run", "--looks", "12,20,30")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{
		`gate +presets/gate.yml: alpha 0.05, fails beyond 5 %, passes within 10 %, 8 tests`, `head +binary .* env.ARM=head`, `cells +4`,
		`ci-throughput fanout=10`, `pairs +30 of every cell`, `look 1 +12 pairs: after about`, `look 3 +30 pairs: after about \d+m`, `at least +9 valid pairs`,
	} {
		wantMatch(t, stdout, want)
	}
}

// A budget that holds no look is refused before anything runs; one that is used up ends the pairs, and what they tell so
// far is judged.
func TestABBudget(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	args := append(twoBinaries(b), "--gate", b.gateFile(""), "--sentinel", "0", "--cooldown", "0", "--session-dir", filepath.Join(b.dir, "s"))
	code, _, stderr := b.ab("ab", append(args, "--budget", "1s")...)
	if code != 2 || !strings.Contains(stderr, "the first look takes about") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}

	t.Setenv("FAKE_AB", "none")
	o, err := parseAB(append(args, "--budget", "1h"), false)
	if err != nil {
		t.Fatal(err)
	}
	x, err := prepareAB(o, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	x.stdout, x.stderr, x.stop = &said, &said, stops{t.Context(), t.Context()}
	x.newSession()
	if err := x.open(); err != nil {
		t.Fatal(err)
	}
	x.began = time.Now().Add(-time.Hour)
	err = x.measure()
	if x.result != nil {
		t.Errorf("decided: %v", x.result)
	}
	v := x.replay().(gate.Two)
	if err != nil || v.Outcome != verdict.CannotJudge || len(x.records) != 4 || len(x.session.Notes) != 1 || !strings.Contains(x.session.Notes[0], "budget 1h0m0s: 60m are used") && !strings.Contains(x.session.Notes[0], "budget 1h0m0s: 1h00m are used") {
		t.Errorf("verdict %v %q, %v, %d records, notes %q", v.Outcome, v.Reasons, err, len(x.records), x.session.Notes)
	}
}

// Ctrl-C lets the trial in flight drain, and what was measured is judged: here too little.
func TestABInterrupted(t *testing.T) {
	b := newBench(t, "FAKE_AB=head:wait")
	dir := filepath.Join(b.dir, "s")
	args := append([]string{"ab", "--cooldown", "0", "--sentinel", "0", "--gate", b.gateFile(""), "--session-dir", dir}, twoBinaries(b)...)
	cmd := exec.Command(executable(t), args...)
	cmd.Env, cmd.Dir = b.env, b.dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, filepath.Join(b.dir, "state", "pids"))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // told by the exit code
	s, err := runrecord.ReadSession(dir)
	if code := cmd.ProcessState.ExitCode(); code != 2 || err != nil || s.EndedAt == nil || !strings.Contains(out.String(), "no look is complete: 1 pairs of the 8") {
		t.Errorf("exit code %d, session %+v, %v\n%s%s", code, s, err, out.String(), said.String())
	}
	records, _ := b.records(dir)
	if r := records[len(records)-1]; !r.Interrupted || *r.Pair != 2 || *r.Arm != "head" {
		t.Errorf("the last record is %s of pair %d, interrupted: %v", *r.Arm, *r.Pair, r.Interrupted)
	}
}

func TestAA(t *testing.T) {
	b := newBench(t, "FAKE_AB=all:jitter")
	dir := filepath.Join(b.dir, "s")
	code, stdout, stderr := b.ab("aa", "--base", executable(t), "--gate", b.gateFile(""), "--session-dir", dir, "--pairs", "16")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{`A/A: PASS`, `false fails +0 of 2 gates, 95 % interval \[0.0 %, \d+`, `p50_ns sd of d [01]\.\d\d %`, `n=16`} {
		wantMatch(t, stdout, want)
	}
	// What it writes is what a gate reads.
	text, err := os.ReadFile(filepath.Join(dir, gate.NoiseFloorFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.Parse("g.yml", append([]byte("grids: [fast]\n"), text...), time.Now())
	if err != nil || !(g.Spec.NoiseFloor.At("any", verdict.P50) > 0) {
		t.Errorf("noise floor %v, %v", g, err)
	}
}

func TestCanaryFails(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	dir := filepath.Join(b.dir, "s")
	code, stdout, stderr := b.ab("aa", "--canary", "20%", "--base", executable(t), "--gate", b.gateFile(""), "--session-dir", dir)
	if code != 1 || !strings.Contains(stdout, "canary     head was slowed by 20 %") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"delivered_bytes_per_sec", "p50_ns"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s does not fail:\n%s", want, stdout)
		}
	}
}

// What cannot be judged is exit code 2, with one line that says why and one that says what to do.
func TestABCannotJudge(t *testing.T) {
	for _, tt := range []struct {
		why  string
		fake string
		args []string
		want string
	}{
		{"nothing to compare", "", nil, "nothing to compare"},
		{"an unknown flag", "", []string{"--bse", "main"}, "unknown flag"},
		{"the arms are the same", "", []string{"--base", "BIN", "--head", "BIN"}, "base and head are the same"},
		{"head alone", "", []string{"--head", "BIN"}, "--head without --base"},
		{"a commit outside a checkout", "", []string{"--base", "main"}, "no checkout to find a commit in"},
		{"a file that cannot be executed", "", []string{"--base", "gate.yml"}, "not an executable file"},
		{"an unknown setting", "", []string{"--bin", "BIN", "--head-set", "broker.subscriber_queue_capcity=8"}, "subscriber_queue_capcity"},
		{"a setting without a value", "", []string{"--bin", "BIN", "--head-set", "payload"}, "want k=v"},
		{"a setting twice", "", []string{"--bin", "BIN", "--head-set", "env.A=1,env.A=2"}, "set twice"},
		{"a gate that cannot fail", "", []string{"--base", "BIN", "--head", "OTHER", "--looks", "3"}, "this gate cannot fail: needs 7 pairs"},
		{"looks out of order", "", []string{"--base", "BIN", "--head", "OTHER", "--looks", "20,12"}, "each above the one before"},
		{"a case without a gated metric", "", []string{"--base", "BIN", "--head", "OTHER", "--gate", "ungated.yml"}, "no gated metric"},
		{"a gate's typo", "", []string{"--base", "BIN", "--head", "OTHER", "--gate", "typo.yml"}, `typo.yml: line 2: unknown key "loks" of a gate (nearest: looks)`},
		{"no gate", "", []string{"--base", "BIN", "--head", "OTHER", "--gate", "none.yml"}, "no such file"},
		{"a metric without direction", "", []string{"--base", "BIN", "--head", "OTHER", "--gate", "metric.yml"}, "no declared direction"},
		{"head refuses a cell", "head:refuse", []string{"--base", "BIN", "--head", "OTHER"}, "head: cell"},
		{"base refuses a cell", "base:refuse", []string{"--base", "BIN", "--head", "OTHER"}, "base: cell"},
		{"three words", "", []string{"BIN", "OTHER", "more"}, `stray word "more"`},
		{"a metric that no trial has", "all:no-percentiles", []string{"--base", "BIN", "--head", "OTHER"}, "no trial has a p50_ns"},
		{"a canary of nothing", "", []string{"--canary", "0"}, "want a share"},
		{"a canary of a comparison", "", []string{"--canary", "20%", "--base", "main"}, "--canary slows one binary"},
		{"a canary without a median", "all:no-percentiles", []string{"--canary", "20%", "--bin", "BIN"}, "has no median"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "FAKE_AB=none "+tt.fake, "GIT_CEILING_DIRECTORIES=/")
			two := twoBinaries(b)
			args := []string{"--gate", b.gateFile("")}
			for name, text := range map[string]string{
				"typo.yml": "grids: [fast]\nloks: [3]\n", "metric.yml": "grids: [fast]\nmetrics: [speed]\n",
				"ungated.yml": "grids: [ungated-grid.yml]\n", "ungated-grid.yml": "why: w\nblocks: [{why: w, base: {batch: 64, payload: 256}}]\n",
			} {
				if name == "ungated-grid.yml" {
					text = "why: w\nblocks: [{why: w, base: {load: flood, acks: none, payload: 0}}]\n"
				}
				if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, a := range tt.args {
				switch a {
				case "BIN":
					a = two[1]
				case "OTHER":
					a = two[3]
				}
				args = append(args, a)
			}
			code, stdout, stderr := b.ab("ab", args...)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			if code != 2 || stdout != "" || !strings.Contains(lines[max(0, len(lines)-2)], tt.want) || !strings.HasPrefix(lines[len(lines)-1], "matrix: hint: ") {
				t.Errorf("exit code %d, want 2 with %q and a hint:\n%s%s", code, tt.want, stdout, stderr)
			}
			if dirs, _ := filepath.Glob(filepath.Join(b.dir, "results", "*")); len(dirs) > 0 && tt.fake != "all:no-percentiles" {
				t.Errorf("left behind: %q", dirs)
			}
		})
	}
}

// An arm that is a commit is built from it, in a worktree that does not stay.
func TestABBuildsCommits(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	b := newBench(t, "FAKE_AB=head:slow", "FAKE_BIN="+executable(t), "GOFLAGS=-mod=mod", "GOWORK=off",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_GLOBAL=/dev/null")
	gateName := b.gateFile("")
	repo := filepath.Join(b.dir, "repo")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = repo, b.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(tag string) {
		t.Helper()
		git("add", "-A")
		git("commit", "-q", "-m", tag)
		git("tag", tag)
	}
	// It becomes the fake trial, by the name that it was called by.
	program := `package main

import (
	"os"
	"syscall"
)

func main() {
	panic(syscall.Exec(os.Getenv("FAKE_BIN"), os.Args, os.Environ()))
}
`
	write("go.mod", "module felix\n\ngo 1.26\n")
	write("latencydemo/main.go", program)
	git("init", "-q", "-b", "main")
	commit("first")
	b.dir = repo
	dir := filepath.Join(t.TempDir(), "s")
	says := func(code int, want string, args ...string) {
		t.Helper()
		got, stdout, stderr := b.ab("ab", append(args, "--gate", gateName)...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("matrix ab %q: exit code %d, want %d and %q:\n%s%s", args, got, code, want, stdout, stderr)
		}
	}
	says(2, "only its first one", "--base", "HEAD~1")
	write("latencydemo/main.go", "package main\n\nfunc main() { broken }\n")
	commit("broken")
	write("latencydemo/main.go", program+"// changed\n")
	commit("second")
	says(2, "base does not build", "--base", "broken")
	says(2, "no such commit", "--base", "nowhere")
	says(125, "no such commit", "--base", "nowhere", "--bisect-exit")
	says(2, "has no brokerd, which --bench head drives", "--base", "first", "--head", "second", "--bench", "head")
	says(1, "FAIL: a regression", "first", "second", "--session-dir", dir)
	if list := git("worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees are left: %s", list)
	}
	x, err := gate.ReadExperiment(dir)
	if err != nil || !strings.Contains(x.Arms[0].From, "(first)") || x.Arms[0].Binary != "base/latencydemo" {
		t.Errorf("experiment %+v, %v", x, err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	git("clone", "-q", "--depth", "1", "file://"+repo, shallow)
	b.dir = shallow
	says(2, "shallow clone", "--base", "first")
}
