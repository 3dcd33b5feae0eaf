package broker

import "sync/atomic"

// A ring keeps the newest batches of one stream for replay. It is bounded in payloads and in
// bytes kept alive, whichever comes first; its stream's lock guards it.
type ring struct {
	capacity int   // payloads
	maxBytes int64 // of buffers kept alive

	batches []*batch // circular; each held once
	head, n int
	next    uint64       // offset of the next payload
	bytes   atomic.Int64 // kept alive; read by other streams without the lock
}

// first is the oldest offset that can be replayed. It may lie inside the oldest batch: whole
// batches are kept, but no more than capacity payloads are offered.
func (r *ring) first() uint64 {
	if r.n == 0 {
		return r.next
	}
	first := r.batches[r.head].base
	if c := uint64(r.capacity); r.next-first > c {
		first = r.next - c
	}
	return first
}

// append adds a sealed batch whose base is r.next, and evicts what no longer fits. A batch larger
// than maxBytes leaves the ring empty.
func (r *ring) append(b *batch) {
	if r.n == len(r.batches) {
		r.grow()
	}
	b.retain()
	r.batches[(r.head+r.n)%len(r.batches)] = b
	r.n++
	r.next = b.base + uint64(b.count)
	r.bytes.Add(b.keptBytes())
	for r.n > 0 {
		oldest := r.batches[r.head]
		if r.bytes.Load() <= r.maxBytes && r.next-(oldest.base+uint64(oldest.count)) < uint64(r.capacity) {
			return
		}
		r.evict()
	}
}

// evict drops the oldest batch, if there is one, and returns the bytes that it kept alive.
func (r *ring) evict() int64 {
	if r.n == 0 {
		return 0
	}
	b := r.batches[r.head]
	r.batches[r.head] = nil
	r.head = (r.head + 1) % len(r.batches)
	r.n--
	kept := b.keptBytes()
	r.bytes.Add(-kept)
	b.release()
	return kept
}

func (r *ring) grow() {
	bigger := make([]*batch, max(16, 2*len(r.batches)))
	for i := range r.n {
		bigger[i] = r.batches[(r.head+i)%len(r.batches)]
	}
	r.batches, r.head = bigger, 0
}

// from returns what is kept from an offset on, in order, with a hold on each; the first may begin
// inside its batch. offset must be in [first, next].
func (r *ring) from(offset uint64) []queued {
	var out []queued
	for i := range r.n {
		b := r.batches[(r.head+i)%len(r.batches)]
		if b.base+uint64(b.count) <= offset {
			continue
		}
		skip := 0
		if offset > b.base {
			skip = int(offset - b.base)
		}
		b.retain()
		out = append(out, queued{b, skip})
	}
	return out
}

// clear drops everything.
func (r *ring) clear() {
	for r.n > 0 {
		r.evict()
	}
}
