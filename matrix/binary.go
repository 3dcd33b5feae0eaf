package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"felix/internal/build"
	"felix/internal/host"
	"felix/internal/runrecord"
)

// built is the latencydemo of a session.
type built struct {
	sha256 string
	build  runrecord.Build // as far as the binary tells
}

// provideBinary puts latencydemo into the session's directory, once: all its trials measure the same bytes, however
// the checkout goes on. It is built from this checkout, or copied from --bin.
func provideBinary(ctx context.Context, o *runOptions, s *sitting, say func(string)) (*built, error) {
	var err error
	if o.bin != "" {
		err = copyBinary(o.bin, s.binary())
	} else {
		say("building latencydemo")
		err = buildHere(ctx, say, product{binaryFile, s.executable()})
	}
	if err != nil {
		return nil, err
	}
	sum, err := fileSHA256(s.binary())
	if err != nil {
		return nil, err
	}
	return &built{sha256: sum, build: askIdentity(ctx, s.executable(), sum, say)}, nil
}

const binHint = "scripts/task build makes .bin/latencydemo"

// checkBinary refuses what is no latencydemo before anybody waits for a lock: it says so itself, by --version.
func checkBinary(flag, file string) error {
	if _, err := os.Stat(file); err != nil {
		return usagef(binHint, "%s: %w", flag, err)
	}
	if !executableFile(file) {
		return usagef(binHint, "%s %s: not an executable file", flag, file)
	}
	abs, err := filepath.Abs(file) // a bare name would be looked for in PATH
	if err != nil {
		return usagef(binHint, "%s %s: %w", flag, file, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, abs, "--version")
	cmd.WaitDelay = leftPipes
	out, err := cmd.Output()
	if err == nil && strings.HasPrefix(string(out), binaryFile+"  ") {
		return nil
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		line = err.Error()
	}
	return usagef(binHint, "%s %s: no latencydemo: it answers --version with %.80q", flag, file, line)
}

func copyBinary(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return usagef(binHint, "%w", err)
	}
	defer src.Close()
	if st, err := src.Stat(); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return usagef(binHint, "%s: not an executable file", from)
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("copy the binary: %w", err)
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("copy the binary: %w", err)
	}
	return nil
}

// product is a command and where its binary goes.
type product struct{ command, file string }

// The commands that are built, by package.
var commandDirs = map[string]string{binaryFile: "./latencydemo", brokerFile: "./broker/brokerd"}

// buildHere builds commands from the checkout around the working directory, as it is.
func buildHere(ctx context.Context, say func(string), products ...product) error {
	const hint = "run it inside the checkout, or give --bin FILE (scripts/task build makes .bin/latencydemo)"
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	out, err := cmd.Output()
	if err != nil {
		return usagef(hint, "no checkout to build latencydemo from: %w", err)
	}
	module, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if module != "felix" {
		return usagef(hint, "no checkout to build latencydemo from: this is module %s", module)
	}
	ldflags, err := build.LDFlags(root)
	if err != nil {
		say("building without an identity: " + err.Error())
	}
	for _, p := range products {
		cmd = exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", p.file, commandDirs[p.command])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// askTimeout bounds the small questions to the binary: its identity, and whether it takes a cell's flags.
const askTimeout = 30 * time.Second

// identityLine is what latencydemo --version prints.
var identityLine = regexp.MustCompile(`^latencydemo  commit (\S+)( DIRTY)?  tree (\S+)  bench (\S+)  binary (\S+)  \((\S+); (\S+?)(, pgo)?, quic-go (\S+)\)$`)

// askIdentity asks the binary who it is. What it does not tell is null; trials tell more, in their records.
func askIdentity(ctx context.Context, binary, sha256 string, say func(string)) runrecord.Build {
	b := runrecord.Build{Source: string(build.SourceNone), BinarySHA256: &sha256, Optimized: true}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--version")
	cmd.Dir = os.TempDir() // what it does not know by itself, it must not take from where we happen to be
	out, err := cmd.Output()
	m := identityLine.FindStringSubmatch(strings.TrimSpace(string(out)))
	if err != nil || m == nil {
		say("the binary does not say what it was built from")
		return b
	}
	known := func(s string) *string {
		if s == "unknown" {
			return nil
		}
		return &s
	}
	b.Commit, b.TreeDigest, b.BenchDigest, b.QuicGo = known(m[1]), known(m[3]), known(m[4]), known(m[9])
	if b.Commit != nil {
		dirty := m[2] != ""
		b.Dirty = &dirty
	}
	b.Source, b.Go, b.PGO = m[6], m[7], m[8] != ""
	return b
}

func fileSHA256(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hostFacts() (runrecord.Host, error) {
	facts := host.Facts()
	text, err := json.Marshal(facts)
	if err != nil {
		return runrecord.Host{}, fmt.Errorf("facts of the host: %w", err)
	}
	return runrecord.Host{Fingerprint: facts.Fingerprint, Facts: text}, nil
}
