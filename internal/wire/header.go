package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// HeaderLen is the length of every frame's header, in bytes.
	HeaderLen = 12
	// DefaultMaxFrameBytes is the limit on a frame's body, in bytes, where none is configured.
	DefaultMaxFrameBytes = 16 << 20

	magic   = 0x464C5831 // "FLX1"
	version = 1
)

// Header is the header of one frame.
type Header struct {
	Flags Flags
	// Length is that of the body, in bytes. It has to fit 32 bits.
	Length int
}

// Append appends the HeaderLen bytes of h to dst.
func (h Header) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, magic)
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Flags))
	return binary.BigEndian.AppendUint32(dst, uint32(h.Length))
}

// Put writes h over the first HeaderLen bytes of dst, which must have that many.
func (h Header) Put(dst []byte) { h.Append(dst[:0:HeaderLen]) }

// ParseHeader reads a header from the first HeaderLen bytes of src. maxFrameBytes bounds the body;
// 0 or less is DefaultMaxFrameBytes. The errors are ErrShort, ErrMagic, ErrVersion and
// ErrFrameTooLarge; flags are returned as they came, whatever they are.
func ParseHeader(src []byte, maxFrameBytes int) (Header, error) {
	if len(src) < HeaderLen {
		return Header{}, fmt.Errorf("frame header of %d bytes: %w", len(src), ErrShort)
	}
	if m := binary.BigEndian.Uint32(src); m != magic {
		return Header{}, fmt.Errorf("%w 0x%08x: want 0x%08x", ErrMagic, m, uint32(magic))
	}
	if v := binary.BigEndian.Uint16(src[4:]); v != version {
		return Header{}, fmt.Errorf("%w %d: want %d", ErrVersion, v, version)
	}
	if maxFrameBytes <= 0 {
		maxFrameBytes = DefaultMaxFrameBytes
	}
	n := binary.BigEndian.Uint32(src[8:])
	if uint64(n) > uint64(maxFrameBytes) {
		return Header{}, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameTooLarge, n, maxFrameBytes)
	}
	return Header{Flags: Flags(binary.BigEndian.Uint16(src[6:])), Length: int(n)}, nil
}

// ReadHeader reads one header from r, blocking as r does, and no byte more. The error is io.EOF
// only if r ends on a frame boundary, io.ErrUnexpectedEOF inside the header, else r's own or one
// of ParseHeader.
func ReadHeader(r io.Reader, maxFrameBytes int) (Header, error) {
	var b [HeaderLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, err
	}
	return ParseHeader(b[:], maxFrameBytes)
}

// readChunk is how much of a body ReadFrame takes on trust: a header alone can make it allocate
// this many bytes, not the whole frame limit.
const readChunk = 64 << 10

// ReadFrame reads one frame from r, blocking as r does. The body is in buf if it fits its capacity,
// else in a new slice; buf may be nil. Errors are those of ReadHeader; where r ends inside the body
// it is io.ErrUnexpectedEOF.
func ReadFrame(r io.Reader, maxFrameBytes int, buf []byte) (Header, []byte, error) {
	h, err := ReadHeader(r, maxFrameBytes)
	if err != nil {
		return Header{}, nil, err
	}
	buf = buf[:0]
	for len(buf) < h.Length {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(h.Length, max(readChunk, 2*len(buf))))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[len(buf):min(h.Length, cap(buf))])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return h, nil, err
		}
	}
	return h, buf, nil
}
