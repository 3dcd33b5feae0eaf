package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/wire"
)

// body is the JSON of a message, without its header.
func body(m wire.Message) string { return string(wire.AppendMessage(nil, m)[wire.HeaderLen:]) }

// TestMessageText shows every message type with all of its fields, in the protocol's order, and
// what is left of it when the optional ones are unset.
func TestMessageText(t *testing.T) {
	const scope = `"tenant_id":"t1","namespace":"default","stream":"demo"`
	const cache = `"tenant_id":"t1","namespace":"default","cache":"primary"`
	for _, tt := range []struct {
		msg  wire.Message
		want string
	}{
		{wire.Auth{TenantID: "t1", Token: "x"}, `{"type":"auth","tenant_id":"t1","token":"x"}`},
		{wire.Auth{TenantID: "t1", Token: "x", ClientFlags: ptr(wire.KnownFlags)}, `{"type":"auth","tenant_id":"t1","token":"x","client_flags":63}`},
		{wire.AuthOK{ServerFlags: wire.KnownFlags}, `{"type":"auth_ok","server_flags":63}`},
		{wire.Publish{Scope: demo, Payload: []byte("hello"), RequestID: ptr(uint64(7)), Ack: ptr(wire.AckPerMessage)},
			`{"type":"publish",` + scope + `,"payload":"aGVsbG8=","request_id":7,"ack":"per_message"}`},
		{wire.Publish{Scope: demo, Ack: ptr(wire.AckNone)}, `{"type":"publish",` + scope + `,"payload":"","ack":"none"}`},
		{wire.PublishMany{Scope: demo, Payloads: [][]byte{[]byte("hello"), nil}, RequestID: ptr(uint64(7)), Ack: ptr(wire.AckPerBatch)},
			`{"type":"publish_batch",` + scope + `,"payloads":["aGVsbG8=",""],"request_id":7,"ack":"per_batch"}`},
		{wire.PublishMany{Scope: demo}, `{"type":"publish_batch",` + scope + `,"payloads":[]}`},
		{wire.PublishOK{RequestID: 7}, `{"type":"publish_ok","request_id":7}`},
		{wire.PublishError{RequestID: 7, Message: "forbidden"}, `{"type":"publish_error","request_id":7,"message":"forbidden"}`},
		{wire.Subscribe{Scope: demo, SubscriptionID: ptr(uint64(3)), Start: &wire.Start{}},
			`{"type":"subscribe",` + scope + `,"subscription_id":3,"start":"latest"}`},
		{wire.Subscribe{Scope: demo, Start: &wire.Start{Kind: wire.StartEarliest}}, `{"type":"subscribe",` + scope + `,"start":"earliest"}`},
		{wire.Subscribe{Scope: demo, Start: &wire.Start{Kind: wire.StartOffset, Offset: 41}}, `{"type":"subscribe",` + scope + `,"start":{"offset":41}}`},
		{wire.Subscribed{SubscriptionID: 3}, `{"type":"subscribed","subscription_id":3}`},
		{wire.SubscribeCursorError{Reason: wire.CursorInFuture, Requested: 9, Available: 4},
			`{"type":"subscribe_cursor_error","reason":"in_future","requested":9,"available":4}`},
		{wire.EventStreamHello{SubscriptionID: 3}, `{"type":"event_stream_hello","subscription_id":3}`},
		{wire.Event{Scope: demo, Payload: []byte("world"), Offset: ptr(uint64(41))}, `{"type":"event",` + scope + `,"payload":"d29ybGQ=","offset":41}`},
		{wire.EventMany{Scope: demo, Payloads: [][]byte{[]byte("world")}, BaseOffset: ptr(uint64(41))},
			`{"type":"event_batch",` + scope + `,"payloads":["d29ybGQ="],"base_offset":41}`},
		{wire.CachePut{Scope: primary, Key: "k", Value: []byte("v"), RequestID: ptr(uint64(1)), TTLMs: ptr(uint64(5))},
			`{"type":"cache_put",` + cache + `,"key":"k","value":"dg==","request_id":1,"ttl_ms":5}`},
		{wire.CachePut{Scope: primary, Key: "k"}, `{"type":"cache_put",` + cache + `,"key":"k","value":"","ttl_ms":null}`},
		{wire.CacheGet{Scope: primary, Key: "k", RequestID: ptr(uint64(1))}, `{"type":"cache_get",` + cache + `,"key":"k","request_id":1}`},
		{wire.CacheValue{Scope: primary, Key: "k", Value: []byte("v"), RequestID: ptr(uint64(1))},
			`{"type":"cache_value",` + cache + `,"key":"k","value":"dg==","request_id":1}`},
		{wire.CacheValue{Scope: primary, Key: "k"}, `{"type":"cache_value",` + cache + `,"key":"k","value":null}`},
		{wire.CacheOK{RequestID: 1}, `{"type":"cache_ok","request_id":1}`},
		{wire.OK{}, `{"type":"ok"}`},
		{wire.Error{Message: "auth required"}, `{"type":"error","message":"auth required"}`},
	} {
		if got := body(tt.msg); got != tt.want {
			t.Errorf("%T\n got %s\nwant %s", tt.msg, got, tt.want)
		}
	}
}

// TestMessageFields takes each field of each type away in turn, then makes it null, renames it by
// case, and doubles it: what is required must be missed, what is optional must decode to nil.
func TestMessageFields(t *testing.T) {
	const required, optional = true, false
	type fields map[string]bool
	scope := fields{"tenant_id": required, "namespace": required, "stream": required}
	cache := fields{"tenant_id": required, "namespace": required, "cache": required, "key": required}
	with := func(base, more fields) fields {
		all := fields{}
		for _, m := range []fields{base, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for _, tt := range []struct {
		json   string
		fields fields
	}{
		{`"type":"auth","tenant_id":"t","token":"x","client_flags":1`, fields{"tenant_id": required, "token": required, "client_flags": optional}},
		{`"type":"auth_ok","server_flags":1`, fields{"server_flags": required}},
		{`"type":"publish","tenant_id":"t","namespace":"n","stream":"s","payload":"","request_id":1,"ack":"none"`,
			with(scope, fields{"payload": required, "request_id": optional, "ack": optional})},
		{`"type":"publish_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":["",""],"request_id":1,"ack":"none"`,
			with(scope, fields{"payloads": required, "request_id": optional, "ack": optional})},
		{`"type":"publish_ok","request_id":1`, fields{"request_id": required}},
		{`"type":"publish_error","request_id":1,"message":"m"`, fields{"request_id": required, "message": required}},
		{`"type":"subscribe","tenant_id":"t","namespace":"n","stream":"s","subscription_id":1,"start":{"offset":1}`,
			with(scope, fields{"subscription_id": optional, "start": optional})},
		{`"type":"subscribed","subscription_id":1`, fields{"subscription_id": required}},
		{`"type":"subscribe_cursor_error","reason":"too_old","requested":1,"available":1`,
			fields{"reason": required, "requested": required, "available": required}},
		{`"type":"event_stream_hello","subscription_id":1`, fields{"subscription_id": required}},
		{`"type":"event","tenant_id":"t","namespace":"n","stream":"s","payload":"","offset":1`,
			with(scope, fields{"payload": required, "offset": optional})},
		{`"type":"event_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":[],"base_offset":1`,
			with(scope, fields{"payloads": required, "base_offset": optional})},
		{`"type":"cache_put","tenant_id":"t","namespace":"n","cache":"c","key":"k","value":"","request_id":1,"ttl_ms":1`,
			with(cache, fields{"value": required, "request_id": optional, "ttl_ms": optional})},
		{`"type":"cache_get","tenant_id":"t","namespace":"n","cache":"c","key":"k","request_id":1`, with(cache, fields{"request_id": optional})},
		{`"type":"cache_value","tenant_id":"t","namespace":"n","cache":"c","key":"k","value":"","request_id":1`,
			with(cache, fields{"value": required, "request_id": optional})},
		{`"type":"cache_ok","request_id":1`, fields{"request_id": required}},
		{`"type":"error","message":"m"`, fields{"message": required}},
	} {
		if _, err := wire.ParseMessage([]byte("{" + tt.json + "}")); err != nil {
			t.Errorf("%s: %v", tt.json, err)
		}
		members := strings.Split(strings.ReplaceAll(tt.json, `["",""]`, `[]`), ",")
		if len(members) != len(tt.fields)+1 {
			t.Errorf("%s: %d members, %d fields", tt.json, len(members), len(tt.fields))
		}
		for i, member := range members {
			name := strings.Trim(member[:strings.Index(member, ":")], `"`)
			isRequired := name == "type" || tt.fields[name]
			nullable := !isRequired || strings.Contains(tt.json, "cache_value") && name == "value"
			edit := func(what string, wantErr error, member ...string) {
				text := "{" + strings.Join(append(append(append([]string{}, members[:i]...), member...), members[i+1:]...), ",") + "}"
				m, err := wire.ParseMessage([]byte(text))
				if !errors.Is(err, wantErr) {
					t.Errorf("%s %s: %s: %+v, error %v, want %v", name, what, text, m, err, wantErr)
				}
			}
			var missing, null error
			if isRequired {
				missing = wire.ErrMissingField
			}
			if !nullable {
				null = wire.ErrValue
			}
			edit("missing", missing)
			edit("under another name", missing, strings.Replace(member, name, strings.ToUpper(name[:1])+name[1:], 1))
			edit("null", null, `"`+name+`":null`)
			edit("twice", wire.ErrValue, member, member)
			edit("of another kind", wire.ErrValue, `"`+name+`":false`)
			edit("with an escape in its name", nil, strings.Replace(member, name[:1], fmt.Sprintf(`\u%04x`, name[0]), 1))
		}
	}
}

func TestParseMessage(t *testing.T) {
	publish := func(rest string) string {
		return `{"type":"publish","tenant_id":"t1","namespace":"default","stream":"demo",` + rest + `}`
	}
	hi := wire.Publish{Scope: demo, Payload: []byte("hi?>")}
	for _, tt := range []struct {
		name, text string
		want       any // a Message or an error
	}{
		{"fields in any order", `{"payload":"aGk/Pg==","stream":"demo","namespace":"default","tenant_id":"t1","type":"publish"}`, hi},
		{"white space", " {\n\t\"type\" :\r\"ok\" } \n", wire.OK{}},
		{"unknown fields of every kind", publish(`"a":null,"b":[1,-2.5e+3,{"c":[[]]},true,false],"d":{"payload":"no"},"payload":"aGk/Pg=="`), hi},
		{"fields of other types are unknown ones", publish(`"token":1,"token":2,"payload":"aGk/Pg=="`), hi},
		{"escaped slash in base64", publish(`"payload":"aGk\/Pg=="`), hi},
		{"escaped character in base64", publish(`"payload":"\u0061Gk/Pg=="`), hi},
		{"escapes in text", `{"type":"error","message":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000"}`, wire.Error{Message: "\"\\/\b\f\n\r\té😀\x00"}},
		{"text beyond ASCII", `{"type":"error","message":"naïve 世界 😀"}`, wire.Error{Message: "naïve 世界 😀"}},
		{"largest id", `{"type":"publish_ok","request_id":18446744073709551615}`, wire.PublishOK{RequestID: 1<<64 - 1}},
		{"an id one larger", `{"type":"publish_ok","request_id":18446744073709551616}`, wire.ErrValue},
		{"negative id", `{"type":"publish_ok","request_id":-1}`, wire.ErrValue},
		{"fraction", `{"type":"publish_ok","request_id":1.0}`, wire.ErrValue},
		{"exponent", `{"type":"publish_ok","request_id":1e3}`, wire.ErrValue},
		{"number as text", `{"type":"publish_ok","request_id":"1"}`, wire.ErrValue},
		{"leading zero", `{"type":"publish_ok","request_id":01}`, wire.ErrSyntax},
		{"flags of 16 bits", `{"type":"auth_ok","server_flags":65535}`, wire.AuthOK{ServerFlags: 0xffff}},
		{"flags of 17 bits", `{"type":"auth_ok","server_flags":65536}`, wire.ErrValue},
		{"unknown ack mode", publish(`"payload":"","ack":"maybe"`), wire.ErrValue},
		{"ack mode by another case", publish(`"payload":"","ack":"None"`), wire.ErrValue},
		{"start without offset", `{"type":"subscribe","tenant_id":"t","namespace":"n","stream":"s","start":{}}`, wire.ErrMissingField},
		{"start of an unknown word", `{"type":"subscribe","tenant_id":"t","namespace":"n","stream":"s","start":"offset"}`, wire.ErrValue},
		{"base64 without padding", publish(`"payload":"aGk/Pg"`), wire.ErrValue},
		{"base64 of the URL alphabet", publish(`"payload":"aGk_Pg=="`), wire.ErrValue},
		{"base64 with bits left over", publish(`"payload":"aGk/Ph=="`), wire.ErrValue},
		{"base64 with a line break", publish(`"payload":"aGk/\nPg=="`), wire.ErrValue},
		{"base64 with four", publish(`"payload":"aGk/\n\r\n\rPg=="`), wire.ErrValue},
		{"batch with a number in it", `{"type":"event_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":["",1]}`, wire.ErrValue},
		{"batch with null in it", `{"type":"event_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":[null]}`, wire.ErrValue},
		{"batch with bad base64", `{"type":"event_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":["aGk="," "]}`, wire.ErrValue},
		{"batch with spaces and escapes", `{"type":"event_batch","tenant_id":"t1","namespace":"default","stream":"demo","payloads":[ "aGk\u003d" , "" ,"aGVsbG8="]}`,
			wire.EventMany{Scope: demo, Payloads: [][]byte{[]byte("hi"), {}, []byte("hello")}}},
		{"unknown type", `{"type":"hello"}`, wire.ErrUnknownType},
		{"type by another case", `{"type":"Ok"}`, wire.ErrUnknownType},
		{"no type", `{}`, wire.ErrMissingField},
		{"type of another kind", `{"type":1}`, wire.ErrValue},
		{"nothing", ``, wire.ErrSyntax},
		{"no object", `["type","ok"]`, wire.ErrSyntax},
		{"byte order mark", "\ufeff" + `{"type":"ok"}`, wire.ErrSyntax},
		{"two objects", `{"type":"ok"}{"type":"ok"}`, wire.ErrTrailing},
		{"comma before the end", `{"type":"ok",}`, wire.ErrSyntax},
		{"comment", `{"type":"ok"/**/}`, wire.ErrSyntax},
		{"single quotes", `{'type':'ok'}`, wire.ErrSyntax},
		{"control character in text", "{\"type\":\"error\",\"message\":\"a\tb\"}", wire.ErrSyntax},
		{"bad UTF-8 in text", "{\"type\":\"error\",\"message\":\"\xff\"}", wire.ErrSyntax},
		{"bad UTF-8 in an unknown field", "{\"type\":\"ok\",\"x\":\"\xc0\xaf\"}", wire.ErrSyntax},
		{"first half of a surrogate pair", `{"type":"error","message":"\ud83d"}`, wire.ErrSyntax},
		{"first half and something else", `{"type":"error","message":"\ud83dxxxxxx"}`, wire.ErrSyntax},
		{"second half first", `{"type":"error","message":"\ude00\ud83d"}`, wire.ErrSyntax},
		{"unknown escape", `{"type":"error","message":"\x41"}`, wire.ErrSyntax},
		{"short escape", `{"type":"error","message":"\u12"}`, wire.ErrSyntax},
		{"nested to the limit", `{"type":"ok","x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, wire.OK{}},
		{"nested deeper", `{"type":"ok","x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, wire.ErrSyntax},
		{"a million brackets", `{"type":"ok","x":` + strings.Repeat("[", 1e6), wire.ErrSyntax},
	} {
		got, err := wire.ParseMessage([]byte(tt.text))
		if want, ok := tt.want.(error); ok {
			if !errors.Is(err, want) || !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s: %+v, error %v, want %v", tt.name, got, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if diff := cmp.Diff(tt.want, any(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestParseMessageErrorText(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"type":"publish_ok"}`, `malformed message: "publish_ok": missing field request_id`},
		{`{"type":"hello"}`, `malformed message: "hello": unknown message type`},
		{`{"type":"auth_ok","server_flags":70000}`, `malformed message: "auth_ok": server_flags: bad value 70000: want an integer from 0 to 65535`},
		{`{"type":"ok"`, `malformed message: bad JSON: byte 12: want ',' or '}'`},
		{`{"type":"publish","tenant_id":"t","namespace":"n","stream":"s","payload":"","ack":"all"}`,
			`malformed message: "publish": ack: bad value: ack mode "all": want none, per_message or per_batch`},
	} {
		if _, err := wire.ParseMessage([]byte(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

// TestAppendString: only what RFC 8259 requires is escaped, < > & and U+2028 are not, and text
// that is not UTF-8 still makes a message that can be read.
func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"plain", `plain`},
		{"<a href='x'>&</a>", `<a href='x'>&</a>`},
		{"\"\\/", `\"\\/`},
		{"\b\f\n\r\t\x00\x1f\x7f", `\b\f\n\r\t\u0000\u001f` + "\x7f"},
		{"é世😀\u2028\u2029", "é世😀\u2028\u2029"},
		{"a\xffb\xc0", "a\ufffdb\ufffd"},
	} {
		text := body(wire.Error{Message: tt.text})
		if want := `{"type":"error","message":"` + tt.want + `"}`; text != want {
			t.Errorf("%q\n got %s\nwant %s", tt.text, text, want)
		}
		m, err := wire.ParseMessage([]byte(text))
		if want := (wire.Error{Message: strings.ToValidUTF8(tt.text, "\ufffd")}); err != nil || m != want {
			t.Errorf("%q: read back as %q, %v", tt.text, m, err)
		}
	}
}

// TestStringEnds puts the end of a string, and what ends it badly, at every distance from where
// the scanner's steps of eight bytes begin.
func TestStringEnds(t *testing.T) {
	for n := range 40 {
		text := strings.Repeat("a", n)
		for _, tt := range []struct {
			add  string
			want string
			err  error
		}{
			{"", text, nil},
			{`\"`, text + `"`, nil},
			{`é`, text + "é", nil},
			{"\x1f", "", wire.ErrSyntax},
			{"\x80", "", wire.ErrSyntax},
		} {
			for _, after := range []string{"", "bbbbbbbbbbbbbbbb"} {
				m, err := wire.ParseMessage([]byte(`{"type":"error","message":"` + text + tt.add + after + `"}`))
				if !errors.Is(err, tt.err) {
					t.Errorf("%d bytes and %q: error %v, want %v", n, tt.add+after, err, tt.err)
				} else if want := (wire.Error{Message: tt.want + after}); err == nil && m != want {
					t.Errorf("%d bytes and %q: %q, want %q", n, tt.add+after, m, want)
				}
			}
		}
	}
}

// TestParseMessageCost: JSON is one of the encodings that are measured, so what a publish costs
// is part of what it is: names, payload, message and its optional fields, whatever the batch.
func TestParseMessageCost(t *testing.T) {
	payloads := make([][]byte, 64)
	for i := range payloads {
		payloads[i] = make([]byte, 4096)
	}
	for _, tt := range []struct {
		msg  wire.Message
		want float64
	}{
		{wire.Event{Scope: demo, Payload: payloads[0]}, 3},
		{wire.Publish{Scope: demo, Payload: payloads[0], RequestID: ptr(uint64(1)), Ack: ptr(wire.AckPerMessage)}, 5},
		{wire.PublishMany{Scope: demo, Payloads: payloads, Ack: ptr(wire.AckNone)}, 5},
	} {
		text := []byte(body(tt.msg))
		got := testing.AllocsPerRun(20, func() {
			if _, err := wire.ParseMessage(text); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.want {
			t.Errorf("%T: %v allocations, want at most %v", tt.msg, got, tt.want)
		}
	}
}
