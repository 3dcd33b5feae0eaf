package build

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const printIdentity = `package main

import (
	"encoding/json"
	"os"

	"felix/internal/build"
)

func main() { _ = json.NewEncoder(os.Stdout).Encode(build.Identify("")) }
`

// TestBuiltBinaries builds a program around a copy of this package, as scripts do and as they
// should not, and asks it who it is.
func TestBuiltBinaries(t *testing.T) {
	if testing.Short() {
		t.Skip("builds five binaries")
	}
	r := newRepo(t)
	if err := os.Remove(filepath.Join(r.dir, "internal/build/x.go")); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r.write(filepath.Join("internal/build", name), string(b))
	}
	r.write("latencydemo/main.go", printIdentity)
	commit := r.commit()
	exe := filepath.Join(r.dir, ".bin", "latencydemo")
	identity := func(dir string) Identity {
		t.Helper()
		cmd := exec.Command(exe)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var i Identity
		if err := json.Unmarshal(out, &i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	goBuild := func(flags ...string) {
		t.Helper()
		args := slices.Concat([]string{"build", "-o", exe}, flags, []string{"./latencydemo"})
		cmd := exec.Command("go", args...)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}

	goBuild()
	byGit := identity(r.dir)
	wantKnown(t, byGit, commit, false)
	wantUnknown(t, identity(t.TempDir()), "not a checkout")

	flags, err := LDFlags(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	goBuild("-trimpath", "-ldflags", flags)
	baked := identity(t.TempDir())
	if baked.Source != SourceLDFlags || *baked.Commit != commit || *baked.Dirty || *baked.TreeDigest != *byGit.TreeDigest || *baked.BenchDigest != *byGit.BenchDigest {
		t.Errorf("baked in: %+v, want what git says: %+v", baked, byGit)
	}
	if *baked.BinarySHA256 == *byGit.BinarySHA256 {
		t.Error("two binaries have one digest")
	}

	goBuild("-gcflags=-N")
	if i := identity(r.dir); i.Optimized || i.Ineligible() == nil {
		t.Error("-gcflags=-N goes unnoticed")
	}
	goBuild("-cover")
	if i := identity(r.dir); !i.Coverage {
		t.Error("-cover goes unnoticed")
	}

	// The tree goes on, the binary stays.
	r.write("latencydemo/main.go", printIdentity+"\n// changed\n")
	wantUnknown(t, identity(r.dir), "main.go was changed after the binary was built")
}
