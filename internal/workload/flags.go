package workload

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DefaultPayload is latencydemo's --payload, in bytes; a Case has none, its zero is the stamp alone.
const DefaultPayload = 256

// ProbeWord stands before the name of a probe on latencydemo's command line.
const ProbeWord = "probe"

// Flags lists the words and flags of latencydemo that mean the resolved case, without those at their default: given to it
// alone they resolve to this case again. A case of a running broker needs the flags that name it besides.
func (c Case) Flags() []string {
	var f []string
	add := func(name, value string) { f = append(f, "--"+name, value) }
	payload := c.Payload
	if len(c.PayloadMix) > 0 {
		payload = DefaultPayload // the mix says it
	}
	if c.Probe != ProbeNone {
		f = append(f, ProbeWord, c.Probe.String())
	}
	if c.Transport != TransportQUIC {
		add("transport", c.Transport.String())
	}
	for _, x := range []struct {
		flag   string
		v, def int
	}{
		{"payload", payload, DefaultPayload},
		{"batch", c.Batch, 1},
		{"fanout", c.Fanout, 1},
	} {
		if x.v != x.def {
			add(x.flag, strconv.Itoa(x.v))
		}
	}
	// What auto would decide for the rest of the case is left to it.
	auto := c
	auto.Acks, auto.Load = AcksAuto, LoadAuto
	if r, err := auto.Resolve(); err != nil || r.Acks != c.Acks {
		add("acks", c.Acks.String())
		auto.Acks = c.Acks
	}
	if r, err := auto.Resolve(); err != nil || r.Load != c.Load {
		add("load", c.Load.String())
	}
	if c.Rate > 0 && len(c.Tenants) == 0 {
		add("rate", strconv.FormatFloat(c.Rate, 'g', -1, 64))
	}
	if c.Arrival != ArrivalConstant {
		add("arrival", c.Arrival.String())
	}
	for _, x := range []struct {
		flag   string
		v, def int
	}{
		{"inflight", c.Inflight, 1},
		{"publishers", c.Publishers, 1},
		{"streams", c.Streams, 1},
		{"pub-conns", c.PubConns, c.defaultPubConns()},
		{"pub-streams-per-conn", c.PubStreamsPerConn, 1},
		{"sub-conns", c.SubConns, c.Fanout * c.Streams},
	} {
		if x.v != x.def {
			add(x.flag, strconv.Itoa(x.v))
		}
	}
	for _, x := range []struct{ flag, v, def string }{
		{"sharding", c.Sharding.String(), ShardingHashStream.String()},
		{"encoding", c.Encoding.String(), EncodingBinary.String()},
		{"policy", c.Policy.String(), PolicyLossless.String()},
		{"topology", c.Topology.String(), TopologyProcesses.String()},
		{"procs", c.Procs.String(), Procs(0).String()},
		{"cpus", c.CPUs.String(), ""},
		{"timer-slack", c.TimerSlack.String(), TimerSlack(0).String()},
		{"profile", c.Profile, DefaultProfile},
	} {
		if x.v != x.def {
			add(x.flag, x.v)
		}
	}
	for _, set := range []struct {
		flag string
		kv   map[string]string
	}{{"broker-set", c.BrokerSet}, {"client-set", c.ClientSet}, {"transport-set", c.TransportSet}} {
		for _, k := range slices.Sorted(maps.Keys(set.kv)) {
			add(set.flag, k+"="+set.kv[k])
		}
	}
	for _, x := range c.Lab() {
		switch {
		case x.Name == "overload" && c.Overload:
			f = append(f, "--overload")
		case x.Level != "":
			add(strings.ReplaceAll(x.Name, "_", "-"), x.Level)
		}
	}
	return f
}
