package workload

import (
	"fmt"
	"strings"
)

// Probe is what stands in the place of the broker: nothing or a minimal relay, with its own senders and receivers. It
// is the ceiling that a case is held against.
type Probe int

// The probes: none is the broker itself; raw is one hop, publisher to subscriber; relay copies every frame to each
// subscriber of its stream; echo and echo-relay send every frame back, over one hop and over two each way.
const (
	ProbeNone Probe = iota
	ProbeRaw
	ProbeRelay
	ProbeEcho
	ProbeEchoRelay
)

// Transport is what carries a probe; a broker is reached over QUIC.
type Transport int

// The transports.
const (
	TransportQUIC Transport = iota
	TransportTLS
	TransportTCP
)

var (
	probeTexts     = []string{"none", "raw", "relay", "echo", "echo-relay"}
	transportTexts = []string{"quic", "tls", "tcp"}
)

// Probes lists the probes, without none.
func Probes() []Probe { return []Probe{ProbeRaw, ProbeRelay, ProbeEcho, ProbeEchoRelay} }

// Hops is how many connections a message crosses to its subscriber.
func (v Probe) Hops() int {
	if v == ProbeRaw || v == ProbeEcho {
		return 1
	}
	return 2
}

// Echo reports whether the latencies of the probe are round trips.
func (v Probe) Echo() bool { return v == ProbeEcho || v == ProbeEchoRelay }

func (v Probe) String() string     { return text(v, probeTexts) }
func (v Transport) String() string { return text(v, transportTexts) }

// Set parses a level's text; the error lists the choices.
func (v *Probe) Set(s string) error     { return parse(v, s, probeTexts) }
func (v *Transport) Set(s string) error { return parse(v, s, transportTexts) }

// Type is shown in a flag's usage: the choices.
func (v Probe) Type() string     { return strings.Join(probeTexts[1:], "|") }
func (v Transport) Type() string { return strings.Join(transportTexts, "|") }

func (v Probe) MarshalText() ([]byte, error)     { return []byte(v.String()), nil }
func (v Transport) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v *Probe) UnmarshalText(b []byte) error     { return v.Set(string(b)) }
func (v *Transport) UnmarshalText(b []byte) error { return v.Set(string(b)) }

// Kind is the record's word for what the case measures: case, raw, relay or echo.
func (c Case) Kind() string {
	switch c.Probe {
	case ProbeNone:
		return "case"
	case ProbeEchoRelay:
		return ProbeEcho.String()
	}
	return c.Probe.String()
}

// maxEchoBytes bounds what several echoes have under way: a publisher that sends and does not read yet must not fill
// the path back.
const maxEchoBytes = 1 << 20

// pairs is how many (publisher, stream) pairs there are: a probe gives each a QUIC stream of its own.
func (c Case) pairs() int {
	n := 0
	for p := range c.Publishers {
		n += len(c.StreamsOf(p))
	}
	return n
}

// defaultPubConns is what --pub-conns means when it is left out: over TCP every publisher's stream is a connection.
func (c Case) defaultPubConns() int {
	if c.Transport != TransportQUIC {
		return c.pairs()
	}
	return 1
}

// resolveProbe decides what a probe decides itself, and refuses what it has not got: a factor that were ignored would
// make two names for one case. The counts of the case are resolved, load and acks are not.
func (c Case) resolveProbe() (Case, error) {
	if c.Probe == ProbeNone {
		if c.Transport != TransportQUIC {
			return c, fmt.Errorf("--transport %s: the broker is reached over QUIC: only a probe has another transport", c.Transport)
		}
		return c, nil
	}
	refuse := func(format string, args ...any) (Case, error) {
		return c, fmt.Errorf(format+" (probe %s)", append(args, c.Probe)...)
	}
	switch {
	case c.Topology == TopologyExternal:
		return refuse("--topology external: a probe starts all of its processes itself")
	case c.Encoding != EncodingBinary:
		return refuse("--encoding %s: the frames of a probe have one form", c.Encoding)
	case c.Sharding != ShardingHashStream:
		return refuse("--sharding %s: a publisher of a probe has a QUIC stream for each of its streams", c.Sharding)
	case c.Policy != PolicyLossless:
		return refuse("--policy %s: a probe waits for whoever is slow", c.Policy)
	case c.PubStreamsPerConn != 1:
		return refuse("--pub-streams-per-conn %d: a publisher of a probe has a QUIC stream for each of its streams", c.PubStreamsPerConn)
	case len(c.BrokerSet) > 0:
		return refuse("--broker-set: there is no broker")
	case len(c.ClientSet) > 0:
		return refuse("--client-set: there is no client")
	case c.Probe != ProbeRelay && c.Fanout != 1:
		return refuse("--fanout %d: want 1, or the probe relay, which copies", c.Fanout)
	case c.Probe != ProbeRelay && c.Publishers != c.Streams:
		return refuse("--publishers %d with --streams %d: want one publisher for each stream", c.Publishers, c.Streams)
	case c.Transport == TransportQUIC && c.PubConns > c.pairs():
		return refuse("--pub-conns %d: want at most %d, one for each publisher's stream", c.PubConns, c.pairs())
	case c.Probe.Hops() == 1 && c.SubConns != c.Subscribers():
		return refuse("--sub-conns %d: there is one hop, and its connections are --pub-conns", c.SubConns)
	}
	if c.Transport != TransportQUIC {
		// TCP has no streams within a connection.
		switch {
		case c.PubConns != 1 && c.PubConns != c.pairs():
			return refuse("--pub-conns %d over %s: every publisher's stream is a connection: leave it out", c.PubConns, c.Transport)
		case c.SubConns != c.Subscribers():
			return refuse("--sub-conns %d over %s: every subscription is a connection: leave it out", c.SubConns, c.Transport)
		case len(c.TransportSet) > 0:
			return refuse("--transport-set over %s: these are settings of QUIC", c.Transport)
		case c.Profile != "" && c.Profile != DefaultProfile:
			return refuse("--profile %s over %s: of a profile only settings of QUIC concern a probe", c.Profile, c.Transport)
		}
		c.PubConns = c.pairs()
	}
	if !c.Probe.Echo() {
		switch {
		case c.Acks != AcksAuto && c.Acks != AcksNone:
			return refuse("--acks %s: nobody answers: want none, or the probe echo-relay", c.Acks)
		case c.Load == LoadClosed:
			return refuse("--load closed: a closed loop needs answers: want flood or open, or the probe echo-relay")
		}
		c.Acks = AcksNone
		return c, nil
	}
	want := AcksPerBatch
	if c.Batch == 1 {
		want = AcksPerMessage
	}
	switch {
	case c.Acks != AcksAuto && c.Acks != want:
		return refuse("--acks %s: every frame is answered: want %s", c.Acks, want)
	case c.Rate > 0 || c.Load != LoadAuto && c.Load != LoadClosed:
		return refuse("an echo is a closed loop: leave --rate and --load out")
	case c.Inflight > 1 && c.Inflight*c.Batch*(c.MessageBytes()+4) > maxEchoBytes:
		return refuse("--inflight %d: %s under way, want at most %s", c.Inflight, MB(int64(c.Inflight*c.Batch*(c.MessageBytes()+4))), MB(maxEchoBytes))
	}
	c.Acks, c.Load = want, LoadClosed
	return c, nil
}
