package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"felix/internal/cells"
	"felix/internal/workload"
)

// pair is two cells of one case.
type pair struct {
	name       string
	base, head *cells.Cell
}

func queueing(c *cells.Cell) bool { return c.Case.LatencyKind() == workload.KindQueueingDelay }

// caseOf is what two cells must have in common to be the same case.
func caseOf(c *cells.Cell) string {
	return strings.Join([]string{c.Kind, c.Key, strconv.FormatInt(c.Case.SendWindow, 10)}, "\x00")
}

// settingOf tells cells of one case apart: instruments, variables, settings.
func settingOf(c *cells.Cell) string {
	return strings.Join([]string{strings.Join(c.Perturbed, "+"), text(c.Env), string(c.Lossless), text(c.Config)}, "\x00")
}

func text(m map[string]string) string {
	b, err := json.Marshal(m) // sorted by key
	if err != nil {
		return "" // never: strings
	}
	return string(b)
}

// match finds the cells that both sides have. Where a side has several of one case, those of the same settings belong
// together; what is left is missing.
func match(base, head Side) (pairs []pair, missing []Missing) {
	heads := map[string][]*cells.Cell{}
	for i := range head.Cells {
		k := caseOf(&head.Cells[i])
		heads[k] = append(heads[k], &head.Cells[i])
	}
	bases := map[string][]*cells.Cell{}
	var order []string
	for i := range base.Cells {
		k := caseOf(&base.Cells[i])
		if bases[k] == nil {
			order = append(order, k)
		}
		bases[k] = append(bases[k], &base.Cells[i])
	}
	miss := func(c *cells.Cell, side Side, why string) {
		missing = append(missing, Missing{Cell: nameOf(c, base, head), Key: c.Key, Why: why + side.Label})
	}
	for _, k := range order {
		bs, hs := bases[k], heads[k]
		delete(heads, k)
		if len(bs) == 1 && len(hs) == 1 {
			pairs = append(pairs, pair{nameOf(bs[0], base, head), bs[0], hs[0]})
			continue
		}
		for _, b := range bs {
			i := slices.IndexFunc(hs, func(h *cells.Cell) bool { return settingOf(h) == settingOf(b) })
			switch {
			case i >= 0:
				pairs = append(pairs, pair{nameOf(b, base, head), b, hs[i]})
				hs = slices.Delete(hs, i, i+1)
			case len(hs) == 0:
				miss(b, head, "not in ")
			default:
				miss(b, head, "not with these settings or instruments in ")
			}
		}
		for _, h := range hs {
			miss(h, base, "not with these settings or instruments in ")
		}
	}
	for i := range head.Cells {
		if hs := heads[caseOf(&head.Cells[i])]; len(hs) > 0 {
			miss(&head.Cells[i], base, "not in ")
		}
	}
	return pairs, missing
}

// nameOf is what a grid calls the cell, if both do not disagree, else its key.
func nameOf(c *cells.Cell, base, head Side) string {
	b, h := base.Names[c.Key], head.Names[c.Key]
	name := cmp.Or(b, h, c.Key)
	if b != "" && h != "" && b != h {
		name = c.Key
	}
	if c.Kind != "" && c.Kind != "case" && !strings.Contains(name, "probe=") {
		name = "probe=" + c.Kind + " " + name
	}
	if len(c.Perturbed) > 0 {
		name += " perturbed=" + strings.ReplaceAll(strings.Join(c.Perturbed, "+"), " ", "_")
	}
	return name
}

// notJudged is why the two cells' figures are shown and not judged; "" if they are.
func (p *pair) notJudged() string {
	b, h := p.base, p.head
	switch {
	case b.Host == "" || h.Host == "":
		return "a host is not known"
	case b.Host != h.Host:
		return "hosts differ"
	case len(b.Perturbed) > 0 || len(h.Perturbed) > 0:
		return "perturbed by instruments"
	case flagsOf(b) != plain || flagsOf(h) != plain:
		return "built with " + strings.Join(slices.Compact(slices.DeleteFunc([]string{flagsOf(b), flagsOf(h)}, func(s string) bool { return s == plain })), " or ")
	}
	return ""
}

const plain = "plain"

// flagsOf names what makes a build unfit for figures.
func flagsOf(c *cells.Cell) string {
	var flags []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"race", c.Build.Race}, {"coverage", c.Build.Coverage}, {"unoptimized", !c.Build.Optimized}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	if len(flags) == 0 {
		return plain
	}
	return strings.Join(flags, "+")
}

// attribute is something beside the figures that can differ.
type attribute struct {
	name string
	of   func(*cells.Cell) string
	then string // what follows from it
}

func orUnknown(s *string) string {
	if s == nil || *s == "" {
		return "unknown"
	}
	return *s
}

func size(n *int64) string {
	if n == nil {
		return "auto"
	}
	return strconv.FormatInt(*n, 10)
}

var attributes = []attribute{
	{"hosts differ", func(c *cells.Cell) string { return cmp.Or(c.Host, "unknown") }, "ratios between hosts are shown and never judged"},
	{"build flags differ", flagsOf, "figures of such builds are not judged"},
	{"the compiler's profile differs", func(c *cells.Cell) string {
		if c.Build.PGO {
			return "with"
		}
		return "without"
	}, "a difference can be the compiler's"},
	{"bench digest differs", func(c *cells.Cell) string { return short(orUnknown(c.Build.BenchDigest)) }, "the measuring code itself changed: a difference can be the bench's"},
	{"instruments differ", func(c *cells.Cell) string { return cmp.Or(strings.Join(c.Perturbed, "+"), "none") }, "perturbed figures are not judged"},
	{"Go differs", func(c *cells.Cell) string { return cmp.Or(c.Build.Go, "unknown") }, ""},
	{"quic-go differs", func(c *cells.Cell) string { return orUnknown(c.Build.QuicGo) }, ""},
	{"losslessness differs", func(c *cells.Cell) string { return cmp.Or(string(c.Lossless), "unknown") }, "one side may drop what the other must carry"},
	{"sizes differ", func(c *cells.Cell) string {
		return fmt.Sprintf("total %s, duration_ns %s, warmup %s, max_deliveries %d", size(c.Case.Total), size(c.Case.DurationNs), size(c.Case.Warmup), c.Case.MaxDeliveries)
	}, ""},
}

// differences says what differs between the matched cells beside their figures.
func differences(pairs []pair) []string {
	var out []string
	for _, a := range attributes {
		var seen []string
		n := 0
		for _, p := range pairs {
			b, h := a.of(p.base), a.of(p.head)
			if b == h {
				continue
			}
			n++
			if line := b + " -> " + h; !slices.Contains(seen, line) {
				seen = append(seen, line)
			}
		}
		if n == 0 {
			continue
		}
		line := a.name + ": " + few(seen, "; ")
		if n < len(pairs) {
			line += fmt.Sprintf(" (%d of %d cells)", n, len(pairs))
		}
		if a.then != "" {
			line += ": " + a.then
		}
		out = append(out, line)
	}
	out = append(out, mapsDiffer("variables differ", pairs, func(c *cells.Cell) map[string]string { return c.Env })...)
	return append(out, mapsDiffer("effective settings differ", pairs, func(c *cells.Cell) map[string]string { return c.Config })...)
}

// mapsDiffer says which keys differ, and how where one way is all there is.
func mapsDiffer(name string, pairs []pair, of func(*cells.Cell) map[string]string) []string {
	ways := map[string][]string{}
	for _, p := range pairs {
		b, h := of(p.base), of(p.head)
		all := maps.Clone(b)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, h)
		for k := range all {
			x, inBase := b[k]
			y, inHead := h[k]
			if x == y && inBase == inHead {
				continue
			}
			if way := valueOr(x, inBase) + " -> " + valueOr(y, inHead); !slices.Contains(ways[k], way) {
				ways[k] = append(ways[k], way)
			}
		}
	}
	if len(ways) == 0 {
		return nil
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(ways)) {
		if len(ways[k]) == 1 {
			list = append(list, k+" "+ways[k][0])
		} else {
			list = append(list, k+" in several ways")
		}
	}
	return []string{name + ": " + few(list, "; ")}
}

func valueOr(v string, known bool) string {
	switch {
	case !known:
		return "unset"
	case v == "":
		return `""`
	}
	return v
}

// few lists the first ones at most.
func few(list []string, separator string) string {
	const most = 8
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, separator)
}

func short(digest string) string { return digest[:min(len(digest), 12)] }
