package transport

import (
	"fmt"
	"slices"
	"strings"
)

// Offload says whether the kernel handles several packets of a connection in one call.
type Offload uint8

// The settings of an offload. OffloadAuto is what measurement chose, and silent where the system
// has no such offload; OffloadOn warns there.
const (
	OffloadAuto Offload = iota
	OffloadOn
	OffloadOff
)

// What OffloadAuto means. Sending without segmentation offload halves the throughput. Receiving with
// it took a third off the CPU of a gigabyte, and cost single messages nothing that 8 pairs could see
// (p50 0.995 [0.981, 1.010]).
const (
	autoGSO = OffloadOn
	autoGRO = OffloadOn
	// Joined send calls against single ones, 4 KiB x 64: MB/s 1.028 [1.009, 1.049], CPU 0.969 [0.960,
	// 0.977], n=10.
	autoGSOMerge = OffloadOn
)

var offloadTexts = []string{"auto", "on", "off"}

func (o Offload) String() string {
	if int(o) < len(offloadTexts) {
		return offloadTexts[o]
	}
	return fmt.Sprintf("%d?", uint8(o))
}

// ParseOffload is the inverse of String; its error lists the choices.
func ParseOffload(s string) (Offload, error) {
	if i := slices.Index(offloadTexts, s); i >= 0 {
		return Offload(i), nil
	}
	return OffloadAuto, fmt.Errorf("%q: want one of %s", s, strings.Join(offloadTexts, ", "))
}

// on decides auto.
func (o Offload) on(auto Offload) bool {
	if o == OffloadAuto {
		o = auto
	}
	return o == OffloadOn
}
