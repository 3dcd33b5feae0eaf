package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"felix/internal/runrecord"
)

// child is one trial as a process.
type child struct {
	binary  string
	args    []string
	env     []string
	timeout time.Duration
	lost    <-chan struct{} // closed when what it measures has died: it is killed then; nil: it starts that itself
}

// ending is how a child ended.
type ending struct {
	startedAt time.Time
	took      time.Duration
	rec       *runrecord.Record // nil: it left none
	noRecord  error             // why rec is nil
	exitCode  int               // -1: a signal ended it
	signal    string            // its name, "" if none
	timedOut  bool
	quit      bool   // killed because we were told to quit at once
	broker    string // what was wrong with the broker that it was to drive; "" if nothing was
	output    []byte // the last 64 KiB of stdout and stderr
}

// how says in a few words how the process ended.
func (e *ending) how(timeout time.Duration) string {
	switch {
	case e.broker != "":
		return e.broker
	case e.timedOut:
		return fmt.Sprintf("killed at the timeout of %v (%s)", timeout, e.signal)
	case e.signal != "":
		return "ended by " + e.signal
	}
	return fmt.Sprintf("exit code %d", e.exitCode)
}

// leftPipes is how long the pipes of an ended child may stay open: its whole group is killed, so only a process that
// left the group can hold them.
const leftPipes = time.Second

// run starts the child in a group of its own and waits for its end. At the soft stop it gets SIGINT, once, and drains;
// at its timeout or at the hard stop the whole group is killed. The error is that it could not be started.
func (c child) run(stop stops) (*ending, error) {
	// The kernel ties the child's life to this thread (see dieWithParent).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var out tail
	var line lastLine
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a trial: %w", err)
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a trial: %w", err), outRead.Close(), outWrite.Close())
	}
	cmd := exec.Command(c.binary, c.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, outWrite, errWrite
	cmd.SysProcAttr = ownGroup()
	e := &ending{startedAt: time.Now()}
	err = cmd.Start()
	// The child has its own ends now, or there is none.
	_, _ = outWrite.Close(), errWrite.Close()
	if err != nil {
		_, _ = outRead.Close(), errRead.Close() // nothing was read
		return nil, fmt.Errorf("start a trial: %w", err)
	}
	read := make(chan struct{}, 2)
	drain := func(w io.Writer, r io.Reader) {
		_, _ = io.Copy(w, r) // ends when the pipe does, or is closed below
		read <- struct{}{}
	}
	go drain(io.MultiWriter(&line, &out), outRead)
	go drain(&out, errRead)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // told by ProcessState
		close(exited)
	}()
	c.wait(stop, cmd.Process, exited, e)
	killGroup(cmd.Process) // what it left behind
	grace := time.NewTimer(leftPipes)
	defer grace.Stop()
	for n := 0; n < 2; n++ {
		select {
		case <-read:
		case <-grace.C:
			_, _ = outRead.Close(), errRead.Close() // ends the readers
			n--
		}
	}
	_, _ = outRead.Close(), errRead.Close() // read to their ends
	e.took = time.Since(e.startedAt)
	e.exitCode, e.signal = cmd.ProcessState.ExitCode(), signalName(cmd.ProcessState)
	e.output = out.Bytes()
	e.rec, e.noRecord = parseRecord(line.Line())
	return e, nil
}

func (c child) wait(stop stops, p *os.Process, exited <-chan struct{}, e *ending) {
	timeout := time.NewTimer(c.timeout)
	defer timeout.Stop()
	soft := stop.soft.Done()
	for {
		select {
		case <-exited:
			return
		case <-soft:
			soft = nil
			_ = p.Signal(os.Interrupt) // ended just now: as wanted
			continue
		case <-timeout.C:
			e.timedOut = true
		case <-stop.hard.Done():
			e.quit = true
		case <-c.lost:
		}
		killGroup(p)
		<-exited
		return
	}
}

func parseRecord(line []byte) (*runrecord.Record, error) {
	if len(line) == 0 {
		return nil, errors.New("it printed no record")
	}
	rec, err := runrecord.Parse(line)
	if err != nil {
		return nil, fmt.Errorf("the last line it printed is no record: %w", err)
	}
	return rec, nil
}
