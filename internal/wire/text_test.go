package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"felix/internal/wire"
)

func TestParseScope(t *testing.T) {
	for _, tt := range []struct{ text, want string }{ // want: error text, "" for none
		{"t1/default/demo", ""},
		{"t1/default/Demo stream_7", ""},
		{"t1/default", `scope "t1/default": want TENANT/NAMESPACE/STREAM, such as t1/default/demo`},
		{"t1/default/a/b", `scope "t1/default/a/b": want TENANT/NAMESPACE/STREAM, such as t1/default/demo`},
		{"//", `scope "//": want TENANT/NAMESPACE/STREAM, such as t1/default/demo`},
		{"", `scope "": want TENANT/NAMESPACE/STREAM, such as t1/default/demo`},
		{"t1/default/\xff", `stream "\xff": not UTF-8`},
		{strings.Repeat("t", 65536) + "/n/s", `tenant_id of 65536 bytes: too long: at most 65535`},
	} {
		s, err := wire.ParseScope(tt.text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("ParseScope(%.30q) error %q, want %q", tt.text, got, tt.want)
		}
		if err == nil && s.String() != tt.text {
			t.Errorf("ParseScope(%q).String() = %q", tt.text, s)
		}
	}
}

// TestTexts: types that stand in settings and records have a text that reads back, and an error
// that lists the choices.
func TestTexts(t *testing.T) {
	type texts struct {
		Scope, None wire.Scope
		Ack         wire.AckMode
		Start       wire.StartKind
	}
	want := texts{Scope: demo, Ack: wire.AckPerBatch, Start: wire.StartEarliest}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"Scope":"t1/default/demo","None":"","Ack":"per_batch","Start":"earliest"}`; string(text) != want {
		t.Errorf("JSON %s, want %s", text, want)
	}
	var got texts
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("read back as %+v, %v; want %+v", got, err, want)
	}
	for _, tt := range []struct{ text, want string }{
		{`{"Ack":"all"}`, `ack mode "all": want none, per_message or per_batch`},
		{`{"Start":"now"}`, `start "now": want latest, earliest or offset`},
		{`{"Scope":"demo"}`, `scope "demo": want TENANT/NAMESPACE/STREAM, such as t1/default/demo`},
	} {
		if err := json.Unmarshal([]byte(tt.text), &got); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %s", tt.text, err, tt.want)
		}
	}
	if _, err := wire.AckMode(3).MarshalText(); err == nil {
		t.Error("ack mode 3 has a text, want an error")
	}
	if _, err := wire.StartKind(3).MarshalText(); err == nil {
		t.Error("start kind 3 has a text, want an error")
	}
	if got, want := (wire.Start{Kind: wire.StartOffset, Offset: 41}).String(), "offset 41"; got != want {
		t.Errorf("start = %q, want %q", got, want)
	}
}
