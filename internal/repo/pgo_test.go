//go:build unix

package repo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptsPGO: profiles are taken of valid runs only, land in both folders, and what goes wrong is said and leaves the
// old ones alone.
func TestScriptsPGO(t *testing.T) {
	const fakeGo = `#!/usr/bin/env bash
case "$1" in
build) while [ "$1" != -o ]; do shift; done; cp fake "$2" ;;
tool) while [ "$1" != -output ]; do shift; done
  [ -z "${PPROF_FAILS:-}" ] || { echo "pprof: no samples" >&2; exit 2; }
  out=$2; shift 2; cat "$@" >"$out" ;;
esac
`
	const latencydemo = `#!/usr/bin/env bash
case "$*" in
"${INVALID:-none}"*) echo "INVALID RUN: too small"; exit 1 ;;
*) echo "warning     the machine was contaminated"
   while [ "$1" != --out ]; do shift; done; mkdir -p "$2"; echo a profile >"$2/broker.cpu.pprof" ;;
esac
`
	const old = "the old one"
	for _, tt := range []struct {
		name, env string
		code      int
		want      string // in stderr
	}{
		{"valid", "", 0, "warning     the machine was contaminated\n"},
		{"an invalid run", "INVALID=probe relay", 1, "INVALID RUN: too small\npgo: a run that is not valid is no example"},
		{"no merged profile", "PPROF_FAILS=1", 1, "pprof: no samples\n"},
	} {
		root := scriptAmong(t, "pgo", map[string]string{
			"bin/go": fakeGo, "fake": latencydemo, "latencydemo/default.pgo": old, "broker/brokerd/default.pgo": old,
		})
		path := "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")
		_, stderr, code := runAmong(t, root, []string{path, tt.env}, "pgo")
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, want %d with %q on stderr\n%s", tt.name, code, tt.code, tt.want, stderr)
		}
		for _, folder := range []string{"latencydemo", "broker/brokerd"} {
			got, err := os.ReadFile(filepath.Join(root, folder, "default.pgo"))
			if err != nil {
				t.Fatal(err)
			}
			if isNew := string(got) == strings.Repeat("a profile\n", 6); isNew != (tt.code == 0) || !isNew && string(got) != old {
				t.Errorf("%s: %s/default.pgo is %q", tt.name, folder, got)
			}
		}
	}
}

// Both commands are compiled by one profile: files, since git makes symbolic links not everywhere.
func TestLayoutProfilesAreOne(t *testing.T) {
	a, err := os.ReadFile("latencydemo/default.pgo")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("broker/brokerd/default.pgo")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("latencydemo/default.pgo and broker/brokerd/default.pgo differ: scripts/pgo writes both")
	}
}
