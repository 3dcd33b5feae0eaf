package transport

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// segmentMessage builds the control message that quic-go sends.
func segmentMessage(size uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], size)
	return b
}

func TestSegmentSize(t *testing.T) {
	info := (&ipv4.ControlMessage{IfIndex: 1}).Marshal()
	for _, tt := range []struct {
		name string
		oob  []byte
		want int
	}{
		{"no control message", nil, 0},
		{"alone", segmentMessage(1441), 1441},
		{"after packet info", append(info[:len(info):len(info)], segmentMessage(1280)...), 1280},
		{"only packet info", info, 0},
		{"cut", segmentMessage(1441)[:unix.CmsgLen(0)], 0},
	} {
		if got := segmentSize(tt.oob); got != tt.want {
			t.Errorf("%s: segmentSize = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func FuzzSegmentSize(f *testing.F) {
	f.Add([]byte{})
	f.Add(segmentMessage(1441))
	f.Add(append((&ipv4.ControlMessage{IfIndex: 1}).Marshal(), segmentMessage(1280)...))
	f.Fuzz(func(t *testing.T, oob []byte) {
		if n := segmentSize(oob); n < 0 || n > 0xffff {
			t.Errorf("segmentSize = %d", n)
		}
	})
}
