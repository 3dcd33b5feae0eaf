package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// relayQueue is how many chunks wait for one subscriber of several before its publishers wait too: enough that the
// subscribers need not run in step, small beside the send window.
const relayQueue = 4

// RelayConfig sets a relay.
type RelayConfig struct {
	Config // its Addr is listened at
	// Streams is how many logical streams there are, Fanout how many subscribers each has.
	Streams, Fanout int
	// Echo sends back what a subscriber writes, to the one publisher of its stream.
	Echo bool
}

// Relay stores and forwards: every frame of a publisher goes to every subscriber of its stream. It reads as much as
// there is into a counted buffer, whole frames only, and writes that once for each subscriber. With one subscriber the
// publisher's reader writes itself, so that nothing is handed from goroutine to goroutine; with several each has a
// goroutine and a small queue. Whoever is slow is waited for: nothing is dropped.
type Relay struct {
	cfg    RelayConfig
	listen *listener
	groups []group // by logical stream

	received, sent, unheard atomic.Uint64
	writeNs                 atomic.Int64
	reads, writes           meters
}

// group is one logical stream.
type group struct {
	mu        sync.Mutex
	subs      atomic.Pointer[[]*relaySub] // copied on write: read once a chunk
	publisher atomic.Pointer[stream]      // of an echo
}

func (g *group) subscribers() []*relaySub {
	if subs := g.subs.Load(); subs != nil {
		return *subs
	}
	return nil
}

func (g *group) add(s *relaySub) {
	g.mu.Lock()
	defer g.mu.Unlock()
	subs := append(slices.Clone(g.subscribers()), s)
	g.subs.Store(&subs)
}

func (g *group) remove(s *relaySub) {
	g.mu.Lock()
	defer g.mu.Unlock()
	subs := slices.DeleteFunc(slices.Clone(g.subscribers()), func(o *relaySub) bool { return o == s })
	g.subs.Store(&subs)
}

// relaySub is one subscriber.
type relaySub struct {
	relay  *Relay
	stream stream
	mu     sync.Mutex    // direct writes of several publishers
	queue  chan chunk    // nil: written directly
	gone   chan struct{} // closed when it can take no more
	once   sync.Once
}

// StartRelay listens and serves until Close.
func StartRelay(cfg RelayConfig) (*Relay, error) {
	if cfg.Streams < 1 || cfg.Fanout < 1 {
		return nil, fmt.Errorf("relay: %d streams with %d subscribers: want at least 1 each", cfg.Streams, cfg.Fanout)
	}
	r := &Relay{cfg: cfg, groups: make([]group, cfg.Streams)}
	var err error
	if r.listen, err = listen(cfg.Config, r.serve); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return r, nil
}

// Addr returns the address listened at.
func (r *Relay) Addr() string { return r.listen.addr() }

// Close ends every connection and waits for all goroutines. What is under way is lost.
func (r *Relay) Close() error { return r.listen.close() }

// Stats returns the totals. It may be called at any time.
func (r *Relay) Stats() Stats {
	return Stats{
		ReceivedMsgs: r.received.Load(), SentMsgs: r.sent.Load(), UnheardMsgs: r.unheard.Load(),
		Reads: r.reads.total(), Writes: r.writes.total(), WriteNs: r.writeNs.Load(),
	}
}

// serve handles one stream until it ends.
func (r *Relay) serve(s stream) {
	h, err := readHello(s, r.cfg.Streams)
	if err != nil {
		s.cancel()
		return
	}
	g := &r.groups[h.stream]
	if h.from == fromSubscriber {
		r.serveSubscriber(g, s)
		return
	}
	if r.cfg.Echo {
		g.publisher.Store(&s)
	}
	if err = ready(s); err == nil {
		err = r.pump(s, &r.received, g.deliver(r))
	}
	if err == nil {
		err = s.closeWrite() // the publisher's receipt: everything it wrote is on its way
	}
	if err != nil {
		s.cancel()
	}
}

// pump reads chunks until the stream ends and gives each away. The error is nil at its proper end.
func (r *Relay) pump(s stream, messages *atomic.Uint64, give func(chunk)) error {
	in := newReader(s, r.reads.one())
	defer in.stop()
	for {
		c, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		messages.Add(uint64(c.messages))
		give(c)
	}
}

// deliver gives a chunk to every subscriber, waiting for those that are slow.
func (g *group) deliver(r *Relay) func(chunk) {
	return func(c chunk) {
		subs := g.subscribers()
		if len(subs) == 0 {
			r.unheard.Add(uint64(c.messages))
			c.buf.release()
			return
		}
		c.buf.hold(len(subs) - 1)
		for _, sub := range subs {
			sub.give(c)
		}
	}
}

func (s *relaySub) give(c chunk) {
	if s.queue == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.write(c)
		return
	}
	select {
	case s.queue <- c:
	case <-s.gone:
		s.relay.unheard.Add(uint64(c.messages))
		c.buf.release()
	}
}

// write writes a chunk and releases it.
func (s *relaySub) write(c chunk) {
	defer c.buf.release()
	select {
	case <-s.gone:
		s.relay.unheard.Add(uint64(c.messages))
		return
	default:
	}
	start := time.Now()
	_, err := s.stream.Write(c.frames)
	s.relay.writeNs.Add(int64(time.Since(start)))
	if err != nil {
		s.relay.unheard.Add(uint64(c.messages))
		s.end()
		return
	}
	s.relay.sent.Add(uint64(c.messages))
}

func (s *relaySub) end() { s.once.Do(func() { close(s.gone) }) }

// serveSubscriber holds a subscriber until its stream ends: it says nothing, or sends back what it gets.
func (r *Relay) serveSubscriber(g *group, s stream) {
	sub := &relaySub{relay: r, stream: s, gone: make(chan struct{})}
	if r.cfg.Fanout > 1 {
		sub.queue = make(chan chunk, relayQueue)
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer s.cancel() // ends a write that is blocked, before the writer is waited for
	defer sub.end()
	// What is published once the subscriber knows that it is one is due to it: it joins before it is told, and nothing is
	// written to it in between.
	sub.mu.Lock()
	g.add(sub)
	err := ready(s)
	sub.mu.Unlock()
	defer g.remove(sub)
	if err != nil {
		return
	}
	if sub.queue != nil {
		writer.Go(sub.writeLoop)
	}
	if !r.cfg.Echo {
		_, _ = io.Copy(io.Discard, s) // ends with the subscriber
		return
	}
	var echoed atomic.Uint64
	_ = r.pump(s, &echoed, func(c chunk) {
		if p := g.publisher.Load(); p != nil {
			_, _ = (*p).Write(c.frames) // of a publisher that has gone: nobody waits for it
		}
		c.buf.release()
	})
}

// writeLoop writes what the publishers' readers queue, until the subscriber is gone.
func (s *relaySub) writeLoop() {
	m := s.relay.writes.one()
	for {
		var c chunk
		select {
		case c = <-s.queue:
		case <-s.gone:
			s.discard()
			return
		}
		items, bytes := uint64(0), uint64(0)
		for waiting := true; waiting; {
			items += uint64(c.count)
			bytes += uint64(len(c.frames))
			s.write(c)
			select {
			case c = <-s.queue:
			default:
				waiting = false
			}
		}
		m.record(items, bytes)
	}
}

// discard releases what is queued for a subscriber that is gone. A reader may put in one more at that moment: then the
// garbage collector has its buffer.
func (s *relaySub) discard() {
	for {
		select {
		case c := <-s.queue:
			s.relay.unheard.Add(uint64(c.messages))
			c.buf.release()
		default:
			return
		}
	}
}

// Holds is how many bytes of frames of that size a relay holds at most for one of so many subscribers.
func Holds(fanout, frameBytes int) int64 {
	chunk := int64(max(chunkBytes, frameBytes))
	if fanout == 1 {
		return 2 * chunk // one being read, one being written
	}
	return (relayQueue + 2) * chunk
}
