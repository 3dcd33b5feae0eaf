package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"felix/client"
	"felix/internal/racetest"
	"felix/internal/transport"
	"felix/internal/wire"
)

// leakChecked fails a green run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// In scripts "brokerd" is this test binary again, so that it has the race detector too.
func TestMain(m *testing.M) {
	racetest.EndAtOnce()
	testscript.Main(leakChecked{m}, map[string]func(){"brokerd": main})
}

// The scripts are the manual. Besides testscript's own commands they have
//
//	start NAME ARGS…    runs brokerd until its last line of greeting; its address, admin URL and
//	                    printed command become $NAME_addr, $NAME_admin and $NAME_command
//	signal NAME SIG     sends TERM or INT
//	said NAME REGEXP    waits for a line on its stderr
//	end NAME CODE       waits for its end, compares the exit code; its stderr is then file NAME.stderr
//	get URL             stdout is the page
//	roundtrip NAME DIR T/N/S [TOKENFILE]   publishes one message, acked, and receives it
//	stick NAME DIR T/N/S   leaves the broker with a full queue for a client that does not read
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Values["brokers"] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": cmdStart, "signal": cmdSignal, "said": cmdSaid, "end": cmdEnd,
			"get": cmdGet, "roundtrip": cmdRoundtrip, "stick": cmdStick,
		},
	})
}

// process is a running brokerd.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed when stderr has ended
	mu    sync.Mutex
	lines []string
	news  chan struct{} // closed and replaced at each line
}

func (p *process) read(r io.Reader) {
	defer close(p.done)
	for s := bufio.NewScanner(r); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
}

// wait returns the submatches of the first line that matches, now or to come; nil if the
// process ends without it.
func (p *process) wait(re *regexp.Regexp) []string {
	for seen := 0; ; {
		p.mu.Lock()
		lines, news := p.lines[seen:], p.news
		seen = len(p.lines)
		p.mu.Unlock()
		for _, line := range lines {
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		}
		select {
		case <-news:
		case <-p.done:
			p.mu.Lock()
			more := len(p.lines) > seen
			p.mu.Unlock()
			if !more {
				return nil
			}
		case <-time.After(20 * time.Second):
			return nil
		}
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n") + "\n"
}

func find(ts *testscript.TestScript, name string) *process {
	p := ts.Value("brokers").(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no broker %s was started", name)
	}
	return p
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start NAME ARGS…")
	}
	name := args[0]
	var bin string
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if file := filepath.Join(dir, "brokerd"); bin == "" {
			if _, err := os.Stat(file); err == nil {
				bin = file
			}
		}
	}
	args = append([]string{"--quic-bind", "127.0.0.1:0", "--metrics-bind", "127.0.0.1:0"}, args[1:]...)
	p := &process{cmd: exec.Command(bin, args...), done: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Dir = ts.Getenv("WORK")
	p.cmd.Env = []string{"HOME=/no-home", "PATH=" + ts.Getenv("PATH"), racetest.Env + "=" + os.Getenv(racetest.Env)}
	stderr, err := p.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	go p.read(stderr)
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // fails if it has ended, as it should have
		<-p.done
		_ = p.cmd.Wait()
	})
	ts.Value("brokers").(map[string]*process)[name] = p

	last := regexp.MustCompile(`^brokerd: memory limit`)
	for _, a := range args {
		if a == "--dev" {
			last = regexp.MustCompile(`^latencydemo .*`)
		}
	}
	end := p.wait(last)
	greeting := p.wait(regexp.MustCompile(`^brokerd: listening on (\S+), admin (\S+)$`))
	if end == nil || greeting == nil {
		ts.Fatalf("brokerd did not come up: %s", p.said())
	}
	ts.Setenv(name+"_addr", greeting[1])
	ts.Setenv(name+"_admin", greeting[2])
	ts.Setenv(name+"_command", end[0])
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME TERM|INT")
	}
	ts.Check(find(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func cmdSaid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: said NAME REGEXP")
	}
	if p := find(ts, args[0]); p.wait(regexp.MustCompile(args[1])) == nil {
		ts.Fatalf("no line matches %q in:\n%s", args[1], p.said())
	}
}

func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME CODE")
	}
	p := find(ts, args[0])
	<-p.done
	_ = p.cmd.Wait() // its error is the exit code, below
	if got := fmt.Sprint(p.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("exit code %s, want %s; stderr:\n%s", got, args[1], p.said())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stderr"), []byte(p.said()), 0o600))
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: get URL")
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := c.Get(args[0])
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintln(ts.Stdout(), resp.Status)
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
}

// connect dials a broker with the credentials in dir.
func connect(ctx context.Context, ts *testscript.TestScript, broker, dir, token string, scope wire.Scope) *client.Client {
	secret := strings.TrimSpace(ts.ReadFile(filepath.Join(dir, token)))
	tlsConf, err := transport.ClientTLS(transport.ClientTLSOptions{CAPEM: []byte(ts.ReadFile(filepath.Join(dir, "cert.pem")))})
	ts.Check(err)
	c, err := client.Dial(ctx, client.Config{Addr: ts.Getenv(broker + "_addr"), TLS: tlsConf, Tenant: scope.Tenant, Token: secret,
		PublishConnPool: 1, PublishStreamsPerConn: 1, EventConnPool: 1, SubQueuePolicy: client.PolicyBlock,
		Transport: transport.Config{StreamRecvWindow: 64 << 10, ConnRecvWindow: 128 << 10}})
	ts.Check(err)
	return c
}

func cmdRoundtrip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: roundtrip NAME DIR T/N/S [TOKENFILE]")
	}
	token := "token"
	if len(args) == 4 {
		token = args[3]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	scope, err := wire.ParseScope(args[2])
	ts.Check(err)
	c := connect(ctx, ts, args[0], args[1], token, scope)
	defer c.Close(ctx)
	sub, err := c.Subscribe(ctx, scope, client.SubscribeOptions{})
	ts.Check(err)
	publish(ctx, ts, c, scope, 1)
	events, err := sub.Next(ctx)
	ts.Check(err)
	if len(events.Payloads) != 1 || len(events.Payloads[0]) != 1024 {
		ts.Fatalf("received %d messages, want the one that was published", len(events.Payloads))
	}
}

func cmdStick(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: stick NAME DIR T/N/S")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	scope, err := wire.ParseScope(args[2])
	ts.Check(err)
	c := connect(ctx, ts, args[0], args[1], "token", scope)
	ts.Defer(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(ctx)
	})
	_, err = c.Subscribe(ctx, scope, client.SubscribeOptions{})
	ts.Check(err)
	publish(ctx, ts, c, scope, 2048) // 2 MiB against windows of 64 KiB
}

func publish(ctx context.Context, ts *testscript.TestScript, c *client.Client, scope wire.Scope, n int) {
	p, err := c.NewPublisher(ctx)
	ts.Check(err)
	for ; n > 0; n -= 64 {
		payloads := make([][]byte, min(n, 64))
		for i := range payloads {
			payloads[i] = make([]byte, 1024)
		}
		_, err = p.Publish(ctx, scope, payloads, wire.AckPerBatch)
		ts.Check(err)
	}
	ts.Check(p.Close(ctx))
}
