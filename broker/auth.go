package broker

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"felix/internal/wire"
)

const (
	tokenIssuer   = "felix-auth"
	tokenAudience = "felix-broker"
	tokenLeeway   = 60 * time.Second
)

// Action is something that a permission allows.
type Action uint8

const (
	ActionPublish Action = iota
	ActionSubscribe
	ActionCacheRead
	ActionCacheWrite
)

// actionPrefixes are the permission's action and kind of resource, with the colon behind it.
var actionPrefixes = [...]string{
	ActionPublish:    "stream.publish:stream:",
	ActionSubscribe:  "stream.subscribe:stream:",
	ActionCacheRead:  "cache.read:cache:",
	ActionCacheWrite: "cache.write:cache:",
}

// Verifier decides whether a token speaks for a tenant. Verify is called once a QUIC stream and
// must be safe for concurrent use. Its error is logged and never shown to the client.
type Verifier interface {
	Verify(tenant, token string) (*Grant, error)
}

// refuseAll is the Verifier of a broker that was given none.
type refuseAll struct{}

func (refuseAll) Verify(string, string) (*Grant, error) {
	return nil, errors.New("the broker has no keys")
}

// Grant is what a token allows, all of it within one tenant. It holds for the QUIC stream that
// the token authenticated, also past the token's expiry.
type Grant struct {
	tenant string
	perms  []string
}

// NewGrant returns a grant of permissions as they stand in a token, for Verifiers of one's own.
// A permission that does not parse allows nothing.
func NewGrant(tenant string, perms []string) *Grant {
	return &Grant{tenant: tenant, perms: perms}
}

// Tenant is the tenant that the grant is for.
func (g *Grant) Tenant() string { return g.tenant }

// Allows reports whether the grant permits the action on a stream or, for the cache's actions,
// on a cache. It is false for every scope of another tenant.
func (g *Grant) Allows(action Action, scope wire.Scope) bool {
	if scope.Tenant != g.tenant || int(action) >= len(actionPrefixes) {
		return false
	}
	for _, perm := range g.perms {
		if pattern, ok := strings.CutPrefix(perm, actionPrefixes[action]); ok && matchPath(pattern, scope) {
			return true
		}
	}
	return false
}

// matchPath matches a pattern of path parts: * is any one part or, at the end, one or more.
func matchPath(pattern string, scope wire.Scope) bool {
	parts := [...]string{scope.Tenant, scope.Namespace, scope.Stream}
	for i, part := range parts {
		head, rest, more := strings.Cut(pattern, "/")
		if head == "*" && !more {
			return true
		}
		if head != "*" && head != part {
			return false
		}
		if !more {
			return i == len(parts)-1
		}
		pattern = rest
	}
	return false // the pattern has more parts than the scope
}

// claims are those of a Felix token.
type claims struct {
	jwt.RegisteredClaims
	TenantID string   `json:"tid"`
	Perms    []string `json:"perms"`
}

// Keyring is a Verifier of EdDSA tokens by the public keys of each tenant.
type Keyring struct {
	keys   map[string]map[string]ed25519.PublicKey // tenant -> kid
	parser *jwt.Parser
}

// NewKeyring reads one JWKS document a tenant. Keys that are not Ed25519 signature keys are left
// out; a document without any that is, and a kid used twice, are errors.
func NewKeyring(jwks map[string][]byte) (*Keyring, error) {
	k := &Keyring{
		keys: make(map[string]map[string]ed25519.PublicKey, len(jwks)),
		parser: jwt.NewParser(
			// The list of methods is what keeps "none" and HMAC-with-a-public-key tokens out.
			jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
			jwt.WithIssuer(tokenIssuer),
			jwt.WithAudience(tokenAudience),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(tokenLeeway),
		),
	}
	for tenant, doc := range jwks {
		keys, err := parseJWKS(doc)
		if err != nil {
			return nil, fmt.Errorf("keys of tenant %q: %w", tenant, err)
		}
		k.keys[tenant] = keys
	}
	return k, nil
}

// Verify checks signature, issuer, audience, times and tenant of a token.
func (k *Keyring) Verify(tenant, token string) (*Grant, error) {
	keys := k.keys[tenant]
	if keys == nil {
		return nil, fmt.Errorf("no keys for tenant %q", tenant)
	}
	var c claims
	_, err := k.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		key, ok := keys[kid]
		if !ok {
			return nil, fmt.Errorf("no key %q", kid)
		}
		return key, nil
	})
	if err != nil {
		return nil, err
	}
	if c.TenantID != tenant {
		return nil, fmt.Errorf("token of tenant %q", c.TenantID)
	}
	return NewGrant(tenant, c.Perms), nil
}

// jwk is one key of a JWKS. The order of fields is that in which JWKS writes them.
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Kid string `json:"kid"`
	Alg string `json:"alg,omitempty"`
	Use string `json:"use,omitempty"`
}

func parseJWKS(doc []byte) (map[string]ed25519.PublicKey, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(doc, &set); err != nil {
		return nil, fmt.Errorf("jwks: %w", err)
	}
	keys := make(map[string]ed25519.PublicKey)
	for _, j := range set.Keys {
		if j.Kty != "OKP" || j.Crv != "Ed25519" || (j.Alg != "" && j.Alg != "EdDSA") || (j.Use != "" && j.Use != "sig") {
			continue
		}
		if j.Kid == "" {
			return nil, errors.New("jwks: an Ed25519 key without kid")
		}
		x, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(j.X, "="))
		if err != nil {
			return nil, fmt.Errorf("jwks: key %q: %w", j.Kid, err)
		}
		if len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("jwks: key %q: x has %d bytes, want %d", j.Kid, len(x), ed25519.PublicKeySize)
		}
		if _, dup := keys[j.Kid]; dup {
			return nil, fmt.Errorf("jwks: kid %q twice", j.Kid)
		}
		keys[j.Kid] = x
	}
	if len(keys) == 0 {
		return nil, errors.New("jwks: no Ed25519 signature key")
	}
	return keys, nil
}

// JWKS returns the document that NewKeyring reads, of one key.
func JWKS(pub ed25519.PublicKey, kid string) ([]byte, error) {
	if len(pub) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key of %d bytes: want %d", len(pub), ed25519.PublicKeySize)
	}
	if kid == "" {
		return nil, errors.New("a key needs a kid")
	}
	return json.Marshal(map[string][]jwk{"keys": {{
		Kty: "OKP", Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(pub), Kid: kid, Alg: "EdDSA", Use: "sig",
	}}})
}

// MintToken returns a signed token of a tenant, valid from now for ttl.
func MintToken(key ed25519.PrivateKey, kid, tenant string, perms []string, now time.Time, ttl time.Duration) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("private key of %d bytes: want %d", len(key), ed25519.PrivateKeySize)
	}
	// A map, because the registered claims' struct writes a single audience as a list.
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss":   tokenIssuer,
		"aud":   tokenAudience,
		"sub":   tenant,
		"tid":   tenant,
		"iat":   now.Unix(),
		"exp":   now.Add(ttl).Unix(),
		"perms": perms,
	})
	t.Header["kid"] = kid
	s, err := t.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	return s, nil
}
