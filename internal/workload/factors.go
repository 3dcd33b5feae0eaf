package workload

import (
	"fmt"
	"strings"
)

// Every factor with a fixed list of levels is a type with text: its zero value is the default, an unknown text
// is an error that lists the choices, and it satisfies pflag.Value (String, Set, Type) as well as
// encoding.TextMarshaler, so that flags, YAML and the record spell it alike.

// Load is the shape of the offered load.
type Load int

// The loads. LoadAuto is burst or open if there is a burst or a rate, else closed if publishes are acked, else flood.
const (
	LoadAuto Load = iota
	LoadClosed
	LoadOpen
	LoadFlood
	LoadBurst // all messages at once, then none
)

// Acks is which publishes are acknowledged.
type Acks int

// The ack modes. AcksAuto is per_message at batch 1 and none otherwise.
const (
	AcksAuto Acks = iota
	AcksNone
	AcksPerMessage
	AcksPerBatch
)

// Sharding is how publishes find their QUIC stream.
type Sharding int

// The shardings: hash_stream keeps the order of a logical stream, rr promises none across QUIC streams.
const (
	ShardingHashStream Sharding = iota
	ShardingRR
)

// Encoding is that of publishes and their acks; delivery is always shared binary.
type Encoding int

// The encodings.
const (
	EncodingBinary Encoding = iota
	EncodingJSON
)

// Policy is what the broker does when a subscriber cannot keep up.
type Policy int

// The policies: lossless blocks at every checkpoint with queues small enough that the path cannot swallow a
// run; production keeps the broker's defaults, which shed and count.
const (
	PolicyLossless Policy = iota
	PolicyProduction
)

// Topology is which roles share a process.
type Topology int

// The topologies: broker in a child and the clients in the runner; broker, publishers and subscribers each in
// their own process; everything in the runner; a broker that is already running.
const (
	TopologyProcesses Topology = iota
	TopologySplit
	TopologyInprocess
	TopologyExternal
)

// Arrival is the spacing of an open loop's slots.
type Arrival int

// The arrivals: one slot each interval, or a Poisson process of the same mean rate.
const (
	ArrivalConstant Arrival = iota
	ArrivalPoisson
)

var (
	loadTexts     = []string{"auto", "closed", "open", "flood", "burst"}
	acksTexts     = []string{"auto", "none", "per_message", "per_batch"}
	shardingTexts = []string{"hash_stream", "rr"}
	encodingTexts = []string{"binary", "json"}
	policyTexts   = []string{"lossless", "production"}
	topologyTexts = []string{"processes", "split", "inprocess", "external"}
	arrivalTexts  = []string{"constant", "poisson"}
)

func text[T ~int](v T, texts []string) string {
	if v < 0 || int(v) >= len(texts) {
		return fmt.Sprintf("%d?", int(v))
	}
	return texts[v]
}

func parse[T ~int](v *T, s string, texts []string) error {
	for i, t := range texts {
		if s == t {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("%q: want one of %s", s, strings.Join(texts, ", "))
}

func (v Load) String() string     { return text(v, loadTexts) }
func (v Acks) String() string     { return text(v, acksTexts) }
func (v Sharding) String() string { return text(v, shardingTexts) }
func (v Encoding) String() string { return text(v, encodingTexts) }
func (v Policy) String() string   { return text(v, policyTexts) }
func (v Topology) String() string { return text(v, topologyTexts) }
func (v Arrival) String() string  { return text(v, arrivalTexts) }

// Set parses a level's text; the error lists the choices.
func (v *Load) Set(s string) error     { return parse(v, s, loadTexts) }
func (v *Acks) Set(s string) error     { return parse(v, s, acksTexts) }
func (v *Sharding) Set(s string) error { return parse(v, s, shardingTexts) }
func (v *Encoding) Set(s string) error { return parse(v, s, encodingTexts) }
func (v *Policy) Set(s string) error   { return parse(v, s, policyTexts) }
func (v *Topology) Set(s string) error { return parse(v, s, topologyTexts) }
func (v *Arrival) Set(s string) error  { return parse(v, s, arrivalTexts) }

// Type is shown in a flag's usage: the choices.
func (v Load) Type() string     { return strings.Join(loadTexts, "|") }
func (v Acks) Type() string     { return strings.Join(acksTexts, "|") }
func (v Sharding) Type() string { return strings.Join(shardingTexts, "|") }
func (v Encoding) Type() string { return strings.Join(encodingTexts, "|") }
func (v Policy) Type() string   { return strings.Join(policyTexts, "|") }
func (v Topology) Type() string { return strings.Join(topologyTexts, "|") }
func (v Arrival) Type() string  { return strings.Join(arrivalTexts, "|") }

func (v Load) MarshalText() ([]byte, error)     { return []byte(v.String()), nil }
func (v Acks) MarshalText() ([]byte, error)     { return []byte(v.String()), nil }
func (v Sharding) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (v Encoding) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (v Policy) MarshalText() ([]byte, error)   { return []byte(v.String()), nil }
func (v Topology) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (v Arrival) MarshalText() ([]byte, error)  { return []byte(v.String()), nil }

func (v *Load) UnmarshalText(b []byte) error     { return v.Set(string(b)) }
func (v *Acks) UnmarshalText(b []byte) error     { return v.Set(string(b)) }
func (v *Sharding) UnmarshalText(b []byte) error { return v.Set(string(b)) }
func (v *Encoding) UnmarshalText(b []byte) error { return v.Set(string(b)) }
func (v *Policy) UnmarshalText(b []byte) error   { return v.Set(string(b)) }
func (v *Topology) UnmarshalText(b []byte) error { return v.Set(string(b)) }
func (v *Arrival) UnmarshalText(b []byte) error  { return v.Set(string(b)) }
