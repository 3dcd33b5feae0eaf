package probe

import (
	"encoding/binary"
	"fmt"
	"io"

	"felix/internal/wire"
)

// chunk is one or more whole frames that arrived together. The buffer is the receiver's to release.
type chunk struct {
	buf      *buffer
	frames   []byte // of buf
	count    int    // frames
	messages int    // payloads in them, as the frames count them
}

// reader cuts a byte stream into chunks. A small frame shares its chunk with those that arrived with it; a frame that
// is larger than a read is a chunk alone, read into a buffer of its size without another copy.
type reader struct {
	src io.Reader
	buf *buffer // being filled; nil: none
	n   int     // bytes of it that are there, from a frame's beginning
	// large is the length of the last frame that was longer than a read, 0 if the last was none: frames of a stream are
	// mostly alike, so the next one is read whole and where it will stay.
	large int

	meter *meter // of reads
	items uint64 // frames that the last read completed
	bytes uint64 // of the last read
}

func newReader(src io.Reader, m *meter) *reader { return &reader{src: src, meter: m} }

// next returns the next chunk, blocking until a frame is complete. The error is io.EOF only between two frames and
// io.ErrUnexpectedEOF inside one; a read that was interrupted by a deadline loses nothing, and next goes on from there.
func (r *reader) next() (chunk, error) {
	if r.buf == nil {
		r.buf = getBuffer(max(chunkBytes, r.large))
	}
	for {
		limit := max(chunkBytes, r.large)
		if r.n >= wire.HeaderLen {
			size, err := frameLen(r.buf.b[:r.n])
			if err != nil {
				return chunk{}, err
			}
			r.large = 0
			if limit = chunkBytes; size > limit {
				limit, r.large = size, size
				r.grow(size)
			}
			if r.n >= size {
				return r.cut()
			}
		}
		if err := r.read(r.buf.b[r.n:min(limit, len(r.buf.b))]); err != nil {
			return chunk{}, err
		}
	}
}

// frameLen is the length of the frame at the head of b, which holds its header.
func frameLen(b []byte) (int, error) {
	h, err := wire.ParseHeader(b, maxFrameBytes)
	if err != nil {
		return 0, err
	}
	if h.Flags != wire.FlagEventShared {
		return 0, fmt.Errorf("%w: %s is no frame of a probe", wire.ErrUnsupportedFlags, h.Flags)
	}
	return wire.HeaderLen + h.Length, nil
}

// grow moves what is there into a buffer for the whole frame.
func (r *reader) grow(size int) {
	if size <= len(r.buf.b) {
		return
	}
	b := getBuffer(size)
	copy(b.b, r.buf.b[:r.n])
	r.buf.release()
	r.buf = b
}

func (r *reader) read(p []byte) error {
	if r.bytes > 0 {
		r.meter.record(r.items, r.bytes)
	}
	n, err := r.src.Read(p)
	r.items, r.bytes = 0, uint64(n)
	r.n += n
	switch {
	case n > 0: // an error comes again
		return nil
	case err == io.EOF && r.n > 0:
		return io.ErrUnexpectedEOF
	}
	return err
}

// cut takes the whole frames off the buffer. The beginning of one that is not complete moves on.
func (r *reader) cut() (chunk, error) {
	c := chunk{buf: r.buf}
	end := 0
	for r.n-end >= wire.HeaderLen {
		size, err := frameLen(r.buf.b[end:r.n])
		if err != nil {
			return chunk{}, err
		}
		if r.n-end < size {
			break
		}
		if size >= wire.HeaderLen+4 {
			c.messages += int(binary.BigEndian.Uint32(r.buf.b[end+wire.HeaderLen:]))
		}
		c.count++
		end += size
	}
	c.frames = r.buf.b[:end]
	r.items += uint64(c.count)
	rest := r.buf.b[end:r.n]
	r.buf, r.n = nil, 0
	if len(rest) > 0 {
		r.buf = getBuffer(max(chunkBytes, r.large))
		r.n = copy(r.buf.b, rest)
	}
	return c, nil
}

// stop notes the last read and gives the buffer back. The reader must not be used afterwards.
func (r *reader) stop() {
	if r.bytes > 0 {
		r.meter.record(r.items, r.bytes)
	}
	if r.buf != nil {
		r.buf.release()
		r.buf = nil
	}
}
