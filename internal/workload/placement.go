package workload

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Procs is GOMAXPROCS of every process of a trial; 0 is auto: the processors that were given to the
// process or, if none were, an equal share of the machine's.
type Procs int

// maxProcs and maxCPU bound what a machine is taken to have.
const (
	maxProcs = 1024
	maxCPU   = 1023
)

func (p Procs) String() string {
	if p == 0 {
		return "auto"
	}
	return strconv.Itoa(int(p))
}

// Set parses auto or a number.
func (p *Procs) Set(s string) error {
	if s == "auto" {
		*p = 0
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxProcs || strconv.Itoa(n) != s {
		return fmt.Errorf("%q: want auto or 1 to %d", s, maxProcs)
	}
	*p = Procs(n)
	return nil
}

// Type is shown in a flag's usage.
func (p Procs) Type() string { return "auto|N" }

func (p Procs) MarshalText() ([]byte, error)     { return []byte(p.String()), nil }
func (p *Procs) UnmarshalText(text []byte) error { return p.Set(string(text)) }

// Role is a part of a trial that can have processors of its own.
type Role string

// The roles, by their names in CPUs. A probe's relay stands in the place of the broker.
const (
	RoleBroker     Role = "broker"
	RolePublisher  Role = "pub"
	RoleSubscriber Role = "sub"
)

var roles = []Role{RoleBroker, RolePublisher, RoleSubscriber}

// CPUs says which processors the processes of a role may run on: "broker=0,pub=1,sub=0-1". A role
// that it does not name may run anywhere. Its text is canonical once it was parsed by Set; the zero
// value places nothing.
type CPUs string

func (c CPUs) String() string { return string(c) }

// Set parses ROLE=LIST, separated by commas; a list is of numbers and ranges, also separated by
// commas.
func (c *CPUs) Set(s string) error {
	sets, err := parseCPUs(s)
	if err != nil {
		return err
	}
	var words []string
	for _, r := range roles {
		if set := sets[r]; len(set) > 0 {
			words = append(words, string(r)+"="+FormatCPUs(set))
		}
	}
	*c = CPUs(strings.Join(words, ","))
	return nil
}

// Type is shown in a flag's usage.
func (c CPUs) Type() string { return "role=list,…" }

// Of lists the processors of a role in ascending order; none if the role may run anywhere.
func (c CPUs) Of(r Role) []int {
	sets, err := parseCPUs(string(c))
	if err != nil {
		return nil // Resolve has refused it
	}
	return sets[r]
}

func parseCPUs(s string) (map[Role][]int, error) {
	sets := map[Role][]int{}
	if s == "" {
		return sets, nil
	}
	var role Role
	for _, word := range strings.Split(s, ",") {
		if name, list, ok := strings.Cut(word, "="); ok {
			role, word = Role(name), list
			if !slices.Contains(roles, role) {
				return nil, fmt.Errorf("%q: want one of broker, pub, sub before the =", name)
			}
			if sets[role] != nil {
				return nil, fmt.Errorf("%s is given twice", role)
			}
		}
		if role == "" {
			return nil, fmt.Errorf("%q: want role=list, as broker=0,pub=1,sub=0-1", s)
		}
		low, high, err := parseRange(word)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", role, word, err)
		}
		for n := low; n <= high; n++ {
			sets[role] = append(sets[role], n)
		}
	}
	for r, set := range sets {
		slices.Sort(set)
		sets[r] = slices.Compact(set)
	}
	return sets, nil
}

func parseRange(s string) (low, high int, err error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	low, errLow := strconv.Atoi(first)
	high, errHigh := strconv.Atoi(last)
	if errLow != nil || errHigh != nil || low < 0 || high < low || high > maxCPU {
		return 0, 0, fmt.Errorf("want processors of 0 to %d, as 0, 2-3 or 0,2", maxCPU)
	}
	return low, high, nil
}

// FormatCPUs writes processors in ascending order, with ranges: 0,2-3.
func FormatCPUs(set []int) string {
	var words []string
	for i := 0; i < len(set); {
		end := i
		for end+1 < len(set) && set[end+1] == set[end]+1 {
			end++
		}
		word := strconv.Itoa(set[i])
		if end > i {
			word += "-" + strconv.Itoa(set[end])
		}
		words = append(words, word)
		i = end + 1
	}
	return strings.Join(words, ",")
}

// resolvePlacement refuses placements that the topology cannot hold.
func (c *Case) resolvePlacement() error {
	if c.Procs < 0 || c.Procs > maxProcs {
		return fmt.Errorf("--procs %d: want auto or 1 to %d", int(c.Procs), maxProcs)
	}
	if err := c.CPUs.Set(string(c.CPUs)); err != nil {
		return fmt.Errorf("--cpus %w", err)
	}
	if c.Topology == TopologyExternal && c.Procs != 0 {
		return errors.New("--procs with --topology external: a running broker has its own: start it with GOMAXPROCS=N")
	}
	if c.TimerSlack < 0 || time.Duration(c.TimerSlack) > maxTimerSlack {
		return fmt.Errorf("--timer-slack %v: want auto, or more than 0 and at most %v", c.TimerSlack, maxTimerSlack)
	}
	if c.CPUs == "" {
		return nil
	}
	switch c.Topology {
	case TopologyInprocess:
		return fmt.Errorf("--cpus %s with --topology inprocess: all roles share one process, which has one set of processors", c.CPUs)
	case TopologyExternal:
		if c.CPUs.Of(RoleBroker) != nil {
			return fmt.Errorf("--cpus %s with --topology external: a running broker has its own: start it with taskset", c.CPUs)
		}
	}
	oneHop := c.Probe != ProbeNone && c.Probe.Hops() == 1
	if oneHop && c.CPUs.Of(RoleBroker) != nil {
		return fmt.Errorf("--cpus %s: there is nothing between publishers and subscribers (probe %s)", c.CPUs, c.Probe)
	}
	if c.Topology != TopologySplit && !oneHop && !slices.Equal(c.CPUs.Of(RolePublisher), c.CPUs.Of(RoleSubscriber)) {
		return fmt.Errorf("--cpus %s with --topology %s: publishers and subscribers share a process there: give pub and sub the same processors, or take --topology split", c.CPUs, c.Topology)
	}
	return nil
}
