// Package racetest is for tests that start processes of their own.
package racetest

import (
	"os"
	"strings"
)

// Env is the variable that the race detector's runtime reads its options from when a process begins.
const Env = "GORACE"

// EndAtOnce makes the processes that this one starts from now on, and that get its environment, end when they are done.
// Under the race detector each would otherwise wait for a second at its exit, for races that nobody is left to make, and
// a trial is three processes. It says nothing to a process without the detector, and leaves a wait alone that somebody
// chose.
func EndAtOnce() {
	const wait = "atexit_sleep_ms="
	if set := os.Getenv(Env); !strings.Contains(set, wait) {
		_ = os.Setenv(Env, strings.TrimSpace(wait+"0 "+set)) // a name and a value that no system refuses
	}
}
