package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"felix/broker"
)

// roleArg is the hidden first argument that makes the binary a role.
const roleArg = "role"

// childStart bounds how long a role may take until it is ready.
const childStart = 15 * time.Second

// stopMargin is how long a role may take to hand over its result when its time for closing is up.
const stopMargin = 3 * time.Second

// child is a role in a process of its own. It lives as long as its stdin is open: when the runner is killed, the
// kernel closes the pipe and the child ends by itself.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	gone  chan struct{} // closed when the process has ended and its output is read

	mu     sync.Mutex
	last   sideProgress
	result *sideResult
	exit   error // of the process; set before gone closes

	ready chan line     // one
	done  chan doneLine // answers to words, in order; closed by the reader
}

// startChild runs the binary as a role and waits until it is ready.
func startChild(ctx context.Context, p *Plan, name string, doc roleDoc) (*child, *readyLine, error) {
	binary := p.Binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return nil, nil, fmt.Errorf("find the binary that runs the %s: %w", name, err)
		}
	}
	doc.Profile = p.profiling
	c := &child{name: name, gone: make(chan struct{}), ready: make(chan line, 1), done: make(chan doneLine, 8)}
	c.cmd = exec.Command(binary, roleArg, name)
	c.cmd.Stderr = p.Stderr
	// Settings reach a role in its document alone: a variable that the runner has resolved must not act twice.
	c.cmd.Env = withoutFelix(os.Environ())
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the %s: %w", name, err)
	}
	go c.read(stdout)
	if err := json.NewEncoder(c.stdin).Encode(doc); err != nil {
		c.kill()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, childStart)
	defer cancel()
	select {
	case l := <-c.ready:
		if l.Error != nil {
			c.kill()
			return nil, nil, &UsageError{Err: errors.New(l.Error.Text), Hint: l.Error.Hint}
		}
		return c, l.Ready, nil
	case <-c.gone:
		return nil, nil, fmt.Errorf("the %s process ended before it was ready: %w", name, c.exit)
	case <-ctx.Done():
		c.kill()
		return nil, nil, fmt.Errorf("the %s process was not ready: %w", name, ctx.Err())
	}
}

// read takes the child's lines until its stdout closes, then waits for the process.
func (c *child) read(stdout io.Reader) {
	defer close(c.gone)
	defer close(c.done)
	br := bufio.NewReaderSize(stdout, 64<<10)
	for {
		text, err := br.ReadBytes('\n')
		if len(text) > 0 {
			var l line
			if jerr := json.Unmarshal(text, &l); jerr != nil {
				c.setExit(fmt.Errorf("a line of the %s process is no answer: %w", c.name, jerr))
			} else {
				c.take(l)
			}
		}
		if err != nil {
			break
		}
	}
	if err := c.cmd.Wait(); err != nil {
		c.setExit(err)
	}
	c.setExit(errors.New("exit status 0"))
}

func (c *child) setExit(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit == nil {
		c.exit = err
	}
}

func (c *child) take(l line) {
	switch {
	case l.Ready != nil || l.Error != nil:
		c.ready <- l
	case l.Progress != nil:
		c.mu.Lock()
		c.last = *l.Progress
		c.mu.Unlock()
	case l.Done != nil:
		c.done <- *l.Done
	case l.Result != nil:
		c.mu.Lock()
		c.result = l.Result
		c.mu.Unlock()
	}
}

func (c *child) progress() sideProgress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *child) say(word string) error {
	if _, err := io.WriteString(c.stdin, word+"\n"); err != nil {
		return fmt.Errorf("%s process: %w", c.name, err)
	}
	return nil
}

// ask says a word and waits for its answer.
func (c *child) ask(ctx context.Context, word string) (doneLine, error) {
	if err := c.say(word); err != nil {
		return doneLine{}, err
	}
	select {
	case d, ok := <-c.done:
		if !ok {
			return doneLine{}, c.ended()
		}
		if d.Error != "" {
			return d, fmt.Errorf("%s: %s", c.name, d.Error)
		}
		return d, nil
	case <-ctx.Done():
		return doneLine{}, fmt.Errorf("%s process did not answer %q: %w", c.name, word, ctx.Err())
	}
}

func (c *child) ended() error {
	<-c.gone
	return fmt.Errorf("the %s process ended: %w", c.name, c.exit)
}

func (c *child) dead() <-chan struct{} { return c.gone }

// stop asks for the result and waits until the process is gone. The role gets the time that ctx leaves for closing,
// and some more for saying so; then it is killed.
func (c *child) stop(ctx context.Context) (*sideResult, error) {
	patience := closeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(0, time.Until(deadline))
	}
	err := c.say(fmt.Sprintf("%s %d", wordStop, patience.Milliseconds()))
	if err == nil {
		select {
		case <-c.gone:
		case <-time.After(patience + stopMargin):
			err = fmt.Errorf("the %s process did not stop within %v", c.name, (patience + stopMargin).Round(time.Second))
		}
	}
	c.kill()
	if c.result == nil {
		return nil, errors.Join(err, c.ended())
	}
	return c.result, err
}

// kill ends the process at once if it still runs, and returns when it is gone.
func (c *child) kill() {
	_ = c.stdin.Close() // a healthy role ends by this alone
	select {
	case <-c.gone:
		return
	case <-time.After(500 * time.Millisecond):
	}
	_ = c.cmd.Process.Kill() // already gone is fine
	<-c.gone
}

// remotePublishers is a publisher role.
type remotePublishers struct{ *child }

func (r remotePublishers) warmup(ctx context.Context) (*published, error) {
	d, err := r.ask(ctx, wordWarmup)
	return d.Published, err
}

func (r remotePublishers) measure(ctx context.Context) (*published, error) {
	d, err := r.ask(ctx, wordMeasure)
	return d.Published, err
}

func (r remotePublishers) end() { _ = r.say(wordEnd) } // a dead role has ended

func (r remotePublishers) mark(ctx context.Context, at int64) error { return r.child.mark(ctx, at) }

func (c *child) mark(ctx context.Context, at int64) error {
	_, err := c.ask(ctx, fmt.Sprintf("%s %d", wordMark, at))
	return err
}

// remoteSubscribers is a subscriber role.
type remoteSubscribers struct{ *child }

// remoteBroker is a broker role.
type remoteBroker struct{ *child }

func (r remoteBroker) counters(ctx context.Context) (*broker.Stats, error) {
	d, err := r.ask(ctx, wordCounters)
	return d.Counters, err
}
