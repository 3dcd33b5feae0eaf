package broker

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// A subscription carries one stream to one QUIC stream of a client. Its feeder goroutine, which
// also writes, lives from the `subscribed` reply until the client stops the QUIC stream, the
// connection ends, or the broker has drained it.
type subscription struct {
	id      uint64
	conn    *conn
	stream  *stream
	send    *quic.SendStream
	offsets bool // the client takes base offsets
	queue   *queue

	// When the QUIC stream's context ends (STOP_SENDING, end of the connection), the queue is
	// closed at once, not at the next write. unwatch is the stop function of that watch, and
	// unwatched is closed when it has run.
	unwatch   func() bool
	unwatched chan struct{}
}

func newSubscription(c *conn, st *stream, id uint64, send *quic.SendStream, offsets bool) *subscription {
	return &subscription{
		id: id, conn: c, stream: st, send: send, offsets: offsets,
		queue: newQueue(&c.broker.cfg), unwatched: make(chan struct{}),
	}
}

func (s *subscription) watch() {
	s.unwatch = context.AfterFunc(s.send.Context(), func() {
		s.queue.close()
		close(s.unwatched)
	})
}

// Batches of at least joinBelow bytes are written as they are: QUIC's Write has no vectored form,
// and copying them would cost more than the call. Smaller ones are joined into writes of up to
// maxJoin while several wait.
const (
	joinBelow = 16 << 10
	maxJoin   = 64 << 10
)

// feed writes until the queue ends. Checkpoint 6, the writer's own queue and its share of the
// connection's egress bytes, will stand between next and write.
func (s *subscription) feed() {
	limit := joinLimit{each: joinBelow, total: maxJoin}
	if s.conn.broker.cfg.SingleEvent {
		limit.each = 0
	}
	var (
		group []queued
		ok    = true
		took  time.Duration
	)
	for {
		group = s.queue.next(group, ok, took, limit)
		if len(group) == 0 {
			break
		}
		began := time.Now()
		ok = s.write(group) == nil
		took = time.Since(began)
	}
	s.finish()
}

// finish ends the QUIC stream, with FIN if everything was written, and leaves no trace but the
// account.
func (s *subscription) finish() {
	if !s.unwatch() {
		<-s.unwatched
	}
	s.queue.mu.Lock()
	drained := !s.queue.ended
	s.queue.mu.Unlock()
	if drained {
		s.send.Close()
		s.queue.close()
	} else {
		s.send.CancelWrite(quic.StreamErrorCode(transport.CodeDone))
	}
	s.stream.unsubscribe(s)
	s.conn.unsubscribe(s)
	s.conn.broker.archive(s)
}

// write writes the batches of a group, in order, and returns when QUIC has taken all of it.
func (s *subscription) write(group []queued) error {
	e := group[0]
	if len(group) > 1 || (s.conn.broker.cfg.SingleEvent && e.count-e.skip > 1) {
		return s.writeJoined(group)
	}
	if e.skip == 0 && e.hasOffset == s.offsets {
		_, err := s.send.Write(e.frame)
		return err
	}
	// The other form, or a replay that begins inside a batch: a head of its own, which QUIC
	// buffers, and then the items where they are.
	items, count := e.behind(e.skip)
	head := make([]byte, 0, eventHeadBytes+4)
	head = wire.AppendEventHeader(head, 4+len(items), s.offsets, e.base+uint64(e.skip))
	head = binary.BigEndian.AppendUint32(head, uint32(count))
	if _, err := s.send.Write(head); err != nil {
		return err
	}
	_, err := s.send.Write(items)
	return err
}

var joinBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, maxJoin+4<<10)
	return &b
}}

// writeJoined copies a group into one write. Within it, neighbours become one event frame as far
// as the event_batch bounds and the offsets allow: that saves headers and gives the client larger
// batches. Where they do not, the next frame begins in the same write: what a write costs is the
// call and the packet, not the frame.
func (s *subscription) writeJoined(group []queued) error {
	cfg := &s.conn.broker.cfg
	buf := joinBuffers.Get().(*[]byte)
	j := joiner{out: (*buf)[:0], offsets: s.offsets, maxEvents: cfg.EventBatchMaxEvents, maxBytes: cfg.joinBytes()}
	defer func() {
		if cap(j.out) <= 4*maxJoin { // a large single event does not stay in the pool
			*buf = j.out[:0]
		}
		joinBuffers.Put(buf)
	}()
	if cfg.SingleEvent {
		j.maxEvents = 1
	}
	for _, e := range group {
		items, count := e.behind(e.skip)
		base := e.base + uint64(e.skip)
		if !cfg.SingleEvent {
			j.add(items, count, base)
			continue
		}
		for ; count > 0; count-- {
			n := 4 + int(binary.BigEndian.Uint32(items))
			j.add(items[:n], 1, base)
			items, base = items[n:], base+1
			if len(j.out) >= maxJoin {
				if _, err := s.send.Write(j.finish()); err != nil {
					return err
				}
				j.out = j.out[:0]
			}
		}
	}
	if out := j.finish(); len(out) > 0 {
		_, err := s.send.Write(out)
		return err
	}
	return nil
}

// joiner builds event frames one behind the other.
type joiner struct {
	out                 []byte
	offsets             bool
	maxEvents, maxBytes int // of one frame

	open   bool
	start  int // of the open frame in out
	events int
	bytes  int
	base   uint64
}

func (j *joiner) add(items []byte, count int, base uint64) {
	if j.open && (j.events+count > j.maxEvents || j.bytes+len(items) > j.maxBytes ||
		(j.offsets && base != j.base+uint64(j.events))) {
		j.close()
	}
	if !j.open {
		j.open, j.start, j.events, j.bytes, j.base = true, len(j.out), 0, 0, base
		j.out = append(j.out, make([]byte, wire.EventHeaderLen(j.offsets)+4)...)
	}
	j.out = append(j.out, items...)
	j.events += count
	j.bytes += len(items)
}

// close completes the head of the open frame.
func (j *joiner) close() {
	if !j.open {
		return
	}
	head := wire.AppendEventHeader(j.out[j.start:j.start], 4+j.bytes, j.offsets, j.base)
	binary.BigEndian.PutUint32(j.out[j.start+len(head):], uint32(j.events))
	j.open = false
}

func (j *joiner) finish() []byte {
	j.close()
	return j.out
}

// stats is the account with its name tag.
func (s *subscription) stats() (SubscriptionStats, queueTotals) {
	st, totals := s.queue.snapshot()
	st.ID, st.Remote, st.Scope = s.id, s.conn.remote, s.stream.scope.String()
	return st, totals
}
