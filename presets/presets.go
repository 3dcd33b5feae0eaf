// Package presets holds the named profiles and grids of the bench as YAML files, built into the binary.
package presets

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"felix/internal/settings"
	"felix/internal/workload"
)

//go:embed profiles.yml
var profilesYAML []byte

//go:embed publishers.yml
var publishersYAML []byte

//go:embed gate.yml
var gateYAML []byte

// GateName is what errors call the built-in gate.
const GateName = "presets/gate.yml"

// Gate returns the text of the built-in gate, which package gate reads.
func Gate() []byte { return slices.Clone(gateYAML) }

//go:embed ceiling.yml ci-latency.yml ci-throughput.yml fast.yml latency-matrix.yml overload.yml quick.yml
var gridFiles embed.FS

// Profile is a named set of settings: key to value, as on the command line.
type Profile struct {
	Why       string            `yaml:"why"`
	Broker    map[string]string `yaml:"broker"`
	Client    map[string]string `yaml:"client"`
	Transport map[string]string `yaml:"transport"`
}

var profiles = sync.OnceValues(func() (map[string]Profile, error) {
	var p map[string]Profile
	d := yaml.NewDecoder(bytes.NewReader(profilesYAML))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("presets/profiles.yml: %w", err)
	}
	return p, nil
})

// ProfileNames lists the profiles in alphabetical order.
func ProfileNames() []string {
	all, err := profiles()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}

// LookupProfile returns the profile of that name; an unknown name is an error that lists the known ones.
func LookupProfile(name string) (Profile, error) {
	all, err := profiles()
	if err != nil {
		return Profile{}, err
	}
	p, ok := all[name]
	if !ok {
		return Profile{}, fmt.Errorf("profile %q: want one of %s", name, strings.Join(ProfileNames(), ", "))
	}
	return p, nil
}

// shared is what every grid may use without defining it: the publisher presets and the names of the profiles.
var shared = sync.OnceValues(func() (workload.Levels, error) {
	levels, err := workload.ParseLevels("presets/publishers.yml", publishersYAML)
	return levels.WithProfiles(ProfileNames()...), err
})

const gridSuffix = ".yml"

// GridNames lists the grids in alphabetical order.
func GridNames() []string {
	files, err := gridFiles.ReadDir(".")
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), gridSuffix))
	}
	return names
}

// Grid returns a fresh copy of the grid of that name; an unknown name is an error that lists the known ones and names
// the nearest.
func Grid(name string) (*workload.Grid, error) {
	if names := GridNames(); !slices.Contains(names, name) {
		near := ""
		if n := settings.Nearest(name, names); n != "" {
			near = fmt.Sprintf(" (nearest: %s)", n)
		}
		return nil, fmt.Errorf("grid %q: want one of %s, or a file%s", name, strings.Join(names, ", "), near)
	}
	data, err := gridFiles.ReadFile(name + gridSuffix)
	if err != nil {
		return nil, fmt.Errorf("grid %s: %w", name, err)
	}
	return ParseGrid("presets/"+name+gridSuffix, data)
}

// ParseGrid is workload.ParseGrid for any grid file: it may name the publisher presets and the profiles of this
// package, and a name that is none of them is an error with its line.
func ParseGrid(name string, data []byte) (*workload.Grid, error) {
	levels, err := shared()
	if err != nil {
		return nil, err
	}
	return workload.ParseGrid(name, data, levels)
}

// Model returns a model of how long trials take that knows the windows of the profiles.
func Model() *workload.Model {
	transport := map[string]map[string]string{}
	for _, name := range ProfileNames() {
		if p, err := LookupProfile(name); err == nil {
			transport[name] = p.Transport
		}
	}
	return workload.NewModel(transport)
}
