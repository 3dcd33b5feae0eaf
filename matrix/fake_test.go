//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// fakeTrial is a trial that takes no time. FAKE holds words PAYLOAD:BEHAVIOUR; a payload without one is measured at once
// and valid. FAKE_STATE is a directory in which trials count themselves.
func fakeTrial(args []string) int {
	if len(args) == 1 && args[0] == "sleep" {
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
		select {}
	}
	f := pflag.NewFlagSet("fake", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	var c workload.Case
	f.IntVar(&c.Payload, "payload", workload.DefaultPayload, "")
	f.IntVar(&c.Batch, "batch", 1, "")
	f.IntVar(&c.Fanout, "fanout", 1, "")
	seed := f.Uint64("seed", 0, "")
	out := f.String("out", "", "")
	dryRun := f.Bool("dry-run", false, "")
	version := f.Bool("version", false, "")
	f.String("json", "", "")
	f.Bool("allow-undersized", false, "")
	if err := f.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, "latencydemo:", err)
		return 2
	}
	c, err := c.Resolve()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "latencydemo:", err)
		return 2
	case *version:
		d := strings.Repeat("ab", 20)
		fmt.Printf("latencydemo  commit %s DIRTY  tree %s  bench %s  binary %s  (ldflags; go1.26, pgo, quic-go v0)\n", d, d, d, d)
		return 0
	case *dryRun:
		fmt.Printf("case       %s\nlossless   yes\n", c.Key())
		return 0
	}
	behaviour := ""
	for _, word := range strings.Fields(os.Getenv("FAKE")) {
		if payload, b, _ := strings.Cut(word, ":"); payload == strconv.Itoa(c.Payload) || payload == "all" {
			behaviour = b
		}
	}
	return behave(behaviour, c, *seed, *out)
}

func behave(behaviour string, c workload.Case, seed uint64, out string) int {
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: runrecord.NewSessionID(), StartedAt: time.Now().UTC(), Kind: "case", Valid: true,
		Env: measuredEnv(os.Environ()), Lossless: runrecord.LosslessYes, SizeGrade: "n/a",
		Case:  runrecord.Case{Key: c.Key(), Case: c, Seed: seed, MaxDeliveries: workload.DefaultMaxDeliveries},
		Build: runrecord.Build{Source: "none", Optimized: true},
		Host:  runrecord.Host{Noise: &runrecord.Noise{Grade: "quiet"}},
	}
	r.Latency.Kind = c.LatencyKind()
	p50 := int64(100_000)
	r.Latency.EndToEnd = &runrecord.Distribution{N: 1000, P50Ns: &p50}
	words := strings.Split(behaviour, ",")
	n := count(c.Payload)
	switch words[0] {
	case "hang":
		// With a process of its own, which would hold the pipes and the machine if it were left.
		exe, err := os.Executable()
		if err != nil {
			return 9
		}
		child := exec.Command(exe, "sleep")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return 9
		}
		fmt.Fprintln(os.Stderr, "hanging")
		signal.Ignore(os.Interrupt)
		writeState("pids", fmt.Sprintf("%d %d\n", os.Getpid(), child.Process.Pid))
		select {}
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: the trial broke")
		return 3
	case "crash-once":
		if n == 1 {
			fmt.Fprintln(os.Stderr, "panic: the trial broke")
			return 3
		}
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "garbage":
		w := bufio.NewWriter(os.Stdout)
		for i := range 40_000 {
			fmt.Fprintf(w, "%d not a record \x00\xff\n", i)
		}
		fmt.Fprint(w, `{"schema":"felix.run/1","run_id":`)
		_ = w.Flush()
		return 0
	case "other":
		r.Case.Key = "payload=1 of another case"
	case "invalid":
		r.Valid, r.Reasons = false, []string{"unaccounted: 3 deliveries"}
		fmt.Fprintln(os.Stderr, "latencydemo: INVALID RUN")
	case "noisy-first": // the first two of the cell
		if n <= 2 {
			r.Host.Noise.Grade = "noisy"
		}
	case "slow":
		<-time.After(1500 * time.Millisecond)
	case "drift": // it slows with every trial of the whole session
		p50 = int64(1000 + 10*count(-1))
	case "drain": // until it is interrupted
		got := make(chan os.Signal, 1)
		signal.Notify(got, os.Interrupt)
		writeState("pids", fmt.Sprintf("%d\n", os.Getpid()))
		<-got
		text := "interrupted"
		r.Valid, r.Interrupted, r.Error, r.Reasons = false, true, &text, []string{text}
	case "fill": // takes the last byte of the disk, and is valid
		if err := os.MkdirAll(out, 0o755); err != nil {
			return 1
		}
		f, err := os.Create(filepath.Join(out, "large"))
		if err != nil {
			return 1
		}
		for block := make([]byte, 64<<10); ; {
			if _, err := f.Write(block); err == nil {
				continue
			}
			if len(block) == 1 {
				break
			}
			block = block[:len(block)/2]
		}
		_ = f.Close()
	}
	line, err := r.Encode()
	if err != nil {
		return 1
	}
	_, _ = os.Stdout.Write(line)
	if !r.Valid {
		return 1
	}
	return 0
}

// count returns how many trials with that payload there have been, this one included. Trials do not overlap.
func count(payload int) int {
	dir := os.Getenv("FAKE_STATE")
	if dir == "" {
		return 1
	}
	name := filepath.Join(dir, "count"+strconv.Itoa(payload))
	text, _ := os.ReadFile(name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	_ = os.WriteFile(name, []byte(strconv.Itoa(n+1)), 0o644)
	return n + 1
}

func writeState(name, text string) {
	_ = os.WriteFile(filepath.Join(os.Getenv("FAKE_STATE"), name), []byte(text), 0o644)
}
