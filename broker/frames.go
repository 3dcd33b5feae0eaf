package broker

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"felix/internal/wire"
)

const (
	smallReadBuffer = 4 << 10
	largeReadBuffer = 32 << 10
)

var readBuffers = sync.Pool{New: func() any { return new([largeReadBuffer]byte) }}

// readCounters are a connection's, shared by its streams; no other connection touches them.
type readCounters struct {
	reads, frames, bytes atomic.Uint64
}

// frameReader reads frames from a QUIC stream. Small frames share a Read: QUIC hands over all that
// has arrived, so one call brings in as many as fit the buffer. Of a large body only the part that
// came along with its header is copied; the rest is read where it shall be.
type frameReader struct {
	src      io.Reader
	maxBytes int // of a body
	counters *readCounters
	// beforeRead is called before every Read, which may block: the place to write what is owed.
	beforeRead func() error
	// afterRead, unless nil, is called when it has returned.
	afterRead func()

	buf    []byte // small at first; large from when a Read filled it
	large  *[largeReadBuffer]byte
	r, w   int
	frames uint64 // since the last Read
	filled bool   // the last Read took all the room there was
	err    error  // came together with bytes; returned when those are used up
}

// header reads the next frame's header. The error is io.EOF only at the end of a frame, one of
// wire's for bytes that are no header, beforeRead's, or the stream's.
func (f *frameReader) header() (wire.Header, error) {
	if err := f.fill(wire.HeaderLen); err != nil {
		if errors.Is(err, io.EOF) && f.w > f.r {
			err = io.ErrUnexpectedEOF
		}
		return wire.Header{}, err
	}
	h, err := wire.ParseHeader(f.buf[f.r:f.w], f.maxBytes)
	if err != nil {
		return wire.Header{}, err
	}
	f.r += wire.HeaderLen
	f.frames++
	return h, nil
}

// body fills dst with what follows the header.
func (f *frameReader) body(dst []byte) error {
	for {
		n := copy(dst, f.buf[f.r:f.w])
		f.r += n
		dst = dst[n:]
		if len(dst) == 0 {
			return nil
		}
		var err error
		if 2*len(dst) >= len(f.buf) {
			n, err = f.read(dst)
			dst = dst[n:]
			if len(dst) == 0 {
				f.keep(err)
				return nil
			}
		} else {
			err = f.fill(len(dst))
		}
		if err != nil {
			return insideFrame(err)
		}
	}
}

// discard skips n bytes of a body.
func (f *frameReader) discard(n int) error {
	for {
		skip := min(n, f.w-f.r)
		f.r += skip
		n -= skip
		if n == 0 {
			return nil
		}
		if err := f.fill(1); err != nil {
			return insideFrame(err)
		}
	}
}

func insideFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads until n bytes are buffered; n is at most the small buffer's size, or the buffer's.
func (f *frameReader) fill(n int) error {
	for f.w-f.r < n {
		f.makeRoom()
		m, err := f.read(f.buf[f.w:])
		f.w += m
		f.filled = f.w == len(f.buf)
		if err != nil {
			if f.w-f.r < n {
				return err
			}
			f.keep(err)
		}
	}
	return nil
}

// keep remembers an error that came with the bytes that were asked for. A deadline that has passed
// may be moved, so it is no such error.
func (f *frameReader) keep(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		f.err = err
	}
}

// makeRoom moves what is left to the front and takes the large buffer when the small one has
// proved too small. Idle and control streams keep the small one.
func (f *frameReader) makeRoom() {
	switch {
	case f.buf == nil:
		f.buf = make([]byte, smallReadBuffer)
	case f.filled && f.large == nil:
		f.large = readBuffers.Get().(*[largeReadBuffer]byte)
		f.w = copy(f.large[:], f.buf[f.r:f.w])
		f.buf, f.r = f.large[:], 0
	case f.r > 0:
		f.w = copy(f.buf, f.buf[f.r:f.w])
		f.r = 0
	}
}

// read is the one place that reads, and so the one that may block.
func (f *frameReader) read(dst []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if err := f.beforeRead(); err != nil {
		return 0, err
	}
	f.counters.frames.Add(f.frames)
	f.frames = 0
	n, err := f.src.Read(dst)
	if f.afterRead != nil {
		f.afterRead()
	}
	f.counters.reads.Add(1)
	f.counters.bytes.Add(uint64(n))
	return n, err
}

// close gives the buffer back.
func (f *frameReader) close() {
	f.counters.frames.Add(f.frames)
	f.frames = 0
	if f.large != nil {
		readBuffers.Put(f.large)
	}
	f.buf, f.large, f.r, f.w = nil, nil, 0, 0
}
