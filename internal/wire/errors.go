package wire

import "errors"

// ErrMalformed is what every error about the bytes of a body is, by errors.Is: the body is wrong,
// and its frame was consumed, so the stream still stands on a frame boundary.
var ErrMalformed = errors.New("malformed")

// The kinds of malformed bytes; each of them is ErrMalformed.
var (
	// ErrShort: the bytes end before what they announce.
	ErrShort error = &malformed{"too short"}
	// ErrTrailing: bytes are left after the last field.
	ErrTrailing error = &malformed{"trailing bytes"}
	// ErrCount: a batch counts more items than the bytes that follow can hold.
	ErrCount error = &malformed{"count exceeds the bytes that follow"}
	// ErrValue: a field holds what the protocol does not know, such as an ack mode of 7.
	ErrValue error = &malformed{"bad value"}
	// ErrSyntax: a JSON message is not JSON, not UTF-8, or not an object.
	ErrSyntax error = &malformed{"bad JSON"}
	// ErrMissingField: a JSON message lacks a field that its type requires.
	ErrMissingField error = &malformed{"missing field"}
	// ErrUnknownType: a JSON message's type is none of the protocol's.
	ErrUnknownType error = &malformed{"unknown message type"}
)

// Errors of a header. After the first three a stream is beyond repair, because nothing says where
// the next frame begins.
var (
	ErrMagic         = errors.New("bad frame magic")
	ErrVersion       = errors.New("unsupported frame version")
	ErrFrameTooLarge = errors.New("frame too large")
	// ErrUnsupportedFlags: unknown bits, or known ones in an impossible combination. The body can
	// still be read past, so the stream may stay.
	ErrUnsupportedFlags = errors.New("unsupported frame flags")
)

// ErrTooLong: a value to be encoded does not fit its length field or the frame limit.
var ErrTooLong = errors.New("too long")

// malformed is an error of its own that is also ErrMalformed, without saying so in its text: the
// texts stand inside "malformed publish batch: …".
type malformed struct{ text string }

func (e *malformed) Error() string        { return e.text }
func (e *malformed) Is(target error) bool { return target == ErrMalformed }
