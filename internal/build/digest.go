package build

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// benchPackages are the packages that measure: between builds that differ in them, a difference
// may be the bench's.
var benchPackages = []string{
	"internal/host",
	"internal/measure",
	"internal/runrecord",
	"internal/stat",
	"internal/trial",
	"internal/verdict",
	"internal/workload",
	"latencydemo",
}

// benchDigestOf returns the SHA-256 over paths and contents of the Go files of the measuring
// packages, tests aside, and of the profiles that they are compiled by, in order of path.
func benchDigestOf(root string) (string, error) { return benchDigestFS(os.DirFS(root)) }

func benchDigestFS(root fs.FS) (string, error) {
	var files []string
	for _, dir := range benchPackages {
		err := fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name == dir {
				return nil // a package that this commit has not yet
			}
			if err != nil {
				return err
			}
			if d.IsDir() {
				if name != dir && notBuilt(d.Name()) {
					return fs.SkipDir
				}
				return nil
			}
			source := path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && !notBuilt(d.Name())
			if source || d.Name() == "default.pgo" { // what the compiler is told to optimize for
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("bench digest: %w", err)
		}
	}
	if len(files) == 0 {
		return "", errors.New("bench digest: no measuring packages")
	}
	slices.Sort(files)
	h := sha256.New()
	for _, name := range files {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return "", fmt.Errorf("bench digest: %w", err)
		}
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// notBuilt reports whether the go command leaves out files and folders of this name.
func notBuilt(name string) bool {
	return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// binarySHA256 hashes the running binary.
func binarySHA256() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "linux" {
		name = "/proc/self/exe" // what runs, even if the path holds a newer build by now
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
