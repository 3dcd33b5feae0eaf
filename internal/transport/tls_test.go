package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTrust(t *testing.T) {
	id, other := newIdentity(t), newIdentity(t)
	pin, err := PinSHA256(id.certPEM)
	if err != nil {
		t.Fatal(err)
	}
	otherPin, err := PinSHA256(other.certPEM)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, id, Config{})
	go func() { // hands over until the listener is closed; what is accepted is closed with it
		for {
			if _, err := l.Accept(context.Background()); err != nil {
				return
			}
		}
	}()
	colons := strings.ToUpper(pin[:2]) + ":" + pin[2:]
	for _, tt := range []struct {
		name string
		opts ClientTLSOptions
		want string // part of the error; empty: trusted
	}{
		{"by its own file", ClientTLSOptions{CAPEM: id.certPEM}, ""},
		{"by its address", ClientTLSOptions{CAPEM: id.certPEM, ServerName: "127.0.0.1"}, ""},
		{"by digest", ClientTLSOptions{PinSHA256: pin}, ""},
		{"by digest with colons and capitals", ClientTLSOptions{PinSHA256: colons}, ""},
		{"by digest, whatever its name", ClientTLSOptions{PinSHA256: pin, ServerName: "broker.example"}, ""},
		{"by file and digest", ClientTLSOptions{CAPEM: id.certPEM, PinSHA256: pin}, ""},
		{"not by the system's roots", ClientTLSOptions{}, "unknown authority"},
		{"not by another file", ClientTLSOptions{CAPEM: other.certPEM}, "unknown authority"},
		{"not by another name", ClientTLSOptions{CAPEM: id.certPEM, ServerName: "broker.example"}, "broker.example"},
		{"not by another digest", ClientTLSOptions{PinSHA256: otherPin}, "pinned is " + otherPin},
		{"not by file if the digest differs", ClientTLSOptions{CAPEM: id.certPEM, PinSHA256: otherPin}, "pinned is"},
		{"not by digest if the file differs", ClientTLSOptions{CAPEM: other.certPEM, PinSHA256: pin}, "unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf, err := ClientTLS(tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Dial(t.Context(), l.Addr().String(), conf, Config{})
			if err == nil {
				closeConn(t, c)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Dial = %v, want trust", err)
			case tt.want != "" && (!errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Dial = %v, want ErrUntrusted with %q", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
		})
	}
}

func TestExpiredCertificateIsUntrusted(t *testing.T) {
	certPEM, keyPEM, err := DevelopmentCertificate(time.Now().Add(-2 * developmentValidity))
	if err != nil {
		t.Fatal(err)
	}
	server, err := ServerTLS(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := PinSHA256(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, identity{server: server}, Config{})
	for name, opts := range map[string]ClientTLSOptions{"by file": {CAPEM: certPEM}, "by digest": {PinSHA256: pin}} {
		conf, err := ClientTLS(opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), l.Addr().String(), conf, Config{}); !errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("%s: Dial = %v, want ErrUntrusted that says expired", name, err)
		}
	}
}

func TestTLSInputRefused(t *testing.T) {
	id := newIdentity(t)
	for _, tt := range []struct {
		name string
		f    func() error
		want string
	}{
		{"no PEM for the server", func() error { _, err := ServerTLS([]byte("x"), id.keyPEM); return err }, "server certificate"},
		{"another's key", func() error { _, err := ServerTLS(id.certPEM, newIdentity(t).keyPEM); return err }, "server certificate"},
		{"no PEM to trust", func() error { _, err := ClientTLS(ClientTLSOptions{CAPEM: []byte("x")}); return err }, "no certificate in PEM form"},
		{"short digest", func() error { _, err := ClientTLS(ClientTLSOptions{PinSHA256: "abcd"}); return err }, "64 hex digits"},
		{"digest of other letters", func() error {
			_, err := ClientTLS(ClientTLSOptions{PinSHA256: strings.Repeat("zz", 32)})
			return err
		}, "64 hex digits"},
		{"no PEM to pin", func() error { _, err := PinSHA256(nil); return err }, "no certificate in PEM form"},
		{"a key to pin", func() error { _, err := PinSHA256(id.keyPEM); return err }, "no certificate in PEM form"},
		{"ALPN", func() error {
			_, err := Listen("127.0.0.1:0", &tls.Config{NextProtos: []string{"h3"}}, Config{})
			return err
		}, "no ALPN"},
		{"no TLS", func() error { _, err := Dial(t.Context(), "127.0.0.1:1", nil, Config{}); return err }, "no TLS configuration"},
	} {
		if err := tt.f(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestPinSkipsOtherBlocks(t *testing.T) {
	id := newIdentity(t)
	want, err := PinSHA256(id.certPEM)
	if err != nil {
		t.Fatal(err)
	}
	got, err := PinSHA256(bytes.Join([][]byte{id.keyPEM, id.certPEM}, nil))
	if err != nil || got != want {
		t.Errorf("PinSHA256(key and certificate) = %s, %v, want %s", got, err, want)
	}
}

func FuzzPin(f *testing.F) {
	id := newIdentity(f)
	f.Add(id.certPEM, strings.Repeat("ab", 32))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ":")
	f.Fuzz(func(t *testing.T, file []byte, pin string) {
		if sum, err := PinSHA256(file); err == nil {
			if _, err := parsePin(sum); err != nil {
				t.Errorf("PinSHA256 made %q, which parsePin refuses: %v", sum, err)
			}
		}
		if sum, err := parsePin(pin); err == nil && len(sum) != 32 {
			t.Errorf("parsePin(%q) has %d bytes", pin, len(sum))
		}
	})
}
