package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Levels are named sets of levels, by the name of the factor that they make: P4_hash of the factor preset stands for
// four publishers on two connections, and so on. The zero value has none.
type Levels struct {
	named    map[string]map[string][]assignment
	profiles []string // that there are; none: not known here
}

// WithProfiles returns the levels with the names of the profiles that a grid may use. Without them any name passes,
// and the trial judges it.
func (l Levels) WithProfiles(names ...string) Levels {
	l.profiles = slices.Concat(l.profiles, names)
	return l
}

// assignment is one factor at one level, and where that was said.
type assignment struct {
	factor, level string
	where         string
}

// ParseLevels reads a file of named levels that grids share, FACTOR: {LEVEL: {factor: level}}. It is as strict as
// ParseGrid.
func ParseLevels(name string, data []byte) (Levels, error) {
	d := document{name}
	root, err := d.root(data)
	if err != nil {
		return Levels{}, err
	}
	return d.levels(root, Levels{})
}

// levels reads named levels; shared ones may not be given another meaning.
func (d document) levels(n *yaml.Node, shared Levels) (Levels, error) {
	out := Levels{named: map[string]map[string][]assignment{}}
	factors, err := d.mapping(n, "levels", nil)
	if err != nil {
		return out, err
	}
	for _, f := range factors {
		if findFactor(f.key) != nil || strings.ContainsAny(f.key, "., =") {
			return out, d.refuse(f.at, "give the set a name of its own, as preset", "levels: %q cannot name a set of levels", f.key)
		}
		levels, err := d.mapping(f.value, "levels of "+f.key, nil)
		if err != nil {
			return out, err
		}
		out.named[f.key] = map[string][]assignment{}
		for _, l := range levels {
			if strings.ContainsAny(l.key, ", =") {
				return out, d.refuse(l.at, "", "levels of %s: %q cannot be written in --set and --only", f.key, l.key)
			}
			if _, taken := shared.named[f.key][l.key]; taken {
				return out, d.refuse(l.at, "give it another name", "levels of %s: %s is one of the shared ones already", f.key, l.key)
			}
			if out.named[f.key][l.key], err = d.assignments(l, shared); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// assignments reads one level's {factor: level}.
func (d document) assignments(l entry, shared Levels) ([]assignment, error) {
	entries, err := d.mapping(l.value, l.key, nil)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, d.refuse(l.value, "", "%s: sets nothing", l.key)
	}
	var set []assignment
	for _, e := range entries {
		level, err := d.scalar(e.value, e.key)
		if err != nil {
			return nil, err
		}
		if err := shared.plain().check(e.key, level); err != nil {
			return nil, d.refuse(e.at, "", "%s: %v", l.key, err)
		}
		set = append(set, assignment{e.key, level, d.at(e.at)})
	}
	return set, nil
}

// plain is the levels without named ones: a named level is not made of others.
func (l Levels) plain() Levels { return Levels{profiles: l.profiles} }

// merge returns the levels of both; they have none in common.
func (l Levels) merge(more Levels) Levels {
	out := Levels{named: map[string]map[string][]assignment{}}.WithProfiles(l.profiles...).WithProfiles(more.profiles...)
	for _, x := range []Levels{l, more} {
		for factor, levels := range x.named {
			if out.named[factor] == nil {
				out.named[factor] = map[string][]assignment{}
			}
			maps.Copy(out.named[factor], levels)
		}
	}
	return out
}

// Factors lists the factors that named levels make, in alphabetical order.
func (l Levels) Factors() []string { return slices.Sorted(maps.Keys(l.named)) }

// Of lists the named levels of a factor, in alphabetical order; none for a factor that has no named ones.
func (l Levels) Of(factor string) []string { return slices.Sorted(maps.Keys(l.named[factor])) }

// checkName says whether a factor exists, and if not, which is near.
func (l Levels) checkName(factor string) error {
	if l.named[factor] != nil || findFactor(factor) != nil {
		return nil
	}
	names := factorNames(l.Factors())
	if section, key, ok := settingFactor(factor); ok && slices.Contains(names, section+"."+key) {
		return nil
	}
	return errors.New(nearest(fmt.Sprintf("unknown factor %q", factor), factor, names))
}

// check says whether a factor exists and can have this level. The error names both.
func (l Levels) check(factor, level string) error {
	if err := l.checkName(factor); err != nil {
		return err
	}
	if named := l.named[factor]; named != nil {
		if _, ok := named[level]; !ok {
			known := l.Of(factor)
			return oneOf(factor, level, known)
		}
		return nil
	}
	if factor == "profile" && len(l.profiles) > 0 && !slices.Contains(l.profiles, level) {
		return oneOf(factor, level, l.profiles)
	}
	f := findFactor(factor)
	if f == nil {
		section, key, _ := settingFactor(factor)
		_, err := settingValue(section, key, level)
		return err // the settings table names the key
	}
	if err := f.set(&Case{}, level); err != nil {
		if strings.HasPrefix(err.Error(), fmt.Sprintf("%q: ", level)) {
			return fmt.Errorf("%s %w", factor, err)
		}
		return fmt.Errorf("%s %q: %w", factor, level, err)
	}
	return nil
}

func oneOf(factor, level string, known []string) error {
	return errors.New(nearest(fmt.Sprintf("%s %q: want one of %s", factor, level, strings.Join(known, ", ")), level, known))
}

// canonical is the level as the case prints it, or the value that the settings table makes of it, so that 1e3 and 1000
// are one; the text itself if it is no level or a named one.
func (l Levels) canonical(factor, level string) string {
	if l.named[factor] != nil {
		return level
	}
	if section, key, ok := settingFactor(factor); ok {
		if v, err := settingValue(section, key, level); err == nil {
			return v
		}
		return level
	}
	var c Case
	if f := findFactor(factor); f != nil && f.set(&c, level) == nil {
		return f.get(&c)
	}
	return level
}
