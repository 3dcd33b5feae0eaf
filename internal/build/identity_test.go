package build

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// repo is a temporary checkout of a module called felix.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	r := repo{t: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	r.write("go.mod", "module felix\n\ngo 1.26\n")
	r.write("latencydemo/main.go", "package main\n\nfunc main() {}\n")
	r.write("internal/build/x.go", "package build\n")
	r.write(".gitignore", "/.bin/\n*.prof\n/results/*\n")
	return r
}

func (r repo) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) commit() string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "x")
	return r.git("rev-parse", "HEAD")
}

// identify asks git as a binary would that was just built from r.
func (r repo) identify() Identity {
	r.t.Helper()
	return r.identifyFrom(r.dir, filepath.Join(r.dir, "internal/build/x.go"))
}

func (r repo) identifyFrom(dir, compiledFrom string) Identity {
	r.t.Helper()
	i := Identity{Source: SourceNone}
	i.fromGit(dir, binary{compiledFrom: compiledFrom, exe: "/tmp/go-build1/x"})
	return i
}

// wantUnknown checks that nothing is guessed, and why.
func wantUnknown(t *testing.T, i Identity, why string) {
	t.Helper()
	if i.Source != SourceNone || i.Commit != nil || i.Dirty != nil || i.TreeDigest != nil || i.BenchDigest != nil {
		t.Errorf("identity = %+v, want nulls", i)
	}
	if len(i.Warnings) != 1 || !strings.Contains(i.Warnings[0], why) {
		t.Errorf("warnings = %q, want one about %q", i.Warnings, why)
	}
}

func wantKnown(t *testing.T, i Identity, commit string, dirty bool) {
	t.Helper()
	if i.Source != SourceGit || i.Commit == nil || i.Dirty == nil || i.TreeDigest == nil || i.BenchDigest == nil {
		t.Fatalf("identity is not known: %q", i.Warnings)
	}
	if *i.Commit != commit || *i.Dirty != dirty || !isDigest(*i.TreeDigest) || !isDigest(*i.BenchDigest) {
		t.Errorf("commit %s dirty %v tree %s bench %s, want %s %v", *i.Commit, *i.Dirty, *i.TreeDigest, *i.BenchDigest, commit, dirty)
	}
}

func TestCleanCheckout(t *testing.T) {
	r := newRepo(t)
	commit := r.commit()
	i := r.identify()
	wantKnown(t, i, commit, false)
	if want := r.git("rev-parse", "HEAD^{tree}"); *i.TreeDigest != want {
		t.Errorf("tree digest = %s, want that of the commit, %s", *i.TreeDigest, want)
	}
	// From a folder of it, too.
	wantKnown(t, r.identifyFrom(filepath.Join(r.dir, "latencydemo"), filepath.Join(r.dir, "internal/build/x.go")), commit, false)
}

// Several dirty states of one commit were mixed in one chart once: the tree digest tells them apart.
func TestDirtyStatesDiffer(t *testing.T) {
	r := newRepo(t)
	commit := r.commit()
	seen := map[string]string{*r.identify().TreeDigest: "clean"}
	for _, step := range []struct{ name, file, text string }{
		{"changed", "latencydemo/main.go", "package main\n\nfunc main() { println() }\n"},
		{"changed again", "latencydemo/main.go", "package main\n\nfunc main() { println(1) }\n"},
		{"a new file", "broker/x.go", "package broker\n"},
	} {
		r.write(step.file, step.text)
		i := r.identify()
		wantKnown(t, i, commit, true)
		if as := seen[*i.TreeDigest]; as != "" {
			t.Errorf("%s: same tree digest as %s", step.name, as)
		}
		seen[*i.TreeDigest] = step.name
	}
	// Committed, the same tree has the same digest.
	before := *r.identify().TreeDigest
	commit = r.commit()
	i := r.identify()
	wantKnown(t, i, commit, false)
	if *i.TreeDigest != before {
		t.Errorf("tree digest %s before the commit, %s after", before, *i.TreeDigest)
	}
}

func TestIgnoredFilesAndResultsDoNotCount(t *testing.T) {
	r := newRepo(t)
	r.write("results/reference/records.jsonl", "{}\n")
	r.git("add", "-A")
	r.git("add", "-f", "results/reference/records.jsonl")
	commit := r.commit()
	want := r.identify()
	wantKnown(t, want, commit, false)
	r.write(".bin/latencydemo", "binary")
	r.write("cpu.prof", "profile")
	r.write("results/today/records.jsonl", "{}\n")
	r.write("results/reference/records.jsonl", "{\"changed\":true}\n")
	got := r.identify()
	wantKnown(t, got, commit, false)
	if *got.TreeDigest != *want.TreeDigest {
		t.Error("ignored files and results change the tree digest")
	}
}

// The index may hold half a commit, and a bench must not touch it, nor leave objects behind.
func TestRepositoryIsOnlyRead(t *testing.T) {
	r := newRepo(t)
	r.commit()
	r.write("staged.go", "package x\n")
	r.git("add", "staged.go")
	r.write("staged.go", "package y\n")
	snapshot := func() map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(filepath.Join(r.dir, ".git"), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(name)
			out[name] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := snapshot()
	if i := r.identify(); i.TreeDigest == nil {
		t.Fatal(i.Warnings)
	}
	if _, err := LDFlags(r.dir); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, snapshot()); d != "" {
		t.Errorf(".git changed: %s", d)
	}
}

func TestKindsOfCheckouts(t *testing.T) {
	r := newRepo(t)
	r.commit()
	r.write("more.go", "package felix\n")
	commit := r.commit()
	tree := r.git("rev-parse", "HEAD^{tree}")

	for _, tt := range []struct {
		name string
		make func(dir string)
	}{
		{"shallow clone", func(dir string) { r.git("clone", "-q", "--depth", "1", "file://"+r.dir, dir) }},
		{"worktree", func(dir string) { r.git("worktree", "add", "-q", "--detach", dir) }},
		{"borrowed objects", func(dir string) { r.git("clone", "-q", "--shared", r.dir, dir) }},
	} {
		dir := filepath.Join(t.TempDir(), "checkout")
		tt.make(dir)
		c := repo{t: t, dir: dir}
		i := c.identify()
		t.Run(tt.name, func(t *testing.T) {
			wantKnown(t, i, commit, false)
			if *i.TreeDigest != tree {
				t.Errorf("tree digest = %s, want %s", *i.TreeDigest, tree)
			}
		})
	}
	r.git("checkout", "-q", "--detach")
	wantKnown(t, r.identify(), commit, false)
}

func TestUnknownIsNull(t *testing.T) {
	r := newRepo(t)
	wantUnknown(t, r.identify(), "no commit yet")
	r.commit()

	outside := t.TempDir()
	wantUnknown(t, r.identifyFrom(outside, filepath.Join(r.dir, "internal/build/x.go")), "not a checkout of module felix")
	wantUnknown(t, r.identifyFrom(r.dir, "felix/internal/build/x.go"), "-trimpath")

	// The binary of one checkout, started in another.
	other := newRepo(t)
	other.commit()
	wantUnknown(t, r.identifyFrom(other.dir, filepath.Join(r.dir, "internal/build/x.go")), "built from")

	other.write("go.mod", "module elsewhere\n")
	wantUnknown(t, other.identify(), "module elsewhere")
	if err := os.Remove(filepath.Join(other.dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, other.identify(), "go.mod")

	// A binary that is older than its sources, and one that go build stamped with another commit.
	old := filepath.Join(t.TempDir(), "latencydemo")
	if err := os.WriteFile(old, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(r.dir, "internal/build/x.go")
	i := Identity{Source: SourceNone}
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	i.fromGit(r.dir, binary{compiledFrom: from, exe: old})
	wantUnknown(t, i, "changed after the binary was built")
	i = Identity{Source: SourceNone}
	i.fromGit(r.dir, binary{compiledFrom: from, exe: "/tmp/go-build1/x", info: &debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: strings.Repeat("a", 40)}},
	}})
	wantUnknown(t, i, "built at commit aaaa")

	t.Setenv("PATH", t.TempDir())
	wantUnknown(t, r.identify(), "git not found")
	if _, err := LDFlags(r.dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("LDFlags without git: %v, want %v", err, ErrNoGit)
	}
}

// A commit hook runs with GIT_DIR and GIT_INDEX_FILE set: they must not lead elsewhere.
func TestEnvironmentOfHooks(t *testing.T) {
	r, other := newRepo(t), newRepo(t)
	commit := r.commit()
	other.write("z.go", "package z\n")
	other.commit()
	t.Setenv("GIT_DIR", filepath.Join(other.dir, ".git"))
	t.Setenv("GIT_WORK_TREE", other.dir)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other.dir, ".git", "index"))
	wantKnown(t, r.identify(), commit, false)
}

func TestFromLDFlags(t *testing.T) {
	id := strings.Repeat("0a", 20)
	sha := strings.Repeat("0b", 32)
	var i Identity
	i.fromLDFlags(bakedIn{commit: id, dirty: "false", treeDigest: id, benchDigest: sha})
	if i.Source != SourceLDFlags || *i.Commit != id || *i.Dirty || *i.TreeDigest != id || *i.BenchDigest != sha || i.Warnings != nil {
		t.Errorf("identity = %+v", i)
	}
	i = Identity{}
	i.fromLDFlags(bakedIn{commit: "HEAD", dirty: "maybe", treeDigest: id})
	if i.Commit != nil || i.Dirty != nil || *i.TreeDigest != id || i.BenchDigest != nil || len(i.Warnings) != 3 {
		t.Errorf("identity = %+v, want what is no digest null, with a warning each", i)
	}
}

func TestBuildInfo(t *testing.T) {
	for _, tt := range []struct {
		gcflags string
		want    bool
	}{
		{"", true}, {"-N -l", false}, {"all=-N -l", false}, {"all=-N", false}, {"felix/...=-l", false}, {"-m", true}, {"all=-lang=go1.26", true},
	} {
		i := Identity{Optimized: true}
		i.fromBuildInfo(&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-gcflags", Value: tt.gcflags}}})
		if i.Optimized != tt.want {
			t.Errorf("-gcflags=%q: optimized = %v, want %v", tt.gcflags, i.Optimized, tt.want)
		}
	}
	for value, want := range map[string]bool{"": false, "off": false, "default.pgo": true} {
		var i Identity
		i.fromBuildInfo(&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-pgo", Value: value}}})
		if i.PGO != want {
			t.Errorf("-pgo=%q: %v, want %v", value, i.PGO, want)
		}
	}
	i := Identity{Optimized: true}
	i.fromBuildInfo(&debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "-cover", Value: "true"}, {Key: "-race", Value: "true"}, {Key: "-asan", Value: "true"}},
		Deps:     []*debug.Module{{Path: "github.com/quic-go/quic-go", Version: "v0.65.0", Replace: &debug.Module{Path: "../quic"}}},
	})
	if !i.Coverage || !i.Race || len(i.Warnings) != 1 || *i.QuicGo != "v0.65.0 => ../quic" {
		t.Errorf("identity = %+v", i)
	}
	if got := len(i.Ineligible()); got != 2 {
		t.Errorf("Ineligible = %q, want race and coverage", i.Ineligible())
	}
}

func TestBenchDigest(t *testing.T) {
	base := func() fstest.MapFS {
		return fstest.MapFS{
			"internal/measure/a.go":      {Data: []byte("a")},
			"internal/measure/b.go":      {Data: []byte("b")},
			"latencydemo/main.go":        {Data: []byte("main")},
			"internal/transport/x.go":    {Data: []byte("x")},
			"internal/measure/a_test.go": {Data: []byte("test")},
		}
	}
	digest := func(root fstest.MapFS) string {
		t.Helper()
		d, err := benchDigestFS(root)
		if err != nil || !isDigest(d) {
			t.Fatalf("digest %q, %v", d, err)
		}
		return d
	}
	want := digest(base())
	for _, tt := range []struct {
		name, file, text string
		same             bool
	}{
		{"a measuring file", "internal/measure/a.go", "A", false},
		{"a new measuring file", "internal/trial/t.go", "t", false},
		{"content moved between files", "internal/measure/b.go", "", false},
		{"a file in a folder below", "internal/trial/roles/r.go", "r", false},
		{"the system under test", "internal/transport/x.go", "X", true},
		{"a test", "internal/measure/a_test.go", "TEST", true},
		{"test data", "internal/measure/testdata/fuzz/x.go", "x", true},
		{"a profile that the compiler uses", "latencydemo/default.pgo", "p", false},
		{"a profile", "latencydemo/cpu.pprof", "p", true},
	} {
		root := base()
		root[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
		if same := digest(root) == want; same != tt.same {
			t.Errorf("%s: digest stays %v, want %v", tt.name, same, tt.same)
		}
	}
	if _, err := benchDigestFS(fstest.MapFS{"go.mod": {}}); err == nil {
		t.Error("a digest of nothing")
	}
}

func TestIdentifyThisTest(t *testing.T) {
	i := Identify("")
	if i.Go == "" || i.BinarySHA256 == nil || len(*i.BinarySHA256) != 64 || i.Race != raceEnabled {
		t.Errorf("identity = %+v", i)
	}
	b, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"commit", "dirty", "tree_digest", "bench_digest", "binary_sha256", "source", "go", "quic_go", "race", "optimized", "coverage"} {
		if _, ok := keys[k]; !ok {
			t.Errorf("no %s in %s", k, b)
		}
	}
}
