package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// PublishBatch is a binary publish batch.
type PublishBatch struct {
	// Acked says that RequestID and AckMode are in the frame, and that the broker answers it.
	Acked     bool
	RequestID uint64
	// AckMode is AckPerMessage or AckPerBatch if Acked, else AckNone.
	AckMode  AckMode
	Scope    Scope
	Payloads [][]byte
	// Room, if not nil, stands for Payloads: the frame gets room for payloads of those sizes, which
	// are written when it has been made. ParseTail of its last TailRoomLen bytes finds them.
	Room []int
}

// Flags are those of the frame that Append writes.
func (b *PublishBatch) Flags() Flags {
	if b.Acked {
		return FlagPublish | FlagAcked
	}
	return FlagPublish
}

// FrameLen is the length of the whole frame, in bytes.
func (b *PublishBatch) FrameLen() int {
	n := HeaderLen + 2 + len(b.Scope.Tenant) + 2 + len(b.Scope.Namespace) + 2 + len(b.Scope.Stream)
	if b.Acked {
		n += 8 + 1
	}
	if b.Room != nil {
		return n + TailRoomLen(b.Room)
	}
	return n + TailLen(b.Payloads)
}

// Check says whether Append can encode b so that a peer with this frame limit takes it: names of
// at most 65,535 bytes of UTF-8 and a body of at most maxFrameBytes (0: DefaultMaxFrameBytes), else
// ErrTooLong; an ack mode that goes with Acked; and no room of less than nothing.
func (b *PublishBatch) Check(maxFrameBytes int) error {
	if maxFrameBytes <= 0 {
		maxFrameBytes = DefaultMaxFrameBytes
	}
	if err := b.Scope.check(); err != nil {
		return fmt.Errorf("publish batch: %w", err)
	}
	if b.Acked && b.AckMode != AckPerMessage && b.AckMode != AckPerBatch {
		return fmt.Errorf("acked publish batch: ack mode %s: want per_message or per_batch", b.AckMode)
	}
	if !b.Acked && b.AckMode != AckNone {
		return fmt.Errorf("unacked publish batch: ack mode %s: want none", b.AckMode)
	}
	if err := CheckRoom(b.Room, maxFrameBytes); err != nil {
		return fmt.Errorf("publish batch: %w", err)
	}
	if n := b.FrameLen() - HeaderLen; n > maxFrameBytes || uint64(n) > math.MaxUint32 {
		return fmt.Errorf("publish batch of %d payloads, %d bytes: %w: at most %d", max(len(b.Payloads), len(b.Room)), n, ErrTooLong, maxFrameBytes)
	}
	return nil
}

// Append appends the whole frame, header and body, to dst. A batch that Check refuses makes a
// frame that the peer refuses.
func (b *PublishBatch) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	if b.Acked {
		dst = binary.BigEndian.AppendUint64(dst, b.RequestID)
		dst = append(dst, byte(b.AckMode))
	}
	dst = appendName(dst, b.Scope.Tenant)
	dst = appendName(dst, b.Scope.Namespace)
	dst = appendName(dst, b.Scope.Stream)
	if b.Room != nil {
		dst = AppendTailRoom(dst, b.Room)
	} else {
		dst = AppendTail(dst, b.Payloads)
	}
	Header{Flags: b.Flags(), Length: len(dst) - start - HeaderLen}.Put(dst[start:])
	return dst
}

// PublishHead is a publish batch as the broker's hot path reads it: nothing is copied, payloads
// are counted and left where they are. All slices alias the body.
type PublishHead struct {
	Acked     bool
	RequestID uint64
	AckMode   AckMode
	Tenant    []byte
	Namespace []byte
	Stream    []byte
	// Tail goes from the count to the end: the body of a shared event batch.
	Tail []byte
	// Count is the number of payloads, PayloadBytes the sum of their bytes.
	Count, PayloadBytes int
}

// ParsePublishHead reads and checks a whole publish batch without allocating, unless it fails.
// flags are the header's: FlagPublish with or without FlagAcked. Every error is ErrMalformed and
// reads "malformed publish batch: …", or is ErrUnsupportedFlags.
//
// On a bad body the head holds what was read before the fault; its Acked is true if, and only if,
// the request id was read, so that the batch can be answered.
func ParsePublishHead(flags Flags, body []byte) (PublishHead, error) {
	var h PublishHead
	if flags&^FlagAcked != FlagPublish {
		return h, fmt.Errorf("%w: %s is no publish batch", ErrUnsupportedFlags, flags)
	}
	fail := func(err error) (PublishHead, error) { return h, fmt.Errorf("malformed publish batch: %w", err) }
	if flags.Has(FlagAcked) {
		if len(body) < 8 {
			return fail(fmt.Errorf("request_id: %w", ErrShort))
		}
		h.Acked, h.RequestID, body = true, binary.BigEndian.Uint64(body), body[8:]
		if len(body) < 1 {
			return fail(fmt.Errorf("ack_mode: %w", ErrShort))
		}
		h.AckMode, body = AckMode(body[0]), body[1:]
		if h.AckMode != AckPerMessage && h.AckMode != AckPerBatch {
			return fail(fmt.Errorf("ack_mode: %w %d: want 1 (per_message) or 2 (per_batch)", ErrValue, uint8(h.AckMode)))
		}
	}
	var err error
	if h.Tenant, body, err = cutName(body, "tenant_id"); err != nil {
		return fail(err)
	}
	if h.Namespace, body, err = cutName(body, "namespace"); err != nil {
		return fail(err)
	}
	if h.Stream, body, err = cutName(body, "stream"); err != nil {
		return fail(err)
	}
	if h.Count, h.PayloadBytes, err = CheckTail(body); err != nil {
		return fail(err)
	}
	h.Tail = body
	return h, nil
}

// Scope copies the names.
func (h *PublishHead) Scope() Scope { return makeScope(h.Tenant, h.Namespace, h.Stream) }

// ParsePublishBatch reads a publish batch; the payloads alias body. Errors are those of
// ParsePublishHead, and what was read before the fault is set in the same way.
func ParsePublishBatch(flags Flags, body []byte) (PublishBatch, error) {
	h, err := ParsePublishHead(flags, body)
	b := PublishBatch{Acked: h.Acked, RequestID: h.RequestID, AckMode: h.AckMode, Scope: h.Scope()}
	if err != nil {
		return b, err
	}
	b.Payloads, err = ParseTail(h.Tail, nil)
	return b, err
}

// makeScope makes three names of one allocation.
func makeScope(tenant, namespace, stream []byte) Scope {
	var all strings.Builder
	all.Grow(len(tenant) + len(namespace) + len(stream))
	all.Write(tenant)
	all.Write(namespace)
	all.Write(stream)
	s, t, n := all.String(), len(tenant), len(tenant)+len(namespace)
	return Scope{Tenant: s[:t], Namespace: s[t:n], Stream: s[n:]}
}

// appendName appends a u16 length and the name, cut to what the length can say.
func appendName(dst []byte, name string) []byte {
	name = name[:min(len(name), math.MaxUint16)]
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(name)))
	return append(dst, name...)
}

// cutName cuts a u16 length and that many bytes off body. A name that is not UTF-8 is refused: the
// JSON form of the same scope could not carry it.
func cutName(body []byte, what string) (name, rest []byte, err error) {
	if len(body) < 2 {
		return nil, body, fmt.Errorf("%s: %w", what, ErrShort)
	}
	end := 2 + int(binary.BigEndian.Uint16(body))
	if len(body) < end {
		return nil, body, fmt.Errorf("%s: %w: %d bytes of %d", what, ErrShort, len(body)-2, end-2)
	}
	name = body[2:end:end]
	if !utf8.Valid(name) {
		return nil, body, fmt.Errorf("%s: %w: not UTF-8", what, ErrValue)
	}
	return name, body[end:], nil
}
