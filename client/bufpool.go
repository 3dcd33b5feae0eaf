package client

import (
	"math/bits"
	"sync"
)

// buffer is a pooled byte slice. Its classes are powers of two, so that a pool of 1 MiB frames
// is not handed out for 100-byte ones.
type buffer struct {
	b        []byte
	payloads [][]byte // of b, while they are written in place
}

const (
	minBufferBits = 9  // 512 B
	maxBufferBits = 25 // 32 MiB: a frame of the default maximum and its header
	// maxKeptPayloads bounds what a pooled buffer keeps beside its bytes: 24 bytes a payload.
	maxKeptPayloads = 1 << 10
)

var bufferPools [maxBufferBits - minBufferBits + 1]sync.Pool

// getBuffer returns an empty buffer with room for n bytes.
func getBuffer(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits {
		return &buffer{b: make([]byte, 0, n)}
	}
	if b, ok := bufferPools[class-minBufferBits].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<class)}
}

// putBuffer gives a buffer back. One that append has grown out of its class goes to the class
// that it still fills, or to the garbage collector. A nil buffer is ignored.
func putBuffer(b *buffer) {
	if b == nil {
		return
	}
	class := bits.Len(uint(cap(b.b))) - 1
	if class < minBufferBits || class > maxBufferBits {
		return
	}
	b.b = b.b[:0]
	if cap(b.payloads) > maxKeptPayloads {
		b.payloads = nil
	}
	bufferPools[class-minBufferBits].Put(b)
}
