package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/internal/workload"
)

// A session of 500 cells is drawn in 30 s: a matrix ends with its charts, and nobody waits for longer. Without
// -full it is a hundred of the cells, under -race twenty of them and in whatever time.
func TestChartsLarge(t *testing.T) {
	payloads := []int{0, 64, 256, 1024, 4096, 8192, 16384, 65536, 262144, 1048576}
	publisherCounts := []int{1, 2, 4, 8, 16}
	switch {
	case raceEnabled:
		payloads, publisherCounts = payloads[2:4], publisherCounts[:1]
	case !*full:
		publisherCounts = publisherCounts[:1]
	}
	var cases []workload.Case
	var names []string
	for _, publishers := range publisherCounts {
		for _, batch := range []int{1, 8} {
			for _, fanout := range []int{1, 2, 4, 8, 10} {
				for _, payload := range payloads {
					cases = append(cases, workload.Case{Payload: payload, Batch: batch, Fanout: fanout, Publishers: publishers})
					names = append(names, fmt.Sprintf("payload=%d batch=%d fanout=%d publishers=%d", payload, batch, fanout, publishers))
				}
			}
		}
	}
	root := filepath.Join(t.TempDir(), "results")
	comparedSession{day: 1, cases: cases, names: names, trials: 5, build: buildOf("a", false), speed: usual}.write(t, root)
	formats := "svg,png"
	if raceEnabled {
		formats = "svg" // filling pixels is 30 times as slow
	}
	var stdout, stderr bytes.Buffer
	began := time.Now()
	if code := run([]string{"charts", "--results", root, "--out", filepath.Join(t.TempDir(), "charts"), "--format", formats}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	took := time.Since(began)
	t.Logf("%d cells, %d files: %v", len(cases), strings.Count(stdout.String(), "\n"), took.Round(time.Millisecond))
	if took > 30*time.Second && !raceEnabled {
		t.Errorf("%v for %d cells, want less than 30 s", took, len(cases))
	}
}
