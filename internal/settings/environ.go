package settings

import "strings"

// environ takes FELIX_* of "NAME=value" entries; the last of a name wins.
func (ld *loader) environ(environ []string) error {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "FELIX_") || name == ConfigEnv {
			continue
		}
		if sentence := refusedEnv(name); sentence != "" {
			return &Error{Where: "environment", What: sentence, Hint: "unset " + name}
		}
		key, known := keyOfEnv(name)
		if !known {
			return unknownError("environment", "variable", name, Nearest(name, envNames()))
		}
		_, err := ld.put("", key, "env "+name, func(k *Key) (any, error) {
			v, err := k.parseText(value)
			if err != nil {
				return nil, k.refuse("env "+name, err)
			}
			return v, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keyOfEnv looks in all tables, loaded or not.
func keyOfEnv(name string) (key string, known bool) {
	for _, t := range tables() {
		for _, k := range t.keys {
			if k.Env == name {
				return k.Name, true
			}
		}
	}
	return "", false
}

func envNames() []string {
	names := []string{ConfigEnv}
	for _, t := range tables() {
		for _, k := range t.keys {
			names = append(names, k.Env)
		}
	}
	return names
}
