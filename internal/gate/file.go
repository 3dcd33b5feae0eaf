// Package gate is what matrix, which runs a gate, and analysis, which judges its records again, have in common: the
// file that says what is judged and by how much, the description of an experiment beside its records, and the text of a
// verdict. It runs nothing; what decides is package verdict.
package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"felix/internal/settings"
	"felix/internal/verdict"
	"felix/internal/workload"
	"felix/presets"
)

// Gate is a gate's file as it was read.
type Gate struct {
	Name  string   // of the file, for people
	Why   string   // may be empty
	Grids []string // built-in names, or files relative to the gate's; the cells of all of them are judged together
	Only  []string // factor=level[,level]: keeps some of the cells
	Spec  verdict.Spec
}

// file is the YAML. A pointer tells a zero that was written from a key that was not.
type file struct {
	Why              string             `yaml:"why"`
	Grids            []string           `yaml:"grids"`
	Only             []string           `yaml:"only"`
	Looks            []int              `yaml:"looks"`
	Alpha            *float64           `yaml:"alpha"`
	FailMargin       *float64           `yaml:"fail_margin"`
	PassMargin       *float64           `yaml:"pass_margin"`
	MaxDropped       *float64           `yaml:"max_dropped"`
	Metrics          []string           `yaml:"metrics"`
	AllowMissing     []string           `yaml:"allow_missing"`
	Inconclusive     string             `yaml:"on_inconclusive"`
	Waivers          []waiver           `yaml:"waivers"`
	NoiseFloor       map[string]float64 `yaml:"noise_floor"`
	SentinelOptional bool               `yaml:"sentinel_optional"`
}

type waiver struct {
	Metric  string  `yaml:"metric"`
	Cell    string  `yaml:"cell"`
	Ceiling float64 `yaml:"ceiling"`
	Reason  string  `yaml:"reason"`
	Expiry  string  `yaml:"expiry"` // 2027-01-31: the first day on which it is an error
}

var (
	keys = []string{
		"why", "grids", "only", "looks", "alpha", "fail_margin", "pass_margin", "max_dropped", "metrics", "allow_missing",
		"on_inconclusive", "waivers", "noise_floor", "sentinel_optional",
	}
	waiverKeys = []string{"metric", "cell", "ceiling", "reason", "expiry"}
)

// Load reads the gate in a file, or the built-in one if name is empty. Waivers are held against now.
func Load(name string, now time.Time) (*Gate, error) {
	if name == "" {
		return Parse(presets.GateName, presets.Gate(), now)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return Parse(name, text, now)
}

// Parse reads a gate strictly: an unknown key, a value that is none and a spec that cannot be are errors that name the
// file and, as far as YAML tells, the line. A key that is left out has the default of package verdict.
func Parse(name string, text []byte, now time.Time) (*Gate, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	fail := func(err error) (*Gate, error) { return nil, fmt.Errorf("%s: %w", name, err) }
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return fail(errors.New("empty: want at least grids"))
	case err != nil:
		return fail(err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return fail(errors.New("a second document: want one"))
	}
	if err := known(doc.Content[0], "a gate", keys); err != nil {
		return fail(err)
	}
	var f file
	if err := doc.Decode(&f); err != nil {
		return fail(err)
	}
	g := &Gate{Name: name, Why: strings.Join(strings.Fields(f.Why), " "), Grids: f.Grids, Only: f.Only}
	if len(g.Grids) == 0 {
		return fail(errors.New("no grids: want the names of those whose cells are judged"))
	}
	spec, err := f.spec(now)
	if err != nil {
		return fail(err)
	}
	g.Spec = spec
	return g, nil
}

// known refuses keys that are none, at the top and in waivers.
func known(n *yaml.Node, what string, keys []string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %s is a mapping of keys", n.Line, what)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		is := false
		for _, name := range keys {
			is = is || name == k.Value
		}
		if !is {
			near := ""
			if x := settings.Nearest(k.Value, keys); x != "" {
				near = fmt.Sprintf(" (nearest: %s)", x)
			}
			return fmt.Errorf("line %d: unknown key %q of %s%s", k.Line, k.Value, what, near)
		}
		if k.Value == "waivers" && v.Kind == yaml.SequenceNode {
			for _, w := range v.Content {
				if err := known(w, "a waiver", waiverKeys); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *file) spec(now time.Time) (verdict.Spec, error) {
	s := verdict.Spec{
		Looks: f.Looks, AllowMissing: f.AllowMissing, NoiseFloor: f.NoiseFloor, SentinelOptional: f.SentinelOptional, Now: now,
	}
	for _, x := range []struct {
		name string
		from *float64
		to   *float64
	}{
		{"alpha", f.Alpha, &s.Alpha}, {"fail_margin", f.FailMargin, &s.FailMargin},
		{"pass_margin", f.PassMargin, &s.PassMargin}, {"max_dropped", f.MaxDropped, &s.MaxDropped},
	} {
		if x.from == nil {
			continue
		}
		if *x.from == 0 { // which would mean the default
			return s, fmt.Errorf("%s 0: want more than 0", x.name)
		}
		*x.to = *x.from
	}
	for _, m := range f.Metrics {
		s.Metrics = append(s.Metrics, verdict.Metric(m))
	}
	if f.Inconclusive != "" {
		policy, err := verdict.ParsePolicy(f.Inconclusive)
		if err != nil {
			return s, err
		}
		s.Inconclusive = policy
	}
	for i, w := range f.Waivers {
		expiry, err := time.Parse(time.DateOnly, w.Expiry)
		if err != nil {
			return s, fmt.Errorf("waiver %d: expiry %q: want a day such as 2027-01-31", i+1, w.Expiry)
		}
		s.Waivers = append(s.Waivers, verdict.Waiver{Metric: verdict.Metric(w.Metric), Cell: w.Cell, Ceiling: w.Ceiling, Reason: w.Reason, Expiry: expiry})
	}
	_, err := s.Resolve()
	return s, err
}

// Grid makes one grid of the gate's grids. The settings of an arm, factor=level, are set in each of them. A grid of which
// Only keeps nothing is left out, as long as another is left.
func (g *Gate) Grid(set ...string) (*workload.Grid, error) {
	whole := &workload.Grid{Name: "gate", Why: g.Why}
	var nothing error
	for _, name := range g.Grids {
		one, err := g.find(name)
		if err != nil {
			return nil, err
		}
		if err := one.Select(set, nil); err != nil {
			return nil, err
		}
		if err := one.Select(nil, g.Only); err != nil {
			nothing = err
			continue
		}
		for _, c := range one.Cells {
			if len(g.Grids) > 1 { // each has names of its own
				c.Name = one.Name + " " + c.Name
			}
			whole.Cells = append(whole.Cells, c)
		}
	}
	if len(whole.Cells) == 0 && nothing != nil {
		return nil, nothing
	}
	if len(whole.Cells) == 0 {
		return nil, errors.New("no cell is left to judge")
	}
	whole.Digest = workload.Digest(whole.Cells)
	return whole, nil
}

// find takes a built-in grid of that name, or a file, which lies beside the gate's if its path is relative.
func (g *Gate) find(name string) (*workload.Grid, error) {
	if !strings.ContainsRune(filepath.ToSlash(name), '/') && filepath.Ext(name) == "" {
		return presets.Grid(name)
	}
	path := name
	if _, err := os.Stat(path); err != nil && !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(g.Name), name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("grid: %w", err)
	}
	return presets.ParseGrid(path, text)
}
