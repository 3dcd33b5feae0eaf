package service

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"felix/broker"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/wire"
)

// certificate returns what was handed in, else the files, else a fresh development
// certificate.
func (o *Options) certificate() (certPEM, keyPEM []byte, err error) {
	s := o.Broker
	switch {
	case len(o.CertPEM) > 0 && s.TLSCert != "":
		return nil, nil, &settings.Error{What: "tls_cert is set, and the certificate is given already",
			Hint: "leave out tls_cert and tls_key (FELIX_TLS_CERT, FELIX_TLS_KEY), or --dev"}
	case len(o.CertPEM) > 0:
		return o.CertPEM, o.KeyPEM, nil
	case s.TLSCert == "" && s.TLSKey == "":
		return transport.DevelopmentCertificate(time.Now())
	}
	if certPEM, err = os.ReadFile(s.TLSCert); err != nil {
		return nil, nil, fileError("tls_cert", err)
	}
	if keyPEM, err = os.ReadFile(s.TLSKey); err != nil {
		return nil, nil, fileError("tls_key", err)
	}
	return certPEM, keyPEM, nil
}

// keys returns the JWKS of each tenant.
func (o *Options) keys() (map[string][]byte, error) {
	jwks := make(map[string][]byte, len(o.JWKS)+len(o.Broker.AuthJWKS))
	for tenant, doc := range o.JWKS {
		jwks[tenant] = doc
	}
	for tenant, file := range o.Broker.AuthJWKS {
		if _, twice := jwks[tenant]; twice {
			return nil, &settings.Error{What: fmt.Sprintf("auth_jwks names a file for tenant %s, whose keys are given already", tenant),
				Hint: "leave the tenant out of auth_jwks (FELIX_AUTH_JWKS), or leave out --dev"}
		}
		doc, err := os.ReadFile(file)
		if err != nil {
			return nil, fileError("auth_jwks", err)
		}
		jwks[tenant] = doc
	}
	return jwks, nil
}

func fileError(key string, err error) error {
	return &settings.Error{What: fmt.Sprintf("%s: %v", key, err), Hint: key + " must name a file that this process can read"}
}

// DevCredentials are a key pair made on the spot: public keys by tenant for Options.JWKS,
// and for each tenant a token that may do everything with its streams and caches.
type DevCredentials struct {
	JWKS   map[string][]byte // the same document for every tenant
	Tokens map[string]string // tenant -> token
}

// NewDevCredentials makes a key and a token for every tenant that scopes name, valid from
// now for ttl. The private key is not kept: nobody can mint another token of it.
func NewDevCredentials(now time.Time, ttl time.Duration, scopes ...wire.Scope) (*DevCredentials, error) {
	const kid = "felix-dev"
	if len(scopes) == 0 {
		return nil, errors.New("development credentials: no tenant")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make development key: %w", err)
	}
	doc, err := broker.JWKS(public, kid)
	if err != nil {
		return nil, err
	}
	c := &DevCredentials{JWKS: map[string][]byte{}, Tokens: map[string]string{}}
	for _, tenant := range tenants(scopes) {
		perms := []string{
			"stream.publish:stream:" + tenant + "/*", "stream.subscribe:stream:" + tenant + "/*",
			"cache.read:cache:" + tenant + "/*", "cache.write:cache:" + tenant + "/*",
		}
		token, err := broker.MintToken(private, kid, tenant, perms, now, ttl)
		if err != nil {
			return nil, err
		}
		c.JWKS[tenant], c.Tokens[tenant] = doc, token
	}
	return c, nil
}

// tenants are those that the scopes name, in order and once each.
func tenants(scopes []wire.Scope) []string {
	var out []string
	for _, s := range scopes {
		if !slices.Contains(out, s.Tenant) {
			out = append(out, s.Tenant)
		}
	}
	return out
}
