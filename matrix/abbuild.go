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
	"felix/internal/gate"
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

// provide makes the arms' binaries, each in a directory of the session, or one for all where they are the same. With
// --bench head there is one latencydemo, head's, and a brokerd of each arm.
func (x *experiment) provide(ctx context.Context) error {
	same := true
	for _, a := range x.arms {
		same = same && a.origin == x.arms[0].origin
	}
	driven := x.o.bench == gate.BenchHead
	for i, a := range x.arms {
		if same && i > 0 {
			a.binary, a.build = x.arms[0].binary, x.arms[0].build
			if driven {
				a.broker = x.arms[0].broker.forArm()
			}
			continue
		}
		dir := x.dir
		if !same {
			dir = filepath.Join(x.dir, a.name)
		}
		var products []product
		if !driven || same || a == x.head() {
			products = append(products, product{binaryFile, filepath.Join(dir, binaryFile)})
		}
		if driven {
			products = append(products, product{brokerFile, filepath.Join(dir, brokerFile)})
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := x.provideArm(ctx, a, products); err != nil {
			return err
		}
	}
	if driven {
		for _, a := range x.arms {
			if a.binary == "" {
				a.binary, a.build = x.head().binary, x.head().build
			}
		}
		for _, a := range x.arms {
			a.broker.bench, a.build = a.build, measured(a.broker.build, a.build)
		}
		return nil
	}
	base, head := x.arms[0], x.head()
	if b, h := base.build.BinarySHA256, head.build.BinarySHA256; base.origin != head.origin && b != nil && h != nil && *b == *h &&
		len(base.set)+len(base.env)+len(head.set)+len(head.env) == 0 {
		x.say("base and head are the same binary, to the byte: this is an A/A")
	}
	return nil
}

// provideArm makes an arm's binaries and asks them who they are.
func (x *experiment) provideArm(ctx context.Context, a *arm, products []product) error {
	for i := range products {
		abs, err := filepath.Abs(products[i].file)
		if err != nil {
			return err
		}
		products[i].file = abs
	}
	if err := x.makeProducts(ctx, a, products); err != nil {
		return err
	}
	for _, p := range products {
		sum, err := fileSHA256(p.file)
		if err != nil {
			return err
		}
		if err := eligible(a.name, p); err != nil {
			return err
		}
		if p.command == binaryFile {
			a.binary, a.build = p.file, askIdentity(ctx, p.file, sum, x.say)
			continue
		}
		a.broker = &ownBroker{binary: p.file, build: askBroker(ctx, p.file, sum, x.say)}
	}
	return nil
}

func (x *experiment) makeProducts(ctx context.Context, a *arm, products []product) error {
	switch o := a.origin; {
	case o.file != "":
		for _, p := range products {
			from := o.file
			if p.command == brokerFile {
				from = filepath.Join(filepath.Dir(o.file), brokerFile)
				if !executableFile(from) {
					return usagef("put the brokerd of that build beside it (scripts/task build makes both in .bin/), name a commit, or judge with --bench own",
						"%s: --bench head drives a brokerd, and there is none beside %s", a.name, o.file)
				}
			}
			if err := copyBinary(from, p.file); err != nil {
				return err
			}
		}
		return nil
	case o.commit != "":
		x.say(fmt.Sprintf("building %s: %s", a.name, a.origin.text()))
		return buildCommit(ctx, o.commit, a, products)
	}
	x.say(fmt.Sprintf("building %s: %s", a.name, a.origin.text()))
	if err := buildHere(ctx, x.say, products...); err != nil {
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
func buildCommit(ctx context.Context, commit string, a *arm, products []product) (err error) {
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
	env := append(os.Environ(), "GOWORK=off")
	if version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output(); err == nil {
		env = append(env, "GOTOOLCHAIN="+strings.TrimSpace(string(version)))
	}
	for _, p := range products {
		dir := commandDirs[p.command]
		if _, err := os.Stat(filepath.Join(tree, dir)); err != nil {
			if p.command == brokerFile {
				return usagef("compare with a later commit, or judge with --bench own", "%s: commit %s has no brokerd, which --bench head drives", a.name, shortDigest(commit))
			}
			return usagef("compare with a later commit", "%s: commit %s has no %s", a.name, shortDigest(commit), p.command)
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", p.file, dir)
		cmd.Dir, cmd.Env = tree, env
		if out, err := cmd.CombinedOutput(); err != nil {
			return usageOf(a, fmt.Errorf("%w: %s", err, lastLines(string(out), 12)))
		}
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
func eligible(arm string, p product) error {
	info, err := buildinfo.ReadFile(p.file)
	if err != nil || info.Path != "felix"+strings.TrimPrefix(commandDirs[p.command], ".") {
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
			return usagef("build it without", "%s: %s is built with %s: such a build is not measured", arm, p.command, bad)
		}
	}
	return nil
}
