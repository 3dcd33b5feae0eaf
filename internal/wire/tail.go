package wire

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// A tail is what publish batches and event batches end with: u32 count, then count times a u32
// length and that many bytes. The tail of a publish is the body of a shared event batch, byte for
// byte, so a broker forwards it as it came.

// minItemLen is the least that one item of a tail takes: its length field.
const minItemLen = 4

// AppendTail appends count and items to dst.
func AppendTail(dst []byte, payloads [][]byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payloads)))
	for _, p := range payloads {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(p)))
		dst = append(dst, p...)
	}
	return dst
}

// AppendTailRoom appends count and items like AppendTail, with room for payloads of those sizes,
// none of them negative, in place of payloads. What is in the rooms is whatever the memory held.
func AppendTailRoom(dst []byte, sizes []int) []byte {
	dst = slices.Grow(dst, TailRoomLen(sizes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(sizes)))
	for _, n := range sizes {
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		dst = dst[:len(dst)+n]
	}
	return dst
}

// CheckRoom refuses sizes that are negative or make together more than limit bytes (ErrTooLong), so that
// their sum can be taken without overflow.
func CheckRoom(sizes []int, limit int) error {
	left := limit
	for i, n := range sizes {
		if n < 0 {
			return fmt.Errorf("payload %d of %d bytes: want at least 0", i, n)
		}
		if n > left {
			return fmt.Errorf("payloads of more than %d bytes: %w", limit, ErrTooLong)
		}
		left -= n
	}
	return nil
}

// TailRoomLen is the length of the tail of payloads of those sizes, in bytes.
func TailRoomLen(sizes []int) int {
	n := 4
	for _, size := range sizes {
		n += 4 + size
	}
	return n
}

// TailLen is the length of the tail of payloads, in bytes.
func TailLen(payloads [][]byte) int {
	n := 4
	for _, p := range payloads {
		n += 4 + len(p)
	}
	return n
}

// CheckTail walks a tail and returns its count and the sum of its payloads' bytes, without
// allocating. The errors are ErrShort, ErrCount and ErrTrailing.
func CheckTail(tail []byte) (count, payloadBytes int, err error) {
	if len(tail) < 4 {
		return 0, 0, fmt.Errorf("count: %w", ErrShort)
	}
	n, rest := binary.BigEndian.Uint32(tail), tail[4:]
	if uint64(n) > uint64(len(rest)/minItemLen) {
		return 0, 0, fmt.Errorf("count %d, %d bytes: %w", n, len(rest), ErrCount)
	}
	for i := range n {
		if len(rest) < 4 {
			return 0, 0, fmt.Errorf("payload %d of %d: %w", i, n, ErrShort)
		}
		size := binary.BigEndian.Uint32(rest)
		if uint64(size) > uint64(len(rest)-4) {
			return 0, 0, fmt.Errorf("payload %d of %d: %w: %d bytes of %d", i, n, ErrShort, len(rest)-4, size)
		}
		payloadBytes += int(size)
		rest = rest[4+int(size):]
	}
	if len(rest) > 0 {
		return 0, 0, fmt.Errorf("%w: %d", ErrTrailing, len(rest))
	}
	return int(n), payloadBytes, nil
}

// ParseTail checks a tail and appends its payloads, which alias it, to payloads[:0], growing that
// slice once if it has to; payloads may be nil. The errors are those of CheckTail.
func ParseTail(tail []byte, payloads [][]byte) ([][]byte, error) {
	count, _, err := CheckTail(tail)
	if err != nil {
		return nil, err
	}
	if cap(payloads) < count {
		payloads = make([][]byte, 0, count)
	}
	payloads = payloads[:0]
	for p := range TailPayloads(tail) {
		payloads = append(payloads, p)
	}
	return payloads, nil
}

// TailPayloads yields the payloads of a tail that CheckTail or ParsePublishHead has passed. They
// alias it. On any other bytes it yields what is whole, and ends.
func TailPayloads(tail []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(tail) < 4 {
			return
		}
		n, rest := binary.BigEndian.Uint32(tail), tail[4:]
		for range n {
			if len(rest) < 4 {
				return
			}
			size := binary.BigEndian.Uint32(rest)
			if uint64(size) > uint64(len(rest)-4) {
				return
			}
			end := 4 + int(size)
			if !yield(rest[4:end:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}
