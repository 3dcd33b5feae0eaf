package trial

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"felix/internal/runrecord"
)

// Of two fields with one name, of which the one is embedded, encoding/json carries only the other and says nothing: what
// another process sent would be 0 here.
func TestNoFieldHidesAnother(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, v := range []any{line{}, roleDoc{}, runrecord.Record{}} {
		everyStruct(reflect.TypeOf(v), seen, func(s reflect.Type) {
			names := map[string][]string{}
			jsonNames(s, s.Name(), names)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if fields := names[name]; len(fields) > 1 {
					t.Errorf("%q is the name of %s", name, strings.Join(fields, " and "))
				}
			}
		})
	}
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

func everyStruct(x reflect.Type, seen map[reflect.Type]bool, visit func(reflect.Type)) {
	if seen[x] {
		return
	}
	seen[x] = true
	switch x.Kind() {
	case reflect.Map:
		everyStruct(x.Key(), seen, visit)
		everyStruct(x.Elem(), seen, visit)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		everyStruct(x.Elem(), seen, visit)
	case reflect.Struct:
		visit(x)
		for i := range x.NumField() {
			everyStruct(x.Field(i).Type, seen, visit)
		}
	}
}

// jsonNames collects the fields by the names that they have in JSON, those of embedded structs among them.
func jsonNames(s reflect.Type, path string, names map[string][]string) {
	for i := range s.NumField() {
		f := s.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			jsonNames(f.Type, path+"."+f.Name, names)
		case f.IsExported() && name != "-":
			if name == "" {
				name = f.Name
			}
			names[name] = append(names[name], path+"."+f.Name)
		}
	}
}
