package wire_test

import (
	"errors"
	"testing"

	"felix/internal/wire"
)

// TestFlagsKind goes through all 65,536 values: eight are supported, whichever way one looks.
func TestFlagsKind(t *testing.T) {
	supported := map[wire.Flags]wire.Kind{
		0x0000: wire.KindJSON,
		0x0001: wire.KindPublish,
		0x0009: wire.KindPublishAcked,
		0x0002: wire.KindEventPerSubscriber,
		0x0022: wire.KindEventPerSubscriber,
		0x0004: wire.KindEventShared,
		0x0024: wire.KindEventShared,
		0x0010: wire.KindPublishAck,
	}
	for f := range 1 << 16 {
		got, err := wire.Flags(f).Kind()
		want, ok := supported[wire.Flags(f)]
		if got != want {
			t.Errorf("Flags(0x%04x).Kind() = %v, want %v", f, got, want)
		}
		if ok != (err == nil) || !ok && !errors.Is(err, wire.ErrUnsupportedFlags) {
			t.Errorf("Flags(0x%04x).Kind() error %v; supported %v", f, err, ok)
		}
	}
}

func TestKind(t *testing.T) {
	for _, tt := range []struct {
		kind               wire.Kind
		name               string
		fromClient, broker bool
	}{
		{wire.KindUnsupported, "unsupported", false, false},
		{wire.KindJSON, "json", true, true},
		{wire.KindPublish, "publish", true, false},
		{wire.KindPublishAcked, "publish_acked", true, false},
		{wire.KindEventPerSubscriber, "event_per_subscriber", false, true},
		{wire.KindEventShared, "event_shared", false, true},
		{wire.KindPublishAck, "publish_ack", false, true},
	} {
		if got := tt.kind.String(); got != tt.name {
			t.Errorf("Kind(%d).String() = %q, want %q", uint8(tt.kind), got, tt.name)
		}
		if got := tt.kind.FromClient(); got != tt.fromClient {
			t.Errorf("%v.FromClient() = %v, want %v", tt.kind, got, tt.fromClient)
		}
		if got := tt.kind.FromBroker(); got != tt.broker {
			t.Errorf("%v.FromBroker() = %v, want %v", tt.kind, got, tt.broker)
		}
	}
}

func TestFlagsText(t *testing.T) {
	for _, tt := range []struct {
		flags wire.Flags
		want  string
	}{
		{0, "json"},
		{0x0009, "publish|acked"},
		{wire.KnownFlags, "publish|event_per_subscriber|event_shared|acked|publish_ack|event_offsets"},
		{0x8041, "publish|0x8040"},
	} {
		if got := tt.flags.String(); got != tt.want {
			t.Errorf("Flags(0x%04x).String() = %q, want %q", uint16(tt.flags), got, tt.want)
		}
	}
	_, err := wire.Flags(0x0041).Kind()
	if got, want := err.Error(), "unsupported frame flags: unknown bits 0x0040"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	_, err = wire.Flags(0x0028).Kind()
	if got, want := err.Error(), "unsupported frame flags: impossible combination acked|event_offsets"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
