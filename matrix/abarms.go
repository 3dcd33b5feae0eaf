package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
	"felix/presets"
)

func newModel() *workload.Model { return presets.Model() }

// arm is one side of an experiment.
type arm struct {
	name   string
	origin origin
	set    []string // factor=level
	env    []string // NAME=value
	grid   *workload.Grid

	binary string // in the session's directory, by a path that means it from everywhere
	build  runrecord.Build
	side   *sitting   // makes its records
	slow   [][]string // by cell: flags of the canary, once they are known
}

// text says what the arm is.
func (a *arm) text() string {
	words := []string{a.origin.text()}
	words = append(words, a.set...)
	for _, e := range a.env {
		words = append(words, "env."+e)
	}
	return strings.Join(words, " ")
}

// setArms makes both arms of the flags, each with its own grid, whose cells correspond one by one.
func (x *experiment) setArms() error {
	o := x.o
	from := [2]string{o.base, o.head}
	if o.aa {
		from[1] = o.base
	}
	sets := [2][]string{o.baseSet, o.headSet}
	for i, name := range []string{verdict.Base, verdict.Head} {
		a := &arm{name: name}
		var err error
		if a.origin, err = findOrigin("--"+name, from[i], o.bin); err != nil {
			return err
		}
		if a.set, a.env, err = splitSettings("--"+name+"-set", sets[i]); err != nil {
			return err
		}
		if a.grid, err = x.gate.Grid(a.set...); err != nil {
			return gridUsage(fmt.Errorf("%s: %w", name, err))
		}
		if err := checkGrid(a.grid); err != nil {
			return err
		}
		x.arms[i] = a
	}
	base, head := x.arms[0], x.arms[1]
	if b, h := len(base.grid.Cells), len(head.grid.Cells); b != h {
		return usagef("set what the gate's grids do not vary, or fix it with --only", "base has %d cells and head %d: a setting takes the place of levels that a grid varies", b, h)
	}
	same := base.origin == head.origin && slices.Equal(base.set, head.set) && slices.Equal(base.env, head.env)
	if same && !o.aa && o.slowBy == 0 {
		return usagef("matrix aa measures a build against itself", "base and head are the same: %s", base.text())
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// splitSettings reads k=v,… : env.NAME=value is a variable, everything else a factor of the cells.
func splitSettings(flag string, given []string) (set, env []string, err error) {
	seen := map[string]bool{}
	for _, list := range given {
		for _, kv := range strings.Split(list, ",") {
			kv = strings.TrimSpace(kv)
			k, v, ok := strings.Cut(kv, "=")
			if !ok || k == "" || v == "" {
				return nil, nil, usagef("as in broker.subscriber_queue_capacity=8 or env.QUIC_GO_DISABLE_GSO=true", "%s %q: want k=v", flag, kv)
			}
			if seen[k] {
				return nil, nil, usagef("an arm has one value of it", "%s: %s is set twice", flag, k)
			}
			seen[k] = true
			name, isEnv := strings.CutPrefix(k, "env.")
			switch {
			case !isEnv:
				set = append(set, kv)
			case !envName.MatchString(name) || name == host.LockHeldEnv:
				return nil, nil, usagef("as in env.QUIC_GO_DISABLE_GSO=true", "%s: %q cannot be set", flag, k)
			default:
				env = append(env, name+"="+v)
			}
		}
	}
	return set, env, nil
}

// armFactors are the factors in which corresponding cells differ, as a case's key has them.
func (x *experiment) armFactors() []string {
	var out []string
	for i := range x.arms[0].grid.Cells {
		base := strings.Fields(x.arms[0].grid.Cells[i].Case.Key())
		head := strings.Fields(x.arms[1].grid.Cells[i].Case.Key())
		for _, pair := range [][2][]string{{base, head}, {head, base}} {
			for _, word := range pair[0] {
				factor, _, _ := strings.Cut(word, "=")
				if !slices.Contains(pair[1], word) && !slices.Contains(out, factor) {
					out = append(out, factor)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// origin is where an arm's binary comes from: a commit, a file, or this checkout as it is.
type origin struct {
	commit string // full id
	typed  string // what was typed
	file   string
}

func (o origin) text() string {
	switch {
	case o.commit != "":
		return fmt.Sprintf("commit %s (%s)", shortDigest(o.commit), o.typed)
	case o.file != "":
		return "binary " + o.file
	}
	return "this checkout as it is"
}

// findOrigin takes a file that can be executed before a commit of that name.
func findOrigin(flag, word, bin string) (origin, error) {
	if word == "" {
		word, flag = bin, "--bin"
	}
	switch {
	case word == "":
		return origin{}, nil
	case executableFile(word):
		return origin{typed: word, file: word}, checkBinary(flag, word)
	case flag == "--bin":
		return origin{}, checkBinary(flag, word)
	}
	if st, err := os.Stat(word); err == nil && st.Mode().IsRegular() {
		return origin{}, usagef("give a commit, or a latencydemo that can be executed", "%s %s: not an executable file", flag, word)
	}
	commit, err := findCommit(word)
	if err != nil {
		return origin{}, fmt.Errorf("%s %s: %w", flag, word, err)
	}
	return origin{commit: commit, typed: word}, nil
}
