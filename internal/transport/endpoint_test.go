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

	"github.com/quic-go/quic-go"
)

func TestEcho(t *testing.T) {
	dialled, accepted := pair(t, Config{Role: "broker"}, Config{Role: "publisher"})
	go func() {
		s, err := accepted.AcceptStream(context.Background())
		if err != nil {
			return
		}
		_, _ = io.Copy(s, s) // the client's read tells
		_ = s.Close()
	}()
	s, err := dialled.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || string(got) != "hello" {
		t.Errorf("echo = %q, %v", got, err)
	}
	if proto := dialled.ConnectionState().TLS.NegotiatedProtocol; proto != "" {
		t.Errorf("negotiated protocol %q, want none", proto)
	}
	// The address of the own socket is the one the peer sees: the ends are joined by it.
	if dialled.LocalAddr().String() != accepted.RemoteAddr().String() {
		t.Errorf("dialled from %s, accepted from %s", dialled.LocalAddr(), accepted.RemoteAddr())
	}
	if dialled.ID() == accepted.ID() {
		t.Errorf("both ends are %s", dialled.ID())
	}
}

func TestCloseTellsThePeer(t *testing.T) {
	dialled, accepted := pair(t, Config{}, Config{})
	closeWith := func(c, peer *Conn) {
		t.Helper()
		if err := c.Close(CodeLimit, "too much"); err != nil {
			t.Fatal(err)
		}
		ended(t, peer)
		var app *quic.ApplicationError
		if err := context.Cause(peer.Context()); !errors.As(err, &app) || !app.Remote || app.ErrorCode != CodeLimit || app.ErrorMessage != "too much" {
			t.Errorf("peer ended by %v, want code %d from remote", err, CodeLimit)
		}
	}
	closeWith(dialled, accepted)
	if err := dialled.Close(CodeDone, ""); err != nil {
		t.Errorf("second Close = %v", err)
	}
	// The socket is closed with the connection.
	if _, err := dialled.sock.conn.WriteTo([]byte("x"), dialled.RemoteAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write on the closed connection's socket: %v, want net.ErrClosed", err)
	}

	dialled, accepted = pair(t, Config{}, Config{})
	closeWith(accepted, dialled)
	// A connection that the peer ended frees its socket without being closed here.
	<-dialled.done
	if _, err := dialled.sock.conn.WriteTo([]byte("x"), dialled.RemoteAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write on the ended connection's socket: %v, want net.ErrClosed", err)
	}
}

func TestListenerClose(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	dialled, accepted := pairOn(t, l, id, Config{})
	// One connection that nobody accepts.
	waiting, err := Dial(t.Context(), l.Addr().String(), id.client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, waiting)
	blocked := make(chan error, 1)
	first, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := l.Accept(context.Background())
		blocked <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
	}
	for _, c := range []*Conn{dialled, accepted, waiting, first} {
		ended(t, c)
		var app *quic.ApplicationError
		if err := context.Cause(c.Context()); !errors.As(err, &app) || app.ErrorCode != CodeShutdown {
			t.Errorf("connection ended by %v, want code %d", err, CodeShutdown)
		}
	}
	again, err := Listen(l.Addr().String(), id.server, Config{})
	if err != nil {
		t.Fatalf("listen again on the freed address: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestStopAccepting(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	dialled, accepted := pairOn(t, l, id, Config{})
	if err := l.StopAccepting(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept = %v, want net.ErrClosed", err)
	}
	bulk(t, dialled, accepted, 1<<20) // established connections live on
	if _, err := Dial(t.Context(), l.Addr().String(), id.client, Config{HandshakeTimeout: 100 * time.Millisecond}); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("Dial = %v, want ErrNoAnswer", err)
	}
}

func TestManyDialsAtOnce(t *testing.T) {
	// The accept queue holds 32: as many clients at once as it does, twice over, and none refused.
	id := newIdentity(t)
	l := listen(t, id, Config{})
	const clients = 64
	go func() {
		for {
			if _, err := l.Accept(context.Background()); err != nil {
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c, err := Dial(t.Context(), l.Addr().String(), id.client, Config{HandshakeTimeout: 20 * time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			closeConn(t, c)
		})
	}
	wg.Wait()
}

func TestDialErrors(t *testing.T) {
	id := newIdentity(t)
	// A connected socket takes datagrams from its peer alone: to everybody else the port is closed, and yet nobody can
	// take it meanwhile.
	peer, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	taken, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, peer.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	closedAddr := taken.LocalAddr().String()

	silentAddr := silent(t)
	short := Config{HandshakeTimeout: 150 * time.Millisecond}
	t.Run("silence", func(t *testing.T) {
		_, err := Dial(t.Context(), silentAddr, id.client, short)
		if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "within 150ms") {
			t.Errorf("Dial = %v, want ErrNoAnswer that names the time", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		timeout := 3 * time.Second
		if runtime.GOOS == "linux" { // where the kernel tells, however slow the machine is
			timeout = time.Minute
		}
		_, err := Dial(t.Context(), closedAddr, id.client, Config{HandshakeTimeout: timeout})
		if runtime.GOOS != "linux" {
			if !errors.Is(err, ErrNoAnswer) {
				t.Errorf("Dial = %v, want ErrNoAnswer", err)
			}
			return
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("Dial = %v, want ErrRefused", err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Dial(ctx, silentAddr, id.client, Config{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial = %v, want context.Canceled", err)
		}
	})
	for _, addr := range []string{"", "localhost", "localhost:", "localhost:0", "localhost:70000", "localhost:quic"} {
		t.Run("address "+addr, func(t *testing.T) {
			if c, err := Dial(t.Context(), addr, id.client, short); err == nil {
				closeConn(t, c)
				t.Error("dialled")
			}
		})
	}
	t.Run("address in use", func(t *testing.T) {
		if l, err := Listen(silentAddr, id.server, Config{}); err == nil {
			_ = l.Close()
			t.Error("listening on an address in use")
		}
	})
}

func TestDialByName(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), net.JoinHostPort("localhost", port), id.client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	closeConn(t, c)
}
