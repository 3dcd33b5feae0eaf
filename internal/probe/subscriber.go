package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"felix/internal/wire"
)

// SubscribersConfig says who subscribes to what.
type SubscribersConfig struct {
	Config // its Addr is dialled, or listened at
	// Listen is one hop: the publishers dial, and each stream has one publisher and one subscriber.
	Listen bool
	// Streams is how many logical streams there are, Fanout how many subscribers each has.
	Streams, Fanout int
	// Echo sends every frame back where it came from.
	Echo bool
}

// Subscribers are all subscribers of one process.
type Subscribers struct {
	cfg    SubscribersConfig
	dial   *dialer   // nil: one hop
	listen *listener // nil: two
	all    []*Subscription
	ended  chan struct{} // closed by Close
	once   sync.Once
	err    error
}

// OpenSubscribers connects every subscriber, or listens for publishers.
func OpenSubscribers(ctx context.Context, cfg SubscribersConfig) (*Subscribers, error) {
	if cfg.Streams < 1 || cfg.Fanout < 1 || cfg.Listen && cfg.Fanout > 1 {
		return nil, fmt.Errorf("subscribe: %d streams with %d subscribers: want at least 1 each, and of one hop one", cfg.Streams, cfg.Fanout)
	}
	s := &Subscribers{cfg: cfg, ended: make(chan struct{})}
	for range cfg.Streams * cfg.Fanout {
		s.all = append(s.all, &Subscription{echo: cfg.Echo, ended: s.ended, attached: make(chan struct{})})
	}
	var err error
	if cfg.Listen {
		if s.listen, err = listen(cfg.Config, s.accept); err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		return s, nil
	}
	s.dial = newDialer(cfg.Config)
	for i, sub := range s.all {
		st, err := s.dial.stream(ctx, i, hello{fromSubscriber, uint16(i / cfg.Fanout)})
		if err != nil {
			s.dial.close()
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		sub.attach(st)
	}
	return s, nil
}

// accept takes a publisher's stream and holds it until the end.
func (s *Subscribers) accept(st stream) {
	defer st.cancel()
	h, err := readHello(st, s.cfg.Streams)
	if err != nil || h.from != fromPublisher {
		return
	}
	if !s.all[h.stream].attach(st) {
		return // it has a publisher
	}
	if ready(st) == nil {
		<-s.ended
	}
}

// Addr returns the address listened at, "" with two hops.
func (s *Subscribers) Addr() string {
	if s.listen == nil {
		return ""
	}
	return s.listen.addr()
}

// Subscription returns the i-th subscriber of a stream.
func (s *Subscribers) Subscription(stream, i int) *Subscription { return s.all[stream*s.cfg.Fanout+i] }

// Close ends every connection and waits for what serves them. Nobody may be in Next.
func (s *Subscribers) Close() error {
	s.once.Do(func() {
		close(s.ended)
		if s.listen != nil {
			s.err = s.listen.close()
		} else {
			s.dial.close()
		}
		for _, sub := range s.all {
			sub.stop()
		}
	})
	return s.err
}

// Subscription is one subscriber. One goroutine at a time may call Next.
type Subscription struct {
	echo     bool
	ended    <-chan struct{}
	attached chan struct{} // closed when there is a stream
	taken    atomic.Bool

	stream   stream
	in       *reader
	watch    watch
	meter    meter
	chunk    chunk
	rest     []byte // of chunk: frames that Next has not returned yet
	unsent   bool   // chunk is still to be sent back
	payloads [][]byte
	messages atomic.Uint64
}

// attach gives the subscriber its stream; it has one in its life.
func (s *Subscription) attach(st stream) bool {
	if !s.taken.CompareAndSwap(false, true) {
		return false
	}
	s.stream = st
	s.in = newReader(st, &s.meter)
	s.watch.setDeadline = st.SetReadDeadline
	close(s.attached)
	return true
}

// Next returns the payloads of the next frame, blocking until one arrives or ctx is done. They are valid until the
// following call. With echo a frame goes back when Next is called again, so that what its receiver notes of it is not
// the echo's. When the publisher has finished, Next waits for ctx or Close: then it returns net.ErrClosed.
func (s *Subscription) Next(ctx context.Context) ([][]byte, error) {
	select {
	case <-s.attached:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, net.ErrClosed
	}
	if len(s.rest) == 0 {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
	}
	n, err := frameLen(s.rest)
	if err != nil {
		return nil, err
	}
	if s.payloads, err = wire.ParseTail(s.rest[wire.HeaderLen:n], s.payloads); err != nil {
		return nil, fmt.Errorf("malformed frame: %w", err)
	}
	s.rest = s.rest[n:]
	s.messages.Add(uint64(len(s.payloads)))
	return s.payloads, nil
}

// read sends back what is to be, and waits for the next chunk.
func (s *Subscription) read(ctx context.Context) error {
	if s.unsent {
		if _, err := s.stream.Write(s.chunk.frames); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
	}
	s.release()
	s.watch.on(ctx)
	c, err := s.in.next()
	switch {
	case err == nil:
		s.chunk, s.rest, s.unsent = c, c.frames, s.echo
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, io.EOF):
		return err
	}
	_ = s.stream.closeWrite() // the publisher waits for it
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		return net.ErrClosed
	}
}

func (s *Subscription) release() {
	if s.chunk.buf != nil {
		s.chunk.buf.release()
	}
	s.chunk, s.unsent = chunk{}, false
}

func (s *Subscription) stop() {
	select {
	case <-s.attached:
		s.watch.off()
		s.release()
		s.in.stop()
	default:
	}
}

// LocalAddr returns the address of its end of the connection, "" before there is one.
func (s *Subscription) LocalAddr() string {
	select {
	case <-s.attached:
		return s.stream.localAddr()
	default:
		return ""
	}
}

// Wakeups returns its reads: items are frames. It may be called at any time.
func (s *Subscription) Wakeups() Wakeups { return s.meter.snapshot() }

// Messages returns how many payloads Next has returned. It may be called at any time.
func (s *Subscription) Messages() uint64 { return s.messages.Load() }
