package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"felix/internal/build"
)

// askGit asks git in the working directory.
func askGit(args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.Command("git", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			return "", errors.New(strings.ReplaceAll(text, "\n", ": "))
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// findCommit resolves a commit, or says what to do where it is not here.
func findCommit(ref string) (string, error) {
	if strings.HasPrefix(ref, "-") {
		return "", usagef("a branch, a tag or a commit", "%q is no commit", ref)
	}
	if _, err := askGit("rev-parse", "--show-toplevel"); err != nil {
		return "", usagef("run it inside the checkout, or give a latencydemo as a file", "no checkout to find a commit in: %w", err)
	}
	if _, err := askGit("rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return "", usagef("commit first; a first commit has nothing to be compared with", "this repository has no commit")
	}
	commit, err := askGit("rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err == nil {
		return commit, nil
	}
	if shallow, _ := askGit("rev-parse", "--is-shallow-repository"); shallow == "true" {
		return "", usagef("fetch it: git fetch --unshallow (in CI: fetch-depth: 0)", "no such commit here: this is a shallow clone")
	}
	if n, _ := askGit("rev-list", "--count", "HEAD"); n == "1" {
		return "", usagef("there is nothing before it: compare from the second commit on", "no such commit: this repository has only its first one")
	}
	return "", usagef("a branch, a tag, a commit, or the path of a latencydemo; git fetch brings what is not here", "no such commit")
}

// provide makes the arms' binaries, each in a directory of the session, or one for both where they are the same.
func (x *experiment) provide(ctx context.Context) error {
	base, head := x.arms[0], x.arms[1]
	for _, a := range x.arms {
		dir := filepath.Join(x.dir, a.name)
		if base.origin == head.origin {
			dir = x.dir
			if a == head {
				head.binary, head.build = base.binary, base.build
				break
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		file, err := filepath.Abs(filepath.Join(dir, binaryFile))
		if err != nil {
			return err
		}
		a.binary = file
		if err := x.provideOne(ctx, a); err != nil {
			return err
		}
		sum, err := fileSHA256(file)
		if err != nil {
			return err
		}
		a.build = askIdentity(ctx, file, sum, x.say)
		if err := eligible(a); err != nil {
			return err
		}
	}
	if b, h := base.build.BinarySHA256, head.build.BinarySHA256; base.origin != head.origin && b != nil && h != nil && *b == *h &&
		len(base.set)+len(base.env)+len(head.set)+len(head.env) == 0 {
		x.say("base and head are the same binary, to the byte: this is an A/A")
	}
	return nil
}

func (x *experiment) provideOne(ctx context.Context, a *arm) error {
	switch o := a.origin; {
	case o.file != "":
		return copyBinary(o.file, a.binary)
	case o.commit != "":
		x.say(fmt.Sprintf("building %s: %s", a.name, a.origin.text()))
		return buildCommit(ctx, o.commit, a)
	}
	x.say(fmt.Sprintf("building %s: %s", a.name, a.origin.text()))
	if err := buildBinary(ctx, a.binary, x.say); err != nil {
		return usageOf(a, err)
	}
	return nil
}

func usageOf(a *arm, err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	return usagef(fmt.Sprintf("compare with a commit that builds, or give --%s a latencydemo that was built before", a.name), "%s does not build: %w", a.name, err)
}

// buildCommit builds a commit in a worktree of its own, with the toolchain and the flags of this checkout: what differs
// between the arms is their code alone.
func buildCommit(ctx context.Context, commit string, a *arm) (err error) {
	tmp, err := os.MkdirTemp("", "felix-ab-")
	if err != nil {
		return err
	}
	tree := filepath.Join(tmp, a.name)
	defer func() {
		_, _ = askGit("worktree", "remove", "--force", tree) // may not have come to exist
		err = errors.Join(err, os.RemoveAll(tmp))
		_, _ = askGit("worktree", "prune")
	}()
	if _, err := askGit("worktree", "add", "--quiet", "--detach", "--force", tree, commit); err != nil {
		return usageOf(a, err)
	}
	ldflags, err := build.LDFlags(tree)
	if err != nil {
		return usageOf(a, err)
	}
	if _, err := os.Stat(filepath.Join(tree, "latencydemo")); err != nil {
		return usagef("compare with a later commit", "%s: commit %s has no latencydemo", a.name, shortDigest(commit))
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", a.binary, "./latencydemo")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output(); err == nil {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+strings.TrimSpace(string(version)))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return usageOf(a, fmt.Errorf("%w: %s", err, lastLines(string(out), 12)))
	}
	return nil
}

// lastLines keeps an error readable: one line of the last ones.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// eligible refuses builds whose figures mean nothing, before anything is measured. What a binary does not tell, its
// records do.
func eligible(a *arm) error {
	info, err := buildinfo.ReadFile(a.binary)
	if err != nil || info.Path != "felix/latencydemo" {
		return nil
	}
	for _, s := range info.Settings {
		bad := ""
		switch {
		case s.Key == "-race" && s.Value == "true":
			bad = "-race"
		case s.Key == "-cover" && s.Value == "true":
			bad = "coverage"
		case s.Key == "-gcflags" && strings.Contains(s.Value, "-N"):
			bad = "-N"
		}
		if bad != "" {
			return usagef("build it without", "%s is built with %s: such a build is not measured", a.name, bad)
		}
	}
	return nil
}
