package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitTimeout bounds each question to git.
const gitTimeout = 10 * time.Second

// Errors of LDFlags.
var (
	ErrNoGit       = errors.New("git not found")
	ErrNotCheckout = errors.New("not a checkout of module " + modulePath)
	ErrNoCommit    = errors.New("no commit yet")
)

// checkout is a working tree of this module.
type checkout struct{ root string }

// gitState is what git says of it.
type gitState struct {
	commit string
	dirty  bool
	tree   string
}

// openCheckout finds the working tree around dir whose root holds go.mod of this module.
func openCheckout(dir string) (checkout, error) {
	if dir == "" {
		dir = "."
	}
	if _, err := exec.LookPath("git"); err != nil {
		return checkout{}, fmt.Errorf("%w: %w", ErrNoGit, err)
	}
	out, err := git(dir, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return checkout{}, fmt.Errorf("%s: %w: %w", dir, ErrNotCheckout, err)
	}
	root := filepath.FromSlash(out)
	if module, err := moduleOf(filepath.Join(root, "go.mod")); err != nil {
		return checkout{}, fmt.Errorf("%s: %w: %w", root, ErrNotCheckout, err)
	} else if module != modulePath {
		return checkout{}, fmt.Errorf("%s: %w: module %s", root, ErrNotCheckout, module)
	}
	return checkout{root: root}, nil
}

// moduleOf reads the module line of a go.mod.
func moduleOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`), nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", errors.New("no module line")
}

// withoutResults are the paths of a checkout that identify code: results are data.
var withoutResults = []string{"--", ".", ":(exclude,top)results"}

// state asks git for commit, dirtiness and tree id.
func (c checkout) state() (gitState, error) {
	var s gitState
	var err error
	if s.commit, err = git(c.root, nil, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return s, fmt.Errorf("%w: %w", ErrNoCommit, err)
	}
	status, err := git(c.root, nil, append([]string{"status", "--porcelain", "--untracked-files=all"}, withoutResults...)...)
	if err != nil {
		return s, err
	}
	s.dirty = status != ""
	if s.tree, err = c.treeDigest(); err != nil {
		return s, err
	}
	return s, nil
}

// treeDigest returns git's tree id of the working tree. Index and new objects go to a temporary
// directory: the repository, its index and its object store are only read.
func (c checkout) treeDigest() (id string, err error) {
	tmp, err := os.MkdirTemp("", "felix-tree-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	objects, err := git(c.root, nil, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return "", err
	}
	alternates := objects
	if more := os.Getenv("GIT_ALTERNATE_OBJECT_DIRECTORIES"); more != "" {
		alternates += string(os.PathListSeparator) + more
	}
	env := []string{
		"GIT_INDEX_FILE=" + filepath.Join(tmp, "index"),
		"GIT_OBJECT_DIRECTORY=" + filepath.Join(tmp, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternates,
	}
	if err := os.Mkdir(filepath.Join(tmp, "objects"), 0o700); err != nil {
		return "", err
	}
	// From HEAD on, so that files which are tracked although a pattern ignores them are in it.
	for _, args := range [][]string{
		{"read-tree", "HEAD"},
		{"rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", "results"},
		append([]string{"add", "-A"}, withoutResults...),
	} {
		if _, err := git(c.root, env, args...); err != nil {
			return "", err
		}
	}
	return git(c.root, env, "write-tree")
}

// git runs git in dir and returns what it printed, without the final newline.
func git(dir string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	// A file system monitor would be a program of the user's choice, started by a bench.
	full := append([]string{"-c", "core.fsmonitor=false", "-c", "core.quotePath=true"}, args...)
	cmd := exec.CommandContext(ctx, "git", full...)
	cmd.Dir = dir
	cmd.Env = append(cleanEnv(os.Environ()), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, line)
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}

// cleanEnv takes out what would point git to another repository (hooks run with GIT_DIR set) and
// keeps it from taking locks or asking.
func cleanEnv(env []string) []string {
	out := make([]string, 0, len(env)+3)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
			"GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "LC_ALL":
			continue
		}
		out = append(out, e)
	}
	return append(out, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
}
