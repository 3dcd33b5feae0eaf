package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"felix/internal/wire"
)

// PublishersConfig says who publishes where.
type PublishersConfig struct {
	Config // its Addr is dialled
	// Streams lists, for each publisher, the logical streams it writes to. Each pair has a QUIC stream, or a connection
	// over TCP, of its own.
	Streams [][]int
	// Echo waits for every frame to come back.
	Echo bool
	// Join lets PublishFunc return when a frame is made, and a goroutine write what has gathered: for floods of small
	// frames, where a write for each would wake the transport for each. Without it PublishFunc writes itself.
	Join bool
}

// Publishers are all publishers of one process.
type Publishers struct {
	dial *dialer
	all  []*Publisher
	once sync.Once
	err  error // of Close
}

// OpenPublishers connects every stream of every publisher.
func OpenPublishers(ctx context.Context, cfg PublishersConfig) (*Publishers, error) {
	p := &Publishers{dial: newDialer(cfg.Config)}
	n := 0
	for _, streams := range cfg.Streams {
		pub := &Publisher{outs: map[int]*outlet{}}
		p.all = append(p.all, pub)
		for _, stream := range streams {
			s, err := p.dial.stream(ctx, n, hello{fromPublisher, uint16(stream)})
			if err != nil {
				p.abort()
				return nil, fmt.Errorf("open publisher: %w", err)
			}
			n++
			out := newOutlet(s, cfg.Echo)
			if cfg.Join {
				out.joiner = newJoiner(out)
			}
			pub.outs[stream] = out
		}
	}
	return p, nil
}

// Publisher returns the one of that index.
func (p *Publishers) Publisher(i int) *Publisher { return p.all[i] }

func (p *Publishers) each(do func(*outlet)) {
	for _, pub := range p.all {
		for _, out := range pub.outs {
			do(out)
		}
	}
}

func (p *Publishers) abort() {
	p.each(func(o *outlet) { o.end() })
	p.dial.close()
}

// Flush returns when everything published has been written, or ctx is done. Publishers must rest meanwhile.
func (p *Publishers) Flush(ctx context.Context) error {
	var errs []error
	p.each(func(o *outlet) { errs = append(errs, o.flush(ctx)) })
	return errors.Join(errs...)
}

// Close flushes, ends every stream and waits until the other side says that it has read all of it, or ctx is done.
// Then it closes the connections. A second call returns what the first did.
func (p *Publishers) Close(ctx context.Context) error {
	p.once.Do(func() {
		var errs []error
		p.each(func(o *outlet) { errs = append(errs, o.finish(ctx)) })
		p.abort()
		p.err = errors.Join(errs...)
	})
	return p.err
}

// PublisherStats are the totals of all publishers of a process.
type PublisherStats struct {
	WrittenMsgs uint64 // copied to the transport
	WriteNs     int64  // time in writes, which is mostly waiting
	Writes      Wakeups
	Echoes      Wakeups // reads of what came back
	// Streams counts the QUIC streams of each connection that have carried a frame, by connection.
	Streams map[string]int
}

// Stats returns the totals. It may be called at any time.
func (p *Publishers) Stats() PublisherStats {
	s := PublisherStats{Streams: map[string]int{}}
	p.each(func(o *outlet) {
		n := o.written.Load()
		if n > 0 {
			s.Streams[o.stream.connID()]++
		}
		s.WrittenMsgs += n
		s.WriteNs += o.writeNs.Load()
		s.Writes = s.Writes.plus(o.writes.snapshot())
		s.Echoes = s.Echoes.plus(o.reads.snapshot())
	})
	return s
}

// Publisher publishes to its streams. One goroutine at a time may use it.
type Publisher struct{ outs map[int]*outlet }

// PublishFunc sends a frame of payloads of those sizes to the stream. fill writes them where they are sent from, as for
// our client: a ceiling that copied once more would be none. It is called at most once and must write every byte.
// PublishFunc blocks until the frame is written (or, joined, has room), or ctx is done. The Ack is of an echo; without
// one it is nil.
func (p *Publisher) PublishFunc(ctx context.Context, stream int, sizes []int, fill func(payloads [][]byte)) (*Ack, error) {
	out := p.outs[stream]
	if out == nil {
		return nil, fmt.Errorf("publish: stream %d is none of this publisher's", stream)
	}
	f := frame{sizes, fill}
	if size := f.len() - wire.HeaderLen; size > maxFrameBytes {
		return nil, fmt.Errorf("publish: %w: %d bytes, at most %d", wire.ErrTooLong, size, maxFrameBytes)
	}
	if out.joiner != nil {
		return nil, out.joiner.publish(ctx, f)
	}
	return out.publish(ctx, f)
}

// frame is one that is to be made.
type frame struct {
	sizes []int
	fill  func(payloads [][]byte)
}

func (f frame) len() int { return wire.HeaderLen + wire.TailRoomLen(f.sizes) }

// append makes the frame at the end of dst. The payloads are collected in scratch, which is reused.
func (f frame) append(dst []byte, scratch *[][]byte) []byte {
	tail := wire.TailRoomLen(f.sizes)
	dst = wire.AppendTailRoom(wire.AppendEventHeader(dst, tail, false, 0), f.sizes)
	*scratch = (*scratch)[:0]
	for p := range wire.TailPayloads(dst[len(dst)-tail:]) {
		*scratch = append(*scratch, p)
	}
	f.fill(*scratch)
	return dst
}

// outlet is one stream of one publisher.
type outlet struct {
	stream stream
	joiner *joiner // nil: none
	echo   bool
	watch  watch // of writes
	err    error // a frame was cut short: nothing can follow

	frame    []byte   // reused without echo
	payloads [][]byte // reused, of the frame that is being made

	in      *reader
	inWatch watch
	waiting []*Ack // for echoes, in order
	back    chunk  // echoes that are read and not yet taken
	rest    []byte // of back

	written atomic.Uint64
	writeNs atomic.Int64
	writes  meter
	reads   meter
}

func newOutlet(s stream, echo bool) *outlet {
	o := &outlet{stream: s, echo: echo}
	o.watch.setDeadline, o.inWatch.setDeadline = s.SetWriteDeadline, s.SetReadDeadline
	o.in = newReader(s, &o.reads)
	return o
}

func (o *outlet) publish(ctx context.Context, f frame) (*Ack, error) {
	if o.err != nil {
		return nil, o.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var a *Ack
	if o.echo {
		b := getBuffer(f.len())
		a = &Ack{out: o, buf: b, frame: f.append(b.b[:0], &o.payloads), messages: len(f.sizes)}
		o.frame = a.frame
	} else {
		o.frame = f.append(o.frame[:0], &o.payloads)
	}
	o.watch.on(ctx)
	if err := o.write(o.frame, len(f.sizes)); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	if a != nil {
		o.waiting = append(o.waiting, a)
	}
	return a, nil
}

// write writes whole frames. An error leaves the stream in the middle of one, so it is the last word.
func (o *outlet) write(frames []byte, messages int) error {
	start := time.Now()
	_, err := o.stream.Write(frames)
	o.writeNs.Add(int64(time.Since(start)))
	if err != nil {
		o.err = fmt.Errorf("write: %w", err)
		return o.err
	}
	o.written.Add(uint64(messages))
	return nil
}

func (o *outlet) flush(ctx context.Context) error {
	if o.joiner != nil {
		return o.joiner.flush(ctx)
	}
	o.watch.off() // the phase is over, and so may its context be
	o.inWatch.off()
	return o.err
}

// finish ends the stream and waits for the other side to end it too.
func (o *outlet) finish(ctx context.Context) error {
	if err := o.flush(ctx); err != nil {
		return err
	}
	if o.joiner != nil {
		o.joiner.stop()
	}
	if err := o.stream.closeWrite(); err != nil {
		return err
	}
	stop := interrupt(ctx, o.stream.SetReadDeadline)
	defer stop()
	if _, err := io.Copy(io.Discard, o.stream); err != nil {
		return fmt.Errorf("end of the stream: %w", err)
	}
	return nil
}

func (o *outlet) end() {
	o.stream.cancel()
	if o.joiner != nil {
		o.joiner.stop()
	}
	o.watch.off()
	o.inWatch.off()
}

// Ack is the return of one frame. Its publisher's goroutine waits for it.
type Ack struct {
	out      *outlet
	buf      *buffer
	frame    []byte // as it was sent
	messages int
	at       time.Time
	err      error
}

// At returns when the frame was back, the zero time before that.
func (a *Ack) At() time.Time { return a.at }

// errEcho: what came back is not what went out.
var errEcho = errors.New("echo: another frame came back than was sent")

// Wait blocks until the frame is back, byte for byte, or ctx is done. It reads the stream itself: no goroutine stands
// between the transport and whoever waits.
func (a *Ack) Wait(ctx context.Context) error {
	o := a.out
	for a.at.IsZero() && a.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.err != nil {
			return o.err // what comes now is not to be matched any more
		}
		if len(o.rest) == 0 {
			if err := o.read(ctx); err != nil {
				return err
			}
		}
		at := time.Now()
		first := o.waiting[0]
		o.waiting = o.waiting[1:]
		n := min(len(first.frame), len(o.rest))
		if !bytes.Equal(first.frame, o.rest[:n]) {
			first.err, o.err = errEcho, errEcho
		} else {
			first.at = at
		}
		o.rest = o.rest[n:]
		first.buf.release()
		first.buf, first.frame = nil, nil
	}
	return a.err
}

// read waits for the next echoes.
func (o *outlet) read(ctx context.Context) error {
	if o.back.buf != nil {
		o.back.buf.release()
		o.back.buf = nil
	}
	o.inWatch.on(ctx)
	c, err := o.in.next()
	switch {
	case err == nil:
		o.back, o.rest = c, c.frames
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return fmt.Errorf("echo: %w", net.ErrClosed)
	}
	return fmt.Errorf("echo: %w", err)
}
