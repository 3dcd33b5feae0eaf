//go:build unix

package repo_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"felix/internal/build"
)

// TestScriptsCISteps holds .ci/run to its step names: a step named race that lost its -race would
// stay green for ever.
func TestScriptsCISteps(t *testing.T) {
	text, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^step +(\S+) +(.*)$`).FindAllStringSubmatch(string(text), -1) {
		steps[m[1]] = m[2]
	}
	for name, want := range map[string]string{
		"verify": "go mod verify",
		"tidy":   "go mod tidy -diff",
		"format": "scripts/gofmt",
		"vet":    "go vet ./...",
		"cross":  "scripts/cross",
		"lint":   ".bin/golangci-lint run ./...",
		"stats":  "scripts/tool benchstat", // without it a test of the exports is skipped
		"build":  "scripts/task build",
		"test":   "go test ./...",
		"race":   "go test -race ./...",
		"fuzz":   "scripts/fuzz 3s",
	} {
		if steps[name] != want {
			t.Errorf("step %s of .ci/run is %q, want %q", name, steps[name], want)
		}
	}
	if !regexp.MustCompile(`(?m)^set -euo pipefail$`).Match(text) {
		t.Error(".ci/run does not stop at the first failure (set -euo pipefail)")
	}
	cross, err := os.ReadFile("scripts/cross")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"darwin/arm64", "linux/arm64"} {
		if !bytes.Contains(cross, []byte(target)) {
			t.Errorf("scripts/cross does not build for %s", target)
		}
	}
}

func TestScriptsAreShell(t *testing.T) {
	scripts, err := filepath.Glob("scripts/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range append(scripts, ".ci/run") {
		info, err := os.Stat(script)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be executed", script)
		}
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// TestScriptsBuildIdentity: what scripts/build makes must say which code it is, and say the same as
// Go code of ours that builds, or one source would look like two builds.
func TestScriptsBuildIdentity(t *testing.T) {
	flags, err := build.LDFlags(".")
	if err != nil {
		t.Skipf("no certain identity here: %v", err)
	}
	if out, code := runScript(t, t.TempDir(), nil, "build", "./latencydemo"); code != 0 {
		t.Fatalf("scripts/build ./latencydemo: exit code %d\n%s", code, out)
	}
	version, err := exec.CommandContext(t.Context(), ".bin/latencydemo", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if now, err := build.LDFlags("."); err != nil || now != flags {
		t.Skip("somebody is working in this tree: it changed between the two questions")
	}
	for _, name := range []string{"commit", "treeDigest", "benchDigest"} {
		m := regexp.MustCompile(`\.` + name + `=(\w+)`).FindStringSubmatch(flags)
		if m == nil {
			t.Errorf("build.LDFlags sets no %s: %s", name, flags)
		} else if !bytes.Contains(version, []byte(m[1])) {
			t.Errorf("latencydemo --version = %q, want it to name %s %s", version, name, m[1])
		}
	}
}

func TestScriptsTaskWithoutGo(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"bash", "dirname"} {
		at, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	out, code := runScript(t, t.TempDir(), []string{"PATH=" + bin}, "task", "build")
	if code != 2 || !strings.Contains(out, "Go is not installed") || !strings.Contains(out, "hint: ") {
		t.Errorf("scripts/task without Go: exit code %d, want 2; output %q, want it to name Go and a hint", code, out)
	}
}

// TestScriptsTaskPassesExitCodes: go-task hides codes behind its own unless called with -x, and
// gates are read by their codes.
func TestScriptsTaskPassesExitCodes(t *testing.T) {
	if _, err := os.Stat(".bin/task"); err != nil {
		t.Skip("go-task is not installed; scripts/tool task brings it, as .ci/run does")
	}
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"demo:latency", "--", "--dry-run"}, 0},
		{[]string{"demo:latency", "--", "--fanout", "0"}, 2},
	} {
		if out, code := runScript(t, t.TempDir(), nil, "task", tt.args...); code != tt.want {
			t.Errorf("scripts/task %q: exit code %d, want %d\n%s", tt.args, code, tt.want, out)
		}
	}
}

// runScript runs scripts/name from the folder dir, with env (nil: the test's own), and returns its
// output and exit code.
func runScript(t *testing.T, dir string, env []string, name string, args ...string) (output string, code int) {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, args...)
	cmd.Dir = dir
	cmd.Env = slices.Clone(env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
