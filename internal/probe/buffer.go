package probe

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// buffer is a pooled, counted byte slice: whole frames, read once and written as often as there are subscribers.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

const (
	minBufferBits = 16 // 64 KiB, one read
	maxBufferBits = 25 // 32 MiB: the largest frame with its header
)

// The classes are powers of two, so that no small read holds the memory of a large frame.
var pools [maxBufferBits - minBufferBits + 1]sync.Pool

// getBuffer returns a buffer with room for n bytes, at most 32 MiB, held once.
func getBuffer(n int) *buffer {
	class := min(max(bits.Len(uint(max(n, 1)-1)), minBufferBits), maxBufferBits)
	b, ok := pools[class-minBufferBits].Get().(*buffer)
	if !ok {
		b = &buffer{b: make([]byte, 1<<class)}
	}
	b.refs.Store(1)
	return b
}

// hold adds n holders. The caller is one.
func (b *buffer) hold(n int) { b.refs.Add(int32(n)) }

// release gives up one hold; the last one gives the buffer back.
func (b *buffer) release() {
	if b.refs.Add(-1) == 0 {
		pools[bits.Len(uint(len(b.b)))-1-minBufferBits].Put(b)
	}
}
