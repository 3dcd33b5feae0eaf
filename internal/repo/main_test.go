package repo_test

import (
	"fmt"
	"os"
	"testing"
)

// Every test here looks at the repository from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
