package aggregate

import (
	"slices"
	"strconv"

	"felix/internal/runrecord"
)

// Both tables say what was run and what was measured, in the same columns.

// caseColumns are the key and every factor.
func caseColumns[Row any](of func(Row) *runrecord.Case) []column[Row] {
	count := func(name, unit, doc string, get func(*runrecord.Case) int) column[Row] {
		return integer(name, unit, doc, func(r Row) int64 { return int64(get(of(r))) })
	}
	level := func(name, doc string, get func(*runrecord.Case) string) column[Row] {
		return text(name, doc, func(r Row) string { return get(of(r)) })
	}
	return []column[Row]{
		level("key", "every factor that is not at its default", func(c *runrecord.Case) string { return c.Key }),
		level("probe", "what stood in the place of the broker: none, raw, relay, echo or echo-relay", func(c *runrecord.Case) string { return c.Probe.String() }),
		level("transport", "quic; of a probe also tls or tcp", func(c *runrecord.Case) string { return c.Transport.String() }),
		count("payload", "B", "of a message; 0: the stamp alone, 32 bytes", func(c *runrecord.Case) int { return c.Payload }),
		count("batch", "messages", "per publish frame", func(c *runrecord.Case) int { return c.Batch }),
		count("fanout", "", "subscribers per stream", func(c *runrecord.Case) int { return c.Fanout }),
		level("load", "closed, open, flood or burst", func(c *runrecord.Case) string { return c.Load.String() }),
		number("rate", "msg/s", "of an open loop, over all publishers", func(r Row) *float64 {
			if c := of(r); c.Rate > 0 {
				return &c.Rate
			}
			return nil
		}),
		level("arrival", "spacing of an open loop's slots: constant or poisson", func(c *runrecord.Case) string {
			if c.Rate > 0 {
				return c.Arrival.String()
			}
			return ""
		}),
		level("acks", "none, per_message or per_batch", func(c *runrecord.Case) string { return c.Acks.String() }),
		count("inflight", "batches", "outstanding per publisher", func(c *runrecord.Case) int { return c.Inflight }),
		count("publishers", "", "in parallel", func(c *runrecord.Case) int { return c.Publishers }),
		count("streams", "", "logical streams", func(c *runrecord.Case) int { return c.Streams }),
		count("pub_conns", "", "connections of all publishers", func(c *runrecord.Case) int { return c.PubConns }),
		count("pub_streams_per_conn", "", "QUIC streams of each of them", func(c *runrecord.Case) int { return c.PubStreamsPerConn }),
		level("sharding", "hash_stream or rr", func(c *runrecord.Case) string { return c.Sharding.String() }),
		count("sub_conns", "", "connections of all subscriptions", func(c *runrecord.Case) int { return c.SubConns }),
		level("encoding", "of publishes and acks: binary or json", func(c *runrecord.Case) string { return c.Encoding.String() }),
		level("policy", "lossless or production", func(c *runrecord.Case) string { return c.Policy.String() }),
		level("topology", "processes, split, inprocess or external", func(c *runrecord.Case) string { return c.Topology.String() }),
		level("profile", "named set of settings", func(c *runrecord.Case) string { return c.Profile }),
		level("lab", "what the case does to the system: burst, payload_mix, tenants, stall, slow and overload, as NAME=LEVEL, joined by semicolons", func(c *runrecord.Case) string {
			var set []string
			for _, f := range c.Lab() {
				if f.Level != "" {
					set = append(set, f.Name+"="+f.Level)
				}
			}
			return joined(set)
		}),
		level("settings", "over the profile's, as broker.KEY=VALUE, joined by semicolons", func(c *runrecord.Case) string {
			return joined(slices.Concat(pairs("broker", c.BrokerSet), pairs("client", c.ClientSet), pairs("transport", c.TransportSet)))
		}),
		level("measures", "throughput or latency: what the main figure of the case is", func(c *runrecord.Case) string {
			if c.Throughput() {
				return "throughput"
			}
			return "latency"
		}),
	}
}

// buildColumns are the identity of what was measured.
func buildColumns[Row any](of func(Row) *runrecord.Build) []column[Row] {
	id := func(name, doc string, get func(*runrecord.Build) *string) column[Row] {
		return text(name, doc, func(r Row) string { return deref(get(of(r))) })
	}
	return []column[Row]{
		id("commit", "that was checked out", func(b *runrecord.Build) *string { return b.Commit }),
		boolean("dirty", "the working tree had changes that no commit holds", func(r Row) *bool { return of(r).Dirty }),
		id("tree_digest", "git's id of the working tree", func(b *runrecord.Build) *string { return b.TreeDigest }),
		id("bench_digest", "of the measuring packages", func(b *runrecord.Build) *string { return b.BenchDigest }),
		id("binary_sha256", "of the binary that ran", func(b *runrecord.Build) *string { return b.BinarySHA256 }),
		id("go", "version of the toolchain", func(b *runrecord.Build) *string { return &b.Go }),
		id("quic_go", "version of the QUIC library", func(b *runrecord.Build) *string { return b.QuicGo }),
		boolean("pgo", "a CPU profile guided the compiler; false in records from before that was recorded", func(r Row) *bool { return &of(r).PGO }),
		text("build_flags", "that make a build unfit for figures: race, coverage, unoptimized; joined by semicolons", func(r Row) string { return joined(unfit(of(r))) }),
	}
}

func unfit(b *runrecord.Build) []string {
	var flags []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"race", b.Race}, {"coverage", b.Coverage}, {"unoptimized", !b.Optimized}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// numbered writes counts by reason as "3 x reason".
func numbered(byReason map[string]int, order []string) []string {
	list := make([]string, len(order))
	for i, reason := range order {
		list[i] = strconv.Itoa(byReason[reason]) + " x " + reason
	}
	return list
}
