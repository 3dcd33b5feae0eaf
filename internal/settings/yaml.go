package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// yaml reads one flat mapping, key: value. name stands in errors with the line; from
// makes the origin of a value. Empty data is an empty layer.
func (ld *loader) yaml(data []byte, name string, from func(line int) string) error {
	at := func(line int) string { return fmt.Sprintf("%s:%d", name, line) }
	root, err := yamlRoot(data, name)
	if err != nil || root == nil {
		return err
	}
	if root.Kind != yaml.MappingNode {
		return &Error{Where: at(root.Line), What: "want a mapping, key: value", Hint: "as subscriber_queue_capacity: 512"}
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		where := at(key.Line)
		if key.Kind != yaml.ScalarNode {
			return &Error{Where: where, What: "a key that is no word", Hint: "as subscriber_queue_capacity: 512"}
		}
		if first, twice := lines[key.Value]; twice {
			return &Error{Where: where, What: fmt.Sprintf("%s is set twice, first on line %d", key.Value, first), Hint: "leave one of them out"}
		}
		lines[key.Value] = key.Line
		found, err := ld.put("", key.Value, from(key.Line), func(k *Key) (any, error) {
			v, err := k.parseNode(value)
			if err != nil {
				return nil, k.refuse(at(value.Line), err)
			}
			return v, nil
		})
		if err != nil {
			return err
		}
		if !found {
			return ld.unknown(where, "", key.Value)
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// yamlRoot parses exactly one document; nil if there is none.
func yamlRoot(data []byte, name string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = dec.Decode(&second); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			return nil, &Error{Where: fmt.Sprintf("%s:%d", name, second.Line), What: "a second YAML document", Hint: "settings are one document"}
		}
	}
	if err != nil {
		where, what := name, err.Error()
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			where, what = name+":"+m[1], what[len(m[0]):]
		}
		return nil, &Error{Where: where, What: "not YAML: " + strings.TrimPrefix(what, "yaml: "), Hint: "settings are lines of key: value"}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil // comments only
	}
	return root, nil
}

// parseNode reads a YAML value of exactly the key's type. What YAML resolves to another
// type (yes, 010, 1e3, 512 in quotes) is refused, not converted.
func (k *Key) parseNode(n *yaml.Node) (any, error) {
	n = unalias(n)
	if n.Tag == "!!null" {
		return nil, errors.New("no value: leave the key out for its default")
	}
	switch {
	case k.isList():
		if n.Kind != yaml.SequenceNode {
			return nil, errors.New("want a list, as [t1/default/latency]")
		}
		list := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			s, err := textNode(item)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
		return k.checkList(list)
	case k.isMap():
		if n.Kind != yaml.MappingNode {
			return nil, errors.New("want a mapping of tenant: file")
		}
		m := map[string]string{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, err := textNode(n.Content[i])
			if err != nil {
				return nil, err
			}
			value, err := textNode(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			if _, twice := m[key]; twice {
				return nil, fmt.Errorf("%q is given twice", key)
			}
			m[key] = value
		}
		return k.checkMap(m)
	case n.Kind != yaml.ScalarNode:
		return nil, errors.New("want one value")
	case k.isInt():
		if n.Tag != "!!int" && (n.Tag != "!!str" || k.Unit != "bytes") {
			return nil, fmt.Errorf("%q: want a whole number", n.Value)
		}
		return k.parseNumber(n.Value)
	case k.isBool():
		if n.Tag != "!!bool" {
			return nil, fmt.Errorf("%q: want true or false", n.Value)
		}
		return k.parseText(n.Value)
	}
	s, err := textNode(n)
	if err != nil {
		return nil, err
	}
	return k.checkString(s)
}

func textNode(n *yaml.Node) (string, error) {
	n = unalias(n)
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("want text")
	}
	if n.Tag != "!!str" {
		return "", fmt.Errorf("%s: want text: put it in quotes", n.Value)
	}
	return n.Value, nil
}

func unalias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
