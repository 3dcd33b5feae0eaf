package racetest_test

import (
	"os"
	"testing"

	"felix/internal/racetest"
)

func TestEndAtOnce(t *testing.T) {
	for before, want := range map[string]string{
		"":                                 "atexit_sleep_ms=0",
		"halt_on_error=1":                  "atexit_sleep_ms=0 halt_on_error=1",
		"atexit_sleep_ms=50":               "atexit_sleep_ms=50",
		"halt_on_error=1 atexit_sleep_ms=": "halt_on_error=1 atexit_sleep_ms=",
	} {
		t.Setenv(racetest.Env, before)
		racetest.EndAtOnce()
		if got := os.Getenv(racetest.Env); got != want {
			t.Errorf("%q became %q, want %q", before, got, want)
		}
	}
}
