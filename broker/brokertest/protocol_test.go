package brokertest

import (
	"bytes"

	"encoding/binary"
	"fmt"

	"strings"
	"testing"
	"testing/synctest"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

func ptr[T any](v T) *T { return &v }

var (
	missing   = wire.Scope{Tenant: Tenant, Namespace: "default", Stream: "missing"}
	foreign   = wire.Scope{Tenant: "t2", Namespace: "default", Stream: "demo"}
	primary   = wire.Scope{Tenant: Tenant, Namespace: "default", Stream: "primary"} // a cache
	notFound  = "stream not found: tenant=t1 namespace=default stream=missing"
	ackedOpen = wire.PublishAck{RequestID: 99, OK: true} // the reply that shows that a stream stays
)

func frame(flags wire.Flags, body string) []byte {
	return append(wire.Header{Flags: flags, Length: len(body)}.Append(nil), body...)
}

func acked(id uint64, scope wire.Scope, payloads ...string) []byte {
	b := wire.PublishBatch{Acked: true, RequestID: id, AckMode: wire.AckPerBatch, Scope: scope, Payloads: Bytes(payloads)}
	return b.Append(nil)
}

// bad breaks the count of a frame's only payload.
func bad(f []byte) []byte {
	binary.BigEndian.PutUint32(f[len(f)-len("x")-8:], 1000)
	return f
}

func message(m wire.Message) []byte { return wire.AppendMessage(nil, m) }

// everyMode runs a test with each way of acking and executing publishes.
func everyMode(t *testing.T, name string, cfg broker.Config, f func(t *testing.T, n *Net)) {
	run(t, name, cfg, f)
	cfg.AckOnCommit = true
	run(t, name+"/commit", cfg, f)
	cfg.CoreShards = 2
	run(t, name+"/commit on shards", cfg, f)
}

// TestReplies goes through PROTOCOL.md, "Replies to what is wrong", on a control stream.
func TestReplies(t *testing.T) {
	const stays, closes, resets = "stays", "closes", "resets"
	one := ptr(uint64(1))
	none := ptr(wire.AckNone)
	for _, tt := range []struct {
		name string
		send []byte
		want any // nil: no reply
		then string
		code transport.ApplicationErrorCode
	}{
		{"bad magic", []byte("FLX2\x00\x01\x00\x00\x00\x00\x00\x00"), nil, resets, transport.CodeProtocol},
		{"bad version", []byte("FLX1\x00\x02\x00\x00\x00\x00\x00\x00"), nil, resets, transport.CodeProtocol},
		{"frame too large", wire.Header{Length: 1<<20 + 1}.Append(nil), nil, resets, transport.CodeLimit},
		{"JSON that does not decode", frame(0, `{"type":"subscribe","tenant_id":7}`), nil, resets, transport.CodeProtocol},
		{"missing field", frame(0, `{"type":"subscribe","tenant_id":"t1"}`), nil, resets, transport.CodeProtocol},
		{"unacked bad body", bad(Batch(Demo, "x")), nil, resets, transport.CodeProtocol},
		{"acked, too short for its id", frame(wire.FlagPublish|wire.FlagAcked, "\x00\x00"), nil, resets, transport.CodeProtocol},

		{"unexpected message", message(wire.OK{}), wire.Error{Message: "unexpected message type"}, closes, transport.CodeProtocol},
		{"unknown message", frame(0, `{"type":"hey"}`), wire.Error{Message: "unexpected message type"}, closes, transport.CodeProtocol},
		{"publish, other tenant", message(wire.Publish{Scope: foreign, Ack: none}), wire.Error{Message: "tenant mismatch"}, closes, transport.CodeAuth},
		{"publish with id, other tenant", message(wire.Publish{Scope: foreign, RequestID: one}), wire.PublishError{RequestID: 1, Message: "tenant mismatch"}, closes, transport.CodeAuth},
		{"publish_batch with id, other tenant", message(wire.PublishMany{Scope: foreign, RequestID: one}), wire.PublishError{RequestID: 1, Message: "tenant mismatch"}, closes, transport.CodeAuth},
		{"subscribe, other tenant", message(wire.Subscribe{Scope: foreign}), wire.Error{Message: "tenant mismatch"}, closes, transport.CodeAuth},
		{"cache, other tenant", message(wire.CacheGet{Scope: foreign, Key: "k"}), wire.Error{Message: "tenant mismatch"}, closes, transport.CodeAuth},
		{"unacked binary, other tenant", Batch(foreign, "x"), wire.Error{Message: "tenant mismatch"}, closes, transport.CodeAuth},

		{"acked binary, other tenant", acked(1, foreign, "x"), wire.PublishAck{RequestID: 1, Err: "tenant mismatch"}, stays, 0},
		{"acked binary, no stream", acked(1, missing, "x"), wire.PublishAck{RequestID: 1, Err: notFound}, stays, 0},
		{"unacked binary, no stream", Batch(missing, "x"), nil, stays, 0},
		{"acked JSON, no stream", message(wire.Publish{Scope: missing, RequestID: one}), wire.PublishError{RequestID: 1, Message: notFound}, stays, 0},
		{"unacked JSON, no stream", message(wire.Publish{Scope: missing, RequestID: one, Ack: none}), nil, stays, 0},
		{"subscribe, no stream", message(wire.Subscribe{Scope: missing}), wire.Error{Message: notFound}, stays, 0},
		{"publish without id", message(wire.Publish{Scope: Demo}), wire.Error{Message: "missing request_id for acked publish"}, stays, 0},
		{"publish_batch without id", message(wire.PublishMany{Scope: Demo}), wire.Error{Message: "missing request_id for acked publish"}, stays, 0},
		{"no cache", message(wire.CacheGet{Scope: missing, Key: "k"}), wire.Error{Message: "cache scope not found: t1/default/missing"}, stays, 0},
		{"acked bad body", bad(acked(7, Demo, "x")),
			wire.PublishAck{RequestID: 7, Err: "malformed publish batch: count 1000, 5 bytes: count exceeds the bytes that follow"}, stays, 0},

		{"unknown flag", frame(0x0040, "body"), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"unknown flag beside a known one", frame(0x0041, "body"), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"acked alone", frame(wire.FlagAcked, ""), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"offsets alone", frame(wire.FlagEventOffsets, ""), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"two bodies", frame(wire.FlagPublish|wire.FlagEventShared, ""), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"event from a client", frame(wire.FlagEventShared, "\x00\x00\x00\x00"), wire.Error{Message: "unsupported frame flags"}, stays, 0},
		{"ack from a client", frame(wire.FlagPublishAck, ""), wire.Error{Message: "unsupported frame flags"}, stays, 0},

		{"batch of nothing", acked(1, Demo), wire.PublishAck{RequestID: 1, OK: true}, stays, 0},
		{"JSON batch of nothing", message(wire.PublishMany{Scope: Demo, RequestID: one}), wire.PublishOK{RequestID: 1}, stays, 0},
		{"publish acked by absence", message(wire.Publish{Scope: Demo, RequestID: one}), wire.PublishOK{RequestID: 1}, stays, 0},
		{"publish acked per batch", message(wire.Publish{Scope: Demo, RequestID: one, Ack: ptr(wire.AckPerBatch)}), wire.PublishOK{RequestID: 1}, stays, 0},
		{"publish_batch acked per message: one reply", message(wire.PublishMany{Scope: Demo, Payloads: Bytes([]string{"a", "b"}), RequestID: one, Ack: ptr(wire.AckPerMessage)}), wire.PublishOK{RequestID: 1}, stays, 0},
		{"unacked publish", message(wire.Publish{Scope: Demo, Ack: none}), nil, stays, 0},
	} {
		everyMode(t, tt.name, broker.Config{MaxFrameBytes: 1 << 20, Caches: []wire.Scope{primary}}, func(t *testing.T, n *Net) {
			s := n.Control(n.Dial())
			s.Raw(tt.send)
			if tt.want != nil {
				s.Want(tt.want)
			}
			switch tt.then {
			case stays:
				s.PublishAcked(99, Demo, "x")
				s.Want(ackedOpen)
			case closes:
				s.WantEnd()
				s.WantStopped(tt.code)
			case resets:
				s.WantReset(tt.code)
				s.WantStopped(tt.code)
			}
		})
	}
}

func TestForbidden(t *testing.T) {
	for _, tt := range []struct {
		name string
		perm string
		send []byte
		want any
	}{
		{"publish", "stream.subscribe:stream:*", message(wire.Publish{Scope: Demo, Ack: ptr(wire.AckNone)}), wire.Error{Message: "forbidden"}},
		{"acked publish", "stream.subscribe:stream:*", message(wire.Publish{Scope: Demo, RequestID: ptr(uint64(1))}), wire.PublishError{RequestID: 1, Message: "forbidden"}},
		{"acked binary publish", "stream.publish:stream:t1/other/*", acked(1, Demo, "x"), wire.PublishAck{RequestID: 1, Err: "forbidden"}},
		// Nobody learns without permission which streams there are.
		{"publish to what does not exist", "stream.publish:stream:t1/other/*", acked(1, missing, "x"), wire.PublishAck{RequestID: 1, Err: "forbidden"}},
		{"subscribe", "stream.publish:stream:*", message(wire.Subscribe{Scope: Demo}), wire.Error{Message: "forbidden"}},
		{"cache write", "cache.read:cache:*", message(wire.CachePut{Scope: primary, Key: "k"}), wire.Error{Message: "forbidden"}},
		{"cache read", "cache.write:cache:*", message(wire.CacheGet{Scope: primary, Key: "k"}), wire.Error{Message: "forbidden"}},
	} {
		run(t, tt.name, broker.Config{Caches: []wire.Scope{primary}}, func(t *testing.T, n *Net) {
			s := n.ControlAs(n.Dial(), Tenant, n.TokenFor(Tenant, tt.perm))
			s.Raw(tt.send)
			s.Want(tt.want)
			if _, stays := tt.want.(wire.PublishAck); stays {
				s.Message(wire.OK{})
				s.Want(wire.Error{Message: "unexpected message type"})
			}
			s.WantEnd()
		})
	}
}

func TestPublishOnlyStream(t *testing.T) {
	run(t, "publishes", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.Dial()
		_, events := n.Subscribe(c, n.Control(c), Demo, nil)
		s := n.PublishOnly(c, n.Token())
		s.Publish(Demo, "a", "b")
		s.PublishAcked(1, Demo, "c")                               // the ack is ignored
		s.Message(wire.Publish{Scope: Demo, Payload: []byte("d")}) // so is the missing request id
		s.Publish(missing, "lost")                                 // nobody is told
		s.Publish(Demo, "e")
		s.CloseSend()
		events.WantEvents(nil, "a", "b", "c", "d", "e")
	})
	for _, tt := range []struct {
		name string
		send []byte
		code transport.ApplicationErrorCode
	}{
		{"subscribe", message(wire.Subscribe{Scope: Demo}), transport.CodeProtocol},
		{"auth again", message(wire.Auth{TenantID: Tenant, Token: "x"}), transport.CodeProtocol},
		{"unknown flags", frame(0x40, ""), transport.CodeProtocol},
		{"bad body", bad(Batch(Demo, "x")), transport.CodeProtocol},
		{"acked bad body", bad(acked(1, Demo, "x")), transport.CodeProtocol},
		{"other tenant", Batch(foreign, "x"), transport.CodeAuth},
		{"acked, other tenant", acked(1, foreign, "x"), transport.CodeAuth},
		{"bad magic", []byte("FELIXFELIXFELIX"), transport.CodeProtocol},
		{"frame too large", wire.Header{Length: 64 << 20}.Append(nil), transport.CodeLimit},
	} {
		run(t, tt.name, broker.Config{}, func(t *testing.T, n *Net) {
			s := n.PublishOnly(n.Dial(), n.Token())
			s.Raw(tt.send)
			s.WantStopped(tt.code)
		})
	}
}

// TestAckOrder: replies leave in request order, whatever their kind, and each request has one.
func TestAckOrder(t *testing.T) {
	everyMode(t, "mixed", broker.Config{Caches: []wire.Scope{primary}}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		var all []byte
		var want []any
		for i := range uint64(600) {
			switch i % 6 {
			case 0:
				all = append(all, acked(i, Demo, "x")...)
				want = append(want, wire.PublishAck{RequestID: i, OK: true})
			case 1:
				all = append(all, Batch(Demo, "x")...)
			case 2:
				all = wire.AppendMessage(all, wire.Publish{Scope: Demo, RequestID: &i})
				want = append(want, wire.PublishOK{RequestID: i})
			case 3:
				all = append(all, acked(i, missing, "x")...)
				want = append(want, wire.PublishAck{RequestID: i, Err: notFound})
			case 4:
				all = wire.AppendMessage(all, wire.CachePut{Scope: primary, Key: "k", RequestID: &i})
				want = append(want, wire.CacheOK{RequestID: i})
			case 5:
				all = append(all, frame(0x80, "?")...)
				want = append(want, wire.Error{Message: "unsupported frame flags"})
			}
		}
		s.Raw(all)
		for _, w := range want {
			s.Want(w)
		}
		var reads broker.Wakeup
		for _, w := range n.Broker.Stats().Wakeups {
			if w.Place == "stream_read" {
				reads = w
			}
		}
		if reads.Items < 600 || reads.Count*4 > reads.Items {
			t.Errorf("%d Read calls for %d small frames, want few", reads.Count, reads.Items)
		}
	})
}

// TestHalfClose: the client's end is answered by what is owed and the broker's end, which says
// that everything was read.
func TestHalfClose(t *testing.T) {
	everyMode(t, "replies are still sent", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		s.PublishAcked(1, Demo, "x")
		s.PublishAcked(2, Demo, "y")
		s.CloseSend()
		s.Want(wire.PublishAck{RequestID: 1, OK: true})
		s.Want(wire.PublishAck{RequestID: 2, OK: true})
		s.WantEnd()
	})
	run(t, "8 MiB unacked are read to the end", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		payload := strings.Repeat("p", 64<<10)
		for range 128 {
			s.Publish(Demo, payload)
		}
		s.CloseSend()
		s.WantEnd()
		if got := n.Broker.Stats().Flow; got.ReceivedMsgs != 128 || got.AcceptedMsgs != 128 || got.BytesIn != 8<<20 {
			t.Errorf("received %d messages, accepted %d, %d bytes; want 128 and 8 MiB", got.ReceivedMsgs, got.AcceptedMsgs, got.BytesIn)
		}
	})
	run(t, "inside a frame", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		f := Batch(Demo, "x")
		s.Raw(f[:len(f)-1])
		s.CloseSend()
		s.WantReset(transport.CodeProtocol) // an end would say that all was read
	})
	run(t, "before auth", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Open(n.Dial())
		s.Raw([]byte("F"))
		s.CloseSend()
		s.WantReset(transport.CodeProtocol)
	})
	everyMode(t, "owed before a violation", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		s.Raw(append(acked(1, Demo, "x"), "no frame at all"...))
		s.Want(wire.PublishAck{RequestID: 1, OK: true})
		s.WantReset(transport.CodeProtocol)
	})
}

func TestCache(t *testing.T) {
	cfg := broker.Config{Caches: []wire.Scope{primary}}
	run(t, "values and life", cfg, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		id := uint64(0)
		put := func(key, value string, ttl *uint64) {
			id++
			s.Message(wire.CachePut{Scope: primary, Key: key, Value: []byte(value), RequestID: ptr(id), TTLMs: ttl})
			s.Want(wire.CacheOK{RequestID: id})
		}
		want := func(key string, value []byte) {
			t.Helper()
			id++
			s.Message(wire.CacheGet{Scope: primary, Key: key, RequestID: ptr(id)})
			v, ok := s.Next().(wire.CacheValue)
			if !ok || v.Scope != primary || v.Key != key || v.RequestID == nil || *v.RequestID != id ||
				!bytes.Equal(v.Value, value) || (v.Value == nil) != (value == nil) {
				t.Errorf("%s: got %#v, want %q", key, v, value)
			}
		}
		want("missing", nil)
		put("k", "v", nil)
		put("empty", "", nil)
		put("short", "s", ptr(uint64(1000)))
		put("gone", "g", ptr(uint64(0)))
		want("k", []byte("v"))
		want("empty", []byte{})
		want("short", []byte("s"))
		want("gone", nil)
		wait(1100)
		want("short", nil)
		want("k", []byte("v"))
		put("k", "w", ptr(^uint64(0))) // as good as for ever
		want("k", []byte("w"))
	})
	run(t, "without request id the broker finishes the stream", cfg, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		s.Message(wire.CachePut{Scope: primary, Key: "k", Value: []byte("v")})
		s.Want(wire.OK{})
		s.WantEnd()
		s.CloseSend()
		s = n.Control(c)
		s.Message(wire.CacheGet{Scope: primary, Key: "k"})
		if v, ok := s.Next().(wire.CacheValue); !ok || string(v.Value) != "v" || v.RequestID != nil {
			t.Errorf("got %#v", v)
		}
		s.WantEnd()
		s.CloseSend()
	})
	run(t, "bounded", broker.Config{Caches: []wire.Scope{primary}}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		big := make([]byte, 8<<20)
		for i := range uint64(9) { // 72 MiB into 64
			s.Message(wire.CachePut{Scope: primary, Key: fmt.Sprint(i), Value: big, RequestID: &i})
			s.Want(wire.CacheOK{RequestID: i})
		}
		for i, kept := range map[uint64]bool{0: false, 1: false, 2: true, 8: true} {
			s.Message(wire.CacheGet{Scope: primary, Key: fmt.Sprint(i), RequestID: &i})
			if v := s.Next().(wire.CacheValue); (v.Value != nil) != kept {
				t.Errorf("value %d kept: %v, want %v", i, v.Value != nil, kept)
			}
		}
	})
}

// TestLargeFrames: frames around the buffers' sizes, and the largest that the limit allows.
func TestLargeFrames(t *testing.T) {
	run(t, "up to the limit", broker.Config{MaxFrameBytes: 1 << 20}, func(t *testing.T, n *Net) {
		c := n.Dial()
		s := n.Control(c)
		_, events := n.Subscribe(c, s, Demo, nil)
		overhead := len(Batch(Demo, "")) - wire.HeaderLen
		sizes := []int{0, 1, 511, 512, 4095, 16<<10 - 1, 16 << 10, 32<<10 + 1, 100_000, 1<<20 - overhead}
		var want []string
		for i, size := range sizes {
			p := strings.Repeat(string(rune('a'+i)), size)
			s.Publish(Demo, p)
			want = append(want, p)
		}
		offset := uint64(0)
		events.WantEvents(&offset, want...)
	})
}

// FuzzControlStream sends anything on an authenticated stream. The replies are frames, the stream
// ends, and the account adds up. Which packets carry what varies from run to run, so give it
// -fuzzminimizetime 10x, as scripts/fuzz does: otherwise it spends its time minimising what is not there.
func FuzzControlStream(f *testing.F) {
	var good []byte
	good = append(good, acked(1, Demo, "x")...)
	good = append(good, Batch(Demo, "x", "yy")...)
	good = wire.AppendMessage(good, wire.Publish{Scope: Demo, RequestID: ptr(uint64(2))})
	good = wire.AppendMessage(good, wire.Subscribe{Scope: Demo, Start: &wire.Start{Kind: wire.StartEarliest}})
	good = wire.AppendMessage(good, wire.CacheGet{Scope: primary, Key: "k"})
	f.Add(good)
	f.Add(append(bad(Batch(Demo, "x")), good...))
	f.Add(append(frame(0x40, "?"), good...))
	f.Add([]byte("FLX1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			n := Start(t, broker.Config{Caches: []wire.Scope{primary}, MaxFrameBytes: 64 << 10, MaxSubscriptionsPerConn: 4}, Options{})
			c := n.Dial()
			s := n.Control(c)
			if _, err := s.Bidi.Write(data); err == nil {
				s.Bidi.Close()
			}
			// Whatever it was, the stream ends, and the replies are frames.
			for {
				h, body, err := s.Frame()
				if err != nil {
					break
				}
				if h.Flags == wire.FlagPublishAck {
					_, err = wire.ParsePublishAck(body)
				} else {
					_, err = wire.ParseMessage(body)
				}
				if err != nil {
					t.Fatalf("reply does not parse: %v", err)
				}
			}
			// Other streams of the connection are none the worse for it.
			s = n.Control(c)
			s.PublishAcked(99, Demo, "x")
			s.Want(ackedOpen)
			f := n.Broker.Stats().Flow
			if f.ReceivedMsgs != f.AcceptedMsgs+f.RejectedMsgs+f.IngressDroppedMsgs {
				t.Errorf("flow does not add up: %+v", f)
			}
		})
	})
}
