package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Layers is where values come from, weakest first: the defaults of the table, Under,
// YAML, Environ, Sets, More. The zero value gives the defaults alone.
type Layers struct {
	Under    []Layer // YAML below the user's own: a profile, a policy; the last is the strongest
	YAML     []byte
	YAMLName string   // what YAML is called in errors and origins; "yaml" if empty
	Environ  []string // as os.Environ: only FELIX_* is looked at
	Sets     []string // "key=value" of flags, for every target that has the key; the last wins
	More     []Set    // above Sets: for one section, or with an origin of its own
}

// Layer is a YAML document with a name that is its origin in the record ("profile
// balanced").
type Layer struct {
	Name string
	YAML []byte
}

// Set is one value on its way in, still text.
type Set struct {
	Section    string // "broker", "client", "transport"; "" is every target that has the key
	Key, Value string
	From       string // origin; "flag" if empty
}

// Origin is a value and the layer it came from: "default", "yaml FILE:LINE", "env NAME",
// "flag", or the name of a Layer or Set.
type Origin struct {
	Value any    `json:"value"` // string, int64, bool, []string or map[string]string
	From  string `json:"from"`
}

// Load is LoadAll for one target, when the origins do not matter.
func Load(target any, l Layers) error {
	_, err := LoadAll(l, target)
	return err
}

// Defaults fills the targets from the table alone.
func Defaults(targets ...any) (*Resolved, error) { return LoadAll(Layers{}, targets...) }

// LoadAll fills the targets (pointers to Broker, Client, Transport, each at most once)
// from the layers and says where each value came from. It refuses, as an *Error, a key
// that no target has, in YAML and among the sets; a FELIX_* variable that is in none of
// the three tables (one environment serves all programs, so a variable of another
// section is left alone); and every value that is not exactly of its key's type and
// bounds. On an error the targets are unchanged.
func LoadAll(l Layers, targets ...any) (*Resolved, error) {
	ld, err := newLoader(targets)
	if err != nil {
		return nil, err
	}
	if err := ld.defaults(); err != nil {
		return nil, err
	}
	for _, u := range l.Under {
		if err := ld.yaml(u.YAML, u.Name, func(int) string { return u.Name }); err != nil {
			return nil, err
		}
	}
	name := l.YAMLName
	if name == "" {
		name = "yaml"
	}
	from := func(line int) string { return fmt.Sprintf("yaml %s:%d", name, line) }
	if err := ld.yaml(l.YAML, name, from); err != nil {
		return nil, err
	}
	if err := ld.environ(l.Environ); err != nil {
		return nil, err
	}
	for _, kv := range l.Sets {
		s, err := ParseSet(kv)
		if err != nil {
			return nil, err
		}
		if err := ld.set(s); err != nil {
			return nil, err
		}
	}
	for _, s := range l.More {
		if err := ld.set(s); err != nil {
			return nil, err
		}
	}
	return ld.finish()
}

// LayersFor reads the YAML file of a program: file if a flag named one, else the one
// that FELIX_BROKER_CONFIG names, else none. A named file that is missing is an error.
func LayersFor(file string, environ, sets []string) (Layers, error) {
	l := Layers{Environ: environ, Sets: sets}
	where := ""
	if file == "" {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, ConfigEnv+"="); ok {
				file, where = v, ConfigEnv
			}
		}
	}
	if file == "" {
		return l, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		hint := "the file must be readable"
		if errors.Is(err, fs.ErrNotExist) {
			hint = "name a file that exists, or none for the defaults"
		}
		return l, &Error{Where: where, What: fmt.Sprintf("settings file: %v", err), Hint: hint}
	}
	l.YAML, l.YAMLName = data, file
	return l, nil
}

// loader collects canonical values by section and key until all layers are in.
type loader struct {
	targets []target
}

type target struct {
	*table
	into   any // the caller's pointer
	values map[string]Origin
}

func newLoader(targets []any) (*loader, error) {
	ld := &loader{}
	for _, into := range targets {
		t, _, err := tableOf(into)
		if err != nil {
			return nil, err
		}
		if ld.section(t.section) != nil {
			return nil, fmt.Errorf("settings target %T: given twice", into)
		}
		ld.targets = append(ld.targets, target{table: t, into: into, values: map[string]Origin{}})
	}
	if len(ld.targets) == 0 {
		return nil, errors.New("settings: no target")
	}
	return ld, nil
}

func (ld *loader) section(name string) *target {
	for i := range ld.targets {
		if ld.targets[i].section == name {
			return &ld.targets[i]
		}
	}
	return nil
}

func (ld *loader) defaults() error {
	for _, t := range ld.targets {
		for i := range t.keys {
			k := &t.keys[i]
			v, err := k.parseText(k.Default)
			if err != nil {
				return fmt.Errorf("default of %s: %w", k.Name, err)
			}
			t.values[k.Name] = Origin{Value: v, From: "default"}
		}
	}
	return nil
}

// put hands one value to every target (of section, unless that is "") that has the key.
// parse is asked once for each, because bounds belong to the key of a section.
func (ld *loader) put(section, key, from string, parse func(*Key) (any, error)) (found bool, err error) {
	for _, t := range ld.targets {
		if section != "" && section != t.section {
			continue
		}
		k := t.find(key)
		if k == nil {
			continue
		}
		found = true
		v, err := parse(k)
		if err != nil {
			return true, err
		}
		t.values[key] = Origin{Value: v, From: from}
	}
	return found, nil
}

// unknown explains a key that no target (of section, unless that is "") has.
func (ld *loader) unknown(where, section, key string) error {
	if sentence := refusedKey(key); sentence != "" {
		return &Error{Where: where, What: sentence, Hint: "leave " + key + " out"}
	}
	var names, taken []string
	for _, t := range ld.targets {
		if section != "" && section != t.section {
			continue
		}
		taken = append(taken, t.section)
		for _, k := range t.keys {
			names = append(names, k.Name)
		}
	}
	for _, t := range tables() {
		if t.find(key) != nil {
			return &Error{Where: where,
				What: fmt.Sprintf("%s is a %s setting, not one of %s", key, t.section, strings.Join(taken, " or ")),
				Hint: "leave it out here, or give it to the " + t.section}
		}
	}
	return unknownError(where, "setting", key, Nearest(key, names))
}

func unknownError(where, kind, word, nearest string) error {
	e := &Error{Where: where, What: fmt.Sprintf("unknown %s %q", kind, word),
		Hint: "latencydemo --dry-run lists every key with its FELIX_* variable"}
	if nearest != "" {
		e.What += fmt.Sprintf(" (nearest: %s)", nearest)
		e.Hint = fmt.Sprintf("did you mean %s?", nearest)
	}
	return e
}

func (ld *loader) set(s Set) error {
	if s.From == "" {
		s.From = "flag"
	}
	found, err := ld.put(s.Section, s.Key, s.From, func(k *Key) (any, error) {
		v, err := k.parseText(s.Value)
		if err != nil {
			return nil, k.refuse(s.From, err)
		}
		return v, nil
	})
	if err == nil && !found {
		err = ld.unknown(s.From, s.Section, s.Key)
	}
	return err
}

// ParseSet splits "key=value" at the first '='. The value may be empty, and may hold
// further '='; the key may not be empty or hold spaces.
func ParseSet(kv string) (Set, error) {
	key, value, ok := strings.Cut(kv, "=")
	if !ok || key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' }) {
		return Set{}, &Error{What: fmt.Sprintf("%q is no setting", kv), Hint: "write key=value, as subscriber_queue_capacity=512"}
	}
	return Set{Key: key, Value: value}, nil
}

func (ld *loader) finish() (*Resolved, error) {
	if err := ld.crossCheck(); err != nil {
		return nil, err
	}
	r := &Resolved{Origins: map[string]Origin{}, Sections: map[string]Document{}, full: map[string]Document{}}
	for _, t := range ld.targets {
		if err := t.assign(); err != nil {
			return nil, err
		}
		r.add(t.table, t.values)
	}
	return r, nil
}

// crossCheck refuses values that are good alone and contradict each other.
func (ld *loader) crossCheck() error {
	if t := ld.section("transport"); t != nil {
		conn, stream := t.values["conn_recv_window"], t.values["stream_recv_window"]
		if c, s := conn.Value.(int64), stream.Value.(int64); c < s {
			return &Error{Where: conn.From,
				What: fmt.Sprintf("conn_recv_window of %s is below stream_recv_window of %s (%s)", FormatSize(c), FormatSize(s), stream.From),
				Hint: "set both: a connection carries all of its streams"}
		}
	}
	b := ld.section("broker")
	if b == nil {
		return nil
	}
	cert, key := b.values["tls_cert"], b.values["tls_key"]
	if (cert.Value == "") != (key.Value == "") {
		set, missing := "tls_cert", "tls_key"
		from := cert.From
		if cert.Value == "" {
			set, missing, from = missing, set, key.From
		}
		return &Error{Where: from, What: set + " without " + missing,
			Hint: "give both, or neither for a development certificate"}
	}
	// A key that can have no effect is refused where somebody set it; the default gives way.
	events, fanout := b.values["event_batch_max_events"], b.values["fanout_batch_size"]
	if n := max(1, fanout.Value.(int64)); events.From != "default" && events.Value.(int64) > n {
		return &Error{Where: events.From,
			What: fmt.Sprintf("event_batch_max_events of %d is never reached: fanout_batch_size is %d (%s)", events.Value, fanout.Value, fanout.From),
			Hint: "raise fanout_batch_size, or lower event_batch_max_events"}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
