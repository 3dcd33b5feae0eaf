package transport

import (
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestResolveDefaults(t *testing.T) {
	got, err := Config{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	// Every field is either listed with what its zero means, or must have got a default.
	zeroStays := map[string]string{
		"UDPBufferForce":      "limits hold",
		"PacketSize":          "the library's",
		"PacketSizeAnywhere":  "no",
		"DisableMTUDiscovery": "no",
		"Monitor":             "none",
		"Role":                "unnamed",
		"ListenPacket":        "real UDP",
		"GSO":                 "what measurement chose",
		"GRO":                 "what measurement chose",
		"GSOMerge":            "what measurement chose",
		"RecvGateBytes":       "no gate",
		"Shared":              "sockets of their own",
	}
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if _, stays := zeroStays[name]; stays != v.Field(i).IsZero() {
			t.Errorf("%s = %v after Resolve of the zero Config", name, v.Field(i))
		}
	}
	again, err := got.Resolve()
	if err != nil || again.ConnRecvWindow != got.ConnRecvWindow || again.IdleTimeout != got.IdleTimeout {
		t.Errorf("second Resolve = %+v, %v, want %+v", again, err, got)
	}
	q := got.quicConfig()
	if q.InitialConnectionReceiveWindow != 64<<20 || q.MaxConnectionReceiveWindow != 64<<20 ||
		q.InitialStreamReceiveWindow != 16<<20 || q.MaxStreamReceiveWindow != 16<<20 {
		t.Errorf("windows = %+v, want initial = maximum = 64 and 16 MiB", q)
	}
	if q.MaxIdleTimeout != 30*time.Second || q.KeepAlivePeriod != 10*time.Second || q.HandshakeIdleTimeout != 5*time.Second {
		t.Errorf("timeouts = %v, %v, %v", q.MaxIdleTimeout, q.KeepAlivePeriod, q.HandshakeIdleTimeout)
	}
}

func TestResolveOff(t *testing.T) {
	c, err := Config{IdleTimeout: -1, KeepAlive: -1}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if q := c.quicConfig(); q.KeepAlivePeriod != 0 || q.MaxIdleTimeout < 365*24*time.Hour {
		t.Errorf("keep-alive %v, idle timeout %v, want both off", q.KeepAlivePeriod, q.MaxIdleTimeout)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"negative connection window", Config{ConnRecvWindow: -1}, "connection receive window of -1 bytes"},
		{"window below a packet", Config{StreamRecvWindow: 100}, "stream receive window of 100 bytes"},
		{"stream window over connection's", Config{ConnRecvWindow: 1 << 20}, "at least the stream receive window"},
		{"negative buffer", Config{UDPSendBuffer: -1}, "udp send buffer of -1 bytes"},
		{"absurd buffer", Config{UDPRecvBuffer: 1<<30 + 1}, "udp receive buffer"},
		{"small packets", Config{PacketSize: 1199}, "packet size of 1199 bytes: want 1200 to 1452"},
		{"jumbo packets", Config{PacketSize: 9000}, "packet size of 9000 bytes"},
		{"negative streams", Config{MaxIncomingStreams: -1}, "incoming streams"},
		{"negative handshake timeout", Config{HandshakeTimeout: -1}, "handshake timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.cfg.Resolve(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Resolve = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestPacketSizeTowardsOthers(t *testing.T) {
	for _, tt := range []struct {
		cfg Config
		ip  string
		ok  bool
	}{
		{Config{PacketSize: 1280}, "192.0.2.1", true},
		{Config{PacketSize: 1452}, "127.0.0.1", true},
		{Config{PacketSize: 1452}, "::1", true},
		{Config{PacketSize: 1281}, "192.0.2.1", false},
		{Config{PacketSize: 1452}, "0.0.0.0", false}, // listens to everybody
		{Config{PacketSize: 1452, PacketSizeAnywhere: true}, "192.0.2.1", true},
	} {
		if err := tt.cfg.checkPacketSize(net.ParseIP(tt.ip)); (err == nil) != tt.ok {
			t.Errorf("packet size %d towards %s: %v, want ok %v", tt.cfg.PacketSize, tt.ip, err, tt.ok)
		}
	}
	id := newIdentity(t)
	if _, err := Listen("0.0.0.0:0", id.server, Config{PacketSize: 1452}); err == nil {
		t.Error("Listen on every address took a packet size of 1452")
	}
	if _, err := Dial(t.Context(), "192.0.2.1:4433", id.client, Config{PacketSize: 1452}); err == nil {
		t.Error("Dial to another host took a packet size of 1452")
	}
}
