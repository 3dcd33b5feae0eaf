package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is docs/configuration.md: every key of the table, and every name that is refused. A test compares it with
// the file, and writes the file anew.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made of the settings table by: go test ./internal/settings -run TestMarkdown -rewrite -->

Every setting has a default, a key in YAML and a variable. A value of a later layer wins: default, YAML file
(` + "`--config FILE`" + `, else the one that ` + "`" + ConfigEnv + "`" + ` names), environment, flag. The file is flat, lines of
` + "`key: value`" + ` without the sections below. Every layer is strict: a name that does not exist is an error that names the nearest one,
and so is a value that cannot be. The effective value of each setting, with where it came from, stands in ` + "`/stats`" + `
of a broker and in the record of every trial.

Sizes are bytes: ` + "`65536`, `64KiB`, `16MiB`, `10MB`" + `. In a grid a setting is a factor of the name SECTION.KEY, on the
command line of latencydemo it is ` + "`--SECTION-set KEY=VALUE`" + `. [backpressure.md](backpressure.md) tells what the checkpoints are.
`)
	for _, s := range []struct{ section, head string }{
		{"broker", "## Broker\n\nWhat brokerd and the broker of a trial obey."},
		{"client", "## Client\n\nWhat publishers and subscribers obey."},
		{"transport", "## Transport\n\nWhat both ends obey."},
	} {
		fmt.Fprintf(&b, "\n%s\n\n| key | variable | default | takes | meaning |\n|---|---|---|---|---|\n", s.head)
		for _, k := range Keys() {
			if k.Section == s.section {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", k.Name, k.Env, cell(orNone(k.Default)), cell(k.takes()), cell(k.Help))
			}
		}
	}
	b.WriteString("\n## Names that are refused\n\nFelix has settings that cannot exist on quic-go. They are refused by name, in every layer: whoever tunes one that is\nsilently dropped measures nothing.\n\n| variable | instead |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(refused[name]))
	}
	return b.String()
}

// takes is the values of a key, in words.
func (k *Key) takes() string {
	switch {
	case len(k.Choices) > 0:
		return "`" + strings.Join(k.Choices, "`, `") + "`"
	case k.kind.Kind().String() == "bool":
		return "`true`, `false`"
	case k.form != "":
		return map[string]string{
			"address": "host:port", "loopback": "host:port of loopback", "scopes": "a list of tenant/namespace/name",
			"tenants": "tenant: file, or tenant=file in a variable",
		}[k.form]
	}
	text := k.Unit
	if k.max < 1<<63-1 || k.min > -1<<63 {
		text += ", " + k.bounds()
	}
	return strings.TrimPrefix(text, ", ")
}

func (k *Key) bounds() string {
	show := func(n int64) string {
		if k.Unit == "bytes" {
			return FormatSize(n)
		}
		return fmt.Sprint(n)
	}
	zero := ""
	if k.zero {
		zero = "0, or "
	}
	if k.max == 1<<63-1 {
		return zero + "at least " + show(k.min)
	}
	return zero + show(k.min) + " to " + show(k.max)
}

func orNone(s string) string {
	if s == "" {
		return "–"
	}
	return "`" + s + "`"
}

// cell is text that a table of Markdown takes.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
