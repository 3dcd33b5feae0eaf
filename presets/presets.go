// Package presets holds the named profiles and grids of the bench as YAML files, built into the binary.
package presets

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

//go:embed profiles.yml
var profilesYAML []byte

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
