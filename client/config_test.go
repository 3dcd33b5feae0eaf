package client

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"felix/internal/wire"
)

func TestConfigDefaults(t *testing.T) {
	c, err := Config{Addr: "localhost:5000", Tenant: "t1", Token: "x"}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.PublishConnPool, c.PublishStreamsPerConn, c.PublishQueueDepth, c.PublishInflightBytes,
		c.PublishSharding, c.EventConnPool, c.SubQueueCapacity, c.SubQueuePolicy, c.AckTimeout, c.Encoding, c.MaxFrameBytes)
	if want := "4 2 64 4194304 hash_stream 8 256 drop_new 30s binary 16777216"; got != want {
		t.Errorf("defaults %s, want %s", got, want)
	}
	if c.TLS == nil || c.TLS.ServerName != "localhost" || c.TLS.InsecureSkipVerify || len(c.TLS.NextProtos) > 0 {
		t.Error("the default TLS configuration must verify localhost and offer no ALPN")
	}
}

func TestConfigRefusesNonsense(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no broker address":     func(c *Config) { c.Addr = "" },
		"no tenant":             func(c *Config) { c.Tenant = "" },
		"no token":              func(c *Config) { c.Token = "" },
		"publish pool of -1":    func(c *Config) { c.PublishConnPool = -1 },
		"-1 publish streams":    func(c *Config) { c.PublishStreamsPerConn = -1 },
		"publish queue of -1":   func(c *Config) { c.PublishQueueDepth = -1 },
		"publish budget of -1":  func(c *Config) { c.PublishInflightBytes = -1 },
		"event pool of -1":      func(c *Config) { c.EventConnPool = -1 },
		"subscription queue of": func(c *Config) { c.SubQueueCapacity = -1 },
		"ack timeout of -1s":    func(c *Config) { c.AckTimeout = -time.Second },
		"frames of at most -1":  func(c *Config) { c.MaxFrameBytes = -1 },
		"hash_stream, rr":       func(c *Config) { c.PublishSharding = 9 },
		"drop_new, drop_old":    func(c *Config) { c.SubQueuePolicy = 9 },
		"binary, json":          func(c *Config) { c.Encoding = 9 },
	} {
		c := Config{Addr: "localhost:5000", Tenant: "t1", Token: "x"}
		change(&c)
		if _, err := c.resolve(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resolve = %v, want an error with %q", err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"drop_new", "drop_old", "block"} {
		var p Policy
		if err := p.UnmarshalText([]byte(name)); err != nil || p.String() != name {
			t.Errorf("policy %q: %v, %v", name, p, err)
		}
	}
	for _, name := range []string{"hash_stream", "rr"} {
		var s Sharding
		if err := s.UnmarshalText([]byte(name)); err != nil || s.String() != name {
			t.Errorf("sharding %q: %v, %v", name, s, err)
		}
	}
	for _, name := range []string{"binary", "json"} {
		var e Encoding
		if err := e.UnmarshalText([]byte(name)); err != nil || e.String() != name {
			t.Errorf("encoding %q: %v, %v", name, e, err)
		}
	}
	if _, err := ParsePolicy("drop"); err == nil || err.Error() != `policy "drop": want one of drop_new, drop_old, block` {
		t.Errorf("ParsePolicy = %v", err)
	}
}

// WorkerFor is FNV-1a as the standard library has it, and spreads streams over all workers.
func TestWorkerFor(t *testing.T) {
	seen := map[int]int{}
	for i := range 1000 {
		scope := wire.Scope{Tenant: "t1", Namespace: "default", Stream: fmt.Sprint("stream", i)}
		h := fnv.New64a()
		h.Write([]byte(scope.String()))
		w := WorkerFor(scope, 8)
		if want := int(h.Sum64() % 8); w != want {
			t.Fatalf("WorkerFor(%s, 8) = %d, want %d", scope, w, want)
		}
		seen[w]++
	}
	for w := range 8 {
		if seen[w] < 60 {
			t.Errorf("worker %d has %d of 1000 streams", w, seen[w])
		}
	}
}
