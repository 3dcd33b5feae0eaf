package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Document is settings as a record shows them: {key: {"value": …, "from": …}}, in
// alphabetical order when encoded as JSON.
type Document map[string]Origin

// Resolved says what LoadAll arrived at. Secrets read "(set)" or "" in Origins and
// Sections; only Marshal has them.
type Resolved struct {
	// Origins is every key of every target. A key of two targets (max_frame_bytes) shows
	// the later one; Sections keeps them apart.
	Origins map[string]Origin
	// Sections is one Document for each target: "broker", "client", "transport".
	Sections map[string]Document

	full map[string]Document // Sections with secrets
}

func (r *Resolved) add(t *table, values map[string]Origin) {
	shown := Document{}
	for name, o := range values {
		if k := t.find(name); k.Secret && o.Value != "" {
			o.Value = "(set)"
		}
		shown[name] = o
		r.Origins[name] = o
	}
	r.Sections[t.section], r.full[t.section] = shown, values
}

// Marshal is the JSON form that hands settings, their origins and their secrets to a
// child process: {section: {key: {"value": …, "from": …}}}. Without sections it holds all.
func (r *Resolved) Marshal(sections ...string) ([]byte, error) {
	out := r.full
	if len(sections) > 0 {
		out = map[string]Document{}
		for _, s := range sections {
			d, ok := r.full[s]
			if !ok {
				return nil, fmt.Errorf("settings section %q: not loaded", s)
			}
			out[s] = d
		}
	}
	return json.Marshal(out)
}

// Unmarshal fills the targets from what Marshal wrote. It is as strict as LoadAll:
// exactly the targets' sections and exactly their keys, each value of its type and
// within its bounds.
func Unmarshal(data []byte, targets ...any) (*Resolved, error) {
	ld, err := newLoader(targets)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // int64 values above 2^53 must arrive whole
	dec.DisallowUnknownFields()
	var in map[string]map[string]struct {
		Value any    `json:"value"`
		From  string `json:"from"`
	}
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("settings document: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("settings document: more than one value")
	}
	for _, section := range sortedKeys(in) {
		if ld.section(section) == nil {
			return nil, fmt.Errorf("settings document: section %q is not wanted", section)
		}
		for _, name := range sortedKeys(in[section]) {
			o := in[section][name]
			found, err := ld.put(section, name, o.From, func(k *Key) (any, error) {
				v, err := k.fromJSON(o.Value)
				if err != nil {
					return nil, k.refuse("settings document", err)
				}
				return v, nil
			})
			if err == nil && !found {
				err = ld.unknown("settings document", section, name)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, t := range ld.targets {
		for _, k := range t.keys {
			if _, ok := t.values[k.Name]; !ok {
				return nil, fmt.Errorf("settings document: %s.%s is missing", t.section, k.Name)
			}
		}
	}
	return ld.finish()
}

// fromJSON turns a decoded JSON value into a canonical one.
func (k *Key) fromJSON(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := parseInt(v.String()); err == nil && k.isInt() {
			return k.checkNumber(n)
		}
	case bool:
		if k.isBool() {
			return v, nil
		}
	case string:
		if !k.isInt() && !k.isBool() && !k.isList() && !k.isMap() {
			return k.checkString(v)
		}
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			s, ok := item.(string)
			if !ok || !k.isList() {
				return nil, fmt.Errorf("%v: wrong type", item)
			}
			list = append(list, s)
		}
		if k.isList() {
			return k.checkList(list)
		}
	case map[string]any:
		m := make(map[string]string, len(v))
		for key, item := range v {
			s, ok := item.(string)
			if !ok || !k.isMap() {
				return nil, fmt.Errorf("%v: wrong type", item)
			}
			m[key] = s
		}
		if k.isMap() {
			return k.checkMap(m)
		}
	}
	return nil, fmt.Errorf("%v: wrong type", v)
}
