package probe

import (
	"context"
	"net"
	"sync"
)

// joinBytes is how much gathers at most while a write is under way. Two of it are what a publisher can be ahead by.
const joinBytes = 128 << 10

// joiner gathers the frames that are published while a write is under way, and writes them together. One goroutine
// publishes, one writes.
type joiner struct {
	out  *outlet
	done chan struct{} // closed when the writer has returned

	mu       sync.Mutex
	changed  sync.Cond // anything below
	buf      []byte
	payloads [][]byte // reused, of the frame that is being made
	messages int
	frames   int
	writing  bool
	stopped  bool
	err      error
}

func newJoiner(o *outlet) *joiner {
	j := &joiner{out: o, done: make(chan struct{})}
	j.changed.L = &j.mu
	go j.writeLoop()
	return j
}

// publish makes the frame, waiting while there is no room. A frame that is larger than the room goes alone.
func (j *joiner) publish(ctx context.Context, f frame) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return net.ErrClosed
	}
	if err := j.wait(ctx, func() bool { return len(j.buf) == 0 || len(j.buf)+f.len() <= joinBytes }); err != nil {
		return err
	}
	j.buf = f.append(j.buf, &j.payloads)
	j.messages += len(f.sizes)
	j.frames++
	if !j.writing {
		j.changed.Broadcast()
	}
	return nil
}

// flush waits until all is written.
func (j *joiner) flush(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wait(ctx, func() bool { return len(j.buf) == 0 && !j.writing })
}

// wait waits for the condition, the end of ctx or of the writer. With the lock held.
func (j *joiner) wait(ctx context.Context, holds func() bool) error {
	if j.err == nil && ctx.Err() == nil && holds() {
		return nil
	}
	// Only where there is something to wait for: a flood waits once in a hundred frames.
	stop := context.AfterFunc(ctx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.changed.Broadcast()
	})
	defer stop()
	for j.err == nil && ctx.Err() == nil {
		if holds() {
			return nil
		}
		j.changed.Wait()
	}
	if j.err != nil {
		return j.err
	}
	return ctx.Err()
}

func (j *joiner) writeLoop() {
	defer close(j.done)
	var spare []byte
	items, bytes := uint64(0), uint64(0)
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.buf) == 0 && !j.stopped {
			if items > 0 {
				j.out.writes.record(items, bytes)
				items, bytes = 0, 0
			}
			j.changed.Wait()
		}
		if len(j.buf) == 0 {
			break // stopped, and nothing is left
		}
		frames, messages := j.buf, j.messages
		items += uint64(j.frames)
		bytes += uint64(len(frames))
		j.buf, j.messages, j.frames, j.writing = spare[:0], 0, 0, true
		j.changed.Broadcast()
		j.mu.Unlock()
		err := j.out.write(frames, messages)
		j.mu.Lock()
		spare, j.writing = frames, false
		if err != nil {
			j.err = err
			break
		}
		j.changed.Broadcast()
	}
	j.changed.Broadcast()
	if items > 0 {
		j.out.writes.record(items, bytes)
	}
}

// stop ends the writer when it has written what there is, or the stream fails.
func (j *joiner) stop() {
	j.mu.Lock()
	j.stopped = true
	j.changed.Broadcast()
	j.mu.Unlock()
	<-j.done
}
