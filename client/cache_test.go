package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"felix/internal/wire"
)

func TestCache(t *testing.T) {
	store := map[string][]byte{}
	var ttl *uint64
	script := func(f *fakeStream) {
		for {
			m, err := f.message()
			if err != nil {
				return
			}
			switch m := m.(type) {
			case wire.CachePut:
				if m.Scope.Stream != "demo" {
					f.send(wire.Error{Message: "cache scope not found: t1/default/" + m.Scope.Stream})
					continue
				}
				store[m.Key], ttl = m.Value, m.TTLMs
				f.send(wire.CacheOK{RequestID: *m.RequestID})
			case wire.CacheGet:
				if m.Key == "slow" {
					pass(time.Minute)
				}
				f.send(wire.CacheValue{Scope: m.Scope, Key: m.Key, Value: store[m.Key], RequestID: m.RequestID})
			}
		}
	}
	subscribing(t, script, nil, func(t *testing.T, c *Client) {
		if err := c.CachePut(within(t, time.Minute), demo, "k", []byte("v"), 1500*time.Microsecond); err != nil {
			t.Fatal(err)
		}
		if ttl == nil || *ttl != 2 {
			t.Errorf("ttl_ms = %v, want 2", ttl)
		}
		v, ok, err := c.CacheGet(within(t, time.Minute), demo, "k")
		if err != nil || !ok || string(v) != "v" {
			t.Errorf("CacheGet = %q, %v, %v", v, ok, err)
		}
		if _, _, err := c.CacheGet(within(t, time.Second), demo, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slow CacheGet = %v, want the context's error", err)
		}
		if v, ok, err := c.CacheGet(within(t, time.Minute), demo, "none"); err != nil || ok || v != nil {
			t.Errorf("CacheGet of nothing = %q, %v, %v", v, ok, err)
		}
		other := demo
		other.Stream = "other"
		var refused *BrokerError
		if err := c.CachePut(within(t, time.Minute), other, "k", nil, 0); !errors.As(err, &refused) {
			t.Errorf("CachePut to an unknown cache = %v", err)
		}
	})
}
