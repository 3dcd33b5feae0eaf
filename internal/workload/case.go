// Package workload says what to run: the factors of a case, their defaults and their limits, grids of cases and how
// long they take, who publishes to which stream, when an open-loop message is due, and how large a run must be before
// its throughput may be believed. It is data and arithmetic only: no sockets, clocks or goroutines.
package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// StampBytes is what the bench writes at the head of every payload, and so the smallest message there is.
const StampBytes = 32

// MaxPayload bounds one message: a batch must fit a frame of 16 MiB, the wire's default.
const MaxPayload = 16<<20 - 1024

// Case is one workload, every factor by its flag's name. Resolve fills what is zero and refuses nonsense; the
// comments give the meaning of zero before that.
type Case struct {
	Probe             Probe             `json:"probe,omitempty"`       // in place of the broker; zero = none
	Transport         Transport         `json:"transport,omitempty"`   // of a probe; zero = QUIC
	Payload           int               `json:"payload"`               // bytes of a whole message; 0 = the stamp alone (32 bytes)
	Batch             int               `json:"batch"`                 // messages per publish frame; 0 = 1
	Fanout            int               `json:"fanout"`                // subscribers per stream; 0 = 1
	Load              Load              `json:"load"`                  // zero = auto
	Rate              float64           `json:"rate,omitempty"`        // messages/s over all publishers; 0 = none
	Arrival           Arrival           `json:"arrival,omitempty"`     // spacing of an open loop's slots; zero = constant
	Acks              Acks              `json:"acks"`                  // zero = auto
	Inflight          int               `json:"inflight"`              // batches outstanding per publisher (closed); 0 = 1
	Publishers        int               `json:"publishers"`            // 0 = 1
	Streams           int               `json:"streams"`               // logical streams; 0 = 1
	PubConns          int               `json:"pub_conns"`             // 0 = 1
	PubStreamsPerConn int               `json:"pub_streams_per_conn"`  // QUIC streams; 0 = 1
	Sharding          Sharding          `json:"sharding"`              // zero = hash_stream
	SubConns          int               `json:"sub_conns"`             // 0 = fanout x streams
	Encoding          Encoding          `json:"encoding"`              // of publishes and their acks; zero = binary
	Policy            Policy            `json:"policy"`                // zero = lossless
	Topology          Topology          `json:"topology"`              // zero = processes
	Procs             Procs             `json:"procs,omitempty"`       // GOMAXPROCS of every process; 0 = auto
	CPUs              CPUs              `json:"cpus,omitempty"`        // processors of each role; "" = any
	TimerSlack        TimerSlack        `json:"timer_slack,omitempty"` // of every process; 0 = auto
	Profile           string            `json:"profile"`               // "" = balanced
	Burst             int               `json:"burst,omitempty"`       // messages at once, over all publishers; 0 = no burst
	PayloadMix        PayloadMix        `json:"payload_mix,omitempty"` // sizes of messages; Payload is their mean then
	Tenants           Tenants           `json:"tenants,omitempty"`     // that compete, each with all of the above; Rate is their sum
	Stall             Stalls            `json:"stall,omitempty"`       // subscribers that stop reading for a while
	Slow              Slows             `json:"slow,omitempty"`        // subscribers that read no faster than so
	Overload          bool              `json:"overload,omitempty"`    // meant to be more than can be carried: being pushed back is no fault
	BrokerSet         map[string]string `json:"broker_set,omitempty"`  // key=value over the profile's
	ClientSet         map[string]string `json:"client_set,omitempty"`
	TransportSet      map[string]string `json:"transport_set,omitempty"`
}

// DefaultProfile is the profile of a case that names none: every setting at its default.
const DefaultProfile = "balanced"

// Resolve returns the case with every auto and zero factor decided. A factor that cannot be is an error that
// names the flag.
func (c Case) Resolve() (Case, error) {
	for _, f := range []struct {
		flag string
		v    *int
		def  int
		max  int
	}{
		{"batch", &c.Batch, 1, 1 << 20},
		{"fanout", &c.Fanout, 1, 4096},
		{"inflight", &c.Inflight, 1, 1 << 16},
		{"publishers", &c.Publishers, 1, 4096},
		{"streams", &c.Streams, 1, 4096},
		{"pub-conns", &c.PubConns, 1, 1024},
		{"pub-streams-per-conn", &c.PubStreamsPerConn, 1, 1024},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.max {
			return c, fmt.Errorf("--%s %d: want 1 to %d", f.flag, *f.v, f.max)
		}
	}
	if err := c.resolveOverload(); err != nil {
		return c, err
	}
	if c.SubConns == 0 {
		c.SubConns = c.Fanout * c.Streams
	}
	if c.SubConns < 1 || c.SubConns > c.Fanout*c.Streams {
		return c, fmt.Errorf("--sub-conns %d: want 1 to fanout x streams = %d", c.SubConns, c.Fanout*c.Streams)
	}
	switch {
	case c.Payload < 0 || c.Payload > MaxPayload:
		return c, fmt.Errorf("--payload %d: want 0 (the stamp alone) or %d to %d bytes", c.Payload, StampBytes, MaxPayload)
	case c.Payload > 0 && c.Payload < StampBytes:
		return c, fmt.Errorf("--payload %d: every message carries a stamp of %d bytes: want 0 (the stamp alone) or at least %d", c.Payload, StampBytes, StampBytes)
	}
	if largest := c.LargestMessage(); c.Batch*(largest+4) > MaxPayload+4 {
		return c, fmt.Errorf("--batch %d of --payload %d: %d bytes in one publish frame, which holds %d (16 MiB less the names)", c.Batch, largest, c.Batch*(largest+4), MaxPayload+4)
	}
	if math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0) || c.Rate < 0 {
		return c, fmt.Errorf("--rate %v: want messages per second, more than 0", c.Rate)
	}
	var err error
	if c, err = c.resolveProbe(); err != nil {
		return c, err
	}
	if c.Acks == AcksAuto {
		c.Acks = AcksNone
		if c.Batch == 1 {
			c.Acks = AcksPerMessage
		}
	}
	if c.Load == LoadAuto {
		switch {
		case c.Rate > 0:
			c.Load = LoadOpen
		case c.Acks != AcksNone:
			c.Load = LoadClosed
		default:
			c.Load = LoadFlood
		}
	}
	if c.Load == LoadOpen && c.Rate == 0 {
		return c, fmt.Errorf("--load open: an open loop needs --rate, in messages per second")
	}
	if c.Load != LoadOpen && c.Rate > 0 {
		return c, fmt.Errorf("--rate %v with --load %s: only an open loop has a rate", c.Rate, c.Load)
	}
	if c.Load != LoadOpen && c.Arrival != ArrivalConstant {
		return c, fmt.Errorf("--arrival %s with --load %s: only an open loop has a schedule", c.Arrival, c.Load)
	}
	if c.Load != LoadClosed && c.Inflight != 1 {
		return c, fmt.Errorf("--inflight %d with --load %s: only a closed loop bounds what is outstanding", c.Inflight, c.Load)
	}
	if err := c.resolvePlacement(); err != nil {
		return c, err
	}
	if c.Profile == "" {
		c.Profile = DefaultProfile
	}
	return c, nil
}

// MessageBytes is the size of one message on the wire without framing: the payload, at least the stamp. With a payload
// mix it is the mean.
func (c Case) MessageBytes() int { return max(c.Payload, StampBytes) }

// Subscribers is how many subscriptions a trial of the case holds, over all tenants.
func (c Case) Subscribers() int { return c.Fanout * c.AllStreams() }

// OrderPromised reports whether a reordered message breaks a promise of the system (hash_stream) or is merely
// counted (rr over several QUIC streams).
func (c Case) OrderPromised() bool {
	return c.Sharding == ShardingHashStream || c.PubConns*c.PubStreamsPerConn == 1
}

// LatencyKind says what the percentiles of the case are: the latency of a message, or the delay it spent in
// queues that the generator itself kept full.
type LatencyKind string

// The two kinds.
const (
	KindLatency       LatencyKind = "latency"
	KindQueueingDelay LatencyKind = "queueing_delay"
)

// LatencyKind of a resolved case: latency for an open loop and for an acked closed loop of single messages.
func (c Case) LatencyKind() LatencyKind {
	if c.Load == LoadOpen || c.Load == LoadClosed && c.Acks != AcksNone && c.Batch == 1 {
		return KindLatency
	}
	return KindQueueingDelay
}

// Throughput reports whether the size rule applies: floods, and closed loops of batches.
func (c Case) Throughput() bool {
	return c.Load == LoadFlood || c.Load == LoadClosed && c.Batch > 1
}

// Key names the resolved case by every factor that is not at its default, in a fixed order. Two cases with one
// key are the same case; seeds, sizes and outputs are not part of it.
func (c Case) Key() string {
	var b strings.Builder
	add := func(name, v string) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + v)
	}
	if c.Probe != ProbeNone {
		add("probe", c.Probe.String())
	}
	if c.Transport != TransportQUIC {
		add("transport", c.Transport.String())
	}
	add("payload", strconv.Itoa(c.Payload))
	add("batch", strconv.Itoa(c.Batch))
	add("fanout", strconv.Itoa(c.Fanout))
	add("load", c.Load.String())
	if c.Rate > 0 {
		add("rate", strconv.FormatFloat(c.Rate, 'g', -1, 64))
		add("arrival", c.Arrival.String())
	}
	add("acks", c.Acks.String())
	for _, f := range []struct {
		name   string
		v, def int
	}{
		{"inflight", c.Inflight, 1},
		{"publishers", c.Publishers, 1},
		{"streams", c.Streams, 1},
		{"pub_conns", c.PubConns, c.defaultPubConns()},
		{"pub_streams_per_conn", c.PubStreamsPerConn, 1},
		{"sub_conns", c.SubConns, c.Fanout * c.Streams},
	} {
		if f.v != f.def {
			add(f.name, strconv.Itoa(f.v))
		}
	}
	for _, f := range []struct{ name, v, def string }{
		{"sharding", c.Sharding.String(), ShardingHashStream.String()},
		{"encoding", c.Encoding.String(), EncodingBinary.String()},
		{"policy", c.Policy.String(), PolicyLossless.String()},
		{"topology", c.Topology.String(), TopologyProcesses.String()},
		{"procs", c.Procs.String(), Procs(0).String()},
		{"cpus", c.CPUs.String(), ""},
		{"timer_slack", c.TimerSlack.String(), TimerSlack(0).String()},
		{"profile", c.Profile, DefaultProfile},
	} {
		if f.v != f.def {
			add(f.name, f.v)
		}
	}
	for _, f := range c.Lab() {
		if f.Level != "" {
			add(f.Name, f.Level)
		}
	}
	for _, set := range []struct {
		name string
		kv   map[string]string
	}{{"broker", c.BrokerSet}, {"client", c.ClientSet}, {"transport", c.TransportSet}} {
		for _, k := range slices.Sorted(maps.Keys(set.kv)) {
			add(set.name+"."+k, set.kv[k])
		}
	}
	return b.String()
}
