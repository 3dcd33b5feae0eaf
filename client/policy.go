package client

import (
	"fmt"
	"slices"
	"strings"

	"felix/internal/wire"
)

// Sharding is how a Publisher spreads batches over its workers.
type Sharding uint8

const (
	// ShardHashStream gives every logical stream one worker: its order is kept.
	ShardHashStream Sharding = iota
	// ShardRoundRobin takes the next living worker for each batch: no order is promised.
	ShardRoundRobin
)

// Policy is what a subscription does with a frame that its queue has no room for.
type Policy uint8

const (
	// PolicyDropNew discards the frame that arrives.
	PolicyDropNew Policy = iota
	// PolicyDropOld discards the oldest queued frame.
	PolicyDropOld
	// PolicyBlock has no queue: Next reads the QUIC stream, whose flow control is the bound.
	PolicyBlock
)

// Encoding is how publishes are encoded.
type Encoding uint8

const (
	// EncodingBinary sends binary batches, and acked ones as JSON to a broker that does not
	// know acked binary batches.
	EncodingBinary Encoding = iota
	// EncodingJSON sends publish (one payload) and publish_batch messages.
	EncodingJSON
)

var (
	shardingNames = [...]string{ShardHashStream: "hash_stream", ShardRoundRobin: "rr"}
	policyNames   = [...]string{PolicyDropNew: "drop_new", PolicyDropOld: "drop_old", PolicyBlock: "block"}
	encodingNames = [...]string{EncodingBinary: "binary", EncodingJSON: "json"}
)

// ParseSharding is the inverse of Sharding.String.
func ParseSharding(s string) (Sharding, error) {
	i, err := parseName("sharding", shardingNames[:], s)
	return Sharding(i), err
}

// ParsePolicy is the inverse of Policy.String.
func ParsePolicy(s string) (Policy, error) {
	i, err := parseName("policy", policyNames[:], s)
	return Policy(i), err
}

// ParseEncoding is the inverse of Encoding.String.
func ParseEncoding(s string) (Encoding, error) {
	i, err := parseName("encoding", encodingNames[:], s)
	return Encoding(i), err
}

func (s Sharding) String() string { return nameOf("sharding", shardingNames[:], int(s)) }
func (p Policy) String() string   { return nameOf("policy", policyNames[:], int(p)) }
func (e Encoding) String() string { return nameOf("encoding", encodingNames[:], int(e)) }

// MarshalText implements encoding.TextMarshaler.
func (s Sharding) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (e Encoding) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sharding) UnmarshalText(b []byte) (err error) { *s, err = ParseSharding(string(b)); return }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Policy) UnmarshalText(b []byte) (err error) { *p, err = ParsePolicy(string(b)); return }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *Encoding) UnmarshalText(b []byte) (err error) { *e, err = ParseEncoding(string(b)); return }

func parseName(what string, names []string, s string) (int, error) {
	if i := slices.Index(names, s); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s %q: want one of %s", what, s, choices(names))
}

func nameOf(what string, names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

func choices(names []string) string { return strings.Join(names, ", ") }

// WorkerFor returns which of the given number of workers ShardHashStream gives the scope:
// the 64-bit FNV-1a hash of "tenant/namespace/stream", modulo workers.
func WorkerFor(scope wire.Scope, workers int) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	add := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	add(scope.Tenant)
	add("/")
	add(scope.Namespace)
	add("/")
	add(scope.Stream)
	return int(h % uint64(workers))
}
