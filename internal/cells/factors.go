package cells

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// factor is one thing that can set cells apart, with how a table names it.
type factor struct {
	name   string
	head   string // of its column; "" is the name
	of     func(*Cell) string
	byName bool   // part of the case, so that a grid's name of a cell stands for it
	usual  string // not worth a word when every cell has it
}

func (f factor) title() string {
	if f.head != "" {
		return f.head
	}
	return f.name
}

// caseFactors are the factors of a case in the order of its key.
func caseFactors(cells []Cell) []factor {
	count := func(of func(*runrecord.Case) int) func(*Cell) string {
		return func(c *Cell) string { return strconv.Itoa(of(&c.Case)) }
	}
	text := func(of func(*runrecord.Case) string) func(*Cell) string {
		return func(c *Cell) string { return of(&c.Case) }
	}
	factors := []factor{
		{name: "probe", usual: workload.ProbeNone.String(), of: text(func(c *runrecord.Case) string { return c.Probe.String() })},
		{name: "transport", usual: workload.TransportQUIC.String(), of: text(func(c *runrecord.Case) string { return c.Transport.String() })},
		{name: "payload", of: count(func(c *runrecord.Case) int { return c.Payload })},
		{name: "batch", of: count(func(c *runrecord.Case) int { return c.Batch })},
		{name: "fanout", of: count(func(c *runrecord.Case) int { return c.Fanout })},
		{name: "load", of: text(func(c *runrecord.Case) string { return c.Load.String() })},
		{name: "rate", usual: "-", of: text(func(c *runrecord.Case) string {
			if c.Rate == 0 {
				return "-"
			}
			return strconv.FormatFloat(c.Rate, 'f', -1, 64)
		})},
		{name: "arrival", usual: workload.ArrivalConstant.String(), of: text(func(c *runrecord.Case) string { return c.Arrival.String() })},
		{name: "acks", of: text(func(c *runrecord.Case) string { return c.Acks.String() })},
		{name: "inflight", usual: "1", of: count(func(c *runrecord.Case) int { return c.Inflight })},
		{name: "publishers", head: "pubs", usual: "1", of: count(func(c *runrecord.Case) int { return c.Publishers })},
		{name: "streams", usual: "1", of: count(func(c *runrecord.Case) int { return c.Streams })},
		{name: "pub_conns", head: "conns", usual: "1", of: count(func(c *runrecord.Case) int { return c.PubConns })},
		{name: "pub_streams_per_conn", head: "q/conn", usual: "1", of: count(func(c *runrecord.Case) int { return c.PubStreamsPerConn })},
		{name: "sub_conns", usual: "each", of: text(func(c *runrecord.Case) string {
			if c.SubConns == c.Fanout*c.Streams {
				return "each"
			}
			return strconv.Itoa(c.SubConns)
		})},
		{name: "sharding", usual: workload.ShardingHashStream.String(), of: text(func(c *runrecord.Case) string { return c.Sharding.String() })},
		{name: "encoding", usual: workload.EncodingBinary.String(), of: text(func(c *runrecord.Case) string { return c.Encoding.String() })},
		{name: "policy", usual: workload.PolicyLossless.String(), of: text(func(c *runrecord.Case) string { return c.Policy.String() })},
		{name: "topology", usual: workload.TopologyProcesses.String(), of: text(func(c *runrecord.Case) string { return c.Topology.String() })},
		{name: "profile", usual: workload.DefaultProfile, of: text(func(c *runrecord.Case) string { return c.Profile })},
		{name: "send_window", usual: strconv.Itoa(workload.DefaultSendWindow), of: text(func(c *runrecord.Case) string { return strconv.FormatInt(c.SendWindow, 10) })},
	}
	for i, f := range (workload.Case{}).Lab() {
		factors = append(factors, factor{name: f.Name, usual: "-", of: text(func(c *runrecord.Case) string { return orDash(c.Lab()[i].Level) })})
	}
	for _, set := range []struct {
		prefix string
		of     func(*runrecord.Case) map[string]string
	}{
		{"broker.", func(c *runrecord.Case) map[string]string { return c.BrokerSet }},
		{"client.", func(c *runrecord.Case) map[string]string { return c.ClientSet }},
		{"transport.", func(c *runrecord.Case) map[string]string { return c.TransportSet }},
	} {
		for _, k := range unionOfKeys(cells, func(c *Cell) map[string]string { return set.of(&c.Case) }) {
			factors = append(factors, factor{name: set.prefix + k, usual: "default", of: func(c *Cell) string {
				return orElse(set.of(&c.Case), k, "default")
			}})
		}
	}
	for i := range factors {
		factors[i].byName = true
	}
	return factors
}

// otherFactors are what sets cells apart beside the case.
func otherFactors(cells []Cell) []factor {
	factors := []factor{
		{name: "kind", usual: "case", of: func(c *Cell) string {
			if c.Case.Probe != workload.ProbeNone {
				return "case" // the factor probe says it
			}
			return c.Kind
		}},
		{name: "arm", usual: "-", of: func(c *Cell) string { return orDash(c.Arm) }},
		{name: "commit", of: func(c *Cell) string {
			if c.Build.Dirty != nil && *c.Build.Dirty {
				return short(c.Build.Commit, 9) + "-DIRTY"
			}
			return short(c.Build.Commit, 9)
		}},
		{name: "tree", of: func(c *Cell) string { return short(c.Build.TreeDigest, 9) }},
		{name: "binary", of: func(c *Cell) string { return short(c.Build.BinarySHA256, 12) }},
		{name: "go", of: func(c *Cell) string { return c.Build.Go }},
		{name: "quic-go", of: func(c *Cell) string { return short(c.Build.QuicGo, 24) }},
		{name: "built", usual: "plain", of: func(c *Cell) string {
			var how []string
			for _, x := range []struct {
				name string
				yes  bool
			}{{"race", c.Build.Race}, {"coverage", c.Build.Coverage}, {"unoptimized", !c.Build.Optimized}, {"pgo", c.Build.PGO}} {
				if x.yes {
					how = append(how, x.name)
				}
			}
			if len(how) == 0 {
				return "plain"
			}
			return strings.Join(how, "+")
		}},
		{name: "host", of: func(c *Cell) string { return orDash(c.Host) }},
		{name: "lossless", of: func(c *Cell) string { return orDash(string(c.Lossless)) }},
		{name: "perturbed", usual: "-", of: func(c *Cell) string { return orDash(strings.Join(c.Perturbed, "+")) }},
	}
	for _, k := range unionOfKeys(cells, func(c *Cell) map[string]string { return c.Env }) {
		factors = append(factors, factor{name: k, usual: "unset", of: func(c *Cell) string { return orElse(c.Env, k, "unset") }})
	}
	return factors
}

// gridFactors are what a grid's names of its cells consist of; nil unless every cell has one.
func gridFactors(cells []Cell, names map[string]string) []factor {
	var factors []factor
	for i := range cells {
		name, ok := names[cells[i].Key]
		if !ok {
			return nil
		}
		for _, word := range strings.Fields(name) {
			k, _, ok := strings.Cut(word, "=")
			if !ok {
				return nil // a name that is not made of factors
			}
			if !slices.ContainsFunc(factors, func(f factor) bool { return f.name == k }) {
				factors = append(factors, factor{name: k, of: func(c *Cell) string { return wordOf(names[c.Key], k) }})
			}
		}
	}
	return factors
}

// wordOf returns the level of factor k in a grid's name of a cell.
func wordOf(name, k string) string {
	for _, word := range strings.Fields(name) {
		if level, ok := strings.CutPrefix(word, k+"="); ok {
			return level
		}
	}
	return "-"
}

// configFactors are the settings that tell apart cells which nothing else does: a file of settings that changed, say.
func configFactors(cells []Cell, known []factor) []factor {
	byFace := map[string][]*Cell{}
	for i := range cells {
		var face strings.Builder
		for _, f := range known {
			face.WriteString(f.of(&cells[i]) + "\x00")
		}
		byFace[face.String()] = append(byFace[face.String()], &cells[i])
	}
	differ := map[string]bool{}
	for _, twins := range byFace {
		for _, c := range twins[1:] {
			for _, k := range unionOfKeys([]Cell{*twins[0], *c}, func(c *Cell) map[string]string { return c.Config }) {
				if orDash(c.Config[k]) != orDash(twins[0].Config[k]) {
					differ[k] = true
				}
			}
		}
	}
	var factors []factor
	for _, k := range slices.Sorted(maps.Keys(differ)) {
		factors = append(factors, factor{name: k, of: func(c *Cell) string { return orElse(c.Config, k, "-") }})
	}
	return factors
}

// split parts the factors into those that all cells share and those that differ.
func split(cells []Cell, factors []factor) (shared, varying []factor) {
	for _, f := range factors {
		if differs(cells, f) {
			varying = append(varying, f)
		} else {
			shared = append(shared, f)
		}
	}
	return shared, varying
}

func differs(cells []Cell, f factor) bool {
	return slices.ContainsFunc(cells, func(c Cell) bool { return f.of(&c) != f.of(&cells[0]) })
}

// determines returns what f is at each level of by, in order of appearance, if by alone decides it.
func determines(cells []Cell, by, f factor) (levels [][2]string, ok bool) {
	at := map[string]string{}
	for i := range cells {
		level, v := by.of(&cells[i]), f.of(&cells[i])
		if known, seen := at[level]; !seen {
			at[level] = v
			levels = append(levels, [2]string{level, v})
		} else if known != v {
			return nil, false
		}
	}
	return levels, true
}

func unionOfKeys(cells []Cell, of func(*Cell) map[string]string) []string {
	all := map[string]bool{}
	for i := range cells {
		for k := range of(&cells[i]) {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func orElse(m map[string]string, k, absent string) string {
	if v, ok := m[k]; ok {
		if v == "" {
			return `""`
		}
		return v
	}
	return absent
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// short cuts a digest; what is not known is "?".
func short(text *string, n int) string {
	switch {
	case text == nil || *text == "":
		return "?"
	case len(*text) > n:
		return (*text)[:n]
	}
	return *text
}
