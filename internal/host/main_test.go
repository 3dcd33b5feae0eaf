package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary also plays the process that holds the machine lock.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockHolderArg {
		os.Exit(holdLock(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

const lockHolderArg = "hold-the-machine-lock"

// holdLock is another measuring command: it takes the lock, says "held", and keeps it until its stdin closes.
func holdLock(mode string) int {
	release, err := Lock(context.Background(), mode == "wait", func(text string) { fmt.Println(text) })
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	release()
	return 0
}
