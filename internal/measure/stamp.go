package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// StampLen is the size of a stamp, and therefore the smallest payload.
const StampLen = 32

// MaxSeq is the largest sequence number a stamp can carry: 56 bits.
const MaxSeq = 1<<56 - 1

// Phase is the part of a trial that a message belongs to.
type Phase uint8

// The phases in which messages are published.
const (
	PhaseWarmup  Phase = 1
	PhaseMeasure Phase = 2
)

// String returns "warmup" or "measure".
func (p Phase) String() string {
	switch p {
	case PhaseWarmup:
		return "warmup"
	case PhaseMeasure:
		return "measure"
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// Errors of ParseStamp.
var (
	ErrStampShort = errors.New("payload too short for a stamp")
	ErrStampPhase = errors.New("stamp of an unknown phase")
)

// Stamp stands in the first 32 bytes of each payload, big-endian:
//
//	offset 0  4 bytes  Tag        of the run: a payload of another run is foreign
//	       4  2        Publisher
//	       6  2        Stream     the logical stream it was published to
//	       8  1        Phase
//	       9  7        Seq        counts from 0 per (publisher, stream, phase)
//	      16  8        Intended   ns on the machine's monotonic clock: when it was due
//	      24  8        Sent       ns: when it was handed to the client
type Stamp struct {
	Tag       uint32
	Publisher uint16
	Stream    uint16
	Phase     Phase
	Seq       uint64 // at most MaxSeq; higher bits are lost
	Intended  int64
	Sent      int64
}

// Put writes s into the first StampLen bytes of dst, which must have them.
func (s Stamp) Put(dst []byte) {
	_ = dst[StampLen-1]
	binary.BigEndian.PutUint64(dst, uint64(s.Tag)<<32|uint64(s.Publisher)<<16|uint64(s.Stream))
	binary.BigEndian.PutUint64(dst[8:], uint64(s.Phase)<<56|s.Seq&MaxSeq)
	binary.BigEndian.PutUint64(dst[16:], uint64(s.Intended))
	binary.BigEndian.PutUint64(dst[24:], uint64(s.Sent))
}

// ParseStamp reads the stamp at the start of src. On ErrStampPhase the other fields are set, so
// that the tag can still be compared. It allocates nothing.
func ParseStamp(src []byte) (Stamp, error) {
	if len(src) < StampLen {
		return Stamp{}, ErrStampShort
	}
	who := binary.BigEndian.Uint64(src)
	what := binary.BigEndian.Uint64(src[8:])
	s := Stamp{
		Tag:       uint32(who >> 32),
		Publisher: uint16(who >> 16),
		Stream:    uint16(who),
		Phase:     Phase(what >> 56),
		Seq:       what & MaxSeq,
		Intended:  int64(binary.BigEndian.Uint64(src[16:])),
		Sent:      int64(binary.BigEndian.Uint64(src[24:])),
	}
	if s.Phase != PhaseWarmup && s.Phase != PhaseMeasure {
		return s, ErrStampPhase
	}
	return s, nil
}
