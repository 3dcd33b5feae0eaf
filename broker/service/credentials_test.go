package service_test

import (
	"testing"
	"time"

	"felix/broker"
	"felix/broker/service"
	"felix/internal/wire"
)

// A development token may do everything within its tenant, for its time, and nothing in
// another tenant although all share one key.
func TestDevCredentials(t *testing.T) {
	other := wire.Scope{Tenant: "t2", Namespace: "n", Stream: "s"}
	now := time.Now()
	creds, err := service.NewDevCredentials(now, time.Hour, latency, other, latency)
	if err != nil {
		t.Fatal(err)
	}
	if len(creds.Tokens) != 2 || len(creds.JWKS) != 2 {
		t.Fatalf("%d tokens and %d key sets, want one each for t1 and t2", len(creds.Tokens), len(creds.JWKS))
	}
	keyring, err := broker.NewKeyring(creds.JWKS)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := keyring.Verify("t1", creds.Tokens["t1"])
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []broker.Action{broker.ActionPublish, broker.ActionSubscribe, broker.ActionCacheRead, broker.ActionCacheWrite} {
		if !grant.Allows(action, latency) {
			t.Errorf("action %d is not allowed on %s", action, latency)
		}
		if grant.Allows(action, other) {
			t.Errorf("action %d is allowed on %s, another tenant's", action, other)
		}
	}
	if _, err := keyring.Verify("t2", creds.Tokens["t1"]); err == nil {
		t.Error("the token of t1 was taken for t2")
	}
	old, err := service.NewDevCredentials(now.Add(-2*time.Hour), time.Hour, latency)
	if err != nil {
		t.Fatal(err)
	}
	if keyring, err = broker.NewKeyring(old.JWKS); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Verify("t1", old.Tokens["t1"]); err == nil {
		t.Error("a token was taken an hour after its end")
	}
	if _, err := service.NewDevCredentials(now, time.Hour); err == nil {
		t.Error("credentials for no tenant")
	}
}

// conn_stats_ms is the sampling of every connection; the end of each is kept even at 0.
func TestConnStats(t *testing.T) {
	for ms, want := range map[string]time.Duration{"0": 0, "70": 70 * time.Millisecond} {
		o, token := newOptions(t, "conn_stats_ms="+ms)
		s, r := start(t, o)
		c := dial(t, s, r, token, nil)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		lines := s.Monitor().Timelines()
		if len(lines) != 1 || lines[0].Interval != want || !lines[0].Final.Closed {
			t.Errorf("conn_stats_ms=%s: %+v, want one ended connection, sampled each %v", ms, lines, want)
		}
	}
}
