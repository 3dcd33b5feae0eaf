package main

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
)

// What cannot be printed is not answered: a script that keeps the plan or the identity must see it.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	disk, full := io.Pipe()
	disk.CloseWithError(syscall.ENOSPC)
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"--dry-run"}, {"probe", "relay", "--dry-run"},
		{"--total", "1000", "--warmup", "0", "--topology", "inprocess"},
		{"--repeat", "2", "--total", "1000", "--warmup", "0", "--topology", "inprocess"},
		{"--against", "echo-relay", "--pairs", "1", "--total", "1000", "--warmup", "0", "--topology", "inprocess"},
	} {
		var stderr bytes.Buffer
		if code := Main(args, strings.NewReader(""), full, &stderr); code != exitInvalid || !strings.HasSuffix(stderr.String(), "latencydemo: print: no space left on device\n") {
			t.Errorf("%v: exit code %d, want 1\n%s", args, code, &stderr)
		}
	}
}
