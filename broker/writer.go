package broker

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/wire"
)

// sink is the QUIC stream that a subscription writes to: a *quic.SendStream.
type sink interface {
	Write([]byte) (int, error)
	TryWriteAll([]byte) error
	Close() error
	CancelWrite(quic.StreamErrorCode)
	Context() context.Context
}

const (
	// Batches with items of at least joinBelow bytes are written as they are: QUIC's Write has no
	// vectored form, and copying them would cost more than the call. Smaller ones are joined into
	// frames, and frames into writes of up to maxJoin, while several wait.
	joinBelow = 16 << 10
	maxJoin   = 64 << 10
	// A frame of at most inlineFrame bytes fits any packet. The step writes it itself, with
	// TryWriteAll, if less than inlineRecent bytes went to the stream within the last round trip;
	// with more under way TryWriteAll is slower than Write.
	inlineFrame  = 1200
	inlineRecent = 4 << 10
)

// A writeGroup is what goes into one write, and its holds. While it is not empty the writer is busy.
type writeGroup struct {
	frames  []frame
	entries []queued
	msgs    uint64
	egress  int64
	total   int64
}

// kick sees to it that the outbox is written, now that something is in it: by the step itself, or
// by the writer, which is woken only if it sleeps.
func (s *subscription) kick() {
	if !s.idle || s.outbox.frames.n == 0 || s.writeInline() {
		return
	}
	s.idle = false
	s.work.Signal()
}

// writeInline writes the one small frame of an idle stream without waking anybody. Nothing can
// come between: the writer is asleep, and takes nothing without the lock. If QUIC does not take
// the frame at once, it stays in the group, and the writer begins with it.
func (s *subscription) writeInline() bool {
	if s.outbox.frames.n != 1 || s.outbox.frames.front().size > inlineFrame {
		return false
	}
	now := s.now()
	if !s.recent.below(inlineRecent, now, s.conn.rtt) {
		return false
	}
	s.take()
	g := &s.group
	var out []byte
	if e := g.entries[0]; len(g.entries) == 1 && s.inPlace(e) {
		out = e.frame
	} else {
		if s.small == nil {
			s.small = make([]byte, 0, inlineFrame)
		}
		out = s.appendFrame(s.small, g.entries)
	}
	traced, began := s.traced(), time.Time{}
	if traced {
		began = time.Now()
	}
	if s.send.TryWriteAll(out) != nil {
		return false // no credit, or the end of the stream, which the writer will meet too
	}
	if traced {
		s.traceWrite(began, time.Now())
	}
	s.recent.add(len(out), now)
	s.settle(true)
	return true
}

// take moves from the outbox to the group what goes into one write; false if there is nothing.
func (s *subscription) take() bool {
	g, size := &s.group, 0
	for s.outbox.frames.n > 0 {
		f := s.outbox.frames.front()
		if size > 0 && (f.size >= joinBelow || size+f.size > maxJoin) {
			break
		}
		size += f.size
		var took frame
		took, g.entries = s.outbox.pop(g.entries)
		g.frames = append(g.frames, took)
		g.msgs += took.msgs
		g.egress += took.egress
		g.total += took.total
		if took.size >= joinBelow {
			break
		}
	}
	return size > 0
}

// settle accounts for the group, whose write has ended, and gives its holds back. A failed write
// ends the subscription.
func (s *subscription) settle(ok bool) {
	g := &s.group
	var payload uint64
	for i, e := range g.entries {
		payload += uint64(e.payloadBytes())
		e.release()
		g.entries[i] = queued{}
	}
	if ok {
		s.written += g.msgs
		s.writtenBytes += payload
		s.writes.record(uint64(len(g.entries)), payload)
	} else {
		s.discarded += g.msgs
	}
	s.egress -= g.egress
	s.giveTotal(g.total)
	*g = writeGroup{frames: g.frames[:0], entries: g.entries[:0]}
	if !ok {
		s.end()
	}
}

// writeLoop writes until the subscription ends or is drained. It is the writer goroutine's.
func (s *subscription) writeLoop() {
	var (
		wrote int
		err   error
		took  time.Duration
	)
	for s.await(wrote, err, took) {
		began := time.Now()
		wrote, err = s.write()
		took = time.Since(began)
		if err == nil && s.traced() {
			s.traceWrite(began, began.Add(took))
		}
	}
	s.finish()
}

// await accounts for the write that has ended, if there was one, and waits for the next group.
// False means that nothing more is to be written.
func (s *subscription) await(wrote int, err error, took time.Duration) bool {
	s.mu.Lock()
	defer s.unlock()
	if len(s.group.entries) > 0 {
		s.writeFor += took
		s.recent.add(wrote, s.now())
		s.settle(err == nil)
	}
	for {
		switch s.poll() {
		case pollGroup:
			return true
		case pollEnd:
			return false
		}
		s.idle = true
		s.work.Wait()
		s.idle = false
		s.wakes.record(uint64(len(s.group.entries)+s.outbox.entries.n), uint64(s.egress))
	}
}

type pollResult int

const (
	pollNothing pollResult = iota // the writer can sleep
	pollGroup                     // there is a group to write
	pollEnd                       // nothing more is to be written
)

// poll takes the next group, if there is one, and lets the feeder and others go on that have been
// waiting for what the last one has freed. For them it leaves the lock for a moment, before the
// next write, because that may take long.
func (s *subscription) poll() pollResult {
	for asked := false; !s.ended; {
		if len(s.group.entries) == 0 {
			s.take()
		}
		switch {
		case s.outbox.stalled && !asked:
			asked = true
			s.unlock()
			s.stream.post(s)
			s.mu.Lock()
		case len(s.group.entries) > 0:
			return pollGroup
		case s.draining && s.queue.empty() && s.outbox.frames.n == 0:
			return pollEnd
		case s.freed:
			s.unlock()
			s.mu.Lock()
		default:
			return pollNothing
		}
	}
	if len(s.group.entries) > 0 { // handed over by writeInline just before the end
		s.settle(false)
	}
	return pollEnd
}

// write writes the group, in order, and returns when QUIC has taken all of it. Nobody else
// touches the group meanwhile.
func (s *subscription) write() (int, error) {
	g := &s.group
	if e := g.entries[0]; len(g.entries) == 1 {
		switch {
		case s.single && e.msgs() > 1:
			return s.writeSingle(e)
		case s.inPlace(e):
			return s.send.Write(e.frame)
		case g.frames[0].size >= joinBelow:
			return s.writeWithHead(e)
		}
	}
	buf := joinBuffers.Get().(*[]byte)
	defer putJoinBuffer(buf)
	out := (*buf)[:0]
	at := 0
	for _, f := range g.frames {
		out = s.appendFrame(out, g.entries[at:at+f.entries])
		at += f.entries
	}
	*buf = out
	return s.send.Write(out)
}

var joinBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, maxJoin+4<<10)
	return &b
}}

func putJoinBuffer(buf *[]byte) {
	if cap(*buf) <= 4*maxJoin { // one large frame, by EventBatchMaxBytes, does not stay
		joinBuffers.Put(buf)
	}
}

// inPlace reports whether the entry is a whole batch whose buffer has the subscriber's form.
func (s *subscription) inPlace(e queued) bool {
	return e.skip == 0 && e.hasOffset == s.offsets && !(s.single && e.count > 1)
}

// writeWithHead writes an entry in the other form than its buffer's, or a replay that begins
// inside a batch: a head of its own, which QUIC buffers, and then the items where they are.
func (s *subscription) writeWithHead(e queued) (int, error) {
	items, count := e.behind(e.skip)
	n, err := s.send.Write(s.appendHead(s.head[:0], items, count, e.base+uint64(e.skip)))
	if err != nil {
		return n, err
	}
	m, err := s.send.Write(items)
	return n + m, err
}

// writeSingle writes each event of a batch in a frame of its own: large ones where they are, small
// ones joined into writes.
func (s *subscription) writeSingle(e queued) (wrote int, err error) {
	buf := joinBuffers.Get().(*[]byte)
	defer putJoinBuffer(buf)
	out := (*buf)[:0]
	write := func(b []byte) error {
		n, err := s.send.Write(b)
		wrote += n
		return err
	}
	items, count := e.behind(e.skip)
	for base := e.base + uint64(e.skip); count > 0; count-- {
		n := 4 + int(binary.BigEndian.Uint32(items))
		out = s.appendHead(out, items[:n], 1, base)
		if n < joinBelow {
			out = append(out, items[:n]...)
		}
		if n >= joinBelow || len(out) >= maxJoin-joinBelow || count == 1 {
			if err := write(out); err != nil {
				return wrote, err
			}
			out = out[:0]
		}
		if n >= joinBelow {
			if err := write(items[:n]); err != nil {
				return wrote, err
			}
		}
		items, base = items[n:], base+1
	}
	return wrote, nil
}

// appendFrame appends the event frame of a group of entries; in single-event mode those of the one
// entry that a frame has there.
func (s *subscription) appendFrame(dst []byte, entries []queued) []byte {
	first := entries[0]
	base := first.base + uint64(first.skip)
	if s.single {
		items, count := first.behind(first.skip)
		for ; count > 0; count-- {
			n := 4 + int(binary.BigEndian.Uint32(items))
			dst = append(s.appendHead(dst, items[:n], 1, base), items[:n]...)
			items, base = items[n:], base+1
		}
		return dst
	}
	start, total := len(dst), 0
	dst = s.appendHead(dst, nil, 0, base)
	body := len(dst)
	for _, e := range entries {
		items, count := e.behind(e.skip)
		dst = append(dst, items...)
		total += count
	}
	s.appendHead(dst[:start], dst[body:], total, base) // again, over the first, now that it is known
	return dst
}

// appendHead appends what stands in front of the items of an event frame.
func (s *subscription) appendHead(dst, items []byte, count int, base uint64) []byte {
	dst = wire.AppendEventHeader(dst, 4+len(items), s.offsets, base)
	return binary.BigEndian.AppendUint32(dst, uint32(count))
}
