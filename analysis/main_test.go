package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"felix/internal/racetest"
)

// asCommand makes the test binary behave as analysis, so that a process of its own can be measured.
const asCommand = "ANALYSIS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	racetest.EndAtOnce()
	testscript.Main(m, map[string]func(){"analysis": main})
}

// full is a flag of this package's tests: go test ./analysis -run Large -full. It writes 1 GB.
var full = flag.Bool("full", false, "whole sizes in the tests whose name ends in Large, and not a part of them")

// update writes the golden files anew: UPDATE=1 go test ./analysis -run Scripts
var update = os.Getenv("UPDATE") != ""

// The manual of the command, as scripts. Each finds the sessions of writeSamples in results, with their directories
// in $OLD, $NOW and $SINGLE, and those of writeCompared in compared.
func TestScripts(t *testing.T) {
	golden, err := filepath.Abs("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	writeSamples(t, filepath.Join(made, "results"))
	writeCompared(t, filepath.Join(made, "compared"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			if err := os.CopyFS(e.WorkDir, os.DirFS(made)); err != nil {
				return err
			}
			e.Setenv(racetest.Env, os.Getenv(racetest.Env))
			root := filepath.Join(e.WorkDir, "results")
			dirs, err := os.ReadDir(root)
			if err != nil {
				return err
			}
			for i, name := range []string{"OLD", "NOW", "SINGLE"} {
				e.Setenv(name, "results/"+dirs[i].Name())
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"golden": func(ts *testscript.TestScript, neg bool, args []string) { cmpGolden(ts, golden, neg, args) },
			"edit":   edit,
			"code":   code,
		},
	})
}

var cellIDs = regexp.MustCompile(`\.?\b[0-9a-f]{12}\b`)

// steady replaces cell ids by cell-1, cell-2, …: they change with whatever comes to set cells apart.
func steady(text string) string {
	numbers := map[string]string{}
	return cellIDs.ReplaceAllStringFunc(text, func(id string) string {
		if id == sampleHost || id[0] == '.' { // of a number
			return id
		}
		if numbers[id] == "" {
			numbers[id] = fmt.Sprint("cell-", len(numbers)+1)
		}
		return numbers[id]
	})
}

// cmpGolden FILE NAME compares a file, or stdout, with a golden one.
func cmpGolden(ts *testscript.TestScript, dir string, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: golden FILE NAME")
	}
	got := steady(ts.ReadFile(args[0]))
	path := filepath.Join(dir, args[1])
	if update {
		ts.Check(os.MkdirAll(dir, 0o755))
		ts.Check(os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	ts.Check(err)
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			ts.Fatalf("%s differs from %s at line %d:\n got %q\nwant %q\nUPDATE=1 writes it anew", args[0], args[1], i+1, g, w)
		}
	}
}

// edit FILE LINE TEXT puts a line, quoted as in Go, in front of the numbered one; "edit FILE LINE tear" cuts the
// line in half, "edit FILE all crlf" and "edit FILE all bom" do what Windows editors do.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE LINE TEXT|tear, edit FILE all crlf|bom")
	}
	text := ts.ReadFile(args[0])
	lines := strings.SplitAfter(text, "\n")
	switch args[2] {
	case "crlf":
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case "bom":
		text = "\xef\xbb\xbf" + text
	default:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		if args[2] == "tear" {
			lines[n-1] = lines[n-1][:len(lines[n-1])/2] + "\n"
		} else {
			line, err := strconv.Unquote(`"` + args[2] + `"`)
			ts.Check(err)
			lines[n-1] = line + "\n" + lines[n-1]
		}
		text = strings.Join(lines, "")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// code N ARGS… runs analysis and wants that exit code; "! exec" takes any failure.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("analysis", args[1:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("analysis %v: %v", args[1:], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("analysis %v: exit code %d, want %d\n%s", args[1:], got, want, ts.ReadFile("stderr"))
	}
}
