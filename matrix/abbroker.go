package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// brokerFile is the broker's command, and its binary in a session's directory.
const brokerFile = "brokerd"

const (
	// brokerStart is how long a brokerd may take until it listens: what it has to do is make a certificate.
	brokerStart = 20 * time.Second
	// brokerStop is how long it may take to end after SIGTERM. It is told to drain for two seconds.
	brokerStop = 10 * time.Second
)

// brokerInFlight is where, below runs/, the running broker has its certificate, token and settings.
const brokerInFlight = "broker-in-flight"

// brokerd is a broker as a process of its own, in a group of its own. Whoever starts it calls stop.
type brokerd struct {
	cmd    *exec.Cmd
	addr   string
	admin  string
	said   *tail
	exited chan struct{} // closed when the process has ended and what it said is read
	// patience is how long stop waits for the drain.
	patience time.Duration
}

// listening is what brokerd says when it is ready.
var listening = regexp.MustCompile(`^brokerd: listening on (\S+), admin (\S+)$`)

// brokerError is a brokerd that did not come up: how it ended, and what it said.
type brokerError struct {
	how  string
	said []byte
}

func (e *brokerError) Error() string {
	if last := lastLine1(e.said); last != "" {
		return e.how + ": " + last
	}
	return e.how
}

// lastLine1 is the last line that says something, but for hints.
func lastLine1(said []byte) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(said), "?")), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimPrefix(lines[i], brokerFile+": "); line != "" && !strings.HasPrefix(line, "hint: ") {
			return line
		}
	}
	return ""
}

// startBroker starts a broker with its files in dir, which it makes, on ports of its own choice, and waits until it
// listens. It takes no FELIX_* variables: what the environment sets is among the settings. Call it on the thread that
// stays until the broker is stopped: the kernel ties the broker's life to it. The error is a *brokerError if the broker
// did not come up; nothing is left then.
func startBroker(ctx context.Context, binary, dir string, settings []byte, streams []string, env []string) (*brokerd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "broker.yml")
	if err := os.WriteFile(config, settings, 0o600); err != nil {
		return nil, err
	}
	args := []string{"--dev", dir, "--config", config, "--quic-bind", "127.0.0.1:0", "--metrics-bind", "127.0.0.1:0"}
	for _, s := range streams {
		args = append(args, "--stream", s)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	b := &brokerd{cmd: exec.Command(binary, args...), said: &tail{}, exited: make(chan struct{}), patience: brokerStop}
	b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr, b.cmd.SysProcAttr = withoutFelix(env), write, write, ownGroup()
	err = b.cmd.Start()
	_ = write.Close() // the broker has its own end now, or there is none
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a broker: %w", err), read.Close())
	}
	ready := &readyLine{found: make(chan [2]string, 1)}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.MultiWriter(b.said, ready), read) // ends when the pipe does, or is closed below
	}()
	go func() {
		defer close(b.exited)
		_ = b.cmd.Wait() // told by ProcessState
		killGroup(b.cmd.Process)
		grace := time.NewTimer(leftPipes)
		defer grace.Stop()
		select {
		case <-drained:
		case <-grace.C:
		}
		_ = read.Close() // read to its end, or held by something that left the group
		<-drained
	}()
	late := time.NewTimer(brokerStart)
	defer late.Stop()
	how := ""
	select {
	case at := <-ready.found:
		b.addr, b.admin = at[0], at[1]
		return b, nil
	case <-b.exited:
		return nil, &brokerError{"its broker ended before it listened (" + b.how() + ")", b.said.Bytes()}
	case <-late.C:
		how = fmt.Sprintf("its broker did not listen within %v: killed", brokerStart)
	case <-ctx.Done():
		how = "its broker was stopped before it listened"
	}
	killGroup(b.cmd.Process)
	<-b.exited
	return nil, &brokerError{how, b.said.Bytes()}
}

// stop ends the broker by SIGTERM, waits for it, and removes its files. What is wrong with how it ended is returned, ""
// if nothing is: that it had died before, that it had to be killed, or that it ended in another way than by a drain. Hard
// ends the waiting.
func (b *brokerd) stop(hard <-chan struct{}, dir string) (wrong string) {
	defer func() { _ = os.RemoveAll(dir) }() // a leftover is cleared before the next one
	select {
	case <-b.exited:
		return "its broker died during the trial (" + b.how() + ")"
	default:
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // ended just now: seen below
	late := time.NewTimer(b.patience)
	defer late.Stop()
	select {
	case <-b.exited:
	case <-late.C:
		wrong = fmt.Sprintf("its broker did not end within %v of SIGTERM: killed", b.patience)
		killGroup(b.cmd.Process)
		<-b.exited
	case <-hard:
		killGroup(b.cmd.Process)
		<-b.exited
		return ""
	}
	// 1 is a drain that was not complete: subscribers that are gone read nothing.
	if code := b.cmd.ProcessState.ExitCode(); wrong == "" && code != 0 && code != 1 {
		wrong = "its broker did not drain (" + b.how() + ")"
	}
	return wrong
}

// how says how the process ended.
func (b *brokerd) how() string {
	if s := signalName(b.cmd.ProcessState); s != "" {
		return "ended by " + s
	}
	return fmt.Sprintf("exit code %d", b.cmd.ProcessState.ExitCode())
}

// readyLine looks for the line with which a broker says that it listens.
type readyLine struct {
	line  []byte
	found chan [2]string // address and admin URL, once
	done  bool
}

func (r *readyLine) Write(p []byte) (int, error) {
	n := len(p)
	for !r.done && len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		if len(r.line)+len(part) <= 4096 {
			r.line = append(r.line, part...)
		}
		if ended {
			if m := listening.FindSubmatch(bytes.TrimRight(r.line, "\r")); m != nil {
				r.found <- [2]string{string(m[1]), string(m[2])}
				r.done = true
			}
			r.line = r.line[:0]
		}
		p = rest
	}
	return n, nil
}

func withoutFelix(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "FELIX_") {
			out = append(out, kv)
		}
	}
	return out
}
