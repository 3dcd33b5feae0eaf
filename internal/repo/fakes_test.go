//go:build unix

package repo_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// scriptAmong copies scripts/name into a folder of its own, among fakes of the programs that it calls and of the files
// that it finds, by their paths there. It returns that folder.
func scriptAmong(t *testing.T, name string, fakes map[string]string) (root string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	lay := func(name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lay(filepath.Join("scripts", name), string(script))
	for name, text := range fakes {
		lay(name, text)
	}
	return root
}

// runAmong runs scripts/name of the folder root, with env beside the test's own.
func runAmong(t *testing.T, root string, env []string, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", name), args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
