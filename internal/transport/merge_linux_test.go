package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// sent is one call of a kernel that a merger sends to.
type sent struct {
	packets [][]byte
	to      int // port
}

// calls is a kernel that keeps what it is sent, and fails while fail is set.
type calls struct {
	t    *testing.T
	mu   sync.Mutex
	sent []sent
	fail error
}

func (c *calls) send(b, oob []byte, addr *net.UDPAddr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	segment := segmentSize(oob)
	if segment == 0 {
		segment = max(1, len(b))
	}
	call := sent{to: addr.Port}
	for p := range slices.Chunk(b, segment) {
		call.packets = append(call.packets, bytes.Clone(p))
	}
	if len(b) > 65_507 || len(call.packets) > 64 {
		c.t.Errorf("a call of %d bytes in %d packets: the kernel would refuse it", len(b), len(call.packets))
	}
	c.sent = append(c.sent, call)
	return nil
}

func always() bool { return true }

// resting is a merger whose goroutine never gets to run: what has gathered stays until it has to go.
func resting(c *calls) *merger {
	return &merger{send: c.send, segmented: always, wake: make(chan struct{}, 1)}
}

func port(n int) *net.UDPAddr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n} }

func TestMergeJoinsWhatFits(t *testing.T) {
	full, short := make([]byte, 14*1441), make([]byte, 3*1441+5)
	for _, tt := range []struct {
		name   string
		writes []int // 1 full, 0 short, -1 a lone datagram, -2 full to somebody else, -3 full packets of another size
		want   []int // packets of each call, before the rest is flushed
		rest   int   // packets
	}{
		{"three full calls are all that fits", []int{1, 1, 1}, []int{42}, 0},
		{"two wait", []int{1, 1}, nil, 28},
		{"a short one ends the burst, in the same call", []int{1, 1, 0}, []int{32}, 0},
		{"a short one alone is sent at once", []int{0}, []int{4}, 0},
		{"a lone datagram does not join, and does not overtake", []int{1, -1}, []int{14, 1}, 0},
		{"nor do those of another address", []int{1, -2}, []int{14}, 14},
		{"nor do packets of another size", []int{1, -3}, []int{14}, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &calls{t: t}
			m := resting(c)
			for _, kind := range tt.writes {
				b, oob, to := full, segmentMessage(1441), port(1)
				switch kind {
				case 0:
					b = short
				case -1:
					b, oob = make([]byte, 1452), nil
				case -2:
					to = port(2)
				case -3:
					b, oob = make([]byte, 16*1280), segmentMessage(1280)
				}
				if err := m.write(b, oob, to); err != nil {
					t.Fatal(err)
				}
			}
			var got []int
			for _, call := range c.sent {
				got = append(got, len(call.packets))
			}
			if rest := len(m.pending) / max(1, m.segment); !slices.Equal(got, tt.want) || rest != tt.rest {
				t.Errorf("calls of %v packets, %d waiting; want %v, %d", got, rest, tt.want, tt.rest)
			}
		})
	}
}

// Whatever is written, by several at once, every datagram leaves once, as it was, and in the order of its address.
func TestMergeLosesNothing(t *testing.T) {
	c := &calls{t: t}
	m := &merger{send: c.send, segmented: always}
	var wg sync.WaitGroup
	want := make([][][]byte, 4)
	for who := range want {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(who)))
			n := uint32(0)
			for range 2000 {
				segment := []int{1200, 1280, 1441}[r.IntN(3)]
				count, last := 1+r.IntN(45), segment
				if r.IntN(2) == 0 {
					count = 20480 / segment // as full as quic-go makes one
				}
				if r.IntN(3) == 0 {
					last = 1 + r.IntN(segment)
				}
				var b []byte
				for i := range count {
					p := make([]byte, segment)
					if i == count-1 {
						p = p[:last]
					}
					if len(p) >= 4 {
						binary.BigEndian.PutUint32(p, n)
					}
					n++
					b = append(b, p...)
					want[who] = append(want[who], p)
				}
				oob := segmentMessage(uint16(segment))
				if count == 1 && r.IntN(2) == 0 {
					oob = nil
				}
				if err := m.write(b, oob, port(1+who)); err != nil {
					t.Error(err)
				}
				clear(b) // the library reuses it
			}
		})
	}
	wg.Wait()
	m.stop()
	got := make([][][]byte, len(want))
	for _, call := range c.sent {
		got[call.to-1] = append(got[call.to-1], call.packets...)
	}
	for who := range want {
		if !slices.EqualFunc(got[who], want[who], bytes.Equal) {
			t.Errorf("address %d: %d datagrams arrived, want %d, each as it was", who, len(got[who]), len(want[who]))
		}
	}
	before := len(c.sent)
	if err := m.write(make([]byte, 14*1441), segmentMessage(1441), port(1)); err != nil || len(c.sent) != before+1 {
		t.Errorf("after stop: %d calls, %v; want it sent at once", len(c.sent)-before, err)
	}
}

// What fails after its call had returned is lost. Every later call is answered for itself, so that none is told of what
// it is not: quic-go repeats a call that it is told EIO of in packets of the size that the call has, and for a lone
// datagram, which has none, without end.
func TestMergeFailsNobodyElse(t *testing.T) {
	full := func(m *merger) error { return m.write(make([]byte, 14*1441), segmentMessage(1441), port(1)) }
	for name, next := range map[string]func(*merger) error{
		"a full call":     full,
		"a short one":     func(m *merger) error { return m.write(make([]byte, 1441), segmentMessage(1441), port(1)) },
		"a lone datagram": func(m *merger) error { return m.write(make([]byte, 40), nil, port(1)) },
	} {
		c := &calls{t: t}
		m := resting(c)
		if err := full(m); err != nil {
			t.Fatal(err)
		}
		c.fail = syscall.EIO
		m.flush()
		if len(m.pending) > 0 {
			t.Errorf("%s: what could not be sent is kept", name)
		}
		if err := next(m); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s that fails: %v, want EIO at once", name, err)
		}
		c.fail = nil
		if err := next(m); err != nil || len(c.sent) != 1 {
			t.Errorf("%s that does not fail: %v, %d calls, want it sent at once", name, err, len(c.sent))
		}
	}
	// A call that is sent with those before it is answered itself.
	c := &calls{t: t}
	m := resting(c)
	if err := errors.Join(full(m), full(m)); err != nil {
		t.Fatal(err)
	}
	c.fail = syscall.EPERM
	if err := full(m); !errors.Is(err, syscall.EPERM) {
		t.Errorf("the call that fills the datagram: %v, want EPERM", err)
	}
}

// quic-go gives segmentation offload up when the first call fails: that one must not be held back.
func TestMergeSendsTheFirstAtOnce(t *testing.T) {
	c := &calls{t: t}
	p := &peer{}
	m := resting(c)
	m.segmented = p.segmented
	m.send = func(b, oob []byte, addr *net.UDPAddr) error {
		err := c.send(b, oob, addr)
		if err == nil {
			p.sent(len(b), segmentSize(oob))
		}
		return err
	}
	full := func() error { return m.write(make([]byte, 14*1441), segmentMessage(1441), port(1)) }
	c.fail = syscall.EIO
	for range 2 {
		if err := full(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the first call with several packets was told %v, want EIO", err)
		}
	}
	c.fail = nil
	if err := full(); err != nil || len(c.sent) != 1 {
		t.Errorf("%v, %d calls; want the first that succeeds sent at once", err, len(c.sent))
	}
	if err := full(); err != nil || len(c.sent) != 1 {
		t.Errorf("%v, %d calls; want the second held back", err, len(c.sent))
	}
}

// Over real sockets calls become fewer, and everything arrives.
func TestMergeIsObserved(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // or it is the scheduler's choice how much is joined
	perCall := func(merge Offload) float64 {
		dialled, accepted := pair(t, Config{}, Config{GSOMerge: merge})
		bulk(t, dialled, accepted, 32<<20)
		s := dialled.Stats()
		return float64(*s.DatagramsSent) / float64(*s.SendCalls)
	}
	alone, joined := perCall(OffloadOff), perCall(OffloadAuto)
	if text := fmt.Sprintf("%.1f datagrams a call, %.1f merged", alone, joined); joined < 1.05*alone {
		t.Error(text)
	} else {
		t.Log(text)
	}
}
