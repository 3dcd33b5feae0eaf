package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"felix/internal/runrecord"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts of README.md anew from results/reference")

// Figures in documents that no session contains are how benchmarks drift from their claims: every transcript in the
// README is what the command prints of a record that is kept beside it.
func TestReadmeTranscripts(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]*runrecord.Record{}
	f, err := os.Open("../results/reference/records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = runrecord.Read(f, f.Name(), func(r *runrecord.Record) error { records[r.RunID] = r; return nil },
		func(e *runrecord.SyntaxError) { t.Error(e) })
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile("(?s)<!-- run (\\S+) -->\n```text\n\\$ [^\n]*\n.*?```\n")
	n := 0
	want := marked.ReplaceAllStringFunc(string(readme), func(block string) string {
		n++
		id := marked.FindStringSubmatch(block)[1]
		r, ok := records[id]
		if !ok {
			t.Errorf("README.md shows run %s, which results/reference does not hold", id)
			return block
		}
		if !r.Valid {
			t.Errorf("README.md shows run %s, which is invalid: %v", id, r.Reasons)
		}
		var b strings.Builder
		printSummary(&b, r)
		return "<!-- run " + id + " -->\n```text\n$ " + r.Rerun + "\n" + b.String() + "```\n"
	})
	if n == 0 {
		t.Error("README.md shows no run")
	}
	if *rewrite {
		if err := os.WriteFile("../README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(readme) {
		t.Error("a transcript in README.md is not what its record says: go test ./latencydemo -run Transcripts -rewrite")
	}
}
