package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"felix/internal/settings"
)

var (
	// A file of this repository as the documents name it: with a folder, in code marks.
	namedFile = regexp.MustCompile("`((?:broker|client|internal|presets|analysis|latencydemo|matrix|docs|scripts)(?:/[A-Za-z0-9_.-]+)*/(?:[A-Za-z0-9_-]+\\.[a-z]+)?)`")
	linked    = regexp.MustCompile(`\]\(([^):#]+)`)
)

// A page that sends its reader to a file that was renamed is worse than none.
func TestDocsNameWhatThereIs(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	files := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s: %v", filepath.Base(page), m[1], err)
			}
			files++
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(page), m[1], err)
			}
		}
	}
	if files < 10 {
		t.Errorf("only %d files are named: the expression finds them no more", files)
	}
}

// Every bound of a checkpoint is in the page that explains the checkpoints.
func TestBackpressureNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "backpressure.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, k := range settings.Keys() {
		if !strings.HasPrefix(k.Help, "checkpoint") {
			continue
		}
		named++
		if !strings.Contains(string(text), "`"+k.Name) {
			t.Errorf("docs/backpressure.md does not name %s: %s", k.Name, k.Help)
		}
	}
	if named < 10 {
		t.Errorf("only %d keys of checkpoints", named)
	}
}
