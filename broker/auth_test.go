package broker

import (
	"strings"
	"testing"

	"felix/internal/wire"
)

// FuzzJWKS: a document never panics, and one that is accepted has a whole key.
func FuzzJWKS(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","kid":"a","alg":"EdDSA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		keys, err := parseJWKS(doc)
		if err != nil {
			return
		}
		if len(keys) == 0 {
			t.Error("accepted without a key")
		}
		for kid, key := range keys {
			if kid == "" || len(key) != 32 {
				t.Errorf("key %q of %d bytes", kid, len(key))
			}
		}
	})
}

// FuzzPermission compares matchPath with a second opinion: part by part, on split slices.
func FuzzPermission(f *testing.F) {
	f.Add("t1/default/*", "t1", "default", "demo")
	f.Add("*", "t1", "default", "demo")
	f.Add("t1/*/demo", "t1", "default", "demo")
	f.Fuzz(func(t *testing.T, pattern, tenant, namespace, name string) {
		scope := wire.Scope{Tenant: tenant, Namespace: namespace, Stream: name}
		if checkScope(scope) != nil {
			return
		}
		want := false
		parts, path := strings.Split(pattern, "/"), []string{tenant, namespace, name}
		if len(parts) <= len(path) {
			want = len(parts) == len(path) || parts[len(parts)-1] == "*"
			for i, p := range parts {
				want = want && (p == "*" || p == path[i])
			}
		}
		if got := matchPath(pattern, scope); got != want {
			t.Errorf("%q on %s: %v, want %v", pattern, scope, got, want)
		}
	})
}
