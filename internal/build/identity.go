// Package build says which code was measured: commit and content of the tree, of the measuring
// packages and of the binary, and how it was built. Scripts bake it in by -ldflags (see LDFlags);
// without them git is asked, but only if it is certain that the checkout is the one that this
// binary was built from. What is not certain is null, with a warning; nothing is guessed.
package build

import (
	"encoding/hex"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// modulePath is the module whose checkouts count.
const modulePath = "felix"

// Set by -ldflags "-X felix/internal/build.commit=…"; see LDFlags.
var (
	commit      string
	dirty       string
	treeDigest  string
	benchDigest string
)

// Source is where commit and digests come from.
type Source string

// The sources.
const (
	SourceLDFlags Source = "ldflags"
	SourceGit     Source = "git"
	SourceNone    Source = "none"
)

// Identity is the record's build object. Null means not known.
type Identity struct {
	Commit *string `json:"commit"`
	// Dirty: the tree differed from the commit, results/ aside.
	Dirty *bool `json:"dirty"`
	// TreeDigest is git's tree id of all files that git does not ignore, results/ aside: it tells
	// two dirty states of one commit apart.
	TreeDigest *string `json:"tree_digest"`
	// BenchDigest is a SHA-256 of the measuring packages: while it is equal, two builds were
	// measured by the same bench.
	BenchDigest  *string `json:"bench_digest"`
	BinarySHA256 *string `json:"binary_sha256"`
	Source       Source  `json:"source"`

	Go        string  `json:"go"`
	QuicGo    *string `json:"quic_go"`
	Race      bool    `json:"race"`
	Optimized bool    `json:"optimized"` // false: -gcflags held -N or -l
	PGO       bool    `json:"pgo"`       // compiled by a CPU profile (default.pgo)
	Coverage  bool    `json:"coverage"`

	Warnings []string `json:"warnings,omitempty"`
}

// Ineligible returns why figures of this build are no reference and cannot be gated.
func (i Identity) Ineligible() []string {
	var out []string
	if i.Race {
		out = append(out, "built with -race")
	}
	if i.Coverage {
		out = append(out, "built with -cover")
	}
	if !i.Optimized {
		out = append(out, "built without optimisations")
	}
	return out
}

// Identify returns the identity of the running binary. Without -ldflags it asks git in dir ("" is
// the working directory), for 10 s at most. It hashes the binary, some 20 MB.
func Identify(dir string) Identity {
	i := Identity{Source: SourceNone, Go: runtime.Version(), Race: raceEnabled, Optimized: true}
	info, ok := debug.ReadBuildInfo()
	if ok {
		i.fromBuildInfo(info)
	} else {
		i.warn("the binary holds no build information")
	}
	if sum, err := binarySHA256(); err != nil {
		i.warn("binary not hashed: " + err.Error())
	} else {
		i.BinarySHA256 = &sum
	}
	baked := bakedIn{commit: commit, dirty: dirty, treeDigest: treeDigest, benchDigest: benchDigest}
	if baked != (bakedIn{}) {
		i.fromLDFlags(baked)
		return i
	}
	exe, err := os.Executable()
	if err != nil {
		i.warn("identity unknown: " + err.Error())
		return i
	}
	i.fromGit(dir, binary{compiledFrom: sourceFile(), exe: exe, info: info})
	return i
}

func (i *Identity) warn(text string) { i.Warnings = append(i.Warnings, text) }

func (i *Identity) fromBuildInfo(info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "-gcflags":
			i.Optimized = optimized(s.Value)
		case "-pgo":
			i.PGO = s.Value != "" && s.Value != "off"
		case "-cover":
			i.Coverage = s.Value == "true"
		case "-race":
			i.Race = i.Race || s.Value == "true"
		case "-msan", "-asan":
			if s.Value == "true" {
				i.warn("built with " + s.Key)
			}
		}
	}
	for _, d := range info.Deps {
		if d.Path != "github.com/quic-go/quic-go" {
			continue
		}
		version := d.Version
		if r := d.Replace; r != nil {
			version = strings.TrimSpace(version + " => " + r.Path + " " + r.Version)
		}
		i.QuicGo = &version
	}
}

// optimized reports whether -gcflags leave optimisation and inlining on.
func optimized(gcflags string) bool {
	for _, f := range strings.Fields(gcflags) {
		if _, flag, ok := strings.Cut(f, "="); ok && !strings.HasPrefix(f, "-") {
			f = flag // all=-N
		}
		switch strings.Trim(f, `'"`) {
		case "-N", "-l", "--N", "--l", "-N=1", "-N=true":
			return false
		}
	}
	return true
}

// bakedIn are the variables set by -ldflags.
type bakedIn struct{ commit, dirty, treeDigest, benchDigest string }

func (i *Identity) fromLDFlags(b bakedIn) {
	i.Source = SourceLDFlags
	i.Commit = i.digest("commit", b.commit)
	i.TreeDigest = i.digest("treeDigest", b.treeDigest)
	i.BenchDigest = i.digest("benchDigest", b.benchDigest)
	if d, err := strconv.ParseBool(b.dirty); err == nil {
		i.Dirty = &d
	} else {
		i.warn("-ldflags dirty=" + strconv.Quote(b.dirty) + " is neither true nor false")
	}
}

// digest returns text if it is a SHA-1 or SHA-256 in hex, else null and a warning.
func (i *Identity) digest(name, text string) *string {
	if !isDigest(text) {
		i.warn("-ldflags " + name + "=" + strconv.Quote(text) + " is no digest")
		return nil
	}
	return &text
}

func isDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && (len(b) == 20 || len(b) == 32)
}

// LDFlags returns what a build script passes as -ldflags, for a build of the checkout in dir ("" is
// the working directory). It fails where the identity is not certain: no git, no commit, or not a
// checkout of this module.
func LDFlags(dir string) (string, error) {
	c, err := openCheckout(dir)
	if err != nil {
		return "", err
	}
	s, err := c.state()
	if err != nil {
		return "", err
	}
	bench, err := benchDigestOf(c.root)
	if err != nil {
		return "", err
	}
	const x = "-X " + modulePath + "/internal/build."
	return x + "commit=" + s.commit + " " + x + "dirty=" + strconv.FormatBool(s.dirty) + " " +
		x + "treeDigest=" + s.tree + " " + x + "benchDigest=" + bench, nil
}
