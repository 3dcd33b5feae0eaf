package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"felix/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBatch makes a sealed batch of count payloads that counts at least size bytes in a queue. Each
// payload begins with its offset.
func testBatch(p *batchPool, base uint64, count, size int) *batch {
	payloads := make([][]byte, count)
	for i := range payloads {
		payloads[i] = binary.BigEndian.AppendUint64(nil, base+uint64(i))
	}
	if pad := size - wire.HeaderLen - wire.TailLen(payloads); pad > 0 {
		payloads[count-1] = append(payloads[count-1], make([]byte, pad)...)
	}
	tail := wire.TailLen(payloads)
	b := p.get(tail)
	wire.AppendTail(b.body(tail)[:0], payloads)
	b.setTail(eventHeadBytes, eventHeadBytes+tail, count, tail-4-4*count)
	b.seal(base, true)
	return b
}

// testSink stands for a QUIC stream. It keeps what was written if it is told to.
type testSink struct {
	keep bool
	got  bytes.Buffer
	// write, if not nil, says what becomes of a Write, and may block.
	write func(n int) error
	// try, if not nil, says what becomes of a TryWriteAll.
	try func(n int) error

	ended  context.Context
	cancel context.CancelFunc

	inWrite       atomic.Int32
	writes, tries atomic.Int64
	closed, reset atomic.Bool
}

func (s *testSink) Write(b []byte) (int, error) {
	if s.inWrite.Add(1) != 1 {
		panic("two writes at once")
	}
	defer s.inWrite.Add(-1)
	s.writes.Add(1)
	if s.write != nil {
		if err := s.write(len(b)); err != nil {
			return 0, err
		}
	}
	if s.keep {
		s.got.Write(b)
	}
	return len(b), nil
}

func (s *testSink) TryWriteAll(b []byte) error {
	if s.inWrite.Add(1) != 1 {
		panic("two writes at once")
	}
	defer s.inWrite.Add(-1)
	s.tries.Add(1)
	if s.try != nil {
		if err := s.try(len(b)); err != nil {
			return err
		}
	}
	if s.keep {
		s.got.Write(b)
	}
	return nil
}

func (s *testSink) Close() error                     { s.closed.Store(true); return nil }
func (s *testSink) CancelWrite(quic.StreamErrorCode) { s.reset.Store(true) }
func (s *testSink) Context() context.Context         { return s.ended }

// offsets reads the frames written so far and returns the offset of each payload. It fails on what
// is no frame, or has other payloads than its base offset says.
func (s *testSink) offsets(t *testing.T) (out []uint64, frames int) {
	t.Helper()
	for r := bytes.NewReader(s.got.Bytes()); ; frames++ {
		h, body, err := wire.ReadFrame(r, 1<<30, nil)
		if errors.Is(err, io.EOF) {
			return out, frames
		}
		if err != nil {
			t.Fatalf("after %d frames: %v", frames, err)
		}
		b, err := wire.ParseEventBatch(h.Flags, body, nil)
		if err != nil {
			t.Fatalf("frame %d: %v", frames, err)
		}
		for i, p := range b.Payloads {
			at := binary.BigEndian.Uint64(p)
			if b.HasOffset && at != b.BaseOffset+uint64(i) {
				t.Fatalf("frame %d, payload %d: offset %d, want %d", frames, i, at, b.BaseOffset+uint64(i))
			}
			out = append(out, at)
		}
	}
}

// testBroker has streams s0, s1, ... and no listener.
func testBroker(tb testing.TB, cfg Config, streams int) *Broker {
	tb.Helper()
	for i := range streams {
		cfg.Streams = append(cfg.Streams, wire.Scope{Tenant: "t1", Namespace: "default", Stream: fmt.Sprint("s", i)})
	}
	b, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
		if live := b.pool.live.Load(); live != 0 {
			tb.Errorf("%d batches live", live)
		}
		if held := b.subscriberTotal.held.Load(); held != 0 {
			tb.Errorf("%d bytes held broker-wide", held)
		}
	})
	return b
}

// testConn is a connection without QUIC.
func testConn(b *Broker) *conn {
	return &conn{
		broker: b, remote: "test", subs: make(map[uint64]*subscription),
		egress: egressBudget{max: b.cfg.SubscriberEgressMaxBytes},
		rtt:    func() time.Duration { return time.Millisecond },
	}
}

// addTestSubscription subscribes a sink on a connection of its own. The feeder runs; a writer does
// not, unless the test starts one.
func addTestSubscription(b *Broker, st *stream, sink *testSink, offsets bool) *subscription {
	return subscribeTest(testConn(b), st, sink, offsets)
}

func subscribeTest(c *conn, st *stream, sink *testSink, offsets bool) *subscription {
	sink.ended, sink.cancel = context.WithCancel(context.Background())
	sub := newSubscription(c, st, c.broker.nextSubscriptionID(), sink, offsets)
	if err := st.subscribe(sub, nil); err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.subs[sub.id] = sub
	c.egress.add(1)
	c.mu.Unlock()
	c.broker.addSubscription(sub)
	sub.watch()
	sub.startFeeding()
	return sub
}

// offer publishes a batch to one subscription.
func offer(sub *subscription, b *batch, w *waiter) {
	w.pending.Store(1)
	sub.offer(b, w)
	b.release()
	w.pending.Add(-1)
}

func account(sub *subscription) (st SubscriptionStats) {
	sub.read(func(s SubscriptionStats, _ subscriptionTotals) { st = s })
	return st
}

func addsUp(st SubscriptionStats) bool {
	return st.Published == st.Written+st.DroppedQueue+st.DroppedWriter+st.DiscardedClosed+st.Queued+st.QueuedWriter
}

// TestAccountModel drives a subscription with random offers, writes (that succeed or fail), stalls
// of the feeder and ends, one at a time, against a plain model of checkpoints 5 and 6, and checks
// the whole account after every step and the frames at the end.
func TestAccountModel(t *testing.T) {
	policies := []Policy{PolicyDropNew, PolicyDropOld, PolicyBlock}
	for _, queue := range policies {
		for _, lane := range policies {
			for seed := range uint64(60) {
				t.Run(fmt.Sprintf("%s/%s/%d", queue, lane, seed), func(t *testing.T) { modelRun(t, queue, lane, seed) })
			}
		}
	}
}

// model is a subscription in plain terms.
type model struct {
	cfg     *Config
	offsets bool

	queue   []modelEntry
	blocked *modelEntry
	lane    [][]modelEntry
	open    bool
	group   [][]modelEntry
	behind  bool
	stopped bool // the feeder, by the test
	ended   bool

	published, written, droppedQueue, droppedWriter, discarded uint64
}

type modelEntry struct {
	base  uint64
	count int
	size  int64 // as an event frame without an offset
}

func (e modelEntry) items() int { return int(e.size) - wire.HeaderLen - 4 }

func sizeOf(es []modelEntry) (n int64) {
	for _, e := range es {
		n += e.size
	}
	return n
}

func msgsOf(es []modelEntry) (n uint64) {
	for _, e := range es {
		n += uint64(e.count)
	}
	return n
}

func flat(frames [][]modelEntry) (out []modelEntry) {
	for _, f := range frames {
		out = append(out, f...)
	}
	return out
}

func (m *model) egress() int64 { return sizeOf(flat(m.lane)) + sizeOf(flat(m.group)) }
func (m *model) total() int64  { return m.egress() + sizeOf(m.queue) }

func fits(held, size, limit int64) bool { return held == 0 || held+size <= limit }

func (m *model) room(size int64) bool {
	return len(m.queue) < m.cfg.SubscriberQueueCapacity && fits(sizeOf(m.queue), size, m.cfg.SubscriberQueueMaxBytes) &&
		fits(m.total(), size, m.cfg.SubscriberQueueMaxBytesTotal)
}

func (m *model) offer(e modelEntry) {
	m.published += uint64(e.count)
	switch {
	case m.room(e.size):
		m.queue = append(m.queue, e)
	case m.cfg.SubscriberQueuePolicy == PolicyBlock:
		m.blocked = &e
	case m.cfg.SubscriberQueuePolicy == PolicyDropOld && fits(m.egress(), e.size, m.cfg.SubscriberQueueMaxBytesTotal):
		for !m.room(e.size) {
			m.droppedQueue += uint64(m.queue[0].count)
			m.queue = m.queue[1:]
		}
		m.queue = append(m.queue, e)
	default:
		m.droppedQueue += uint64(e.count)
		return
	}
	m.feed()
}

func (m *model) feed() {
	if m.stopped || m.ended {
		m.admit()
		return
	}
	for {
		m.admit()
		if len(m.queue) == 0 {
			m.behind = false
			return
		}
		e := m.queue[0]
		if !fits(m.egress(), e.size, m.cfg.SubscriberEgressMaxBytes) {
			m.open = false
			return
		}
		if m.joins(e) {
			m.lane[len(m.lane)-1] = append(m.lane[len(m.lane)-1], e)
		} else {
			m.open = false
			if len(m.lane) >= m.cfg.SubscriberLaneQueueDepth {
				switch {
				case m.behind || m.cfg.SubscriberLaneQueuePolicy == PolicyBlock:
					return
				case m.cfg.SubscriberLaneQueuePolicy == PolicyDropNew:
					m.droppedWriter += uint64(e.count)
					m.queue = m.queue[1:]
					continue
				}
				m.droppedWriter += msgsOf(m.lane[0])
				m.lane = m.lane[1:]
			}
			m.lane = append(m.lane, []modelEntry{e})
			m.open = !m.cfg.SingleEvent && e.items() < joinBelow && e.count < m.cfg.EventBatchMaxEvents
		}
		m.queue = m.queue[1:]
	}
}

func (m *model) admit() {
	if m.blocked != nil && m.room(m.blocked.size) {
		m.queue, m.blocked = append(m.queue, *m.blocked), nil
	}
}

func (m *model) joins(e modelEntry) bool {
	if !m.open {
		return false
	}
	events, items := e.count, e.items()
	last := m.lane[len(m.lane)-1]
	for _, o := range last {
		events += o.count
		items += o.items()
	}
	tail := last[len(last)-1]
	return e.items() < joinBelow && events <= m.cfg.EventBatchMaxEvents && items <= m.cfg.EventBatchMaxBytes &&
		(!m.offsets || e.base == tail.base+uint64(tail.count))
}

func (m *model) frameSize(f []modelEntry) int {
	head := wire.EventHeaderLen(m.offsets) + 4
	n := head
	if m.cfg.SingleEvent {
		n *= int(msgsOf(f))
	}
	for _, e := range f {
		n += e.items()
	}
	return n
}

func (m *model) take() {
	size := 0
	for len(m.lane) > 0 {
		n := m.frameSize(m.lane[0])
		if size > 0 && (n >= joinBelow || size+n > maxJoin) {
			return
		}
		size += n
		m.group, m.lane = append(m.group, m.lane[0]), m.lane[1:]
		m.open = m.open && len(m.lane) > 0
		if n >= joinBelow {
			return
		}
	}
}

// write ends the write of the group and begins the next.
func (m *model) write(ok bool) {
	if ok {
		m.written += msgsOf(flat(m.group))
	} else {
		m.discarded += msgsOf(flat(m.group))
		m.end()
	}
	m.group = nil
	if !m.ended {
		m.take()
	}
	m.feed()
	if len(m.group) == 0 && !m.ended {
		m.take()
	}
}

func (m *model) end() {
	m.ended = true
	m.discarded += msgsOf(m.queue) + msgsOf(flat(m.lane))
	if m.blocked != nil {
		m.discarded += uint64(m.blocked.count)
	}
	m.queue, m.lane, m.blocked, m.open = nil, nil, nil, false
}

func modelRun(t *testing.T, queue, lane Policy, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(queue)*3+uint64(lane)))
	b := testBroker(t, Config{
		SubscriberQueuePolicy: queue, SubscriberLaneQueuePolicy: lane,
		SubscriberQueueCapacity: 1 + rng.IntN(8), SubscriberQueueMaxBytes: int64(200 + rng.IntN(60_000)),
		SubscriberQueueMaxBytesTotal: int64(1000 + rng.IntN(150_000)),
		SubscriberLaneQueueDepth:     1 + rng.IntN(5), SubscriberEgressMaxBytes: int64(500 + rng.IntN(100_000)),
		EventBatchMaxEvents: 1 + rng.IntN(20), EventBatchMaxBytes: 200 + rng.IntN(30_000), EventBatchMaxDelay: time.Hour,
		SingleEvent: seed%8 == 7,
	}, 1)
	sink := &testSink{keep: true}
	sub := addTestSubscription(b, b.streamList[0], sink, seed%3 != 0)
	m := &model{cfg: &b.cfg, offsets: sub.offsets}
	var readies, blocks int
	w := waiter{ready: func() { readies++ }}
	var taken []modelEntry

	poll := func(ok bool) {
		sub.mu.Lock()
		if len(sub.group.entries) > 0 {
			sub.settle(ok)
		}
		sub.poll()
		sub.unlock()
		m.write(ok)
		if got, want := len(sub.group.frames), len(m.group); got != want {
			t.Fatalf("a group of %d frames, want %d", got, want)
		}
		if len(m.group) == 0 {
			return
		}
		for i, e := range flat(m.group) {
			if sub.group.entries[i].base != e.base {
				t.Fatalf("entry %d of the group is batch %d, want %d", i, sub.group.entries[i].base, e.base)
			}
		}
		if n, err := sub.write(); err != nil || n == 0 {
			t.Fatalf("write: %d, %v", n, err)
		}
		taken = append(taken, flat(m.group)...)
	}

	var base uint64
	for step := range 400 {
		switch k := rng.IntN(20); {
		case k < 12 && m.blocked == nil && !m.ended: // while one is blocked its stream is parked
			size := 60 + rng.IntN(1500)
			switch rng.IntN(20) {
			case 0:
				size = rng.IntN(100_000)
			case 1, 2, 3:
				size = rng.IntN(30_000)
			}
			count := 1 + rng.IntN(5)
			batch := testBatch(&b.pool, base, count, size)
			e := modelEntry{base, count, batch.frameBytes()}
			base += uint64(count)
			m.offer(e)
			if m.blocked != nil {
				blocks++
			}
			offer(sub, batch, &w)
		case k < 18 && !m.ended:
			poll(rng.IntN(150) != 0 || len(m.group) == 0)
		case k == 18 && !m.ended: // the feeder stalls, or goes on
			m.stopped = !m.stopped
			sub.mu.Lock()
			sub.feeding = !m.stopped
			sub.mu.Unlock()
			if !m.stopped {
				m.feed()
				sub.step()
			}
		case k == 19 && rng.IntN(60) == 0 && !m.ended:
			m.end()
			sub.close()
		}
		st := account(sub)
		queued := msgsOf(m.queue)
		if m.blocked != nil {
			queued += uint64(m.blocked.count)
		}
		want := SubscriptionStats{
			Published: m.published, Written: m.written, DroppedQueue: m.droppedQueue, DroppedWriter: m.droppedWriter,
			DiscardedClosed: m.discarded, Queued: queued, QueuedWriter: msgsOf(flat(m.lane)) + msgsOf(flat(m.group)),
			QueuedBytes: sizeOf(m.queue), EgressHeldBytes: m.egress(), LaneQueueLen: len(m.lane),
		}
		got := SubscriptionStats{
			Published: st.Published, Written: st.Written, DroppedQueue: st.DroppedQueue, DroppedWriter: st.DroppedWriter,
			DiscardedClosed: st.DiscardedClosed, Queued: st.Queued, QueuedWriter: st.QueuedWriter,
			QueuedBytes: st.QueuedBytes, EgressHeldBytes: st.EgressHeldBytes, LaneQueueLen: st.LaneQueueLen,
		}
		if got != want {
			t.Fatalf("step %d:\n got %+v\nwant %+v", step, got, want)
		}
		if !addsUp(st) {
			t.Fatalf("step %d: does not add up: %+v", step, st)
		}
		if held := b.subscriberTotal.held.Load(); held != m.total() {
			t.Fatalf("step %d: %d bytes held broker-wide, want %d", step, held, m.total())
		}
		if (w.pending.Load() == 1) != (m.blocked != nil) {
			t.Fatalf("step %d: %d pending, blocked: %v", step, w.pending.Load(), m.blocked != nil)
		}
	}
	sub.close()
	sub.mu.Lock()
	sub.poll()
	sub.unlock()
	sub.finish()
	if readies != blocks {
		t.Errorf("%d batches blocked, ready called %d times", blocks, readies)
	}
	if st := account(sub); st.Queued+st.QueuedWriter != 0 || st.QueuedBytes != 0 || st.EgressHeldBytes != 0 || st.LaneQueueLen != 0 {
		t.Errorf("at the end: %+v", st)
	}
	got, _ := sink.offsets(t)
	var want []uint64
	for _, e := range taken {
		for i := range e.count {
			want = append(want, e.base+uint64(i))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("wrote %d payloads, want %d, or not these", len(got), len(want))
	}
}

// TestAccountRace lets publisher, writer, statistics and an end at one subscription at once; the
// account must add up in every snapshot.
func TestAccountRace(t *testing.T) {
	policies := []Policy{PolicyDropNew, PolicyDropOld, PolicyBlock}
	for seed, queue := range policies {
		for _, lane := range policies {
			for _, end := range []string{"drain", "stop", "error"} {
				t.Run(fmt.Sprintf("%s/%s/%s", queue, lane, end), func(t *testing.T) { raceRun(t, queue, lane, end, uint64(seed)) })
			}
		}
	}
}

func raceRun(t *testing.T, queue, lane Policy, end string, seed uint64) {
	b := testBroker(t, Config{
		SubscriberQueueCapacity: 4, SubscriberQueueMaxBytes: 4000, SubscriberQueuePolicy: queue,
		SubscriberLaneQueueDepth: 3, SubscriberLaneQueuePolicy: lane, SubscriberEgressMaxBytes: 6000, SubscriberQueueMaxBytesTotal: 9000,
		EventBatchMaxEvents: 4, EventBatchMaxDelay: time.Microsecond,
	}, 1)
	rng := rand.New(rand.NewPCG(seed, 1))
	sink := &testSink{keep: true}
	var writes int
	sink.write = func(int) error {
		if writes++; end == "error" && writes > 100 {
			return io.ErrClosedPipe
		}
		if rng.IntN(10) == 0 {
			time.Sleep(time.Microsecond)
		}
		return nil
	}
	sink.try = func(n int) error {
		if n%3 == 0 {
			return quic.ErrWouldBlock
		}
		return nil
	}
	sub := addTestSubscription(b, b.streamList[0], sink, true)
	sub.conn.rtt = func() time.Duration { return 5 * time.Microsecond }
	var wg sync.WaitGroup
	published := make(chan struct{})
	wg.Go(sub.writeLoop)
	wg.Go(func() {
		defer close(published)
		woken := make(chan struct{}, 1)
		w := waiter{ready: func() { woken <- struct{}{} }}
		var base uint64
		for i := range 8000 {
			batch := testBatch(&b.pool, base, 1+i%3, 60+i%1700)
			base += uint64(batch.count)
			w.pending.Store(1)
			sub.offer(batch, &w)
			batch.release()
			if w.pending.Add(-1) != 0 {
				<-woken
			}
			if end == "stop" && i == 6000 {
				sink.cancel()
			}
			if i%100 == 0 {
				time.Sleep(20 * time.Microsecond)
			}
		}
		sub.drain()
	})
	wg.Go(func() {
		for {
			if st := account(sub); !addsUp(st) {
				t.Errorf("does not add up: %+v", st)
			}
			select {
			case <-published:
				return
			default:
			}
		}
	})
	wg.Wait()
	st := account(sub)
	if st.Queued+st.QueuedWriter != 0 || st.QueuedBytes != 0 || st.EgressHeldBytes != 0 || st.LaneQueueLen != 0 || !addsUp(st) {
		t.Errorf("at the end: %+v", st)
	}
	offsets, _ := sink.offsets(t)
	if uint64(len(offsets)) != st.Written && end == "drain" {
		t.Errorf("%d messages on the stream, %d written", len(offsets), st.Written)
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] <= offsets[i-1] {
			t.Fatalf("offset %d after %d", offsets[i], offsets[i-1])
		}
	}
	if queue == PolicyBlock && st.DroppedQueue != 0 || lane == PolicyBlock && st.DroppedWriter != 0 {
		t.Errorf("dropped under block: %+v", st)
	}
	if end == "drain" && (st.DiscardedClosed != 0 || !sink.closed.Load()) || end != "drain" && !sink.reset.Load() {
		t.Errorf("after %s: %+v, closed %v, reset %v", end, st, sink.closed.Load(), sink.reset.Load())
	}
}
