package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"felix/internal/transport"
	"felix/internal/wire"
)

// Each of the ways to be turned away is told apart, and within the documented time.
func TestDialErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		auth   func(wire.Auth) wire.Message
		change func(t *testing.T, c *Config)
		want   error
		within time.Duration
	}{
		{
			name:   "nobody at the address",
			change: func(_ *testing.T, c *Config) { c.Addr = "1.0.0.9:5000" },
			want:   ErrUnreachable, within: 6 * time.Second,
		},
		{
			name: "certificate of somebody else",
			change: func(t *testing.T, c *Config) {
				_, c.TLS = identity(t)
			},
			want: ErrCertificate, within: time.Second,
		},
		{
			name: "certificate for another name",
			change: func(t *testing.T, c *Config) {
				c.TLS = c.TLS.Clone()
				c.TLS.ServerName = "example.org"
			},
			want: ErrCertificate, within: time.Second,
		},
		{
			name: "wrong token",
			auth: func(wire.Auth) wire.Message { return wire.Error{Message: "auth failed"} },
			want: ErrAuth, within: time.Second,
		},
		{
			name: "silence after the handshake",
			auth: func(wire.Auth) wire.Message { return nil },
			want: ErrUnreachable, within: 6 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
				stop := n.fake(t, &fakeBroker{auth: tt.auth}, transport.Config{})
				defer stop()
				cfg := n.config()
				if tt.change != nil {
					tt.change(t, &cfg)
				}
				start := time.Now()
				c, err := Dial(context.Background(), cfg)
				if err == nil {
					c.Close(within(t, time.Minute))
				}
				if !errors.Is(err, tt.want) {
					t.Errorf("Dial = %v, want %v", err, tt.want)
				}
				for _, other := range []error{ErrUnreachable, ErrCertificate, ErrAuth, ErrHandshake} {
					if other != tt.want && errors.Is(err, other) {
						t.Errorf("Dial = %v, which is also %v", err, other)
					}
				}
				if took := time.Since(start); took > tt.within {
					t.Errorf("Dial took %v, want at most %v", took, tt.within)
				}
			})
		})
	}
}

// A broker that closes the connection instead of answering says why by its code.
func TestDialAuthByConnectionCode(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{}
		b.auth = func(wire.Auth) wire.Message {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.conns[0].CloseWithError(transport.CodeAuth, "auth failed")
			return nil
		}
		defer n.fake(t, b, transport.Config{})()
		_, err := Dial(within(t, time.Minute), n.config())
		var auth *AuthError
		if !errors.As(err, &auth) || auth.Message != "auth failed" || auth.Tenant != "t1" {
			t.Errorf("Dial = %v, want an AuthError of t1 with the broker's words", err)
		}
	})
}

// The caller's own deadline makes the broker as unreachable as the built-in one.
func TestDialDeadline(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{auth: func(wire.Auth) wire.Message { return nil }}
		defer n.fake(t, b, transport.Config{})()
		_, err := Dial(within(t, time.Second), n.config())
		if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial = %v, want ErrUnreachable by the deadline", err)
		}
	})
}

func TestDialHonoursContext(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{auth: func(wire.Auth) wire.Message { return nil }}
		defer n.fake(t, b, transport.Config{})()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := Dial(ctx, n.config())
		if !errors.Is(err, context.Canceled) || time.Since(start) > 1500*time.Millisecond { // the closed socket lingers a little
			t.Errorf("Dial = %v after %v, want context.Canceled soon after 1 s", err, time.Since(start))
		}
	})
}

// The connection that Dial authenticated is used, not wasted: a pool of one needs no second.
func TestDialConnectionIsUsed(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{stream: (*fakeStream).ackAll}
		defer n.fake(t, b, transport.Config{})()
		c := n.dial(t, n.config())
		defer c.Close(within(t, time.Minute))
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Publish(within(t, time.Minute), demo, payloads("x"), wire.AckPerBatch); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if len(b.conns) != 1 || len(b.auths) != 1 {
			t.Errorf("%d connections, %d auths; want 1 and 1", len(b.conns), len(b.auths))
		}
		if f := b.auths[0].ClientFlags; f == nil || *f != wire.KnownFlags {
			t.Errorf("client_flags = %v, want %v", f, wire.KnownFlags)
		}
	})
}

// After Close everything says net.ErrClosed, and a lost connection does not.
func TestClosedIsNotLost(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, n *network) {
		b := &fakeBroker{stream: (*fakeStream).ackAll}
		defer n.fake(t, b, transport.Config{})()
		c := n.dial(t, n.config())
		p, err := c.NewPublisher(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		b.conns[0].CloseWithError(transport.CodeShutdown, "shutting down")
		<-p.workers[0].dead
		_, err = p.Publish(within(t, time.Minute), demo, payloads("x"), wire.AckNone)
		var ended *WorkerError
		if !errors.As(err, &ended) || ended.Cause != CauseConnection || !errors.Is(err, ErrConnectionLost) || errors.Is(err, net.ErrClosed) {
			t.Errorf("Publish on a lost connection = %v", err)
		}
		var app *quic.ApplicationError
		if !errors.As(err, &app) || app.ErrorCode != transport.CodeShutdown {
			t.Errorf("Publish on a lost connection = %v, want the broker's code in the chain", err)
		}
		if err := c.Close(within(t, time.Minute)); err != nil {
			t.Errorf("Close = %v, want nil: nothing was accepted", err)
		}
		if _, err := p.Publish(within(t, time.Minute), demo, payloads("x"), wire.AckNone); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Publish after Close = %v", err)
		}
		if _, err := c.Subscribe(within(t, time.Minute), demo, SubscribeOptions{}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Subscribe after Close = %v", err)
		}
		if _, err := c.NewPublisher(within(t, time.Minute)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("NewPublisher after Close = %v", err)
		}
	})
}
