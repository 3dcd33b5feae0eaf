package wire

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Scope names a stream within a namespace of a tenant. In cache messages Stream is the cache's name.
type Scope struct {
	Tenant, Namespace, Stream string
}

// String is "t1/default/demo", and "" for the zero Scope.
func (s Scope) String() string {
	if s == (Scope{}) {
		return ""
	}
	return s.Tenant + "/" + s.Namespace + "/" + s.Stream
}

// ParseScope parses "t1/default/demo": three parts, none empty, none with a slash.
func ParseScope(text string) (Scope, error) {
	p := strings.Split(text, "/")
	if len(p) != 3 || p[0] == "" || p[1] == "" || p[2] == "" {
		return Scope{}, fmt.Errorf("scope %q: want TENANT/NAMESPACE/STREAM, such as t1/default/demo", text)
	}
	s := Scope{Tenant: p[0], Namespace: p[1], Stream: p[2]}
	if err := s.check(); err != nil {
		return Scope{}, err
	}
	return s, nil
}

// MarshalText is String.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseScope; empty text is the zero Scope.
func (s *Scope) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Scope{}
		return nil
	}
	v, err := ParseScope(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// check refuses names that the binary form cannot carry.
func (s Scope) check() error {
	for _, p := range [...]struct{ what, name string }{{"tenant_id", s.Tenant}, {"namespace", s.Namespace}, {"stream", s.Stream}} {
		if len(p.name) > math.MaxUint16 {
			return fmt.Errorf("%s of %d bytes: %w: at most %d", p.what, len(p.name), ErrTooLong, math.MaxUint16)
		}
		if !utf8.ValidString(p.name) {
			return fmt.Errorf("%s %q: not UTF-8", p.what, p.name)
		}
	}
	return nil
}
