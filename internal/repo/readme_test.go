//go:build unix

package repo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// shBlock is one fenced block of shell in a Markdown text.
type shBlock struct {
	line   int    // of the opening fence, from 1
	script string // what stands between the fences
	long   bool   // "<!-- long -->" stands before it: checked, not run
}

// programs are the commands that the README may name, by how a reader calls them.
var programs = map[string]string{
	"./latencydemo": "./latencydemo", "latencydemo": "./latencydemo", ".bin/latencydemo": "./latencydemo",
	"./matrix": "./matrix", "matrix": "./matrix", ".bin/matrix": "./matrix",
	"./analysis": "./analysis", "analysis": "./analysis", ".bin/analysis": "./analysis",
	"./broker/brokerd": "./broker/brokerd", "brokerd": "./broker/brokerd", ".bin/brokerd": "./broker/brokerd",
}

// TestReadme runs the README's sh blocks, in their order, in a copy of the repository and a clean
// environment, as a reader would. Those marked long are only checked: programs, flags, tasks and
// packages in them exist.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs for some seconds")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := shBlocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go run ./latencydemo", "go test ./..."} {
		if !slices.ContainsFunc(blocks, func(b shBlock) bool { return hasCommand(b.script, want) }) {
			t.Errorf("README.md has no sh block with the command %q", want)
		}
	}
	checker := &readmeChecker{t: t, bin: t.TempDir()}
	var copied string
	for _, b := range blocks {
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			if b.long {
				checker.t = t
				checker.check(b.script)
				return
			}
			if runsTests(b.script) {
				t.Fatal("this block runs the tests, hence itself: put <!-- long --> before it")
			}
			if copied == "" {
				copied = copyRepository(t, checker.bin)
			}
			runBlock(t, copied, b.script)
		})
	}
}

func TestReadmeBlocks(t *testing.T) {
	const text = "# T\n```sh\ngo run ./a\n```\n" +
		"<!-- long -->\n\n```sh\ngo test ./...\n```\n" +
		"<!-- long -->\nwords between\n```sh\nb\n```\n" +
		"```text\n```sh is not a block here\nc\n```\n"
	got, err := shBlocks(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []shBlock{{2, "go run ./a\n", false}, {7, "go test ./...\n", true}, {12, "b\n", false}}
	if !slices.Equal(got, want) {
		t.Errorf("shBlocks = %+v, want %+v", got, want)
	}
	for _, bad := range []string{"```sh\nnever closed\n", "```bash\nescapes the test\n```\n", "```console\n$ too\n```\n"} {
		if got, err := shBlocks(bad); err == nil {
			t.Errorf("shBlocks(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestReadmeCommands(t *testing.T) {
	tests := []struct {
		script string
		want   [][]string
	}{
		{"go run ./a --x 1 # why\n", [][]string{{"go", "run", "./a", "--x", "1"}}},
		{"a \\\n  b\n\nc", [][]string{{"a", "b"}, {"c"}}},
		{"cd x && A=1 B='2 3' y -z; w & v | u", [][]string{{"cd", "x"}, {"y", "-z"}, {"w"}, {"v"}, {"u"}}},
		{`p "q # r" 's && t'`, [][]string{{"p", "q # r", "s && t"}}},
		{"a 2>&1 >out", [][]string{{"a", "2>&1", ">out"}}},
	}
	for _, tt := range tests {
		got := shCommands(tt.script)
		if !slices.EqualFunc(got, tt.want, slices.Equal) {
			t.Errorf("shCommands(%q) = %q, want %q", tt.script, got, tt.want)
		}
	}
}

// shBlocks returns the blocks fenced as sh. A fence of another name for shell is an error: it would
// escape the test.
func shBlocks(text string) ([]shBlock, error) {
	var blocks []shBlock
	var current *shBlock // the sh block that is open
	fenced, long := false, false
	for i, line := range strings.Split(text, "\n") {
		name, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fenced && isFence && name == "":
			if current != nil {
				blocks = append(blocks, *current)
			}
			fenced, long, current = false, false, nil
		case fenced:
			if current != nil {
				current.script += line + "\n"
			}
		case isFence:
			fenced = true
			switch name {
			case "sh":
				current = &shBlock{line: i + 1, long: long}
			case "bash", "shell", "console", "zsh":
				return nil, fmt.Errorf("line %d: fence %q: commands are fenced as sh, so that they are tested", i+1, name)
			}
		case strings.TrimSpace(line) == "<!-- long -->":
			long = true
		case strings.TrimSpace(line) != "":
			long = false
		}
	}
	if fenced {
		return nil, fmt.Errorf("a fence is opened and never closed")
	}
	return blocks, nil
}

// shCommands splits a script of the README's kind into simple commands: words without quotes,
// comments, assignments in front, and separators. It knows no substitution and no here-document.
func shCommands(script string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord && !(len(words) == 0 && assignment.MatchString(word.String())) {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	script = strings.ReplaceAll(script, "\\\n", " ")
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case c == '#' && !inWord:
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case c == '\'' || c == '"':
			inWord = true
			for i++; i < len(script) && script[i] != c; i++ {
				word.WriteByte(script[i])
			}
		case c == ' ' || c == '\t':
			endWord()
		case c == '&' && strings.HasSuffix(word.String(), ">"): // 2>&1
			word.WriteByte(c)
		case c == '\n' || c == ';' || c == '|' || c == '&':
			endCommand()
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	endCommand()
	return commands
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// hasCommand reports whether script has a command that begins with the words of want.
func hasCommand(script, want string) bool {
	words := strings.Fields(want)
	return slices.ContainsFunc(shCommands(script), func(c []string) bool {
		return len(c) >= len(words) && slices.Equal(c[:len(words)], words)
	})
}

// runsTests reports whether a script would run this test again.
func runsTests(script string) bool {
	return slices.ContainsFunc([]string{"go test", "scripts/task test", "scripts/task race", ".ci/run", "bash .ci/run"},
		func(c string) bool { return hasCommand(script, c) })
}

// runBlock runs one script in dir and waits for what it started.
func runBlock(t *testing.T, dir, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(), "TMPDIR="+t.TempDir()) // a lock of its own: no waiting for somebody's measurement
	// A file, not a pipe: Run would wait for whoever holds the pipe's other end in the background.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	// A group of its own, so that a broker left in the background goes with its block.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	ran := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails where nothing is left, as is usual
	}
	text, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	if ran != nil {
		t.Fatalf("%v\n%s\noutput:\n%s", ran, script, text)
	}
	t.Logf("%s\n%s", script, text)
}

// cleanEnvironment is what a reader's shell has and Go needs: no FELIX_* setting, no CI.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !(slices.Contains([]string{"PATH", "HOME", "TMPDIR", "USER", "LANG", "XDG_CACHE_HOME"}, name) ||
			strings.HasPrefix(name, "GO"))
	})
}

// copyRepository copies the repository's files into a folder of their own, which it returns.
func copyRepository(t *testing.T, parent string) string {
	t.Helper()
	dir := filepath.Join(parent, "felix")
	for _, file := range repositoryFiles(t) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readmeChecker checks scripts without running what they do.
type readmeChecker struct {
	t   *testing.T
	bin string // built programs
}

func (c *readmeChecker) check(script string) {
	if out, err := exec.CommandContext(c.t.Context(), "bash", "-n", "-c", script).CombinedOutput(); err != nil {
		c.t.Errorf("not a shell script: %v\n%s", err, out)
	}
	for _, words := range shCommands(script) {
		c.command(words)
	}
}

func (c *readmeChecker) command(words []string) {
	name, args := words[0], words[1:]
	switch {
	case name == "go" && len(args) > 1 && args[0] == "run":
		c.program(args[1], args[2:])
	case name == "go" && len(args) > 0 && (args[0] == "test" || args[0] == "build" || args[0] == "vet"):
		for _, pattern := range args[1:] {
			if strings.HasPrefix(pattern, "./") {
				if out, err := exec.CommandContext(c.t.Context(), "go", "list", pattern).CombinedOutput(); err != nil {
					c.t.Errorf("%q: go list %s: %v\n%s", words, pattern, err, out)
				}
			}
		}
	case programs[name] != "":
		c.program(name, args)
	case name == "scripts/task" && len(args) > 0:
		c.task(args)
	case strings.Contains(name, "/"):
		if info, err := os.Stat(name); err != nil {
			c.t.Errorf("%q: %v", words, err)
		} else if info.Mode()&0o111 == 0 {
			c.t.Errorf("%q: %s cannot be executed", words, name)
		}
	default:
		// type knows the shell's own words as well as what PATH has.
		if err := exec.CommandContext(c.t.Context(), "bash", "-c", `type -- "$1"`, "bash", name).Run(); err != nil {
			c.t.Errorf("%q: %s is not a command", words, name)
		}
	}
}

// program checks the flags of one of ours against its own --help, and, where it needs no broker
// besides, the whole line by --dry-run.
func (c *readmeChecker) program(name string, args []string) {
	pkg, ok := programs[name]
	if !ok {
		c.t.Errorf("%s %q: this test does not know the program: add it to programs", name, args)
		return
	}
	bin := filepath.Join(c.bin, filepath.Base(pkg))
	if _, err := os.Stat(bin); err != nil {
		if out, err := exec.CommandContext(c.t.Context(), "go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
			c.t.Fatalf("go build %s: %v\n%s", pkg, err, out)
		}
	}
	help, err := exec.CommandContext(c.t.Context(), bin, "--help").CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s --help: %v\n%s", name, err, help)
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") { // a command of its own, with its own flags
		sub, err := exec.CommandContext(c.t.Context(), bin, args[0], "--help").CombinedOutput()
		if err != nil {
			c.t.Errorf("%s %s --help: %v\n%s", name, args[0], err, sub)
		}
		help = append(help, sub...)
	}
	external := false
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(flag, "--") || flag == "--" {
			continue
		}
		external = external || flag == "--broker"
		if !regexp.MustCompile(`(?m)` + regexp.QuoteMeta(flag) + `([^\w-]|$)`).Match(help) {
			c.t.Errorf("%s has no flag %s", name, flag)
		}
	}
	if pkg == "./latencydemo" && !external {
		dry := slices.Clone(args)
		if i := slices.Index(dry, "--json"); i >= 0 { // a dry run has no record
			dry = slices.Delete(dry, i, min(i+2, len(dry)))
		}
		cmd := exec.CommandContext(c.t.Context(), bin, append(dry, "--dry-run")...)
		cmd.Env = cleanEnvironment()
		if out, err := cmd.CombinedOutput(); err != nil {
			c.t.Errorf("%s %q --dry-run: %v\n%s", name, args, err, out)
		}
	}
}

// task checks that a task exists, and the line of the program that it passes its words to.
func (c *readmeChecker) task(args []string) {
	text, err := os.ReadFile("Taskfile.yml")
	if err != nil {
		c.t.Fatal(err)
	}
	var file struct {
		Tasks map[string]struct {
			Internal bool
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		c.t.Fatal(err)
	}
	for i, arg := range args {
		if arg == "--" {
			if args[0] == "demo:latency" {
				c.program("latencydemo", args[i+1:])
			}
			return
		}
		if strings.HasPrefix(arg, "-") || assignment.MatchString(arg) {
			continue
		}
		if task, ok := file.Tasks[arg]; !ok || task.Internal {
			c.t.Errorf("scripts/task %s: there is no such task", arg)
		}
	}
}
