//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A reader that has seen enough, as in "analysis table | head -1", is no failure; and what goes to a file beside it
// is written whole.
func TestBrokenPipe(t *testing.T) {
	root := filepath.Join(t.TempDir(), "results")
	writeSamples(t, root)
	kept := filepath.Join(t.TempDir(), "cells.csv")
	for _, args := range [][]string{
		{"table"}, {"table", "--help"}, {"--help"}, {"aggregate", "--columns"},
		{"aggregate", "--cells", "-"},
		{"aggregate", "--runs", "-", "--cells", kept},
		{"compare", "aaaa0001", "bbbb0002"},
		{"compare", "--by", "payload", "--format", "json"},
		{"export", "--bench", "-"},
		{"export", "--hlog", "-"},
		{"charts", "--out", t.TempDir(), "--run", "none", "--format", "svg"},
	} {
		t.Run(strings.Join(args[:min(3, len(args))], " "), func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close() // before the first byte
			cmd, stderr := self(t, root, args...)
			cmd.Stdout = w
			err = cmd.Run()
			w.Close()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			if strings.Contains(stderr.String(), "pipe") {
				t.Errorf("stderr complains: %s", stderr)
			}
		})
	}
	if got := lines(t, kept); got != 1+3 {
		t.Errorf("%s has %d lines, want 4", kept, got)
	}
}

// A full disk is an error with the file's name, and leaves neither half of a table nor a temporary file.
func TestFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("no " + full + " here")
	}
	root := filepath.Join(t.TempDir(), "results")
	writeSamples(t, root)
	dir := t.TempDir()
	cmd, stderr := self(t, root, "aggregate", "--runs", full, "--cells", filepath.Join(dir, "cells.csv"))
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitUsage {
		t.Errorf("run: %v, want exit code %d", err, exitUsage)
	}
	if want := "analysis: write /dev/full: no space left on device\n"; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr %q, want it to end in %q", stderr, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, args := range [][]string{
		{"--help"}, {"table", "--help"},
		{"table"}, {"aggregate", "--runs", "-"}, {"compare", "aaaa0001", "bbbb0002"}, {"export", "--bench", "-"},
	} {
		stdout, err := os.OpenFile(full, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd, stderr := self(t, root, args...)
		cmd.Stdout = stdout
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v onto a full disk: %v, %s", args, err, stderr)
		}
		stdout.Close()
	}
}

// self is analysis as a process of its own.
func self(t *testing.T, root string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = append(args, "--results", root)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}
