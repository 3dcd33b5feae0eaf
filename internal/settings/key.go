package settings

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Key is one row of the table: a setting as its struct field describes it.
type Key struct {
	Section string   `json:"section"` // "broker", "client" or "transport"
	Name    string   `json:"key"`
	Env     string   `json:"env"`
	Default string   `json:"default"`
	Unit    string   `json:"unit,omitempty"` // "bytes" also means that 64KiB is understood
	Choices []string `json:"choices,omitempty"`
	Help    string   `json:"help"`
	Secret  bool     `json:"secret,omitempty"` // documents show that it is set, not its value

	min, max  int64 // inclusive; only for integers
	zero      bool  // 0 is allowed below min
	form      string
	fieldName string
	kind      reflect.Type
}

// ConfigEnv names the YAML file when no flag does.
const ConfigEnv = "FELIX_BROKER_CONFIG"

// Keys lists every key of the three tables, in their order. A key that is in two
// sections (max_frame_bytes) is listed in both.
func Keys() []Key {
	var all []Key
	for _, t := range tables() {
		all = append(all, t.keys...)
	}
	return all
}

// table is one settings struct: its section name and its keys.
type table struct {
	section string
	typ     reflect.Type
	keys    []Key
}

func (t *table) find(name string) *Key {
	for i := range t.keys {
		if t.keys[i].Name == name {
			return &t.keys[i]
		}
	}
	return nil
}

// tables is built once: a tag that does not parse is a mistake in this package, which
// its test reports for every key.
var tables = sync.OnceValue(func() []*table {
	var ts []*table
	for _, v := range []any{Broker{}, Client{}, Transport{}} {
		ts = append(ts, newTable(reflect.TypeOf(v)))
	}
	return ts
})

func newTable(typ reflect.Type) *table {
	t := &table{section: strings.ToLower(typ.Name()), typ: typ}
	for i := range typ.NumField() {
		f := typ.Field(i)
		k := Key{
			Section: t.section, fieldName: f.Name, kind: f.Type,
			Name: f.Tag.Get("key"), Env: f.Tag.Get("env"), Default: f.Tag.Get("default"),
			Unit: f.Tag.Get("unit"), Help: f.Tag.Get("help"), form: f.Tag.Get("form"),
			Secret: f.Tag.Get("secret") != "", zero: f.Tag.Get("zero") != "",
			min: -1 << 63, max: 1<<63 - 1,
		}
		if c := f.Tag.Get("choices"); c != "" {
			k.Choices = strings.Split(c, ",")
		}
		if s, ok := f.Tag.Lookup("min"); ok {
			k.min, _ = ParseSize(s)
		}
		if s, ok := f.Tag.Lookup("max"); ok {
			k.max, _ = ParseSize(s)
		}
		t.keys = append(t.keys, k)
	}
	return t
}

// tableOf returns the table of a pointer to one of the three structs.
func tableOf(target any) (*table, reflect.Value, error) {
	v := reflect.ValueOf(target)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		for _, t := range tables() {
			if v.Type().Elem() == t.typ {
				return t, v.Elem(), nil
			}
		}
	}
	return nil, reflect.Value{}, fmt.Errorf("settings target %T: want a pointer to Broker, Client or Transport", target)
}
