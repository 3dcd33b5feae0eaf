package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"felix/internal/transport"
	"felix/internal/wire"
)

// ErrClosed is what a broker answers that has been shut down.
var ErrClosed = errors.New("broker is closed")

const (
	// shutdownLinger is how long Shutdown leaves connections open after everything was written:
	// closing one throws away what its peer has received but not yet read, and QUIC does not tell
	// when that is nothing. A peer that closes its connection ends the wait.
	shutdownLinger = time.Second
	// maxEndedSubscriptions are kept in Stats.
	maxEndedSubscriptions = 4096
)

// Broker serves clients. Make one with New, give it listeners with Serve, end it with Shutdown or
// Close.
type Broker struct {
	cfg       Config
	startedAt time.Time
	pool      batchPool
	ringTotal atomic.Int64
	// subscriberTotal is the broker-wide part of checkpoint 5.
	subscriberTotal totalBudget
	nextID          atomic.Uint64
	refused         atomic.Uint64 // subscribes
	accepted        atomic.Uint64 // subscribes
	authFails       atomic.Uint64

	ingress    *ingress
	streams    map[wire.Scope]*stream // fixed, and so read without a lock
	streamList []*stream              // the same, by id: in the order of the configuration
	cache      *cache
	shards     []*shard // fixed from Serve on
	onStep     atomic.Pointer[stepHook]

	stop    context.Context // done from Shutdown or Close on
	stopNow context.CancelFunc
	conns   group

	mu        sync.Mutex
	closed    bool // no more connections
	open      map[*conn]struct{}
	live      map[*subscription]struct{}
	liveIDs   map[uint64]int      // of live subscriptions: how many have the id
	ended     []SubscriptionStats // circular from endedAt once full
	endedAt   int
	past      pastTotals // what is no more in open or live
	discarded uint64     // deliveries, by subscriptions and streams that ended since Shutdown
}

// pastTotals sums what ended connections and subscriptions counted.
type pastTotals struct {
	flow      Flow
	dropped   uint64
	blockedNs int64
	highItems int
	highBytes int64
	reads     loopCount

	writerDropped        uint64
	writerBlockedNs      int64
	writerBlocked        WaitHistogram
	writerHighFrames     int
	writerHighBytes      int64
	steps, wakes, writes loopHist
}

// New returns a broker of a configuration, or the error of Config.Resolve.
func New(cfg Config) (*Broker, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	b := &Broker{
		cfg:       cfg,
		startedAt: time.Now(),
		streams:   make(map[wire.Scope]*stream, len(cfg.Streams)),
		cache:     newCache(cfg.Caches),
		open:      make(map[*conn]struct{}),
		live:      make(map[*subscription]struct{}),
		liveIDs:   make(map[uint64]int),
	}
	b.ingress = newIngress(&b.cfg)
	b.subscriberTotal.max = cfg.SubscriberQueueMaxBytesTotal
	for _, scope := range cfg.Streams {
		if b.streams[scope] == nil {
			s := newStream(b, uint64(len(b.streamList)), scope)
			b.streams[scope] = s
			b.streamList = append(b.streamList, s)
		}
	}
	b.stop, b.stopNow = context.WithCancel(context.Background())
	return b, nil
}

// Config is the configuration in effect, defaults filled in.
func (b *Broker) Config() Config { return b.cfg }

// Serve accepts connections from l until Shutdown or Close, and then returns nil; or until ctx is
// done or l fails, and then returns why. Connections live on when it returns. l stays the
// caller's, who closes it after Shutdown, because the connections need its socket; Shutdown only
// makes it refuse new ones. Several listeners may be served.
func (b *Broker) Serve(ctx context.Context, l *transport.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.stop, func() { cancel(ErrClosed) })()
	b.mu.Lock()
	if !b.closed {
		b.startShards()
	}
	b.mu.Unlock()
	for {
		q, err := l.Accept(ctx)
		if b.stop.Err() != nil {
			if err == nil {
				_ = q.Close(transport.CodeShutdown, errShuttingDown.Error()) // nobody is left to tell
			}
			if err := l.StopAccepting(); err != nil {
				return fmt.Errorf("stop accepting: %w", err)
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		// Nothing here may take time: QUIC queues 32 connections and refuses the rest.
		b.serveConn(q)
	}
}

func (b *Broker) serveConn(q *transport.Conn) {
	c := newConn(b, q)
	b.mu.Lock()
	ok := !b.closed && b.conns.add()
	if ok {
		b.open[c] = struct{}{}
	}
	b.mu.Unlock()
	if !ok {
		q.Close(transport.CodeShutdown, errShuttingDown.Error())
		return
	}
	go func() {
		defer b.conns.done()
		b.cfg.Logger.Debug("connection", "remote", c.remote)
		c.serve()
		c.close(transport.CodeDone, "") // it has ended: this waits for what the transport has left
		b.forget(c)
	}()
}

// forget moves a connection's counts to the past.
func (b *Broker) forget(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
	b.past.addConn(c)
	b.cfg.Logger.Debug("connection ended", "remote", c.remote)
}

// Shutdown ends the broker in order: it accepts nothing new, executes the publishes that it has
// read, writes every subscription's queue and finishes its stream, gives the peers a second to
// read, and closes all connections with code 4. It returns how many deliveries were discarded:
// messages still queued, or being written, when a subscription ended, and those of publishes that
// were accepted and not executed. When ctx is done first, the rest is discarded and the error is
// ctx's.
func (b *Broker) Shutdown(ctx context.Context) (discarded uint64, err error) {
	b.stopNow()
	b.mu.Lock()
	b.closed = true
	open := make([]*conn, 0, len(b.open))
	for c := range b.open {
		open = append(open, c)
	}
	before := b.discarded
	b.mu.Unlock()

	err = b.drain(ctx, open)
	b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.discarded - before, err
}

func (b *Broker) drain(ctx context.Context, open []*conn) error {
	// All are told before any is waited for: a blocked publish of one connection may wait for a
	// subscription of another.
	for _, c := range open {
		c.stopReading()
	}
	for _, c := range open {
		if err := await(ctx, c.stopReading()); err != nil {
			return err
		}
	}
	if err := await(ctx, b.ingress.empty()); err != nil {
		return err
	}
	for _, c := range open {
		c.drainSubscriptions()
	}
	for _, c := range open {
		if err := await(ctx, c.drainSubscriptions()); err != nil {
			return err
		}
	}
	linger, cancel := context.WithTimeout(ctx, shutdownLinger)
	defer cancel()
	for _, c := range open {
		if await(linger, c.gone) != nil {
			break
		}
	}
	return nil
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections at once, with code 4, and waits until nothing is left of them. What
// was queued is discarded and counted.
func (b *Broker) Close() error {
	b.stopNow()
	b.mu.Lock()
	b.closed = true
	open := make([]*conn, 0, len(b.open))
	for c := range b.open {
		open = append(open, c)
	}
	b.mu.Unlock()
	idle := b.conns.close()
	for _, s := range b.streamList {
		s.abandon()
	}
	var wg sync.WaitGroup
	for _, c := range open {
		wg.Go(func() { c.close(transport.CodeShutdown, errShuttingDown.Error()) })
	}
	wg.Wait()
	<-idle
	<-b.ingress.empty() // no subscription is left that anything could wait for
	b.stopShards()
	for _, s := range b.streamList {
		s.mu.Lock()
		before := s.ring.bytes.Load()
		s.ring.clear()
		b.ringTotal.Add(-before)
		s.mu.Unlock()
	}
	return nil
}

// nextSubscriptionID returns an id that no live subscription of the process has.
func (b *Broker) nextSubscriptionID() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if id := b.nextID.Add(1); b.liveIDs[id] == 0 {
			return id
		}
	}
}

func (b *Broker) addSubscription(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[s] = struct{}{}
	b.liveIDs[s.id]++
}

// discard counts deliveries of publishes that were accepted and that Close did not wait for.
func (b *Broker) discard(deliveries uint64) {
	b.mu.Lock()
	b.discarded += deliveries
	b.mu.Unlock()
}

// archive moves the account of a subscription that has ended to the past.
func (b *Broker) archive(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, s)
	if b.liveIDs[s.id]--; b.liveIDs[s.id] == 0 {
		delete(b.liveIDs, s.id)
	}
	st := b.past.addSubscription(s)
	if b.closed {
		b.discarded += st.DiscardedClosed
	}
	if len(b.ended) < maxEndedSubscriptions {
		b.ended = append(b.ended, st)
		return
	}
	b.ended[b.endedAt] = st
	b.endedAt = (b.endedAt + 1) % maxEndedSubscriptions
}

func (p *pastTotals) addConn(c *conn) {
	r := &c.readCounts
	p.reads.add(loopCount{r.reads.Load(), r.frames.Load(), r.bytes.Load()})
}

// addSubscription adds a subscription's account and returns it.
func (p *pastTotals) addSubscription(s *subscription) (out SubscriptionStats) {
	s.read(func(st SubscriptionStats, t subscriptionTotals) {
		out = st
		p.flow.QueuedMsgs += t.admitted
		p.flow.SentMsgs += st.Written
		p.flow.BytesOut += st.WrittenBytes
		p.dropped += st.DroppedQueue
		p.blockedNs += st.BlockedNs
		p.highItems = max(p.highItems, st.HighWaterItems)
		p.highBytes = max(p.highBytes, st.HighWaterBytes)
		p.writerDropped += st.DroppedWriter
		p.writerBlockedNs += st.WriterBlockedNs
		p.writerHighFrames = max(p.writerHighFrames, st.WriterHighWaterFrames)
		p.writerHighBytes = max(p.writerHighBytes, st.WriterHighWaterBytes)
		p.writerBlocked.merge(t.blocked)
		p.steps.add(t.steps)
		p.wakes.add(t.wakes)
		p.writes.add(t.writes)
	})
	return out
}

// Stats returns a snapshot. It takes each subscription's lock for a moment.
func (b *Broker) Stats() Stats {
	st := Stats{
		StartedAt:          b.startedAt,
		SubscribesAccepted: b.accepted.Load(),
		SubscribesRefused:  b.refused.Load(),
		AuthFailures:       b.authFails.Load(),
		RingBytes:          b.ringTotal.Load(),
		LiveBatches:        b.pool.live.Load(),
		SubscriberHeld:     b.subscriberTotal.held.Load(),
	}
	b.mu.Lock()
	total := b.past
	st.Connections = len(b.open)
	for c := range b.open {
		total.addConn(c)
		if c.egress.live.Load() > 0 {
			st.Subscribers++
		}
	}
	// Both sets under one lock: a subscription is in one of them, and once.
	st.Subscriptions = slices.Concat(b.ended[b.endedAt:], b.ended[:b.endedAt])
	atLive := len(st.Subscriptions)
	for s := range b.live {
		sub := total.addSubscription(s)
		sub.Live = true
		st.Subscriptions = append(st.Subscriptions, sub)
	}
	b.mu.Unlock()
	slices.SortFunc(st.Subscriptions[atLive:], func(x, y SubscriptionStats) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Remote, y.Remote))
	})
	st.Flow = total.flow
	for _, s := range b.streamList {
		ss := s.stats()
		st.Flow.PublishedMsgs += ss.PublishedMsgs
		st.Streams = append(st.Streams, ss)
	}
	st.Wakeups = []Wakeup{total.reads.wakeup("stream_read")}
	st.Checkpoints = append(b.ingress.snapshot(&st, b.streamList), Checkpoint{
		Number: 5, Name: "subscriber queue",
		Bound: int64(b.cfg.SubscriberQueueCapacity), BoundBytes: b.cfg.SubscriberQueueMaxBytes,
		Policy:    b.cfg.SubscriberQueuePolicy.String(),
		HighWater: int64(total.highItems), HighWaterBytes: total.highBytes,
		BlockedNs: total.blockedNs, Dropped: total.dropped,
	}, Checkpoint{
		Number: 6, Name: "writer queue",
		Bound: int64(b.cfg.SubscriberLaneQueueDepth), BoundBytes: b.cfg.SubscriberEgressMaxBytes,
		Policy:    b.cfg.SubscriberLaneQueuePolicy.String(),
		HighWater: int64(total.writerHighFrames), HighWaterBytes: total.writerHighBytes,
		BlockedNs: total.writerBlockedNs, Dropped: total.writerDropped,
	})
	st.WriterBlocked = total.writerBlocked
	st.Wakeups = append(st.Wakeups,
		total.steps.wakeup("feeder_step"),
		total.wakes.wakeup("writer_wake"),
		total.writes.wakeup("writer_write"),
	)
	return st
}
