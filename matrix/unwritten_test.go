package main

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
)

// What cannot be printed is not answered: a script that keeps the plan or the list must see it.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	disk, full := io.Pipe()
	disk.CloseWithError(syscall.ENOSPC)
	for args, want := range map[string]int{
		"--help": exitInvalid, "run --help": exitInvalid, "run --grid quick --dry-run": exitInvalid, "sessions --help": exitInvalid,
		"ab --help": exitCannotJudge, "ab --base HEAD --dry-run --grid ci-latency": exitCannotJudge,
	} {
		var stderr bytes.Buffer
		if code := Main(strings.Fields(args), strings.NewReader(""), full, &stderr); code != want || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%s: exit code %d, want %d\n%s", args, code, want, &stderr)
		}
	}
}
