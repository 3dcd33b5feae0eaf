package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A canonical value is a string, an int64, a bool, a []string or a map[string]string;
// lists and maps are never nil, so that they are [] and {} in a document.

func (k *Key) isList() bool { return k.kind.Kind() == reflect.Slice }
func (k *Key) isMap() bool  { return k.kind.Kind() == reflect.Map }
func (k *Key) isInt() bool  { return k.kind.Kind() == reflect.Int || k.kind.Kind() == reflect.Int64 }
func (k *Key) isBool() bool { return k.kind.Kind() == reflect.Bool }

// parseText reads what the environment, a flag or the default of the table says. Lists
// are separated by commas; maps are key:value, separated by commas.
func (k *Key) parseText(s string) (any, error) {
	if !utf8.ValidString(s) { // it would not come through a JSON document unchanged
		return nil, fmt.Errorf("%q: want UTF-8", s)
	}
	switch {
	case k.isInt():
		return k.parseNumber(s)
	case k.isBool():
		b, err := strconv.ParseBool(s)
		if err != nil || s != strconv.FormatBool(b) {
			return nil, fmt.Errorf("%q: want true or false", s)
		}
		return b, nil
	case k.isList():
		return k.checkList(splitList(s))
	case k.isMap():
		m := map[string]string{}
		for _, part := range splitList(s) {
			key, value, ok := strings.Cut(part, ":")
			if !ok {
				return nil, fmt.Errorf("%q: want tenant:file, separated by commas", part)
			}
			if _, twice := m[key]; twice {
				return nil, fmt.Errorf("%q is given twice", key)
			}
			m[key] = value
		}
		return k.checkMap(m)
	}
	return k.checkString(s)
}

func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return []string{}
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (k *Key) parseNumber(s string) (any, error) {
	var n int64
	var err error
	if k.Unit == "bytes" {
		n, err = ParseSize(s)
	} else if n, err = parseInt(s); err != nil && k.Unit != "" {
		err = fmt.Errorf("%w of %s", err, unitName(k.Unit))
	}
	if err != nil {
		return nil, err
	}
	return k.checkNumber(n)
}

func (k *Key) checkNumber(n int64) (any, error) {
	if n == 0 && k.zero {
		return n, nil
	}
	if n < k.min && k.zero {
		return nil, fmt.Errorf("%s: want 0 or at least %s", k.format(n), k.format(k.min))
	}
	if n < k.min {
		return nil, fmt.Errorf("%s: want at least %s", k.format(n), k.format(k.min))
	}
	if n > k.max {
		return nil, fmt.Errorf("%s: want at most %s", k.format(n), k.format(k.max))
	}
	if reflect.Zero(k.kind).OverflowInt(n) {
		return nil, fmt.Errorf("%s: more than this machine can count", k.format(n))
	}
	return n, nil
}

func (k *Key) format(n int64) string {
	switch {
	case k.Unit == "bytes" && n >= 0:
		if s := FormatSize(n); s != strconv.FormatInt(n, 10) {
			return s
		}
		return strconv.FormatInt(n, 10) + " B"
	case k.Unit != "":
		return strconv.FormatInt(n, 10) + " " + k.Unit
	}
	return strconv.FormatInt(n, 10)
}

func unitName(unit string) string {
	switch unit {
	case "ms":
		return "milliseconds"
	case "us":
		return "microseconds"
	}
	return unit
}

func (k *Key) checkString(s string) (any, error) {
	if len(k.Choices) > 0 && !slices.Contains(k.Choices, s) {
		err := fmt.Sprintf("%q: want one of %s", s, strings.Join(k.Choices, ", "))
		if near := Nearest(s, k.Choices); near != "" {
			err += " (nearest: " + near + ")"
		}
		return nil, errors.New(err)
	}
	if k.form == "address" || k.form == "loopback" {
		return k.checkAddress(s)
	}
	return s, nil
}

func (k *Key) checkAddress(s string) (any, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return nil, fmt.Errorf("%q: want host:port, as 127.0.0.1:5000", s)
	}
	if n, err := parseInt(port); err != nil || n < 0 || n > 65535 {
		return nil, fmt.Errorf("%q: want a port of 0 (any free one) to 65535", s)
	}
	if k.form == "loopback" && host != "localhost" {
		// The admin pages have no authentication, so there is no key that opens them up:
		// who wants them elsewhere puts a proxy or a tunnel in front.
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return nil, fmt.Errorf("%q: want a loopback address, as 127.0.0.1:8080: the pages are not authenticated", s)
		}
	}
	return s, nil
}

func (k *Key) checkList(list []string) (any, error) {
	seen := map[string]bool{}
	for _, s := range list {
		parts := strings.Split(s, "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%q: want tenant/namespace/name, as t1/default/latency", s)
		}
		if seen[s] {
			return nil, fmt.Errorf("%q is given twice", s)
		}
		seen[s] = true
	}
	return list, nil
}

func (k *Key) checkMap(m map[string]string) (any, error) {
	for _, key := range sortedKeys(m) {
		if key == "" || m[key] == "" {
			return nil, fmt.Errorf("%q: want a tenant and a file", key+":"+m[key])
		}
	}
	return m, nil
}

// refuse names the key, and where the value stood. A secret that is refused is not shown.
func (k *Key) refuse(where string, err error) error {
	if k.Secret {
		err = errors.New("not a valid value")
	}
	return &Error{Where: where, What: fmt.Sprintf("%s: %v", k.Name, err), Hint: fmt.Sprintf("%s is: %s", k.Name, k.Help)}
}

// assign writes the canonical values into the caller's struct.
func (t *target) assign() error {
	v := reflect.New(t.typ).Elem()
	for i := range t.keys {
		k := &t.keys[i]
		f := v.FieldByName(k.fieldName)
		switch val := t.values[k.Name].Value.(type) {
		case int64:
			f.SetInt(val)
		case bool:
			f.SetBool(val)
		case string:
			f.SetString(val)
		case []string:
			if len(val) > 0 {
				f.Set(reflect.ValueOf(slices.Clone(val)))
			}
		case map[string]string:
			if len(val) > 0 {
				f.Set(reflect.ValueOf(val))
			}
		default:
			return fmt.Errorf("%s: no value", k.Name)
		}
	}
	reflect.ValueOf(t.into).Elem().Set(v)
	return nil
}
