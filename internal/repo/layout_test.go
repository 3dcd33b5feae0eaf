// Package repo_test guards what no single package can: the layout, who may import whom, the
// scripts, and that the README's commands do what it says.
package repo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "felix"

// floor orders the packages: an import never points up.
type floor int

const (
	ground floor = iota
	middle
	assembly
	mains
)

// packageRule is what one package may do. A package without a row fails the test, and so does a row
// without a package, so that no rule outlives what it guards.
type packageRule struct {
	path    string // below the module; "dir/..." stands for every package below dir
	floor   floor
	imports []string // packages of ours that its code, tests aside, may import
	quic    bool     // it may link quic-go, at whatever depth
	later   bool     // not written yet: its absence is right
}

// The rows follow the layout in README.md. Tests may import whatever is not on a higher floor.
var packageRules = []packageRule{
	{path: "internal/repo", floor: ground},

	{path: "internal/wire", floor: ground},
	{path: "internal/transport", floor: ground, quic: true},
	{path: "internal/settings", floor: ground},
	{path: "internal/build", floor: ground},
	{path: "internal/answer", floor: ground},
	// What tests of processes share: tests only, so nobody imports it.
	{path: "internal/racetest", floor: ground},
	// A grid varies settings by their keys: the table says which there are.
	{path: "internal/workload", floor: ground, imports: []string{"internal/settings"}},
	{path: "internal/runrecord", floor: ground, imports: []string{"internal/workload"}},
	{path: "internal/stat", floor: ground},
	{path: "internal/cells", floor: ground,
		imports: []string{"internal/runrecord", "internal/workload", "internal/stat"}},
	{path: "presets", floor: ground, imports: []string{"internal/workload", "internal/settings"}},

	{path: "broker", floor: middle, quic: true, imports: []string{"internal/wire", "internal/transport"}},
	{path: "client", floor: middle, quic: true, imports: []string{"internal/wire", "internal/transport"}},
	{path: "broker/service", floor: middle, quic: true,
		imports: []string{"broker", "internal/transport", "internal/settings", "internal/wire"}},
	{path: "internal/probe", floor: middle, quic: true, imports: []string{"internal/wire", "internal/transport"}},
	{path: "internal/measure", floor: middle, imports: []string{"internal/runrecord"}},
	{path: "internal/host", floor: middle, imports: []string{"internal/runrecord"}},

	// broker and clients together, on a simulated network: tests only, so nobody imports it.
	{path: "broker/brokertest", floor: assembly, quic: true,
		imports: []string{"broker", "client", "internal/transport", "internal/wire"}},
	// The only package that knows both halves. It speaks to them in their own words, hence wire, and
	// reads what they count, hence broker.
	{path: "internal/trial", floor: assembly, quic: true, imports: []string{
		"broker", "broker/service", "client", "internal/transport", "internal/wire", "internal/settings",
		"internal/measure", "internal/probe", "internal/host", "internal/runrecord", "internal/workload", "internal/build",
		"presets"}},
	{path: "internal/verdict", floor: assembly, imports: []string{"internal/stat", "internal/runrecord", "internal/workload"}},
	// The file of a gate and the text of its verdict: what matrix runs, analysis judges again.
	{path: "internal/gate", floor: assembly, imports: []string{
		"internal/verdict", "internal/runrecord", "internal/workload", "internal/settings", "presets"}},

	{path: "broker/brokerd", floor: mains, quic: true, imports: []string{
		"broker/service", "internal/answer", "internal/build", "internal/host"}},
	{path: "latencydemo", floor: mains, quic: true, imports: []string{
		"internal/trial", "internal/settings", "internal/workload", "internal/runrecord", "internal/stat",
		"internal/host", "internal/answer", "internal/build", "presets"}},
	// It runs the latencydemo binary and links none of what that measures.
	{path: "matrix", floor: mains, imports: []string{
		"internal/workload", "internal/runrecord", "internal/cells", "internal/verdict", "internal/gate", "internal/host",
		"internal/settings", "internal/answer", "internal/build", "presets"}},
	{path: "analysis", floor: mains, imports: []string{
		"analysis/internal/...", "internal/verdict", "internal/gate", "internal/cells", "internal/stat", "internal/runrecord", "internal/workload",
		"internal/answer"}},
	{path: "analysis/internal/...", floor: mains, imports: []string{
		"analysis/internal/...", "internal/verdict", "internal/cells", "internal/stat", "internal/runrecord", "internal/workload"}},
}

// dependencyRules says which packages may import a dependency themselves, tests aside.
var dependencyRules = []struct {
	prefix string
	only   []string
	why    string
}{
	{"github.com/spf13/pflag", []string{"latencydemo", "matrix", "analysis", "broker/brokerd"}, "flags belong to commands"},
	{"gopkg.in/yaml.v3", []string{"internal/settings", "internal/workload", "internal/gate", "presets"}, "settings, grids, gates and profiles are the only YAML"},
	{"github.com/prometheus/", []string{"broker/service"}, "the admin endpoint is the only exporter"},
	{"github.com/golang-jwt/", []string{"broker"}, "the broker checks tokens, nobody else"},
	{"github.com/vbauerster/mpb/", []string{"matrix"}, "only what runs for hours draws a bar"},
	{"github.com/google/pprof", []string{"analysis/internal/cputime"}, "profiles are read in one place"},
	{"gonum.org/v1/plot", []string{"analysis/internal/chart"}, "pictures are drawn in one place"},
}

// sourceRules are about what a package's own source says, where a list of imports is too coarse.
var sourceRules = []struct {
	packages []string
	imports  []string // forbidden imports
	uses     []string // forbidden selectors; "os.*" is everything of os but its error values
	noGo     bool     // no go statement
	later    bool
	why      string
}{
	{
		packages: []string{"broker", "client"},
		imports:  []string{"flag", "log", "os/exec", "os/signal", "path/filepath", "embed", "testing"},
		uses: []string{"os.*", "fmt.Print", "fmt.Printf", "fmt.Println",
			"slog.Default", "slog.SetDefault", "slog.Debug", "slog.Info", "slog.Warn", "slog.Error", "slog.Log"},
		why: "the system under test knows no flags, environment, files or global loggers: it has a Config",
	},
	{
		packages: []string{"internal/wire"},
		imports:  []string{"net", "time", "os", "sync", "context", "log/slog"},
		noGo:     true,
		why:      "wire is pure encoding: no sockets, clocks or goroutines",
	},
	{
		packages: []string{"internal/workload"},
		imports:  []string{"net", "os/exec", "log/slog"},
		noGo:     true,
		why:      "workload is data and arithmetic",
	},
	{
		packages: []string{"internal/stat", "internal/verdict"},
		imports:  []string{"net", "os", "os/exec", "log/slog"},
		noGo:     true,
		why:      "statistics are numbers in, numbers out",
	},
}

// topLevel are the folders of the repository; true for those that a later issue brings. Hidden ones
// belong to tools.
var topLevel = map[string]bool{
	"analysis": false, "broker": false, "client": false, "docs": false, "internal": false, "latencydemo": false,
	"matrix": false, "presets": false, "results": false, "scripts": false,
}

func TestLayoutTopLevelFolders(t *testing.T) {
	found := map[string]bool{}
	for _, file := range repositoryFiles(t) {
		if top, _, below := strings.Cut(file, "/"); below && !strings.HasPrefix(top, ".") {
			found[top] = true
		}
	}
	for name := range found {
		later, known := topLevel[name]
		if !known {
			t.Errorf("folder %s/: the top-level folders are fixed: %v", name, slices.Sorted(maps.Keys(topLevel)))
		}
		if later {
			t.Errorf("folder %s/ has arrived: set its entry in topLevel to false, so that it is missed when it goes", name)
		}
	}
	for name, later := range topLevel {
		if !found[name] && !later {
			t.Errorf("folder %s/ is gone", name)
		}
	}
}

func TestLayoutFoldersWithoutGo(t *testing.T) {
	var embeds []string
	for _, file := range repositoryFiles(t) {
		if path.Ext(file) != ".go" {
			continue
		}
		switch top, _, _ := strings.Cut(file, "/"); {
		case top == "scripts" || top == "results":
			t.Errorf("%s: %s/ holds no Go", file, top)
		case top == "presets" && !strings.HasSuffix(file, "_test.go"):
			embeds = append(embeds, file)
		}
	}
	if len(embeds) > 1 {
		t.Errorf("presets/ holds one file of Go, which embeds the YAML; got %v", embeds)
	}
}

func TestImports(t *testing.T) {
	rules := rulesByPath(t)
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range listPackages(t, goos) {
			rule, ok := ruleFor(rules, p.path)
			if !ok {
				t.Errorf("%s: package %s has no row in packageRules: say on which floor it stands and what it may import", goos, p.path)
				continue
			}
			for _, imported := range p.Imports {
				checkImport(t, rule, p.path, imported)
			}
			for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
				if below, ours := strings.CutPrefix(imported, module+"/"); ours && below != p.path {
					if target, ok := ruleFor(rules, below); ok && target.floor > rule.floor {
						t.Errorf("%s: the tests of %s import %s, which stands above it", goos, p.path, below)
					}
				}
			}
			if i := slices.IndexFunc(p.Deps, isQUIC); i >= 0 && !rule.quic {
				t.Errorf("%s: %s links %s; only the system under test and what runs it do", goos, p.path, p.Deps[i])
			}
		}
	}
}

// checkImport judges one import of the package at from, tests aside.
func checkImport(t *testing.T, rule packageRule, from, imported string) {
	t.Helper()
	if below, ours := strings.CutPrefix(imported, module+"/"); ours {
		if !slices.ContainsFunc(rule.imports, func(allowed string) bool { return covers(allowed, below) }) {
			t.Errorf("%s imports %s; it may import %q", from, below, rule.imports)
		}
		return
	}
	for _, d := range dependencyRules {
		if strings.HasPrefix(imported, d.prefix) && !slices.Contains(d.only, from) {
			t.Errorf("%s imports %s; only %v may: %s", from, imported, d.only, d.why)
		}
	}
}

func TestImportsEveryRuleHasItsPackage(t *testing.T) {
	rules := rulesByPath(t)
	present := map[string]bool{}
	imported := map[string]bool{}
	for _, p := range listPackages(t, "linux") {
		if rule, ok := ruleFor(rules, p.path); ok {
			present[rule.path] = true
		}
		for _, i := range p.Imports {
			imported[i] = true
		}
	}
	for _, rule := range packageRules {
		switch {
		case rule.later && present[rule.path]:
			t.Errorf("package %s has arrived: drop later from its row, so that it is missed when it goes", rule.path)
		case !rule.later && !present[rule.path]:
			t.Errorf("package %s is gone, and its rule guards nothing", rule.path)
		}
	}
	for _, d := range dependencyRules {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(imported)), func(i string) bool { return strings.HasPrefix(i, d.prefix) }) {
			t.Errorf("nothing imports %s any more, and its rule guards nothing", d.prefix)
		}
	}
}

// TestImportsNothingPointsUp checks the table itself: a row that allows an import of a higher floor
// would make every other check worthless.
func TestImportsNothingPointsUp(t *testing.T) {
	rules := rulesByPath(t)
	for _, rule := range packageRules {
		for _, allowed := range rule.imports {
			if target, ok := rules[allowed]; !ok {
				t.Errorf("the row of %s allows %s, which has no row", rule.path, allowed)
			} else if target.floor > rule.floor {
				t.Errorf("the row of %s allows %s, which stands above it", rule.path, allowed)
			}
		}
	}
}

func TestImportsSource(t *testing.T) {
	for _, rule := range sourceRules {
		for _, dir := range rule.packages {
			files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			if len(files) == 0 && !rule.later {
				t.Errorf("%s is gone, and its rule guards nothing", dir)
			}
			for _, file := range files {
				for _, breach := range sourceBreaches(t, file, rule.imports, rule.uses, rule.noGo) {
					t.Errorf("%s: %s", breach, rule.why)
				}
			}
		}
	}
}

// sourceBreaches lists what one file says against the rule, as "file:line: what".
func sourceBreaches(t *testing.T, file string, imports, uses []string, noGo bool) []string {
	t.Helper()
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var breaches []string
	report := func(pos token.Pos, format string, args ...any) {
		breaches = append(breaches, fmt.Sprintf("%s: %s", fset.Position(pos), fmt.Sprintf(format, args...)))
	}
	packages := map[string]string{} // the file's name for a package -> the package's own name
	for _, spec := range tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(imports, imported) {
			report(spec.Pos(), "imports %s", imported)
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		packages[name] = path.Base(imported)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if noGo {
				report(n.Pos(), "starts a goroutine")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				name := packages[x.Name]
				all := slices.Contains(uses, name+".*") && !strings.HasPrefix(n.Sel.Name, "Err")
				if all || slices.Contains(uses, name+"."+n.Sel.Name) {
					report(n.Pos(), "uses %s.%s", name, n.Sel.Name)
				}
			}
		}
		return true
	})
	return breaches
}

// TestLayoutSleeps: a test sleeps only in synctest's fake time; in real time it would wait for luck. A package whose
// bubbles are made in one file may sleep in all of its tests.
func TestLayoutSleeps(t *testing.T) {
	bubbles := map[string]bool{}
	var tests []string
	for _, file := range repositoryFiles(t) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		if len(sourceBreaches(t, file, []string{"testing/synctest"}, nil, false)) > 0 {
			bubbles[path.Dir(file)] = true
		}
		if strings.HasSuffix(file, "_test.go") {
			tests = append(tests, file)
		}
	}
	for _, file := range tests {
		if bubbles[path.Dir(file)] {
			continue
		}
		for _, breach := range sourceBreaches(t, file, nil, []string{"time.Sleep"}, false) {
			t.Errorf("%s outside testing/synctest: wait for the event", breach)
		}
	}
}

// TestImportsSourceSees plants each breach, so that a rule that sees nothing is found out.
func TestImportsSourceSees(t *testing.T) {
	file := filepath.Join(t.TempDir(), "planted.go")
	const planted = `package planted
import (
	"time"
	stdos "os"
	"log/slog"
)
var _ = stdos.ErrDeadlineExceeded
var home = stdos.Getenv("HOME")
func f() { go slog.Info(time.Now().String()) }
`
	if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	got := sourceBreaches(t, file, []string{"time"}, []string{"os.*", "slog.Info"}, true)
	want := []string{":3:2: imports time", ":8:12: uses os.Getenv", ":9:12: starts a goroutine", ":9:15: uses slog.Info"}
	if len(got) != len(want) {
		t.Fatalf("sourceBreaches = %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("breach %d = %q, want %q", i, got[i], want[i])
		}
	}
}

// listedPackage is what the tests need of go list's answer.
type listedPackage struct {
	path                                     string // below the module
	ImportPath                               string
	Imports, TestImports, XTestImports, Deps []string
}

// listPackages returns every package of the module, as the go command sees it on goos.
func listPackages(t *testing.T, goos string) []listedPackage {
	t.Helper()
	// Without profiles: a package that is compiled by one is listed once more, under another name.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=arm64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.Bytes())
	}
	var packages []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list for %s: %v", goos, err)
		}
		p.path = strings.TrimPrefix(p.ImportPath, module+"/")
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatalf("go list for %s names no package", goos)
	}
	return packages
}

func rulesByPath(t *testing.T) map[string]packageRule {
	t.Helper()
	rules := map[string]packageRule{}
	for _, rule := range packageRules {
		if _, twice := rules[rule.path]; twice {
			t.Fatalf("packageRules has two rows for %s", rule.path)
		}
		rules[rule.path] = rule
	}
	return rules
}

func ruleFor(rules map[string]packageRule, p string) (packageRule, bool) {
	if rule, ok := rules[p]; ok {
		return rule, true
	}
	for _, rule := range rules {
		if covers(rule.path, p) {
			return rule, true
		}
	}
	return packageRule{}, false
}

// covers reports whether pattern, a path or "dir/...", stands for the package at p.
func covers(pattern, p string) bool {
	dir, all := strings.CutSuffix(pattern, "/...")
	return p == pattern || all && strings.HasPrefix(p, dir+"/")
}

func isQUIC(importPath string) bool { return strings.HasPrefix(importPath, "github.com/quic-go/") }

// repositoryFiles lists the repository's files, committed or about to be, with slashes. Outside a
// checkout it lists all but the hidden ones.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(".git"); err == nil {
		out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
		if err != nil {
			t.Fatalf("git ls-files: %v", err)
		}
		files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		// A file deleted but still in the index is no longer there.
		return slices.DeleteFunc(files, func(f string) bool { _, err := os.Lstat(f); return err != nil })
	}
	var files []string
	err := filepath.WalkDir(".", func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != "." && strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return filepath.SkipDir
		case !d.IsDir():
			files = append(files, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
