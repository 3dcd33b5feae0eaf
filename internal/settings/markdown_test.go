package settings_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/internal/settings"
)

var rewrite = flag.Bool("rewrite", false, "write docs/configuration.md anew from the table")

// A setting that no page names is found by nobody, and a page that was right last year misleads.
func TestMarkdownIsTheTable(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "configuration.md")
	want := settings.Markdown()
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table says; write it anew with: go test ./internal/settings -run TestMarkdown -rewrite", file)
	}
}

func TestMarkdownHasEverything(t *testing.T) {
	text := settings.Markdown()
	for _, k := range settings.Keys() {
		if !strings.Contains(text, "| `"+k.Name+"` | `"+k.Env+"` |") {
			t.Errorf("%s %s is missing", k.Section, k.Name)
		}
	}
	for _, want := range []string{
		"| `FELIX_INITIAL_CWND` |", // refused
		"| `subscriber_queue_policy` | `FELIX_SUB_QUEUE_POLICY` | `drop_new` | `block`, `drop_new`, `drop_old` |",
		"64KiB to 4GiB", "0, or 1200 to 1452",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|")-strings.Count(line, `\|`) != 6 && strings.Count(line, "|") != 3 {
			t.Errorf("a row of another width: %s", line)
		}
	}
}
