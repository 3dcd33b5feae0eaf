package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// PublishAck is the broker's answer to an acked binary publish batch.
type PublishAck struct {
	RequestID uint64
	// Err says why the publish failed. It is empty if OK.
	Err string
	OK  bool
}

const (
	ackStatusOK    = 0
	ackStatusError = 1
)

// Append appends the whole frame, header and body, to dst. An Err of more than 65,535 bytes is cut
// to what its length field can say, between two characters.
func (a PublishAck) Append(dst []byte) []byte {
	msg := a.Err
	if len(msg) > math.MaxUint16 {
		n := math.MaxUint16
		for n > math.MaxUint16-utf8.UTFMax && !utf8.RuneStart(msg[n]) {
			n--
		}
		msg = msg[:n]
	}
	dst = Header{Flags: FlagPublishAck, Length: 1 + 8 + 2 + len(msg)}.Append(dst)
	status := byte(ackStatusError)
	if a.OK {
		status = ackStatusOK
	}
	dst = append(dst, status)
	dst = binary.BigEndian.AppendUint64(dst, a.RequestID)
	return appendName(dst, msg)
}

// ParsePublishAck reads the body of a publish ack. Every error is ErrMalformed. The message is
// taken as it is, UTF-8 or not: it is only ever shown.
func ParsePublishAck(body []byte) (PublishAck, error) {
	if len(body) < 1+8+2 {
		return PublishAck{}, fmt.Errorf("malformed publish ack of %d bytes: %w", len(body), ErrShort)
	}
	status, msg := body[0], body[11:]
	if status != ackStatusOK && status != ackStatusError {
		return PublishAck{}, fmt.Errorf("malformed publish ack: status: %w %d: want 0 (ok) or 1 (error)", ErrValue, status)
	}
	if n := int(binary.BigEndian.Uint16(body[9:])); len(msg) < n {
		return PublishAck{}, fmt.Errorf("malformed publish ack: message: %w: %d bytes of %d", ErrShort, len(msg), n)
	} else if len(msg) > n {
		return PublishAck{}, fmt.Errorf("malformed publish ack: %w: %d", ErrTrailing, len(msg)-n)
	}
	return PublishAck{RequestID: binary.BigEndian.Uint64(body[1:]), Err: string(msg), OK: status == ackStatusOK}, nil
}
