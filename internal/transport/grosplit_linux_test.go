package transport

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"golang.org/x/net/ipv4"
)

// kernel is a socket that hands out what was put into it, a message a read.
type kernel struct {
	sent []ipv4.Message
	err  error
}

func (k *kernel) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	n := 0
	for ; n < len(ms) && len(k.sent) > 0; n++ {
		s := k.sent[0]
		k.sent = k.sent[1:]
		ms[n].N = copy(ms[n].Buffers[0], s.Buffers[0])
		ms[n].NN = copy(ms[n].OOB, s.OOB)
		ms[n].Addr, ms[n].Flags = s.Addr, s.Flags
	}
	if n == 0 {
		return 0, k.err
	}
	return n, nil
}

// slots are messages as quic-go hands them in.
func slots(n int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, maxPacketSize)}
		ms[i].OOB = make([]byte, 128)
	}
	return ms
}

// numbered makes datagrams of the sizes, each filled with its number.
func numbered(sizes ...int) []byte {
	var b []byte
	for i, n := range sizes {
		b = append(b, bytes.Repeat([]byte{byte(i + 1)}, n)...)
	}
	return b
}

func TestMergedDatagramsAreCut(t *testing.T) {
	alice := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	bob := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 2}
	ecn := controlMessage(0, 1, []byte{2}) // whatever is not of UDP_GRO
	for _, tt := range []struct {
		name  string
		read  []ipv4.Message
		sizes []int
		addrs []net.Addr
	}{
		{"a datagram alone", []ipv4.Message{{Buffers: [][]byte{numbered(700)}, Addr: alice}}, []int{700}, []net.Addr{alice}},
		{"equal ones", []ipv4.Message{{Buffers: [][]byte{numbered(1200, 1200, 1200)}, OOB: mergedOf(1200), Addr: alice}},
			[]int{1200, 1200, 1200}, []net.Addr{alice, alice, alice}},
		{"a short one at the end", []ipv4.Message{{Buffers: [][]byte{numbered(1441, 1441, 20)}, OOB: mergedOf(1441), Addr: alice}},
			[]int{1441, 1441, 20}, []net.Addr{alice, alice, alice}},
		{"more than a call takes, from two senders", []ipv4.Message{
			{Buffers: [][]byte{numbered(100, 100, 100, 100, 100)}, OOB: mergedOf(100), Addr: alice},
			{Buffers: [][]byte{numbered(50)}, Addr: bob}},
			[]int{100, 100, 100, 100, 100, 50}, []net.Addr{alice, alice, alice, alice, alice, bob}},
		{"a segment larger than all of it", []ipv4.Message{{Buffers: [][]byte{numbered(300)}, OOB: mergedOf(1200), Addr: alice}}, []int{300}, []net.Addr{alice}},
		{"an empty datagram", []ipv4.Message{{Buffers: [][]byte{{}}, Addr: alice}}, []int{0}, []net.Addr{alice}},
		{"the most that the kernel merges", []ipv4.Message{{Buffers: [][]byte{make([]byte, 45*1441)}, OOB: mergedOf(1441), Addr: alice}}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.read {
				tt.read[i].OOB = append(tt.read[i].OOB, ecn...)
			}
			want := 0
			for _, m := range tt.read {
				want += len(m.Buffers[0])
			}
			g := newGROReader(&kernel{sent: tt.read, err: errors.New("nothing left")})
			var (
				counted, bytesCounted, got int
				n                          int
			)
			for {
				ms := slots(2)
				taken := g.take(ms)
				if taken == 0 {
					datagrams, bytes, err := g.read(0)
					if err != nil {
						break
					}
					counted, bytesCounted = counted+datagrams, bytesCounted+bytes
					continue
				}
				for _, m := range ms[:taken] {
					data := m.Buffers[0][:m.N]
					got += m.N
					if tt.sizes != nil && (m.N != tt.sizes[n] || m.Addr != tt.addrs[n]) {
						t.Errorf("datagram %d: %d bytes from %v, want %d from %v", n, m.N, m.Addr, tt.sizes[n], tt.addrs[n])
					}
					if len(data) > 0 && !bytes.Equal(data, bytes.Repeat(data[:1], len(data))) {
						t.Errorf("datagram %d is made of two", n)
					}
					if !bytes.Equal(m.OOB[:m.NN], ecn) {
						t.Errorf("datagram %d has the control messages %x, want %x", n, m.OOB[:m.NN], ecn)
					}
					n++
				}
			}
			if got != want || bytesCounted != want || counted != n {
				t.Errorf("%d bytes in %d datagrams, counted %d in %d, want %d", got, n, bytesCounted, counted, want)
			}
			if tt.sizes != nil && n != len(tt.sizes) {
				t.Errorf("%d datagrams, want %d", n, len(tt.sizes))
			}
		})
	}
}

func TestMergedControlThatDoesNotFit(t *testing.T) {
	// A slot with too little room gets none of it: half a control message would end the socket.
	g := newGROReader(&kernel{sent: []ipv4.Message{{Buffers: [][]byte{numbered(10)}, OOB: controlMessage(0, 1, make([]byte, 4))}}})
	if _, _, err := g.read(0); err != nil {
		t.Fatal(err)
	}
	ms := slots(1)
	ms[0].OOB = make([]byte, 8)
	if n := g.take(ms); n != 1 || ms[0].NN != 0 || ms[0].N != 10 {
		t.Errorf("%d datagrams, the first of %d bytes with %d of control, want 1, 10, 0", n, ms[0].N, ms[0].NN)
	}
}
