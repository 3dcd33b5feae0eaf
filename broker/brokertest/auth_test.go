package brokertest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is a test in a bubble with a broker.
func run(t *testing.T, name string, cfg broker.Config, f func(t *testing.T, n *Net)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := Start(t, cfg, Options{})
			f(t, n)
			n.Close()
		})
	})
}

func TestTokens(t *testing.T) {
	n := &Net{TB: t, Key: ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))}
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", 32)))
	pub := n.Key.Public().(ed25519.PublicKey)
	jwks, err := broker.JWKS(pub, KeyID)
	n.must(err)
	jwks2, err := broker.JWKS(other.Public().(ed25519.PublicKey), "k2")
	n.must(err)
	ring, err := broker.NewKeyring(map[string][]byte{Tenant: jwks, "t2": jwks2})
	n.must(err)

	now := time.Now()
	type m = jwt.MapClaims
	base := func(change m) m {
		c := m{"iss": "felix-auth", "aud": "felix-broker", "sub": "x", "tid": Tenant,
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "perms": []string{"stream.publish:stream:*"}}
		for k, v := range change {
			if v == nil {
				delete(c, k)
			} else {
				c[k] = v
			}
		}
		return c
	}
	sign := func(method jwt.SigningMethod, key any, kid string, c m) string {
		tok := jwt.NewWithClaims(method, c)
		if kid != "" {
			tok.Header["kid"] = kid
		}
		s, err := tok.SignedString(key)
		n.must(err)
		return s
	}
	eddsa := func(c m) string { return sign(jwt.SigningMethodEdDSA, n.Key, KeyID, c) }
	good := eddsa(base(nil))
	forged := strings.Split(good, ".")
	forged[1] = base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"felix-auth","aud":"felix-broker","tid":"t1","exp":99999999999,"perms":["stream.publish:stream:*"]}`))

	for _, tt := range []struct {
		name, tenant, token string
		ok                  bool
	}{
		{"good", Tenant, good, true},
		{"audience in a list", Tenant, eddsa(base(m{"aud": []string{"other", "felix-broker"}})), true},
		{"expired within the leeway", Tenant, eddsa(base(m{"exp": now.Add(-55 * time.Second).Unix()})), true},
		{"expired beyond it", Tenant, eddsa(base(m{"exp": now.Add(-65 * time.Second).Unix()})), false},
		{"no expiry", Tenant, eddsa(base(m{"exp": nil})), false},
		{"issued in the future", Tenant, eddsa(base(m{"iat": now.Add(5 * time.Minute).Unix()})), false},
		{"issued a little in the future", Tenant, eddsa(base(m{"iat": now.Add(30 * time.Second).Unix()})), true},
		{"another issuer", Tenant, eddsa(base(m{"iss": "else"})), false},
		{"no issuer", Tenant, eddsa(base(m{"iss": nil})), false},
		{"another audience", Tenant, eddsa(base(m{"aud": "else"})), false},
		{"no audience", Tenant, eddsa(base(m{"aud": nil})), false},
		{"another tenant's token", "t2", good, false},
		{"tid of another tenant", Tenant, eddsa(base(m{"tid": "t2"})), false},
		{"no tid", Tenant, eddsa(base(m{"tid": nil})), false},
		{"unknown tenant", "t3", good, false},
		{"no kid", Tenant, sign(jwt.SigningMethodEdDSA, n.Key, "", base(nil)), false},
		{"unknown kid", Tenant, sign(jwt.SigningMethodEdDSA, n.Key, "k9", base(nil)), false},
		{"another tenant's key", Tenant, sign(jwt.SigningMethodEdDSA, other, "k2", base(nil)), false},
		{"wrong key", Tenant, sign(jwt.SigningMethodEdDSA, other, KeyID, base(nil)), false},
		{"no signature", Tenant, sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, KeyID, base(nil)), false},
		{"HMAC with the public key", Tenant, sign(jwt.SigningMethodHS256, []byte(pub), KeyID, base(nil)), false},
		{"claims exchanged", Tenant, strings.Join(forged, "."), false},
		{"no token", Tenant, "", false},
		{"no JWT", Tenant, "demo-token", false},
	} {
		grant, err := ring.Verify(tt.tenant, tt.token)
		if (err == nil) != tt.ok {
			t.Errorf("%s: got error %v, want ok %v", tt.name, err, tt.ok)
		}
		if err == nil && !grant.Allows(broker.ActionPublish, Demo) {
			t.Errorf("%s: the permission is missing", tt.name)
		}
	}
	minted, err := broker.MintToken(n.Key, KeyID, Tenant, AllPerms, now, time.Minute)
	n.must(err)
	if _, err := ring.Verify(Tenant, minted); err != nil {
		t.Errorf("minted token: %v", err)
	}
	// Others may read aud as the plain string that the protocol names.
	var c struct {
		Aud string `json:"aud"`
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(minted, ".")[1])
	if err := json.Unmarshal(payload, &c); err != nil || c.Aud != "felix-broker" {
		t.Errorf("aud of a minted token: %q, %v", c.Aud, err)
	}
}

func TestJWKS(t *testing.T) {
	x := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for _, tt := range []struct {
		name, doc string
		ok        bool
	}{
		{"one key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a","alg":"EdDSA"}]}`, true},
		{"no alg", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"}]}`, true},
		{"beside a key of another kind", `{"keys":[{"kty":"RSA","kid":"r"},{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"}]}`, true},
		{"only keys of another kind", `{"keys":[{"kty":"RSA","kid":"r"}]}`, false},
		{"for encryption", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a","use":"enc"}]}`, false},
		{"no kid", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}`, false},
		{"kid twice", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"},{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"}]}`, false},
		{"short x", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"a"}]}`, false},
		{"no base64", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"***","kid":"a"}]}`, false},
		{"no keys", `{"keys":[]}`, false},
		{"no JSON", `keys`, false},
	} {
		if _, err := broker.NewKeyring(map[string][]byte{Tenant: []byte(tt.doc)}); (err == nil) != tt.ok {
			t.Errorf("%s: got error %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

func TestPermissions(t *testing.T) {
	for _, tt := range []struct {
		perm string
		want bool // publish on t1/default/demo
	}{
		{"stream.publish:stream:t1/default/demo", true},
		{"stream.publish:stream:t1/default/*", true},
		{"stream.publish:stream:t1/*", true}, // at the end: the rest
		{"stream.publish:stream:*", true},
		{"stream.publish:stream:t1/*/demo", true}, // one part
		{"stream.publish:stream:*/default/demo", true},
		{"stream.publish:stream:*/demo", false}, // one part only
		{"stream.publish:stream:t1/default", false},
		{"stream.publish:stream:t1/default/demo/x", false},
		{"stream.publish:stream:t1/default/demo/*", false}, // the rest is empty
		{"stream.publish:stream:t1/default/dem", false},
		{"stream.publish:stream:t1/default/dem*", false},
		{"stream.publish:stream:", false},
		{"stream.publish:cache:t1/default/demo", false},
		{"stream.subscribe:stream:t1/default/demo", false},
		{"cache.write:stream:*", false},
		{"*", false},
		{"", false},
	} {
		if got := broker.NewGrant(Tenant, []string{"nonsense", tt.perm}).Allows(broker.ActionPublish, Demo); got != tt.want {
			t.Errorf("%q allows publish on %s: %v, want %v", tt.perm, Demo, got, tt.want)
		}
	}
	g := broker.NewGrant("t2", []string{"stream.publish:stream:*"})
	if g.Allows(broker.ActionPublish, Demo) {
		t.Error("a grant of t2 reaches into t1")
	}
}

func TestFirstFrame(t *testing.T) {
	flags := wire.Flags(25)
	token := func(n *Net) string { return n.Token() }
	for _, tt := range []struct {
		name  string
		first func(n *Net) []byte
		want  any  // reply
		open  bool // the stream stays
		reset bool
	}{
		{"auth without flags", func(n *Net) []byte {
			return wire.AppendMessage(nil, wire.Auth{TenantID: Tenant, Token: token(n)})
		}, wire.OK{}, true, false},
		{"auth with flags", func(n *Net) []byte {
			return wire.AppendMessage(nil, wire.Auth{TenantID: Tenant, Token: token(n), ClientFlags: &flags})
		}, wire.AuthOK{ServerFlags: 0x3F}, true, false}, // all that the broker knows, not the intersection
		{"bad token", func(n *Net) []byte {
			return wire.AppendMessage(nil, wire.Auth{TenantID: Tenant, Token: token(n) + "x"})
		}, wire.Error{Message: "auth failed"}, false, false},
		{"other tenant", func(n *Net) []byte {
			return wire.AppendMessage(nil, wire.Auth{TenantID: "t2", Token: token(n)})
		}, wire.Error{Message: "auth failed"}, false, false},
		{"subscribe first", func(n *Net) []byte {
			return wire.AppendMessage(nil, wire.Subscribe{Scope: Demo})
		}, wire.Error{Message: "auth required"}, false, false},
		{"unknown message first", func(n *Net) []byte {
			return append(wire.Header{Length: 14}.Append(nil), `{"type":"hey"}`...)
		}, wire.Error{Message: "auth required"}, false, false},
		{"publish first", func(n *Net) []byte { return Batch(Demo, "x") }, wire.Error{Message: "auth required"}, false, false},
		{"unknown flags first", func(n *Net) []byte {
			return wire.Header{Flags: 0x4000}.Append(nil)
		}, wire.Error{Message: "auth required"}, false, false},
		{"no JSON", func(n *Net) []byte {
			return append(wire.Header{Length: 3}.Append(nil), "abc"...)
		}, nil, false, true},
	} {
		run(t, tt.name, broker.Config{}, func(t *testing.T, n *Net) {
			s := n.Open(n.Dial())
			s.Raw(tt.first(n))
			if tt.reset {
				s.WantReset(transport.CodeProtocol)
				return
			}
			s.Want(tt.want)
			if !tt.open {
				s.WantEnd()
				s.WantStopped(transport.CodeAuth)
				if got := n.Broker.Stats().AuthFailures; got != 1 {
					t.Errorf("%d auth failures counted, want 1", got)
				}
				return
			}
			s.PublishAcked(1, Demo, "x")
			s.Want(wire.PublishAck{RequestID: 1, OK: true})
			s.Message(wire.Auth{TenantID: Tenant, Token: token(n)})
			s.Want(wire.Error{Message: "auth already established"})
			s.WantEnd()
		})
	}
}

func TestAuthDeadline(t *testing.T) {
	run(t, "half a frame", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Open(n.Dial())
		frame := wire.AppendMessage(nil, wire.Auth{TenantID: Tenant, Token: n.Token()})
		began := time.Now()
		s.Raw(frame[:len(frame)-1])
		s.Want(wire.Error{Message: "auth required"})
		s.WantEnd()
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("ended after %v, want about 5 s", took)
		}
	})
	run(t, "not for what follows", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Control(n.Dial())
		pass(time.Minute)
		s.PublishAcked(1, Demo, "x")
		s.Want(wire.PublishAck{RequestID: 1, OK: true})
	})
	run(t, "a large frame before auth", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.Open(n.Dial())
		s.Raw(wire.Header{Length: 1 << 20}.Append(nil))
		s.WantReset(transport.CodeLimit)
	})
}

func TestPublishOnlyAuth(t *testing.T) {
	run(t, "bad token", broker.Config{}, func(t *testing.T, n *Net) {
		s := n.PublishOnly(n.Dial(), "x")
		s.WantStopped(transport.CodeAuth)
	})
	run(t, "publish first", broker.Config{}, func(t *testing.T, n *Net) {
		c := n.Dial()
		u, err := c.OpenUniStream()
		n.must(err)
		s := &Stream{TB: t, Send: u}
		s.Publish(Demo, "x")
		s.WantStopped(transport.CodeAuth)
	})
}
