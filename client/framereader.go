package client

import (
	"errors"
	"io"

	"felix/internal/wire"
)

const (
	// eventBuffer holds small event frames; a larger frame is read straight into its own buffer.
	eventBuffer = 64 << 10
	// replyBuffer holds acks and control messages, which are tens of bytes.
	replyBuffer = 4 << 10
)

// frameReader cuts a QUIC stream into frames. Small frames are returned in place from its
// buffer, large ones are read into a second buffer that the next large one reuses. A read that
// was interrupted (by a deadline) loses nothing: next goes on where it stopped.
type frameReader struct {
	src    io.Reader
	max    int    // largest body accepted
	buf    []byte // buf[lo:hi] is read and not yet returned
	lo, hi int

	large []byte // body of the large frame in progress, or returned last
	got   int    // bytes of large that are there
	head  wire.Header
	inBig bool // a large frame is in progress

	meter        *meter // see measure
	items, bytes uint64 // since the last read began
}

func newFrameReader(src io.Reader, size, maxFrameBytes int) *frameReader {
	return &frameReader{src: src, max: maxFrameBytes, buf: make([]byte, size)}
}

// measure makes m count each further read as a wake-up with the frames and bytes that it brought,
// noted when the following read begins: only then are its frames known.
func (f *frameReader) measure(m *meter) {
	f.meter, f.items, f.bytes = m, 0, 0
}

// next returns the next frame; the body is valid until the following call. The error is io.EOF
// only between two frames and io.ErrUnexpectedEOF inside one.
func (f *frameReader) next() (wire.Header, []byte, error) {
	if f.inBig {
		return f.fillLarge()
	}
	if err := f.fill(wire.HeaderLen); err != nil {
		return wire.Header{}, nil, err
	}
	h, err := wire.ParseHeader(f.buf[f.lo:f.hi], f.max)
	if err != nil {
		return wire.Header{}, nil, err
	}
	whole := wire.HeaderLen + h.Length
	if whole > len(f.buf) {
		f.lo += wire.HeaderLen
		if cap(f.large) < h.Length {
			f.large = make([]byte, h.Length)
		}
		f.large = f.large[:h.Length]
		f.got = copy(f.large, f.buf[f.lo:f.hi])
		f.lo += f.got
		f.head, f.inBig = h, true
		return f.fillLarge()
	}
	if err := f.fill(whole); err != nil {
		return wire.Header{}, nil, err
	}
	body := f.buf[f.lo+wire.HeaderLen : f.lo+whole : f.lo+whole]
	f.lo += whole
	f.items++
	return h, body, nil
}

// ready reports whether next returns a frame without reading.
func (f *frameReader) ready() bool {
	if f.inBig || f.hi-f.lo < wire.HeaderLen {
		return false
	}
	h, err := wire.ParseHeader(f.buf[f.lo:f.hi], f.max)
	return err == nil && f.hi-f.lo >= wire.HeaderLen+h.Length
}

func (f *frameReader) fillLarge() (wire.Header, []byte, error) {
	for f.got < len(f.large) {
		n, err := f.read(f.large[f.got:])
		f.got += n
		if err != nil && f.got < len(f.large) {
			return wire.Header{}, nil, insideFrame(err)
		}
	}
	f.inBig = false
	f.items++
	return f.head, f.large, nil
}

// fill makes at least n bytes available in the buffer, n <= len(f.buf).
func (f *frameReader) fill(n int) error {
	if f.lo == f.hi {
		f.lo, f.hi = 0, 0
	}
	if f.lo+n > len(f.buf) {
		f.hi = copy(f.buf, f.buf[f.lo:f.hi])
		f.lo = 0
	}
	for f.hi-f.lo < n {
		m, err := f.read(f.buf[f.hi:])
		f.hi += m
		if err != nil && f.hi-f.lo < n {
			if f.hi > f.lo {
				err = insideFrame(err)
			}
			return err
		}
	}
	return nil
}

func (f *frameReader) read(p []byte) (int, error) {
	if f.meter != nil && f.bytes > 0 {
		f.meter.record(f.items, f.bytes)
	}
	n, err := f.src.Read(p)
	f.items, f.bytes = 0, uint64(n)
	return n, err
}

func insideFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
