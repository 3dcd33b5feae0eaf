package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"felix/internal/cells"
)

const armFactor = "arm"

// levelOf is the cell's level of a factor: of the case, of a setting that the grid varies ("broker.KEY"), a variable of
// the environment, the arm, or a word of the grid's own name for the cell ("preset").
func levelOf(c *cells.Cell, names map[string]string, factor string) (string, bool) {
	if factor == armFactor {
		return c.Arm, c.Arm != ""
	}
	if v, ok := wordOf(names[c.Key], factor); ok {
		return v, true
	}
	prefix, key, isSetting := strings.Cut(factor, ".")
	if isSetting {
		for p, set := range map[string]map[string]string{"broker": c.Case.BrokerSet, "client": c.Case.ClientSet, "transport": c.Case.TransportSet} {
			if p == prefix {
				return cmp.Or(set[key], "default"), true
			}
		}
	}
	if v, ok := factors(c)[factor]; ok {
		return v, true
	}
	if factor == strings.ToUpper(factor) {
		return cmp.Or(c.Env[factor], "unset"), true
	}
	return "", false
}

// wordOf returns the level of a factor in a name.
func wordOf(name, factor string) (string, bool) {
	for _, w := range strings.Fields(name) {
		if level, ok := strings.CutPrefix(w, factor+"="); ok {
			return level, true
		}
	}
	return "", false
}

// factors are all of the case's, by the names of its JSON, which are those of the flags.
func factors(c *cells.Cell) map[string]string {
	b, err := json.Marshal(c.Case.Case)
	if err != nil {
		return nil // never: numbers and texts
	}
	all := map[string]json.RawMessage{}
	if json.Unmarshal(b, &all) != nil {
		return nil
	}
	out := map[string]string{}
	for name, raw := range all {
		if !bytes.HasPrefix(raw, []byte("{")) {
			out[name] = strings.Trim(string(raw), `"`)
		}
	}
	if _, ok := out["rate"]; !ok {
		out["rate"] = "none"
	}
	return out
}

// varying lists the factors that --by can take here.
func varying(s Side) []string {
	levels := map[string]map[string]bool{}
	add := func(factor, level string) {
		if levels[factor] == nil {
			levels[factor] = map[string]bool{}
		}
		levels[factor][level] = true
	}
	var settings []string
	for i := range s.Cells {
		for p, set := range map[string]map[string]string{"broker.": s.Cells[i].Case.BrokerSet, "client.": s.Cells[i].Case.ClientSet, "transport.": s.Cells[i].Case.TransportSet} {
			for k := range set {
				settings = append(settings, p+k)
			}
		}
		for k := range s.Cells[i].Env {
			settings = append(settings, k)
		}
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		for k, v := range factors(c) {
			add(k, v)
		}
		for _, w := range strings.Fields(s.Names[c.Key]) {
			if k, v, ok := strings.Cut(w, "="); ok {
				add(k, v)
			}
		}
		for _, k := range append(settings, armFactor) {
			if v, ok := levelOf(c, s.Names, k); ok {
				add(k, v)
			}
		}
	}
	return slices.Sorted(func(yield func(string) bool) {
		for k, v := range levels {
			if len(v) > 1 && !yield(k) {
				return
			}
		}
	})
}

// armFactors are what the arms of an A/B of settings differ in by intention: words of the cells' names that no two arms
// have the same level of.
func armFactors(s Side) []string {
	levels := map[string]map[string]map[string]bool{} // word -> level -> arms
	arms := map[string][]string{}                     // arm -> names
	words := map[string]bool{}
	for i := range s.Cells {
		c := &s.Cells[i]
		name := nameOf(c, s, s)
		arms[c.Arm] = append(arms[c.Arm], name)
		for _, w := range strings.Fields(name) {
			k, _, _ := strings.Cut(w, "=")
			words[k] = true
		}
	}
	for k := range words {
		levels[k] = map[string]map[string]bool{}
		for arm, names := range arms {
			for _, name := range names {
				level, _ := wordOf(name, k)
				if levels[k][level] == nil {
					levels[k][level] = map[string]bool{}
				}
				levels[k][level][arm] = true
			}
		}
	}
	var out []string
	for k, of := range levels {
		shared := false
		for _, in := range of {
			shared = shared || len(in) > 1
		}
		if !shared {
			out = append(out, k)
		}
	}
	return out
}

// without takes the factors' words out of a name.
func without(name string, factors ...string) string {
	words := slices.DeleteFunc(strings.Fields(name), func(w string) bool {
		k, _, _ := strings.Cut(w, "=")
		return slices.Contains(factors, k)
	})
	return strings.Join(words, " ")
}

func envWithout(env map[string]string, factor string) string {
	rest := maps.Clone(env)
	delete(rest, factor)
	return text(rest)
}

// factorsDiffer says which factors follow the one that is compared by, so that the difference is not only its own.
func factorsDiffer(pairs []pair, factor string) []string {
	differ := map[string]bool{}
	for _, p := range pairs {
		b, h := factors(p.base), factors(p.head)
		for k, v := range b {
			if k != factor && h[k] != v {
				differ[k] = true
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return []string{"with " + factor + " go other factors: " + strings.Join(slices.Sorted(maps.Keys(differ)), ", ")}
}
