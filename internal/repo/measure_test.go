//go:build unix

package repo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestScriptsMeasure: what measures a grid draws its session and then prints the table, which stays the last and the only
// thing on stdout, and whatever the pictures come to, the exit code is that of the measurement.
func TestScriptsMeasure(t *testing.T) {
	const matrix = `#!/usr/bin/env bash
echo "matrix $*" >>calls
case "$*" in
*--dry-run*) echo the plan ;;
*) while [ "$1" != --session-file ]; do shift; done
   echo results/one >"$2"
   echo "session    results/one" >&2
   echo the table ;;
esac
exit "${MATRIX_EXITS:-0}"
`
	const analysis = `#!/usr/bin/env bash
echo "analysis $*" >>calls
echo results/one/charts/latency.svg
echo "analysis: nothing to draw" >&2
exit "${ANALYSIS_EXITS:-0}"
`
	for _, tt := range []struct {
		why            string
		args           []string
		env            string
		code           int
		stdout, stderr string // stderr as a part
		calls          []string
	}{
		{"all is well", []string{"quick", "--trials", "3"}, "", 0, "the table\n", "charts     results/one/charts",
			[]string{"matrix run --grid quick --session-file FILE --trials 3", "analysis charts --session results/one"}},
		{"a trial is invalid", []string{"fast"}, "MATRIX_EXITS=1", 1, "the table\n", "charts     results/one/charts",
			[]string{"matrix run --grid fast --session-file FILE", "analysis charts --session results/one"}},
		{"nothing can be drawn", []string{"quick"}, "ANALYSIS_EXITS=2", 0, "the table\n", "analysis: nothing to draw\nscripts/measure: no charts were drawn",
			[]string{"matrix run --grid quick --session-file FILE", "analysis charts --session results/one"}},
		{"a dry run has no charts", []string{"quick", "--dry-run"}, "", 0, "the plan\n", "", []string{"matrix run --grid quick --session-file FILE --dry-run"}},
		{"a usage error has none either", []string{"quick", "--dry-run"}, "MATRIX_EXITS=2", 2, "the plan\n", "", []string{"matrix run --grid quick --session-file FILE --dry-run"}},
	} {
		root := scriptAmong(t, "measure", map[string]string{".bin/matrix": matrix, ".bin/analysis": analysis})
		stdout, stderr, code := runAmong(t, root, []string{tt.env}, "measure", tt.args...)
		called, err := os.ReadFile(filepath.Join(root, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		for line := range strings.Lines(string(called)) {
			words := strings.Fields(line)
			for i := range words {
				if i > 0 && words[i-1] == "--session-file" {
					words[i] = "FILE"
				}
			}
			calls = append(calls, strings.Join(words, " "))
		}
		if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) ||
			strings.Join(calls, "; ") != strings.Join(tt.calls, "; ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, calls %q; want %d, %q, %q, %q", tt.why, code, stdout, stderr, calls,
				tt.code, tt.stdout, tt.stderr, tt.calls)
		}
	}
}

// TestScriptsMeasureTasks: the tasks that measure a grid do it by that script, with both programs built.
func TestScriptsMeasureTasks(t *testing.T) {
	text, err := os.ReadFile("Taskfile.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tasks map[string]struct {
			Deps []string
			Cmds []any
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, grid := range []string{"quick", "fast", "latency-matrix"} {
		task := file.Tasks["perf:"+grid]
		if len(task.Cmds) != 1 || task.Cmds[0] != "scripts/measure "+grid+" {{.CLI_ARGS}}" || len(task.Deps) != 1 || task.Deps[0] != "build:measure" {
			t.Errorf("perf:%s is %+v", grid, task)
		}
	}
	if cmds := file.Tasks["build:measure"].Cmds; len(cmds) != 1 || cmds[0] != "scripts/build ./matrix ./analysis" {
		t.Errorf("build:measure is %v", cmds)
	}
}
