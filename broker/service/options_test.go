package service

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"felix/internal/settings"
)

// changed is a value other than the default, for a flag.
func changed(k settings.Key) string {
	switch {
	case k.Name == "packet_size":
		return "1300"
	case len(k.Choices) > 0:
		return k.Choices[slices.IndexFunc(k.Choices, func(c string) bool { return c != k.Default })]
	case k.Default == "0":
		return "1"
	case k.Default == "true":
		return "false"
	case k.Default == "false":
		return "true"
	case k.Name == "streams" || k.Name == "caches":
		return "t1/default/other"
	case k.Default == "0" && k.Unit != "":
		return "1"
	case k.Unit == "bytes":
		n, _ := settings.ParseSize(k.Default)
		return fmt.Sprint(n - 1024)
	case k.Unit != "" && k.Unit != "file":
		n, _ := settings.ParseSize(k.Default)
		return fmt.Sprint(n - 1)
	}
	return ""
}

// A key that is accepted and does not reach the broker or its transport is a knob that does
// nothing. What the service obeys itself is named here and tested one by one.
func TestEveryKeyReachesItsConfig(t *testing.T) {
	own := []string{"quic_bind", "metrics_bind", "shutdown_drain_timeout_ms", "tls_cert", "tls_key", "auth_jwks", "conn_stats_ms"}
	type configs struct{ broker, transport any }
	load := func(sets ...string) (c configs) {
		var b settings.Broker
		var tr settings.Transport
		if _, err := settings.LoadAll(settings.Layers{Sets: sets}, &b, &tr); err != nil {
			t.Fatal(err)
		}
		bc, err := brokerConfig(&b)
		if err != nil {
			t.Fatal(err)
		}
		if bc, err = bc.Resolve(); err != nil {
			t.Fatal(err)
		}
		// Resolve puts a logger and a verifier, which do not come from settings.
		bc.Logger, bc.Verifier = nil, nil
		return configs{bc, TransportConfig(&tr)}
	}
	defaults := load()
	for _, k := range settings.Keys() {
		if k.Section == "client" || slices.Contains(own, k.Name) {
			continue
		}
		got := load(k.Name + "=" + changed(k))
		b, tr := !reflect.DeepEqual(got.broker, defaults.broker), !reflect.DeepEqual(got.transport, defaults.transport)
		if b != (k.Section == "broker") || tr != (k.Section == "transport") {
			t.Errorf("%s=%s changes the broker's config: %v, the transport's: %v", k.Name, changed(k), b, tr)
		}
	}
}

// The latency profile is one setting.
func TestFanoutBatchOfOneIsSingleEvent(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "1": true, "2": false, "64": false} {
		var b settings.Broker
		if err := settings.Load(&b, settings.Layers{Sets: []string{"fanout_batch_size=" + value}}); err != nil {
			t.Fatal(err)
		}
		c, err := brokerConfig(&b)
		if err != nil || c.SingleEvent != want {
			t.Errorf("fanout_batch_size %s: single event %v, error %v, want %v", value, c.SingleEvent, err, want)
		}
	}
}

func TestZeroIsOff(t *testing.T) {
	if got := milliseconds(0); got >= 0 {
		t.Errorf("0 ms is %v, want a negative duration", got)
	}
	if got := milliseconds(250); got != 250*time.Millisecond {
		t.Errorf("250 ms is %v", got)
	}
}
