package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"felix/internal/build"
	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// With --bench head, one latencydemo, head's, measures both arms, each of which has a broker of its own: then a commit
// can be judged that changes the measuring packages themselves. What the bench would have set on a broker that it starts
// itself (the policy, the profile, windows, whatever a user set) is given to both arms' brokers; what nobody set is each
// broker's own default, which belongs to what is compared.

// ownBroker is the broker of an arm that another bench drives.
type ownBroker struct {
	binary  string // in the session's directory
	build   runrecord.Build
	bench   runrecord.Build // of the latencydemo that measures it
	cells   []brokerCell    // by cell, once they are known
	without []string        // keys that it does not know, as --allow-unknown lets it
}

// forArm is the same broker for another arm.
func (b *ownBroker) forArm() *ownBroker { return &ownBroker{binary: b.binary, build: b.build} }

// brokerCell is what a broker is told for the trials of a cell.
type brokerCell struct {
	settings []setting
	streams  []string
	window   string // what its connections grant, if it is not the default: the bench cannot see it
}

// setting is one key for brokerd's YAML.
type setting struct{ key, value string }

// The scope that a trial measures; further streams are latency-1, latency-2 …
const (
	benchTenant    = "t1"
	benchNamespace = "default"
	benchStream    = "latency"
)

// driven returns the grid as head's bench runs it: against a running broker, which is told by its own settings what the
// case's would have been.
func driven(own *workload.Grid) (*workload.Grid, error) {
	g := *own
	g.Cells = slices.Clone(own.Cells)
	names := map[string]string{}
	for i := range g.Cells {
		c := &g.Cells[i]
		if c.Case.Probe != workload.ProbeNone {
			return nil, usagef("leave it out with --only, or judge with --bench own", "cell %q: a probe has no broker that --bench head could drive", c.Name)
		}
		if c.Case.Topology != workload.TopologyProcesses {
			return nil, usagef("leave the topology out of the grid, or judge with --bench own", "cell %q: --bench head drives a broker in a process of its own, and topology is %s", c.Name, c.Case.Topology)
		}
		c.Case.Topology, c.Case.BrokerSet = workload.TopologyExternal, nil
		key := c.Case.Key()
		if other, twice := names[key]; twice {
			return nil, usagef("judge with --bench own", "cells %q and %q differ in settings of the broker alone: to a bench that drives a running broker they are the same case", other, c.Name)
		}
		names[key] = c.Name
	}
	g.Digest = workload.Digest(g.Cells)
	return &g, nil
}

// askBroker asks a brokerd who it is, as askIdentity does a latencydemo.
func askBroker(ctx context.Context, binary, sha256 string, say func(string)) runrecord.Build {
	b := runrecord.Build{Source: string(build.SourceNone), Optimized: true}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--version")
	cmd.WaitDelay = leftPipes
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &b)
	}
	if err != nil {
		say("the broker does not say what it was built from")
		b = runrecord.Build{Source: string(build.SourceNone), Optimized: true}
	}
	b.BinarySHA256 = &sha256
	return b
}

// measured is the identity of a broker that a bench drove: the bench is part of it only as the digest of what measures,
// and where it was built in a way that no figure survives.
func measured(broker, bench runrecord.Build) runrecord.Build {
	broker.BenchDigest = bench.BenchDigest
	broker.Race = broker.Race || bench.Race
	broker.Coverage = broker.Coverage || bench.Coverage
	broker.Optimized = broker.Optimized && bench.Optimized
	return broker
}

// decidedByTrial are the keys of a broker's settings that its command line gives, or credentials that --dev makes.
var decidedByTrial = []string{"quic_bind", "metrics_bind", "streams", "caches", "tls_cert", "tls_key", "auth_jwks"}

// readyBroker finds out what an arm's broker is told for each cell, and that it takes it: a broker that does not know a
// key is found before the first trial. It also returns what is known of each cell.
func (x *experiment) readyBroker(ctx context.Context, a *arm) ([]knownCell, error) {
	known, err := preflight(ctx, a.binary, a.own)
	if err != nil {
		return nil, err
	}
	tried := map[string]bool{}
	for i := range a.own.Cells {
		c := &a.own.Cells[i]
		out, err := dryRunOutput(ctx, a, c)
		if err != nil {
			return nil, err
		}
		known[i] = parseDryRun(out) // with the arm's environment
		cell := brokerCellOf(known[i], c)
		for text := string(cell.yaml(a.broker.without)); !tried[text]; text = string(cell.yaml(a.broker.without)) {
			key, err := x.tryBroker(ctx, a, cell)
			if err != nil {
				return nil, err
			}
			if key == "" {
				tried[text] = true
				continue
			}
			a.broker.without = append(a.broker.without, key)
			note := fmt.Sprintf("%s: its brokerd does not know %s and runs without it, as --allow-unknown says", a.name, key)
			x.say(note)
			x.session.Notes = append(x.session.Notes, note)
		}
		a.broker.cells = append(a.broker.cells, cell)
	}
	return known, nil
}

// brokerCellOf takes from a dry run what the bench would have set on a broker of its own.
func brokerCellOf(k knownCell, c *workload.Cell) brokerCell {
	var out brokerCell
	set := map[string]string{}
	for _, section := range []map[string]runrecord.Setting{k.config.Broker, k.config.Transport} {
		for key, s := range section {
			if text, ok := s.Value.(string); ok && s.From != "default" && !slices.Contains(decidedByTrial, key) {
				set[key] = text
			}
		}
	}
	out.window = set["conn_recv_window"]
	if n := c.Sizes.SendWindow; n > 0 {
		out.window = "" // it is among the cell's flags
		set["conn_recv_window"], set["stream_recv_window"] = strconv.FormatInt(n, 10), strconv.FormatInt(max(1, n/4), 10)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		out.settings = append(out.settings, setting{key, set[key]})
	}
	for i := range c.Case.Streams {
		name := benchTenant + "/" + benchNamespace + "/" + benchStream
		if i > 0 {
			name += "-" + strconv.Itoa(i)
		}
		out.streams = append(out.streams, name)
	}
	return out
}

// yaml is the broker's settings file.
func (c *brokerCell) yaml(without []string) []byte {
	var b bytes.Buffer
	b.WriteString("# What the bench sets on a broker of its own.\n")
	for _, s := range c.settings {
		if !slices.Contains(without, s.key) {
			fmt.Fprintf(&b, "%s: %s\n", s.key, s.value)
		}
	}
	return b.Bytes()
}

// unknownSetting is how a brokerd refuses a key that it does not know.
var unknownSetting = regexp.MustCompile(`unknown setting "([^"]+)"`)

// tryBroker starts and stops an arm's broker with the settings of a cell. It returns a key that the broker does not know
// and need not.
func (x *experiment) tryBroker(ctx context.Context, a *arm, cell brokerCell) (unknown string, err error) {
	dir := x.brokerDir()
	defer func() { _ = os.RemoveAll(dir) }() // a leftover is cleared before the first trial
	b, err := startBroker(ctx, a.broker.binary, dir, cell.yaml(a.broker.without), cell.streams, a.environ())
	if err == nil {
		if wrong := b.stop(x.stop.hard.Done(), dir); wrong != "" {
			return "", usagef("mend it, or judge with --bench own", "%s", wrong)
		}
		return "", nil
	}
	var failed *brokerError
	if !errors.As(err, &failed) {
		return "", err
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	m := unknownSetting.FindSubmatch(failed.said)
	if m == nil {
		return "", usagef("a commit whose brokerd starts, or --bench own", "the brokerd does not start as the bench sets it: %w", failed)
	}
	key := string(m[1])
	if slices.Contains(x.o.allowUnknown, key) && !slices.Contains(a.broker.without, key) {
		return key, nil
	}
	return "", usagef(fmt.Sprintf("a later commit; or --allow-unknown %s, which lets it run without; or --bench own", key),
		"its brokerd does not know the setting %s, which head's bench gives to both arms", key)
}

func (x *experiment) brokerDir() string {
	return filepath.Join(x.abs(), runrecord.RunsDir, brokerInFlight)
}

// dryRunOutput asks the bench what it would run, in the arm's environment.
func dryRunOutput(ctx context.Context, a *arm, c *workload.Cell) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, a.binary, append(trialFlags(c, 1), "--dry-run")...)
	cmd.Env, cmd.Stdout, cmd.Stderr = a.environ(), &stdout, &stderr
	cmd.WaitDelay = leftPipes
	if err := cmd.Run(); err != nil {
		return "", refused(c.Name, err, stderr.String())
	}
	return stdout.String(), nil
}

// drive starts the arm's broker for one trial and returns the flags that point the bench at it.
func (x *experiment) drive(a *arm, cell int) (*brokerd, []string, error) {
	dir := x.brokerDir()
	c := &a.broker.cells[cell]
	b, err := startBroker(x.stop.soft, a.broker.binary, dir, c.yaml(a.broker.without), c.streams, a.environ())
	if err != nil {
		return nil, nil, err
	}
	flags := []string{
		"--broker", b.addr, "--tenant", benchTenant, "--namespace", benchNamespace, "--stream", benchStream,
		"--token", filepath.Join(dir, "token"), "--tls-ca", filepath.Join(dir, "cert.pem"), "--broker-admin", b.admin,
	}
	if c.window != "" {
		flags = append(flags, "--send-window", c.window)
	}
	return b, flags, nil
}

// benchOf is the session's word for whose bench it was; null if each arm had its own.
func (x *experiment) benchOf() *string {
	if x.o.bench != gate.BenchHead {
		return nil
	}
	bench := gate.BenchHead
	return &bench
}
