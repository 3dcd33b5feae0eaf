//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// What aggregate must do: 100,000 records of 8 KiB in 30 s and 1 GiB, on 2 cores.
const (
	largeRecords = 100_000
	largeBytes   = 8 << 10
	largeTime    = 30 * time.Second
	largeMemory  = 1 << 30
	largeCores   = 2
)

// The memory has a part that every run takes, the runtime's and the decoders' buffers, and a part that grows with the
// records. A shorter run must fit the first and its share of the rest, so that what it passes holds for the whole.
const largeFixed = 128 << 20

// A year of sessions must not need another machine. The process's own CPU time decides, because this one may have
// other things to do: it must fit the time on the cores. Without -full it is a tenth of the file in a tenth of the
// time and in the memory that leaves room for the rest; under -race a hundredth, in whatever time.
func TestAggregateLarge(t *testing.T) {
	records := largeRecords
	switch {
	case raceEnabled: // 20 times as slow
		records /= 100
	case !*full:
		records /= 10
	}
	root := filepath.Join(t.TempDir(), "results")
	size := writeLarge(t, root, records)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), self, "aggregate", "--results", root,
		"--runs", filepath.Join(out, "runs.csv"), "--cells", filepath.Join(out, "cells.csv"))
	cmd.Env = append(os.Environ(), asCommand+"=1", fmt.Sprintf("GOMAXPROCS=%d", largeCores))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	took := time.Since(began)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	peak := maxRSS(cmd.ProcessState)
	t.Logf("%d records, %d MB: %.1f s, %.1f s of CPU, %d MiB at most", records, size/1_000_000, took.Seconds(), cpu.Seconds(), peak>>20)

	memory := int64(largeFixed + (largeMemory-largeFixed)*records/largeRecords)
	if raceEnabled { // its shadow memory is not the command's
		memory = largeMemory
	}
	if peak >= memory {
		t.Errorf("peak memory of %d MiB, want less than %d", peak>>20, memory>>20)
	}
	limit := largeTime * time.Duration(records) / largeRecords
	if cpu > largeCores*limit && !raceEnabled {
		t.Errorf("%v of CPU, want less than %d x %v", cpu, largeCores, limit)
	}
	// All of it was read, and none of it twice.
	if rows := lines(t, filepath.Join(out, "runs.csv")); rows != records+1 {
		t.Errorf("runs.csv has %d lines, want %d", rows, records+1)
	}
	if want := fmt.Sprintf("%d cells of %d valid trials\n", largeCells, records); !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr %q, want it to end in %q", stderr.String(), want)
	}
}

// largeCells is how many cells the file has: those of a large grid.
const largeCells = 200

// writeLarge writes a grid session of so many records of 8 KiB, and returns how large its file is.
func writeLarge(t *testing.T, root string, records int) (size int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	s := &runrecord.Session{
		SessionID: sampleID(9, 0xdddd0009), Kind: runrecord.SessionKindGrid, StartedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC),
		Grid: &runrecord.SessionGrid{Name: "large"},
	}
	const id = "run-id-goes-here"
	var parts [largeCells][2][]byte // of a line, before and after its run id
	for i := range parts {
		c := workload.Case{Payload: 256 + i%50, Batch: 1 + 63*(i/100), Fanout: 1 + i/50%2}
		r := sample{workload: c, session: s.SessionID, id: id, build: sampleBuild(sampleTree, false), speed: 1, messages: 10_000}.record(rng)
		r.Trial = nil
		stuff(t, r)
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		before, after, ok := bytes.Cut(line, []byte(id))
		if !ok {
			t.Fatal("no run id in the record")
		}
		parts[i] = [2][]byte{before, after}
	}
	writeSession(t, root, s, nil)
	f, err := os.Create(s.RecordsPath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for n := range records {
		p := parts[n%largeCells]
		for _, part := range [][]byte{p[0], []byte(sampleID(9, n)), p[1]} {
			w.Write(part) // Flush tells
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		t.Fatal(err)
	}
	return size
}

// stuff makes a record as large as real ones are, with what they are large with: connections and settings first,
// then intervals up to the size.
func stuff(t *testing.T, r *runrecord.Record) {
	t.Helper()
	for i := range 40 {
		r.Config.Broker[fmt.Sprintf("a_setting_of_the_broker_%02d", i)] = runrecord.Setting{Value: i, From: "default"}
	}
	for i := range 4 {
		r.Conns = append(r.Conns, runrecord.Conn{
			ID: fmt.Sprint("clients/c", i), Process: "clients", Local: "127.0.0.1:40000", Remote: "127.0.0.1:50000", MTUBytes: ptr(1441),
			PacketsSent: 20_000, BytesSent: 6_920_240, LostBy: &runrecord.LostBy{Kernel: ptr(int64(0))}, SendErrors: map[string]uint64{},
		})
	}
	for {
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(line) >= largeBytes {
			return
		}
		r.Intervals = append(r.Intervals, runrecord.Interval{AtNs: int64(len(r.Intervals)) * 100_000_000, Published: 1000, Delivered: 1000})
	}
}

// maxRSS is a process's peak memory in bytes.
func maxRSS(s *os.ProcessState) int64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss) // bytes there, KiB elsewhere
	}
	return int64(usage.Maxrss) << 10
}

func lines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}
