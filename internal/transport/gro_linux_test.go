package transport

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlMessage builds a control message.
func controlMessage(level, typ int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, typ
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// mergedOf is what the kernel says of merged datagrams.
func mergedOf(segment int) []byte {
	return controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, binary.NativeEndian.AppendUint32(nil, uint32(segment)))
}

func TestSplitControl(t *testing.T) {
	tos := controlMessage(unix.IPPROTO_IP, unix.IP_TOS, []byte{1})
	info := controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, make([]byte, 20))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, tt := range []struct {
		name    string
		oob     []byte
		segment int
		rest    []byte
	}{
		{"none", nil, 0, nil},
		{"merged alone", mergedOf(1441), 1441, nil},
		{"merged first, as the kernel has it", join(mergedOf(1280), info, tos), 1280, join(info, tos)},
		{"merged between others", join(tos, mergedOf(1280), info), 1280, join(tos, info)},
		{"not merged", join(info, tos), 0, join(info, tos)},
		{"a size that is cut", controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 2}), 0, nil},
		{"rubbish behind", join(tos, []byte{1, 2, 3}), 0, tos},
		{"a message that is cut", join(mergedOf(1280), info[:30]), 1280, nil},
	} {
		segment, rest := splitControl(nil, tt.oob)
		if segment != tt.segment || !bytes.Equal(rest, tt.rest) {
			t.Errorf("%s: segment %d, rest %x, want %d, %x", tt.name, segment, rest, tt.segment, tt.rest)
		}
	}
}

func FuzzSplitControl(f *testing.F) {
	f.Add([]byte{})
	f.Add(mergedOf(1441))
	f.Add(bytes.Join([][]byte{mergedOf(1200), controlMessage(unix.IPPROTO_IP, unix.IP_TOS, []byte{1})}, nil))
	f.Fuzz(func(t *testing.T, oob []byte) {
		segment, rest := splitControl(nil, oob)
		if len(rest) > len(oob) {
			t.Fatalf("%d bytes of %d", len(rest), len(oob))
		}
		// What is left must be whole control messages, without the one that was taken out: quic-go
		// ends the socket at anything else.
		for left := rest; len(left) > 0; {
			h, _, next, err := unix.ParseOneSocketControlMessage(left)
			if err != nil {
				t.Fatalf("what is left does not parse: %v", err)
			}
			if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO {
				t.Fatal("the segment size is still there")
			}
			left = next
		}
		if again, same := splitControl(nil, rest); again != 0 || !bytes.Equal(same, rest) {
			t.Fatalf("split again: segment %d, %x", again, same)
		}
		_ = segment
	})
}
