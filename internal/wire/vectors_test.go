package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/wire"
)

func ptr[T any](v T) *T { return &v }

var (
	demo    = wire.Scope{Tenant: "t1", Namespace: "default", Stream: "demo"}
	primary = wire.Scope{Tenant: "t1", Namespace: "default", Stream: "primary"}
	hello   = [][]byte{[]byte("hello")}
)

// encode is the frame of any value of this package that has one.
func encode(t testing.TB, v any) []byte {
	t.Helper()
	switch v := v.(type) {
	case wire.PublishBatch:
		return v.Append(nil)
	case wire.EventBatch:
		return v.Append(nil)
	case wire.PublishAck:
		return v.Append(nil)
	case wire.Message:
		return wire.AppendMessage(nil, v)
	}
	t.Fatalf("no frame for %T", v)
	return nil
}

// decode is what encode began with.
func decode(frame []byte) (any, error) {
	h, body, err := wire.ReadFrame(bytes.NewReader(frame), 0, nil)
	if err != nil {
		return nil, err
	}
	kind, err := h.Flags.Kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case wire.KindPublish, wire.KindPublishAcked:
		return value(wire.ParsePublishBatch(h.Flags, body))
	case wire.KindEventPerSubscriber, wire.KindEventShared:
		return value(wire.ParseEventBatch(h.Flags, body, nil))
	case wire.KindPublishAck:
		return value(wire.ParsePublishAck(body))
	}
	return value(wire.ParseMessage(body))
}

func value[T any](v T, err error) (any, error) { return v, err }

// vectors are what each file of the vectors folder means.
var vectors = map[string]any{
	"auth_ok":                  wire.AuthOK{ServerFlags: 25},
	"auth_with_capabilities":   wire.Auth{TenantID: "t1", Token: "demo-token", ClientFlags: ptr(wire.Flags(25))},
	"binary_publish_ack_error": wire.PublishAck{RequestID: 9, Err: "stream not found"},
	"binary_publish_ack_ok":    wire.PublishAck{RequestID: 7, OK: true},
	"binary_publish_acked":     wire.PublishBatch{Acked: true, RequestID: 7, AckMode: wire.AckPerBatch, Scope: demo, Payloads: hello},
	"cache_get":                wire.CacheGet{Scope: primary, Key: "demo-key"},
	"cache_put":                wire.CachePut{Scope: primary, Key: "demo-key", Value: []byte("cached"), TTLMs: ptr(uint64(1000))},
	"cache_value":              wire.CacheValue{Scope: primary, Key: "demo-key", Value: []byte("cached")},
	"error":                    wire.Error{Message: "oops"},
	"event":                    wire.Event{Scope: demo, Payload: []byte("world")},
	"ok":                       wire.OK{},
	"publish":                  wire.Publish{Scope: demo, Payload: []byte("hello")},
	"subscribe":                wire.Subscribe{Scope: demo},
}

func checkVector(t *testing.T, want any, frame []byte) {
	t.Helper()
	if got := encode(t, want); !bytes.Equal(got, frame) {
		t.Errorf("encoding of %#v\n got %x\nwant %x", want, got, frame)
	}
	got, err := decode(frame)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded value (-want +got):\n%s", diff)
	}
}

func TestSharedVectors(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "vectors")
	files, _ := filepath.Glob(filepath.Join(dir, "*.hex"))
	if len(files) == 0 {
		t.Skipf("no vectors in %s beside the repository", dir)
	}
	seen := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hex")
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			frame, err := hex.DecodeString(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			want, ok := vectors[name]
			if !ok {
				t.Fatalf("vector %s is not in this test's table", name)
			}
			checkVector(t, want, frame)
			checkDescription(t, strings.TrimSuffix(file, ".hex")+".json", frame)
		})
	}
	for name := range vectors {
		if !seen[name] {
			t.Errorf("vector %s has no file", name)
		}
	}
}

// checkDescription compares the frame with the vector's .json file, where the same bytes stand
// with their payload apart.
func checkDescription(t *testing.T, file string, frame []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var desc struct {
		FrameHex    string `json:"frame_hex"`
		PayloadHex  string `json:"payload_hex"`
		PayloadJSON string `json:"payload_json"`
		Flags       wire.Flags
	}
	if err := json.Unmarshal(text, &desc); err != nil {
		t.Fatal(err)
	}
	h, body, err := wire.ReadFrame(bytes.NewReader(frame), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.Flags != desc.Flags {
		t.Errorf("flags = %v, want %v", h.Flags, desc.Flags)
	}
	if got := hex.EncodeToString(frame); got != desc.FrameHex {
		t.Errorf("frame = %s, want %s", got, desc.FrameHex)
	}
	if got := hex.EncodeToString(body); got != desc.PayloadHex {
		t.Errorf("body = %s, want %s", got, desc.PayloadHex)
	}
	if desc.Flags == 0 && string(body) != desc.PayloadJSON {
		t.Errorf("body = %s, want %s", body, desc.PayloadJSON)
	}
}

// TestProtocolVectors holds the frames that the protocol's text spells out.
func TestProtocolVectors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		frame string
	}{
		{"unacked publish batch", wire.PublishBatch{Scope: demo, Payloads: hello},
			"464c5831000100010000002000027431000764656661756c74000464656d6f000000010000000568656c6c6f"},
		{"shared event batch", wire.EventBatch{Payloads: hello},
			"464c5831000100040000000d000000010000000568656c6c6f"},
		{"shared event batch, base_offset 41", wire.EventBatch{HasOffset: true, BaseOffset: 41, Payloads: hello},
			"464c583100010024000000150000000000000029000000010000000568656c6c6f"},
		{"event batch of subscription 3, base_offset 41",
			wire.EventBatch{HasSubscriptionID: true, SubscriptionID: 3, HasOffset: true, BaseOffset: 41, Payloads: hello},
			"464c5831000100220000001d00000000000000030000000000000029000000010000000568656c6c6f"},
		{"subscribed", wire.Subscribed{SubscriptionID: 3}, jsonFrame(`{"type":"subscribed","subscription_id":3}`)},
		{"event_stream_hello", wire.EventStreamHello{SubscriptionID: 3}, jsonFrame(`{"type":"event_stream_hello","subscription_id":3}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			frame, err := hex.DecodeString(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			checkVector(t, tt.value, frame)
		})
	}
}

func jsonFrame(body string) string {
	return hex.EncodeToString(append(wire.Header{Length: len(body)}.Append(nil), body...))
}
