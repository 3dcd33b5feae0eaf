package main

import (
	"bytes"
	"io"
	"syscall"
	"testing"
)

// What cannot be printed is not answered: a script that keeps the identity must see it.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	disk, full := io.Pipe()
	disk.CloseWithError(syscall.ENOSPC)
	for _, arg := range []string{"--help", "--version"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{arg}, nil, full, &stderr); code != 1 || stderr.String() != "brokerd: no space left on device\n" {
			t.Errorf("%s: exit code %d, want 1\n%s", arg, code, &stderr)
		}
	}
}
