package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// sourceFile returns where this file lay when it was compiled. With -trimpath that is no path.
func sourceFile() string {
	_, file, _, _ := runtime.Caller(0)
	return file
}

// binary is what a binary tells of its own origin.
type binary struct {
	compiledFrom string           // where a source file of this package lay
	exe          string           // where the binary lies
	info         *debug.BuildInfo // may be nil
}

// fromGit asks git, if the checkout around dir is certainly the one that b was built from: a
// binary lies in .bin for weeks, and the tree goes on.
func (i *Identity) fromGit(dir string, b binary) {
	c, err := openCheckout(dir)
	if err != nil {
		i.warn("identity unknown: " + err.Error() + "; build with -ldflags to bake it in")
		return
	}
	if err := c.builtHere(b.compiledFrom); err != nil {
		i.warn("identity unknown: " + err.Error() + "; build with -ldflags to bake it in")
		return
	}
	if err := c.notNewerThanBinary(b.exe); err != nil {
		i.warn("identity unknown: " + err.Error() + "; build again")
		return
	}
	s, err := c.state()
	if err != nil {
		i.warn("identity unknown: " + err.Error())
		return
	}
	if was := setting(b.info, "vcs.revision"); was != "" && was != s.commit {
		i.warn(fmt.Sprintf("identity unknown: the binary was built at commit %s, the checkout is at %s; build again", was, s.commit))
		return
	}
	i.Source = SourceGit
	i.Commit, i.Dirty, i.TreeDigest = &s.commit, &s.dirty, &s.tree
	bench, err := benchDigestOf(c.root)
	if err != nil {
		i.warn(err.Error())
		return
	}
	i.BenchDigest = &bench
}

func setting(info *debug.BuildInfo, key string) string {
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// builtHere fails unless compiledFrom, the path of a source file of this package, is in c.
func (c checkout) builtHere(compiledFrom string) error {
	if !filepath.IsAbs(compiledFrom) {
		return errors.New("built with -trimpath: no telling from which checkout")
	}
	from := filepath.Dir(filepath.Dir(filepath.Dir(compiledFrom))) // root/internal/build/x.go
	if !sameDir(from, c.root) {
		return fmt.Errorf("built from %s, and this checkout is %s", from, c.root)
	}
	return nil
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// notNewerThanBinary fails if a source file was changed after the binary was written. The cached
// binaries of go run and go test are exempt: those are chosen by content, and may be older than
// their sources.
func (c checkout) notNewerThanBinary(exe string) error {
	if builtByGoCommand(exe) {
		return nil
	}
	st, err := os.Stat(exe)
	if err != nil {
		return err
	}
	return c.notNewerThan(st.ModTime())
}

// builtByGoCommand reports whether exe lies where go run and go test put theirs.
func builtByGoCommand(exe string) bool {
	slashed := filepath.ToSlash(exe)
	if strings.Contains(slashed, "/go-build") {
		return true
	}
	cache := os.Getenv("GOCACHE")
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "go-build")
		}
	}
	return cache != "" && strings.HasPrefix(exe, cache+string(filepath.Separator))
}

func (c checkout) notNewerThan(built time.Time) error {
	return filepath.WalkDir(c.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != c.root && (notBuilt(d.Name()) || name == filepath.Join(c.root, "results")) {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".mod", ".sum", ".s", ".yaml", ".yml":
		default:
			return nil
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if st.ModTime().After(built) {
			return fmt.Errorf("%s was changed after the binary was built", name)
		}
		return nil
	})
}
