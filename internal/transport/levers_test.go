package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// full is a flag of this package's tests: go test ./internal/transport -run Levers -full.
var full = flag.Bool("full", false, "every combination of the socket's settings, each with 64 MiB a direction, and not a part of it")

// levers is one combination of what can be set about a socket.
type levers struct {
	gso, gro Offload
	merge    Offload
	gate     int64
	packet   int
	shared   bool
	buffer   int // of the socket, 0 for the default
}

func (l levers) String() string {
	return fmt.Sprintf("gso=%v gro=%v merge=%v gate=%d packet=%d shared=%v buffer=%d", l.gso, l.gro, l.merge, l.gate, l.packet, l.shared, l.buffer)
}

func (l levers) config() Config {
	c := Config{
		GSO: l.gso, GRO: l.gro, GSOMerge: l.merge, RecvGateBytes: l.gate, PacketSize: l.packet,
		UDPSendBuffer: l.buffer, UDPRecvBuffer: l.buffer,
	}
	if l.shared {
		c.Shared = new(SharedSocket)
	}
	return c
}

// allLevers are all combinations; someLevers every level of each, with the extremes together.
func allLevers() (all []levers) {
	for _, send := range [][2]Offload{{OffloadOn, OffloadOn}, {OffloadOn, OffloadOff}, {OffloadOff, OffloadAuto}} {
		for _, gro := range []Offload{OffloadOn, OffloadOff} {
			for _, gate := range []int64{0, 60_000} {
				for _, packet := range []int{1200, 1280, 1452} {
					for _, shared := range []bool{false, true} {
						for _, buffer := range []int{0, 212_992} {
							all = append(all, levers{send[0], gro, send[1], gate, packet, shared, buffer})
						}
					}
				}
			}
		}
	}
	return all
}

var someLevers = []levers{
	{OffloadOn, OffloadOff, OffloadOff, 0, 0, false, 0},
	{OffloadOn, OffloadOff, OffloadOn, 0, 0, true, 212_992},
	{OffloadOn, OffloadOn, OffloadOn, 60_000, 1452, false, 212_992},
	{OffloadOn, OffloadOn, OffloadOn, 60_000, 1452, true, 0},
	{OffloadOff, OffloadOff, OffloadAuto, 60_000, 1200, true, 212_992},
	{OffloadOff, OffloadOn, OffloadAuto, 0, 1280, false, 0},
	{OffloadOn, OffloadOn, OffloadOff, 4096, 1280, false, 212_992},
}

// TestLeversCarryEverything sends bulk in writes of 4 KiB and small frames beside it, both ways,
// over two connections.
func TestLeversCarryEverything(t *testing.T) {
	combinations, bytes := someLevers, int64(4<<20)
	if *full {
		combinations, bytes = allLevers(), 64<<20
	}
	for _, l := range combinations {
		t.Run(l.String(), func(t *testing.T) {
			id := newIdentity(t)
			server := l.config()
			server.Shared = nil
			listener := listen(t, id, server)
			client := l.config()
			var wg sync.WaitGroup
			for range 2 {
				dialled, accepted := pairOn(t, listener, id, client)
				for _, ends := range [][2]*Conn{{dialled, accepted}, {accepted, dialled}} {
					wg.Go(func() { carry(t, ends[0], ends[1], bytes/2, 4096) })
				}
				wg.Go(func() { carry(t, dialled, accepted, 400*64, 64) })
				l.check(t, dialled, accepted)
			}
			wg.Wait()
		})
	}
}

// check wants what was asked for to be in effect, or its absence to be said.
func (l levers) check(t *testing.T, dialled, accepted *Conn) {
	t.Helper()
	for _, c := range []*Conn{dialled, accepted} {
		info := c.SocketInfo()
		if runtime.GOOS != "linux" {
			if l.gro == OffloadOn && !strings.Contains(strings.Join(info.Warnings, " "), "gro has no effect") {
				t.Errorf("warnings %q: nothing of gro", info.Warnings)
			}
			continue
		}
		if info.GSO == nil || *info.GSO != (l.gso == OffloadOn) || c.ConnectionState().GSO != *info.GSO {
			t.Errorf("gso %v, quic-go's %v, want %v", info.GSO, c.ConnectionState().GSO, l.gso)
		}
		if info.GRO == nil || *info.GRO != (l.gro == OffloadOn) || info.RecvGateBytes != l.gate {
			t.Errorf("gro %v, gate %d, want %v, %d", info.GRO, info.RecvGateBytes, l.gro, l.gate)
		}
	}
	if got := dialled.SocketInfo().Shared; got != l.shared {
		t.Errorf("dialled socket shared %v, want %v", got, l.shared)
	}
}

// accepting is held by whoever waits for a stream: when two come in one packet quic-go wakes one caller
// of AcceptStream, and another one that waited beside it would wait for good.
var accepting sync.Mutex

// carry sends frames of a size over a stream of its own and checks each on arrival.
func carry(t *testing.T, from, to *Conn, bytes int64, size int) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	frames := bytes / int64(size)
	s, err := from.OpenStreamSync(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		// Streams of one connection are accepted in any order: the frames say how many there are.
		accepting.Lock()
		s, err := to.AcceptStream(ctx)
		accepting.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		if err := receiveFrames(s); err != nil {
			t.Error(err)
		}
		s.CancelRead(0)
		_ = s.Close() // the answer that everything came
	})
	frame := make([]byte, size)
	_ = s.SetDeadline(time.Now().Add(90 * time.Second))
	for i := range frames {
		binary.BigEndian.PutUint64(frame, uint64(i))
		binary.BigEndian.PutUint64(frame[8:], uint64(size))
		binary.BigEndian.PutUint64(frame[16:], uint64(frames))
		if _, err := s.Write(frame); err != nil {
			t.Errorf("frame %d: %v", i, err)
			return
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(s); err != nil {
		t.Errorf("waiting until everything has come: %v", err)
	}
}

func receiveFrames(r io.Reader) error {
	var head [24]byte
	for i := uint64(0); ; i++ {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		seq, size, frames := binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint64(head[16:])
		if seq != i {
			return fmt.Errorf("frame %d came as %d", seq, i)
		}
		if n, err := io.CopyN(io.Discard, r, int64(size)-int64(len(head))); err != nil {
			return fmt.Errorf("frame %d of %d bytes ended after %d: %w", i, size, n, err)
		}
		if i == frames-1 {
			n, err := io.Copy(io.Discard, r)
			if err == nil && n > 0 {
				err = errors.New("more than was sent")
			}
			return err
		}
	}
}

// TestGateCompletesUnderLoss is about the gate's account going wrong: lost, duplicate and foreign
// datagrams must not close it for good.
func TestGateCompletesUnderLoss(t *testing.T) {
	bytes := int64(2 << 20)
	if *full {
		bytes = 16 << 20
	}
	id := newIdentity(t)
	cfg := Config{RecvGateBytes: 20_000, GRO: OffloadOn}
	l := listen(t, id, cfg)
	addr := relayTo(t, l.Addr(), func(r *relay, n int, datagram []byte) bool {
		switch {
		case n%101 == 0:
			return false
		case n%97 == 0: // twice
			if to := r.client.Load(); to != nil && n%2 == 0 {
				_, _ = r.front.WriteToUDPAddrPort(datagram, *to)
			} else {
				_, _ = r.back.Write(append([]byte{0x40, 1, 2, 3, 4}, datagram...)) // of no connection
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dialled, err := Dial(ctx, addr, id.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, dialled)
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { carry(t, dialled, accepted, bytes, 4096) })
	wg.Go(func() { carry(t, accepted, dialled, bytes, 4096) })
	wg.Wait()
	if lost := dialled.Stats().PacketsLost + accepted.Stats().PacketsLost; lost == 0 {
		t.Error("nothing was lost: the test does not test")
	}
}
