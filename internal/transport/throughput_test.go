package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 5, "with -full: rounds of TestThroughput, interleaved")
	mib    = flag.Int("mib", 512, "with -full: MiB of each transfer of TestThroughput")
)

// sinkEnv makes the test binary the receiving process of TestThroughput; its value is a sinkDoc.
const sinkEnv = "TRANSPORT_TEST_SINK"

type sinkDoc struct {
	Config  json.RawMessage `json:"config"` // a throughputConfig
	CertPEM []byte          `json:"cert_pem"`
	KeyPEM  []byte          `json:"key_pem"`
}

// throughputConfig is one row of the table. Procs is GOMAXPROCS of both processes, 0 as it is.
type throughputConfig struct {
	Name     string
	GSO, GRO Offload
	Gate     int64
	Packet   int
	Conns    int
	Shared   bool
	Procs    int
	One      bool // in one process
}

func (c throughputConfig) config() Config {
	return Config{GSO: c.GSO, GRO: c.GRO, RecvGateBytes: c.Gate, PacketSize: c.Packet}
}

var throughputTable = []throughputConfig{
	{Name: "plain"},
	{Name: "gso off", GSO: OffloadOff},
	{Name: "gro", GRO: OffloadOn},
	{Name: "gate 60k", Gate: 60_000},
	{Name: "gro, gate 60k", GRO: OffloadOn, Gate: 60_000},
	{Name: "packets of 1452", Packet: 1452},
	{Name: "2 connections", Conns: 2},
	{Name: "2 connections, shared socket", Conns: 2, Shared: true},
	{Name: "2 connections, gro", Conns: 2, GRO: OffloadOn},
	{Name: "procs 1", Procs: 1},
	{Name: "procs 1, gro", Procs: 1, GRO: OffloadOn},
	{Name: "procs 1, gro, gate 60k", Procs: 1, GRO: OffloadOn, Gate: 60_000},
	{Name: "procs 1, gro, 2 connections", Procs: 1, GRO: OffloadOn, Conns: 2},
	{Name: "one process", One: true},
	{Name: "one process, gro", One: true, GRO: OffloadOn},
	{Name: "one process, gro, gate 60k", One: true, GRO: OffloadOn, Gate: 60_000},
}

// TestThroughput measures one hop with each setting of the socket, in two processes: a table for a
// quiet machine, no judgement.
//
//	go test ./internal/transport -run '^TestThroughput$' -full -v -timeout 0 [-rounds 5] [-mib 512]
func TestThroughput(t *testing.T) {
	if !*full {
		t.Skip("measures for minutes: -full")
	}
	results := make([][]float64, len(throughputTable))
	for round := range *rounds {
		for i := range throughputTable {
			if round%2 == 1 {
				i = len(throughputTable) - 1 - i // there and back, so that a drift of the machine cancels out
			}
			results[i] = append(results[i], oneHop(t, throughputTable[i], int64(*mib)<<20))
		}
	}
	fmt.Printf("%-32s %8s %8s %8s %6s   n=%d, %d MiB in writes of 256 KiB\n", "MB/s, one hop", "median", "min", "max", "ratio", *rounds, *mib)
	base := 0.0
	for i, c := range throughputTable {
		slices.Sort(results[i])
		r := results[i]
		median := r[len(r)/2]
		if i == 0 {
			base = median
		}
		fmt.Printf("%-32s %8.0f %8.0f %8.0f %6.2f\n", c.Name, median, r[0], r[len(r)-1], median/base)
	}
}

// oneHop returns the MB/s of one transfer.
func oneHop(t *testing.T, c throughputConfig, bytes int64) float64 {
	t.Helper()
	if c.Procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.Procs))
	}
	id := newIdentity(t)
	addr := ""
	if c.One {
		l := listen(t, id, c.config())
		go sink(context.WithoutCancel(t.Context()), l)
		addr = l.Addr().String()
	} else {
		addr = startSink(t, c, id)
	}
	client := c.config()
	if c.Shared {
		client.Shared = new(SharedSocket)
	}
	conns := make([]*Conn, max(1, c.Conns))
	for i := range conns {
		var err error
		if conns[i], err = Dial(t.Context(), addr, id.client, client); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	done := make(chan error, len(conns))
	for _, conn := range conns {
		go func() { done <- blast(t.Context(), conn, bytes/int64(len(conns))) }()
	}
	for range conns {
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	took := time.Since(start)
	for _, conn := range conns {
		closeConn(t, conn)
	}
	return float64(bytes) / 1e6 / took.Seconds()
}

// blast sends bytes and waits until the other end has read them all.
func blast(ctx context.Context, c *Conn, bytes int64) error {
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for left := bytes; left > 0; {
		n, err := s.Write(buf[:min(left, int64(len(buf)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = io.ReadAll(s)
	return err
}

// sink reads everything that comes and answers the end of each stream.
func sink(ctx context.Context, l *Listener) {
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		go func() {
			for {
				s, err := c.AcceptStream(ctx)
				if err != nil {
					return
				}
				go func() {
					_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, s, make([]byte, 256<<10)) // the sender's read tells
					_ = s.Close()
				}()
			}
		}()
	}
}

// startSink starts the receiving process and returns its address.
func startSink(t *testing.T, c throughputConfig, id identity) string {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(sinkDoc{config, id.certPEM, id.keyPEM})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), sinkEnv+"="+string(doc))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // it ends by that
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// runSink is the receiving process; it ends when its stdin does.
func runSink(text string) error {
	var (
		doc sinkDoc
		c   throughputConfig
	)
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	if err := json.Unmarshal(doc.Config, &c); err != nil {
		return err
	}
	if c.Procs > 0 {
		runtime.GOMAXPROCS(c.Procs)
	}
	server, err := ServerTLS(doc.CertPEM, doc.KeyPEM)
	if err != nil {
		return err
	}
	l, err := Listen("127.0.0.1:0", server, c.config())
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go sink(ctx, l)
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	return l.Close()
}
