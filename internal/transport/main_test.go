package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if doc := os.Getenv(sinkEnv); doc != "" {
		if err := runSink(doc); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// identity is a development certificate with both ends' TLS configurations.
type identity struct {
	certPEM, keyPEM []byte
	server, client  *tls.Config
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	var (
		id  identity
		err error
	)
	if id.certPEM, id.keyPEM, err = DevelopmentCertificate(time.Now()); err != nil {
		t.Fatal(err)
	}
	if id.server, err = ServerTLS(id.certPEM, id.keyPEM); err != nil {
		t.Fatal(err)
	}
	if id.client, err = ClientTLS(ClientTLSOptions{CAPEM: id.certPEM}); err != nil {
		t.Fatal(err)
	}
	return id
}

func listen(t testing.TB, id identity, cfg Config) *Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0", id.server, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Listener.Close: %v", err)
		}
	})
	return l
}

// pair returns the two ends of one connection over loopback, the dialled one first.
func pair(t testing.TB, server, client Config) (dialled, accepted *Conn) {
	t.Helper()
	id := newIdentity(t)
	l := listen(t, id, server)
	return pairOn(t, l, id, client)
}

func pairOn(t testing.TB, l *Listener, id identity, client Config) (dialled, accepted *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var (
		wg  sync.WaitGroup
		err error
	)
	wg.Go(func() { accepted, err = l.Accept(ctx) })
	dialled, dialErr := Dial(ctx, l.Addr().String(), id.client, client)
	if dialErr != nil {
		cancel()
	}
	wg.Wait()
	if dialErr != nil {
		t.Fatal(dialErr)
	}
	t.Cleanup(func() { closeConn(t, dialled) })
	if err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}

func closeConn(t testing.TB, c *Conn) {
	if err := c.Close(CodeDone, "done"); err != nil {
		t.Errorf("Conn.Close: %v", err)
	}
}

// bulk sends n bytes over a stream of its own and waits until all were received.
func bulk(t testing.TB, from, to *Conn, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	received := make(chan error, 1)
	go func() {
		s, err := to.AcceptUniStream(ctx)
		if err != nil {
			received <- err
			return
		}
		got, err := io.Copy(io.Discard, s)
		if err == nil && got != n {
			err = errors.New("short stream")
		}
		received <- err
	}()
	s, err := from.OpenUniStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 256<<10)
	for left := n; left > 0; {
		chunk := buf[:min(left, int64(len(buf)))]
		if _, err := s.Write(chunk); err != nil {
			t.Fatal(err)
		}
		left -= int64(len(chunk))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err != nil {
		t.Fatal(err)
	}
}

// ended waits for a connection to end.
func ended(t testing.TB, c *Conn) {
	t.Helper()
	select {
	case <-c.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("connection did not end")
	}
}

// silent is a UDP socket that nobody reads: an address that answers nothing.
func silent(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}
