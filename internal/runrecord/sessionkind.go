package runrecord

import "fmt"

// SessionKind says how a session's trials belong together.
type SessionKind string

// The kinds.
const (
	SessionKindGrid   SessionKind = "grid"   // every cell of a grid, several trials
	SessionKindAB     SessionKind = "ab"     // pairs of arms
	SessionKindSingle SessionKind = "single" // whatever latencydemo was run with
)

// ParseSessionKind reads a kind.
func ParseSessionKind(s string) (SessionKind, error) {
	switch k := SessionKind(s); k {
	case SessionKindGrid, SessionKindAB, SessionKindSingle:
		return k, nil
	}
	return "", fmt.Errorf("session kind %q: want grid, ab or single", s)
}

func (k SessionKind) String() string { return string(k) }

// UnmarshalText is ParseSessionKind.
func (k *SessionKind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseSessionKind(string(text))
	return err
}
