package measure

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// Filler is what stands in a payload behind its stamp: the same pseudo-random bytes in every
// message of a run, so that filling is one copy and checking one memcmp.
// Random bytes, because a path that compresses or drops zero pages must not look fast.
// A Filler is immutable and may be shared.
type Filler struct {
	template []byte // a whole payload; the first StampLen bytes are never looked at
}

// PayloadLen returns the length of a whole message for the payload factor of a case: 0 means the
// stamp alone.
func PayloadLen(payload int) int {
	if payload == 0 {
		return StampLen
	}
	return payload
}

// NewFiller returns the filler of payloads of payloadLen bytes (0: StampLen). The same seed and
// length give the same bytes in every process.
func NewFiller(seed uint64, payloadLen int) *Filler {
	n := max(PayloadLen(payloadLen), StampLen)
	t := make([]byte, n+8)
	r := rand.NewPCG(seed, uint64(n))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(t[i:], r.Uint64())
	}
	return &Filler{template: t[:n:n]}
}

// Len returns the length of a whole payload.
func (f *Filler) Len() int { return len(f.template) }

// Fill writes the filler behind the stamp of dst, a whole payload. A dst of another length gets
// as much as fits.
func (f *Filler) Fill(dst []byte) {
	if len(dst) > StampLen {
		copy(dst[StampLen:], f.template[StampLen:])
	}
}

// Check reports whether payload has the right length and, behind the stamp, the right bytes.
func (f *Filler) Check(payload []byte) bool {
	return len(payload) == len(f.template) && bytes.Equal(payload[StampLen:], f.template[StampLen:])
}
