package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSharedSocket(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	own, acceptedOwn := pairOn(t, l, id, Config{})
	cfg := Config{Shared: new(SharedSocket)}
	a, acceptedA := pairOn(t, l, id, cfg)
	b, acceptedB := pairOn(t, l, id, cfg)

	if a.LocalAddr().String() != b.LocalAddr().String() || own.LocalAddr().String() == a.LocalAddr().String() {
		t.Errorf("local addresses %v and %v of shared, %v of own: want the first two equal", a.LocalAddr(), b.LocalAddr(), own.LocalAddr())
	}
	if !a.SocketInfo().Shared || own.SocketInfo().Shared {
		t.Errorf("shared: %v and %v, want true and false", a.SocketInfo().Shared, own.SocketInfo().Shared)
	}
	// The addresses no longer tell which ends belong together; the pair does.
	pairs := map[string]int{}
	for _, c := range []*Conn{own, acceptedOwn, a, acceptedA, b, acceptedB} {
		pairs[c.Stats().Pair]++
	}
	if len(pairs) != 3 || pairs[""] > 0 || a.Stats().Pair != acceptedA.Stats().Pair {
		t.Errorf("pairs %v, want three of two ends", pairs)
	}
	bulk(t, a, acceptedA, 1<<20)
	bulk(t, acceptedB, b, 1<<20)
	s := a.Stats()
	if s.DatagramsSent != nil || s.Unavailable["datagrams_sent"] == "" || s.MTUBytes == nil || *s.MTUBytes < safePacketSize {
		t.Errorf("datagrams %v (%q), mtu %v: want none with a reason, and the socket's mtu", s.DatagramsSent, s.Unavailable["datagrams_sent"], s.MTUBytes)
	}
	if got := own.Stats(); got.DatagramsSent == nil || *got.DatagramsSent == 0 {
		t.Errorf("the connection of its own socket has sent %v datagrams", got.DatagramsSent)
	}

	// The end of one leaves the socket to the other, the end of the last closes it.
	closeConn(t, a)
	bulk(t, b, acceptedB, 1<<20)
	sock := b.sock
	closeConn(t, b)
	if _, err := sock.conn.WriteTo([]byte("x"), l.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write on the socket that nobody uses: %v, want net.ErrClosed", err)
	}
	c, acceptedC := pairOn(t, l, id, cfg)
	bulk(t, c, acceptedC, 1<<20)
}

func TestSharedSocketOutlivesAFailedDial(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	shared := new(SharedSocket)
	a, acceptedA := pairOn(t, l, id, Config{Shared: shared})
	_, err := Dial(t.Context(), silent(t), id.client, Config{Shared: shared, HandshakeTimeout: 100 * time.Millisecond})
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "nothing came back") {
		t.Errorf("Dial = %v, want ErrNoAnswer", err)
	}
	bulk(t, a, acceptedA, 1<<20)

	// A socket whose first dial was refused is given up, and the next dial opens another.
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.LocalAddr().String()
	_ = free.Close()
	shared = new(SharedSocket)
	want := ErrNoAnswer
	if runtime.GOOS == "linux" {
		want = ErrRefused
	}
	if _, err := Dial(t.Context(), nobody, id.client, Config{Shared: shared, HandshakeTimeout: 500 * time.Millisecond}); !errors.Is(err, want) {
		t.Errorf("Dial = %v, want %v", err, want)
	}
	b, acceptedB := pairOn(t, l, id, Config{Shared: shared})
	bulk(t, b, acceptedB, 1<<20)
}

func TestSharedSocketHasOneAddress(t *testing.T) {
	s := new(SharedSocket)
	here := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	cfg, err := Config{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	sock, first, err := s.acquire(here, cfg)
	if err != nil || !first {
		t.Fatalf("acquire = %v, %v", first, err)
	}
	defer func() { _ = s.release(sock, nil) }()
	if _, _, err := s.acquire(&net.UDPAddr{IP: net.IPv6loopback, Port: 1}, cfg); err == nil || !strings.Contains(err.Error(), "a socket of its own") {
		t.Errorf("acquire for another route = %v, want an error that says what to do", err)
	}
}

// TestSharedSocketAtOnce dials many connections from one socket at the same time.
func TestSharedSocketAtOnce(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				s, err := c.AcceptStream(context.Background())
				if err != nil {
					return
				}
				_, _ = io.Copy(s, s) // the client's read tells
				_ = s.Close()
			}()
		}
	}()
	cfg := Config{Shared: new(SharedSocket), HandshakeTimeout: 20 * time.Second, Monitor: NewMonitor(time.Millisecond), UDPRecvBuffer: 96 << 10}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c, err := Dial(t.Context(), l.Addr().String(), id.client, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer closeConn(t, c)
			s, err := c.OpenStreamSync(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			_ = s.Close()
			if got, err := io.ReadAll(s); err != nil || string(got) != "hello" {
				t.Errorf("echo = %q, %v", got, err)
			}
		})
	}
	wg.Wait()
}
