package broker

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"felix/internal/wire"
)

// eventHeadBytes is what can stand in front of a tail: header and base offset. It is reserved in
// front of every body, so that the event frame can be completed in place.
const eventHeadBytes = wire.HeaderLen + 8

// A batch (an envelope, in the design's words) is one published batch on its way: a pooled buffer
// that the publish was read into and from which every subscriber is written, and a count of its
// holders. Readers of a sealed batch need no lock.
type batch struct {
	pool *batchPool
	refs atomic.Int32

	buf  []byte // whole buffer; the body begins at eventHeadBytes
	tail []byte // count and items: the body of a shared event batch; a slice of buf
	at   int    // where the tail begins in buf, at least eventHeadBytes

	// Set by seal.
	frame     []byte // header, base offset if hasOffset, and tail, as one slice of buf
	hasOffset bool   // the form that was written in place
	base      uint64 // offset of the first payload
	count     int
	payload   int // bytes of all payloads

	// Its way through checkpoints 3 and 4. It lives here so that a publish allocates nothing; the
	// ingress's lock guards it.
	way struct {
		held              int64   // bytes at checkpoint 3
		conn              *budget // its connection's
		connPass, allPass uint64  // see budget.take
		slot              slot    // at checkpoint 4
		link              link[batch]
		waits             *admission // its reader, while it waits
		owed              receipt    // the ack to give when it has been fanned out
	}

	traced bool   // followed by Config.Trace
	trace  uint64 // its id there
}

// body is where a publish frame's body of n bytes is read to.
func (b *batch) body(n int) []byte { return b.buf[eventHeadBytes : eventHeadBytes+n] }

// setTail says that the tail is buf[at:end], and what it holds.
func (b *batch) setTail(at, end, count, payload int) {
	b.at, b.tail, b.count, b.payload = at, b.buf[at:end], count, payload
}

// seal numbers the batch and completes one of the two forms of its event frame in place, over the
// scope, which nobody needs any more. The other form is written as a head of its own and the tail.
func (b *batch) seal(base uint64, hasOffset bool) {
	b.base, b.hasOffset = base, hasOffset
	start := b.at - wire.EventHeaderLen(hasOffset)
	wire.AppendEventHeader(b.buf[start:start], len(b.tail), hasOffset, base)
	b.frame = b.buf[start : b.at+len(b.tail)]
}

// frameBytes is what the batch counts in a subscriber's queue: its event frame.
func (b *batch) frameBytes() int64 { return int64(wire.HeaderLen + len(b.tail)) }

// bodyBytes is what the batch counts at checkpoint 3: what was read, but for the header.
func (b *batch) bodyBytes() int64 { return int64(b.at - eventHeadBytes + len(b.tail)) }

// keptBytes is what a reference to the batch keeps alive.
func (b *batch) keptBytes() int64 { return int64(cap(b.buf)) }

// behind returns the items of the tail behind the first n, and how many they are.
func (b *batch) behind(n int) (items []byte, count int) {
	items = b.tail[4:]
	for range n {
		items = items[4+binary.BigEndian.Uint32(items):]
	}
	return items, b.count - n
}

// first returns the first payload; there must be one.
func (b *batch) first() []byte { return b.tail[8 : 8+binary.BigEndian.Uint32(b.tail[4:])] }

func (b *batch) retain() { b.refs.Add(1) }

// release gives one hold back; the last one returns the buffer to the pool.
func (b *batch) release() {
	switch n := b.refs.Add(-1); {
	case n == 0:
		b.pool.put(b)
	case n < 0:
		// Two writers may share the buffer by now: stopping is the only safe answer.
		panic("broker: batch released twice")
	}
}

// batchPool keeps buffers by size class. Its count of live batches is 0 when nothing is held,
// which tests check.
type batchPool struct {
	live    atomic.Int64
	classes [numClasses]sync.Pool
}

// Size classes are quarter steps between powers of two from 512 bytes: at most 25 % is unused,
// where plain powers of two would double a batch of 64 payloads of 4 KiB.
const (
	minClassBits = 9
	maxClassBits = 31
	numClasses   = (maxClassBits-minClassBits)*4 + 1
)

// sizeClass returns the class of buffers of at least n bytes, and their size.
func sizeClass(n int) (class, size int) {
	if n <= 1<<minClassBits {
		return 0, 1 << minClassBits
	}
	e := bits.Len(uint(n-1)) - 1 // 1<<e <= n-1
	step := 1 << (e - 2)
	quarters := (n - 1 - 1<<e) / step // 0 to 3
	return (e-minClassBits)*4 + quarters + 1, 1<<e + (quarters+1)*step
}

// get returns a batch with one hold and room for a body of n bytes.
func (p *batchPool) get(n int) *batch {
	p.live.Add(1)
	class, size := sizeClass(eventHeadBytes + n)
	b, _ := p.classes[class].Get().(*batch)
	if b == nil {
		b = &batch{pool: p, buf: make([]byte, size)}
	}
	b.traced = false
	b.refs.Store(1)
	return b
}

func (p *batchPool) put(b *batch) {
	b.tail, b.frame = nil, nil
	b.way.conn, b.way.owed = nil, receipt{}
	class, _ := sizeClass(len(b.buf))
	p.classes[class].Put(b)
	p.live.Add(-1)
}
