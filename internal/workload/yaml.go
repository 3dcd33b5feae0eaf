package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"felix/internal/settings"
)

// document is one YAML file under reading; its name stands in errors, with the line.
type document struct{ name string }

func (d document) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.name, n.Line) }

func (d document) refuse(n *yaml.Node, hint, format string, args ...any) error {
	return &settings.Error{Where: d.at(n), What: fmt.Sprintf(format, args...), Hint: hint}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// root parses exactly one document.
func (d document) root(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &settings.Error{Where: d.name, What: "an empty file", Hint: "the named grids in presets/ are examples"}
	} else if err != nil {
		return nil, d.notYAML(err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, d.refuse(&second, "one file is one document", "a second YAML document")
	} else if !errors.Is(err, io.EOF) {
		return nil, d.notYAML(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &settings.Error{Where: d.name, What: "an empty file", Hint: "the named grids in presets/ are examples"}
	}
	return doc.Content[0], nil
}

func (d document) notYAML(err error) error {
	where, what := d.name, err.Error()
	if m := yamlLine.FindStringSubmatch(what); m != nil {
		where, what = d.name+":"+m[1], what[len(m[0]):]
	}
	return &settings.Error{Where: where, What: "not YAML: " + strings.TrimPrefix(what, "yaml: "), Hint: "the named grids in presets/ are examples"}
}

// entry is one key of a mapping.
type entry struct {
	key   string
	at    *yaml.Node // of the key
	value *yaml.Node
}

// mapping lists the entries of a mapping in their order. what it is stands in errors; known are its keys, nil if
// anything may be one.
func (d document) mapping(n *yaml.Node, what string, known []string) ([]entry, error) {
	if n.Kind != yaml.MappingNode {
		return nil, d.refuse(n, "", "%s: want a mapping, key: value", what)
	}
	var entries []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!null" || k.Value == "" {
			return nil, d.refuse(k, "", "%s: a key that is no word", what)
		}
		if known != nil && !slices.Contains(known, k.Value) {
			return nil, d.refuse(k, "its keys are "+strings.Join(known, ", "), "%s", nearest(fmt.Sprintf("%s: unknown key %q", what, k.Value), k.Value, known))
		}
		if j := slices.IndexFunc(entries, func(e entry) bool { return e.key == k.Value }); j >= 0 {
			return nil, d.refuse(k, "leave one of them out", "%s: %s is given twice, first on line %d", what, k.Value, entries[j].at.Line)
		}
		entries = append(entries, entry{k.Value, k, n.Content[i+1]})
	}
	return entries, nil
}

// list lists the items of a sequence that has some.
func (d document) list(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, d.refuse(n, "", "%s: want a list, [one, two]", what)
	}
	return n.Content, nil
}

// scalar is the text of one value as it stands, whatever type YAML would make of it: what a level may be is its
// factor's to say, and 010 or yes is refused there instead of being read as 8 or true.
func (d document) scalar(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", d.refuse(n, "", "%s: want one value", what)
	}
	return n.Value, nil
}

// prose is a sentence that has to be there.
func (d document) prose(e entry) (string, error) {
	s, err := d.scalar(e.value, e.key)
	if err != nil {
		return "", err
	}
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "", d.refuse(e.value, "", "%s: want a sentence", e.key)
	}
	return s, nil
}
