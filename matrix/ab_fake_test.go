//go:build unix

package main

import (
	"fmt"
	"hash/fnv"
	"os"
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

// With FAKE_AB the fake trial is one of a gate: it has every gated metric, and what it does follows the words of
// FAKE_AB, each for head alone. Head is what lies in a directory head, or has ARM=head in its environment, or is slowed
// by a canary.
func init() {
	if filepath.Base(os.Args[0]) == binaryFile && os.Getenv("FAKE_AB") != "" {
		os.Exit(fakePair(os.Args[1:]))
	}
}

func fakePair(args []string) int {
	f := pflag.NewFlagSet("fake", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	var c workload.Case
	f.IntVar(&c.Payload, "payload", workload.DefaultPayload, "")
	f.IntVar(&c.Batch, "batch", 1, "")
	f.IntVar(&c.Fanout, "fanout", 1, "")
	seed := f.Uint64("seed", 0, "")
	f.String("out", "", "")
	dryRun := f.Bool("dry-run", false, "")
	version := f.Bool("version", false, "")
	delay := f.Duration("canary-delay", 0, "")
	rate := f.Float64("canary-rate", 0, "")
	f.String("json", "", "")
	f.Bool("allow-undersized", false, "")
	broker := f.StringArray("broker-set", nil, "")
	f.Var(&c.Topology, "topology", "")
	addr := f.String("broker", "", "")
	if err := f.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, "latencydemo:", err)
		return 2
	}
	for _, kv := range *broker {
		k, v, _ := strings.Cut(kv, "=")
		if c.BrokerSet == nil {
			c.BrokerSet = map[string]string{}
		}
		c.BrokerSet[k] = v
	}
	c, err := c.Resolve()
	if err != nil {
		fmt.Fprintln(os.Stderr, "latencydemo:", err)
		return 2
	}
	head := filepath.Base(filepath.Dir(os.Args[0])) == "head" || os.Getenv("ARM") == "head"
	if *addr != "" { // one bench drives both brokers
		head = *addr == fakeHeadAddr
	}
	does := map[string]bool{}
	for _, word := range strings.Fields(os.Getenv("FAKE_AB")) {
		arm, what, _ := strings.Cut(word, ":")
		if arm == "all" || arm == "head" && head || arm == "base" && !head {
			does[what] = true
		}
	}
	switch {
	case *version:
		d := strings.Repeat("ab", 20)
		fmt.Printf("latencydemo  commit %s  tree %s  bench %s  binary %s  (ldflags; go1.26, quic-go v0)\n", d, d, d, d)
		return 0
	case does["refuse"]:
		fmt.Fprintln(os.Stderr, "latencydemo: --broker-set: unknown key\nlatencydemo: hint: another")
		return 2
	case *dryRun:
		fmt.Printf("case       %s\nlossless   yes\n", c.Key())
		fmt.Print("broker     subscriber_queue_policy = block  (policy lossless)\nbroker     log_capacity = 1024  (default)\n" +
			"broker     quic_bind = 127.0.0.1:0  (trial)\nclient     client_sub_queue_policy = block  (policy lossless)\n" +
			"transport  conn_recv_window = 67108864  (default)\ntransport  keep_alive_ms = 9  (env FELIX_KEEP_ALIVE_MS)\n")
		for k, v := range c.BrokerSet {
			fmt.Printf("broker     %s = %s  (flag --broker-set)\n", k, v)
		}
		return 0
	case *addr != "" && c.Topology != workload.TopologyExternal, c.Topology == workload.TopologyExternal && *addr == "":
		fmt.Fprintln(os.Stderr, "latencydemo: --broker needs --topology external")
		return 2
	case does["kill-broker"]: // and then it would wait for ever
		signal.Ignore(os.Interrupt)
		text, _ := os.ReadFile(filepath.Join(os.Getenv("FAKE_STATE"), "broker-pid"))
		pid, _ := strconv.Atoi(string(text))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		select {}
	case does["crash"]:
		fmt.Fprintln(os.Stderr, "panic: it broke")
		return 3
	}
	worse := 1.0
	switch {
	case does["slow"]:
		worse = 2
	case does["fast"]:
		worse = 0.5
	case *delay > 0:
		worse = (200e3 + float64(*delay)) / 200e3
	case *rate > 0:
		worse = 100e3 / *rate
	}
	// A noise of about 1 %, another in each trial and the same in each run of a test: a gate with a margin below its
	// noise may fail by chance, as it says.
	h := fnv.New64a()
	fmt.Fprint(h, *seed, head, c.Key())
	if does["jitter"] { // A/A: nothing but chance tells the arms apart
		fmt.Fprint(h, os.Getpid())
	}
	worse *= 1 + 0.02*(float64(h.Sum64()%1000)/1000-0.5)
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: runrecord.NewSessionID(), StartedAt: time.Now().UTC(), Kind: "case", Valid: true,
		Env: measuredEnv(os.Environ()), Lossless: runrecord.LosslessYes, SizeGrade: "sized",
		Case:  runrecord.Case{Key: c.Key(), Case: c, Seed: *seed},
		Build: runrecord.Build{Source: "none", Optimized: true, Go: "go1.26"},
		Host:  runrecord.Host{Fingerprint: "one", Noise: &runrecord.Noise{Grade: "quiet"}},
	}
	if does["elsewhere"] {
		r.Host.Fingerprint = "another"
	}
	if does["bench"] {
		other := strings.Repeat("cd", 32)
		r.Build.BenchDigest = &other
	}
	r.Latency.Kind = c.LatencyKind()
	r.Counts.Delivered = 1 << 20
	if !does["no-percentiles"] {
		p50, p99 := int64(200e3*worse), int64(900e3*worse)
		r.Latency.EndToEnd = &runrecord.Distribution{N: 10_000, P50Ns: &p50, P99Ns: &p99}
	}
	bytes, msgs := 400e6/worse, 100e3/worse
	r.Rates.DeliveredBytesPerSec, r.Rates.DeliveredMsgsPerSec = &bytes, &msgs
	user, system := int64(2e9*worse), int64(0)
	r.Processes = []runrecord.Process{{UserNs: &user, SystemNs: &system}}
	if does["lose"] {
		r.Valid, r.Reasons = false, []string{"shortfall: 7 of 1048576 deliveries are lost"}
	}
	if does["wait"] && *seed == 3 { // until it is interrupted
		got := make(chan os.Signal, 1)
		signal.Notify(got, os.Interrupt)
		writeState("pids", "here\n")
		<-got
		text := "interrupted"
		r.Valid, r.Interrupted, r.Error, r.Reasons = false, true, &text, []string{text}
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
