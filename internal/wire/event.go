package wire

import (
	"encoding/binary"
	"fmt"
)

// EventBatch is a binary event batch.
type EventBatch struct {
	// HasSubscriptionID is the per-subscriber form; without it the frame is the shared one, and
	// the stream's event_stream_hello says whose it is.
	HasSubscriptionID bool
	SubscriptionID    uint64
	// HasOffset says that the frame carries BaseOffset, the offset in the stream of the first
	// payload. Payloads are numbered from 0.
	HasOffset  bool
	BaseOffset uint64
	Payloads   [][]byte
}

// Flags are those of the frame that Append writes.
func (b *EventBatch) Flags() Flags {
	f := FlagEventShared
	if b.HasSubscriptionID {
		f = FlagEventPerSubscriber
	}
	if b.HasOffset {
		f |= FlagEventOffsets
	}
	return f
}

// FrameLen is the length of the whole frame, in bytes.
func (b *EventBatch) FrameLen() int {
	n := HeaderLen + TailLen(b.Payloads)
	if b.HasSubscriptionID {
		n += 8
	}
	if b.HasOffset {
		n += 8
	}
	return n
}

// Append appends the whole frame, header and body, to dst.
func (b *EventBatch) Append(dst []byte) []byte {
	dst = Header{Flags: b.Flags(), Length: b.FrameLen() - HeaderLen}.Append(dst)
	if b.HasSubscriptionID {
		dst = binary.BigEndian.AppendUint64(dst, b.SubscriptionID)
	}
	if b.HasOffset {
		dst = binary.BigEndian.AppendUint64(dst, b.BaseOffset)
	}
	return AppendTail(dst, b.Payloads)
}

// EventHeaderLen is the number of bytes that AppendEventHeader appends.
func EventHeaderLen(hasOffset bool) int {
	if hasOffset {
		return HeaderLen + 8
	}
	return HeaderLen
}

// AppendEventHeader appends what stands in front of a tail of tailLen bytes to make it a shared
// event batch: the header and, if hasOffset, the base offset.
func AppendEventHeader(dst []byte, tailLen int, hasOffset bool, baseOffset uint64) []byte {
	if !hasOffset {
		return Header{Flags: FlagEventShared, Length: tailLen}.Append(dst)
	}
	dst = Header{Flags: FlagEventShared | FlagEventOffsets, Length: 8 + tailLen}.Append(dst)
	return binary.BigEndian.AppendUint64(dst, baseOffset)
}

// ParseEventBatch reads an event batch; flags are the header's. The payloads alias body and are
// collected in payloads[:0], which may be nil and grows at most once, after the count was checked.
// Every error is ErrMalformed, or ErrUnsupportedFlags.
func ParseEventBatch(flags Flags, body []byte, payloads [][]byte) (EventBatch, error) {
	var b EventBatch
	switch flags &^ FlagEventOffsets {
	case FlagEventShared:
	case FlagEventPerSubscriber:
		if len(body) < 8 {
			return b, fmt.Errorf("malformed event batch: subscription_id: %w", ErrShort)
		}
		b.HasSubscriptionID, b.SubscriptionID, body = true, binary.BigEndian.Uint64(body), body[8:]
	default:
		return b, fmt.Errorf("%w: %s is no event batch", ErrUnsupportedFlags, flags)
	}
	if flags.Has(FlagEventOffsets) {
		if len(body) < 8 {
			return b, fmt.Errorf("malformed event batch: base_offset: %w", ErrShort)
		}
		b.HasOffset, b.BaseOffset, body = true, binary.BigEndian.Uint64(body), body[8:]
	}
	var err error
	if b.Payloads, err = ParseTail(body, payloads); err != nil {
		return b, fmt.Errorf("malformed event batch: %w", err)
	}
	return b, nil
}
