//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix/internal/gate"
	"felix/internal/verdict"
)

// Three arms: a fix, without it, and before it. The arm whose environment says ARM=head is the one that differs.
func TestABArms(t *testing.T) {
	arms := func(first, second, third string) []string {
		return []string{"--arm", first, "--arm", second, "--arm", third}
	}
	fixed := arms("before:", "fix:env.ARM=head", "reverted")
	for _, tt := range []struct {
		why, fake string
		args      []string
		code      int
		says      []string // on stdout, or of an error on stderr
	}{
		{"a fix that helps", "head:fast", fixed, 0, []string{
			"PASS at look 1 of 1, 10 rounds of before, fix, reverted", "fix against before: ", "better, for certain", "fix / before", "reverted / fix", "alike", "worse",
		}},
		{"a fix that hurts", "head:slow", fixed, 1, []string{"FAIL: an arm is worse than before", "fix against before"}},
		{"no difference", "none", fixed, 0, []string{"PASS"}},
		{"the first is the one to beat", "head:fast", arms("fix:env.ARM=head", "before:", "reverted:"), 1, []string{"FAIL: an arm is worse than fix"}},
		{"an arm that loses messages", "head:lose", arms("before:", "reverted:", "fix:env.ARM=head"), 1, []string{"fix against before: invalid only in head"}},
		{"an arm that crashes", "head:crash", fixed, 2, []string{"CANNOT JUDGE", "fix against before", "dropped"}},
		{"two arms", "none", fixed[:4], 2, []string{"--arm is given 2 times: want three or more"}},
		{"a name twice", "none", arms("a:", "b:env.ARM=head", "a:"), 2, []string{"--arm a is given twice"}},
		{"no name", "none", arms(":env.ARM=head", "b:", "c:"), 2, []string{"want NAME:k=v"}},
		{"the same thrice", "none", arms("a:", "b:", "c:"), 2, []string{"all arms are the same"}},
		{"with a base", "none", append(slices.Clone(fixed), "--base", "BIN"), 2, []string{"--arm is not for --base"}},
		{"a setting without a value", "none", arms("a:", "b:payload", "c:"), 2, []string{`--arm b "payload": want k=v`}},
		{"looks that cannot reject", "none", append(slices.Clone(fixed), "--looks", "8"), 2, []string{"this gate cannot fail: needs 9 pairs"}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "FAKE_AB="+tt.fake)
			summary := filepath.Join(b.dir, "summary.md")
			args := []string{"--gate", b.gateFile(""), "--session-dir", filepath.Join(b.dir, "s"), "--markdown", summary}
			for _, a := range tt.args {
				if a == "BIN" {
					a = executable(t)
				}
				args = append(args, a)
			}
			if !slices.Contains(tt.args, "--looks") {
				args = append(args, "--looks", "10")
			}
			if !slices.Contains(tt.args, "--base") {
				args = append(args, "--bin", executable(t))
			}
			code, stdout, stderr := b.ab("ab", args...)
			text := stdout
			if stdout == "" {
				text = stderr
			}
			for _, want := range tt.says {
				if code != tt.code || !strings.Contains(text, want) {
					t.Fatalf("exit code %d, want %d and %q:\n%s%s", code, tt.code, want, stdout, stderr)
				}
			}
			if stdout == "" {
				return
			}
			if md, err := os.ReadFile(summary); err != nil || !strings.HasPrefix(string(md), "### ") {
				t.Errorf("summary %.100q, %v", md, err)
			}
			kept, err := os.ReadFile(filepath.Join(b.dir, "s", "verdict.json"))
			var v verdict.ArmsVerdict
			if err == nil {
				err = json.Unmarshal(kept, &v)
			}
			if err != nil || v.ExitCode() != code || len(v.Arms) != 3 {
				t.Errorf("verdict.json: %v, exit code %d, want %d; arms %q", err, v.ExitCode(), code, v.Arms)
			}
			x, err := gate.ReadExperiment(filepath.Join(b.dir, "s"))
			if err != nil || len(x.Arms) != 3 {
				t.Errorf("experiment %+v, %v", x, err)
			}
		})
	}
}

// The arms of a round run back to back, each once, and every place in the round falls to each arm as often.
func TestABArmsAreBalanced(t *testing.T) {
	b := newBench(t, "FAKE_AB=none")
	dir := filepath.Join(b.dir, "s")
	code, stdout, stderr := b.ab("ab", "--arm", "a:", "--arm", "b:env.ARM=head", "--arm", "c:payload=512", "--bin", executable(t), "--gate", b.gateFile(""), "--looks", "10",
		"--session-dir", dir, "--only", "batch=1")
	if code > 1 { // c is another payload: whatever it does, it is judged
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	records, _ := b.records(dir)
	if len(records) != 11*3 {
		t.Fatalf("%d records, want 33", len(records))
	}
	sum := map[string]int{}
	for i, r := range records {
		if *r.Pair != i/3 || *r.Order != i+1 {
			t.Errorf("record %d: round %d, order %d", i, *r.Pair, *r.Order)
		}
		if *r.Pair > 0 {
			sum[*r.Arm] += i%3 + 1
		}
	}
	for arm, n := range sum {
		if n != 20 {
			t.Errorf("%s: places add up to %d, want 20: 2 on average", arm, n)
		}
	}
}
