package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"felix/internal/gate"
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
	set    []string       // factor=level
	env    []string       // NAME=value
	grid   *workload.Grid // as its trials and their records have it
	own    *workload.Grid // as the gate has it: with --bench head, grid leaves to brokerd what is the broker's

	binary string          // the latencydemo, in the session's directory, by a path that means it from everywhere
	build  runrecord.Build // of what is measured
	broker *ownBroker      // nil: latencydemo starts the broker
	side   *sitting        // makes its records
	slow   [][]string      // by cell: flags of the canary, once they are known
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

// armFlags is an arm as the flags say it.
type armFlags struct {
	name, from, fromFlag string
	set                  []string
	setFlag              string
}

// setArms makes the arms of the flags, each with its own grid, whose cells correspond one by one.
func (x *experiment) setArms() error {
	o := x.o
	head := o.head
	if o.aa {
		head = o.base
	}
	given := []armFlags{
		{verdict.Base, o.base, "--base", o.baseSet, "--base-set"},
		{verdict.Head, head, "--head", o.headSet, "--head-set"},
	}
	if x.many() {
		var err error
		if given, err = splitArms(o.arms); err != nil {
			return err
		}
	}
	for _, g := range given {
		a := &arm{name: g.name}
		var err error
		if a.origin, err = findOrigin(g.fromFlag, g.from, o.bin); err != nil {
			return err
		}
		if a.set, a.env, err = splitSettings(g.setFlag, g.set); err != nil {
			return err
		}
		if a.own, err = x.gate.Grid(a.set...); err != nil {
			return gridUsage(fmt.Errorf("%s: %w", a.name, err))
		}
		if err := checkGrid(a.own); err != nil {
			return err
		}
		a.grid = a.own
		if o.bench == gate.BenchHead {
			if a.grid, err = driven(a.own); err != nil {
				return err
			}
		}
		x.arms = append(x.arms, a)
	}
	return x.checkArms()
}

// checkArms refuses arms that cannot be compared, or need not be.
func (x *experiment) checkArms() error {
	base := x.arms[0]
	differ := x.o.aa || x.o.slowBy > 0
	for _, a := range x.arms[1:] {
		if b, h := len(base.grid.Cells), len(a.grid.Cells); b != h {
			return usagef("set what the gate's grids do not vary, or fix it with --only", "%s has %d cells and %s %d: a setting takes the place of levels that a grid varies", base.name, b, a.name, h)
		}
		differ = differ || base.origin != a.origin || !slices.Equal(base.set, a.set) || !slices.Equal(base.env, a.env)
	}
	if !differ && x.many() {
		return usagef("give one of them settings: --arm NAME:k=v", "all arms are the same: %s", base.text())
	}
	if !differ {
		return usagef("matrix aa measures a build against itself", "base and head are the same: %s", base.text())
	}
	return nil
}

func (x *experiment) armNames() []string {
	var names []string
	for _, a := range x.arms {
		names = append(names, a.name)
	}
	return names
}

// head is the arm whose bench it is, and whose build the session names.
func (x *experiment) head() *arm { return x.arms[len(x.arms)-1] }

var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// splitArms reads NAME:k=v,… ; NAME alone, with or without its colon, is an arm without settings.
func splitArms(given []string) ([]armFlags, error) {
	var out []armFlags
	for _, text := range given {
		name, list, _ := strings.Cut(text, ":")
		if !armName.MatchString(name) {
			return nil, usagef("as in --arm fix:broker.subscriber_queue_capacity=8", "--arm %q: want NAME:k=v,… with a name of letters, digits, '-', '_' and '.'", text)
		}
		if slices.ContainsFunc(out, func(a armFlags) bool { return a.name == name }) {
			return nil, usagef("give each arm a name of its own", "--arm %s is given twice", name)
		}
		a := armFlags{name: name, fromFlag: "--bin", setFlag: "--arm " + name}
		if list != "" {
			a.set = []string{list}
		}
		out = append(out, a)
	}
	return out, nil
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
		count := map[string]int{} // words of the keys
		for _, a := range x.arms {
			for _, word := range strings.Fields(a.grid.Cells[i].Case.Key()) {
				count[word]++
			}
		}
		for word, n := range count {
			factor, _, _ := strings.Cut(word, "=")
			if n < len(x.arms) && !slices.Contains(out, factor) {
				out = append(out, factor)
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
	said   string // of a resumed session: its text
}

func (o origin) text() string {
	switch {
	case o.said != "":
		return o.said
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
