package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"felix/internal/runrecord"
	"felix/internal/trial"
	"felix/internal/workload"
)

// againstFlags are no part of a trial: they say what the case is held against.
var againstFlags = []string{"against", "pairs", "transport"}

// probeFlags mean the same to a case and to its probe, whatever the probe is; the rest of a probe's flags are made of
// the resolved case.
var probeFlags = []string{"total", "duration", "warmup", "send-window", "max-deliveries", "allow-undersized", "idle-timeout", "seed", "conn-stats", "config"}

// readAgainst checks what concerns --against. The transport is the probe's then.
func (o *options) readAgainst() error {
	switch {
	case o.against == workload.ProbeNone && o.flags.Changed("against"):
		return usageError("it is one of raw, relay, echo, echo-relay", "--against none: there is nothing to hold the case against")
	case o.against == workload.ProbeNone && o.flags.Changed("pairs"):
		return usageError("add --against relay, or --repeat N for the case alone", "--pairs %d: pairs of what?", o.pairs)
	case o.against == workload.ProbeNone:
		return nil
	case o.c.Probe != workload.ProbeNone:
		return usageError("leave the word probe out: --against runs it", "--against %s holds a case against a probe, and probe %s is none", o.against, o.c.Probe)
	case o.pairs < 1:
		return usageError("10 pairs make a 95 % interval worth reading", "--against %s needs --pairs N, at least 1", o.against)
	case o.repeat > 1:
		return usageError("--pairs says how often", "--repeat %d with --against %s", o.repeat, o.against)
	}
	o.againstTransport, o.c.Transport = o.c.Transport, workload.TransportQUIC
	return nil
}

// opponent is the probe that a resolved case is held against: the same payload, batch, fanout, publishers and topology.
func opponent(c workload.Case, probe workload.Probe, transport workload.Transport) (workload.Case, error) {
	hint := "relay is held against throughput, echo-relay against latency"
	switch {
	case probe.Echo() && c.LatencyKind() != workload.KindLatency:
		return c, usageError(hint, "--against %s: the case has no latency of a message: it is a %s of %d a batch", probe, c.Load, c.Batch)
	case !probe.Echo() && !c.Throughput() && c.Load != workload.LoadOpen:
		return c, usageError(hint, "--against %s: the pace of the case is that of its acks, and nobody acks here", probe)
	case probe.Hops() == 1 && transport != workload.TransportQUIC:
		return c, usageError("--against relay compares payload", "--against %s --transport %s: one hop is compared by bytes on the wire, which nobody counts over TCP", probe, transport)
	}
	p := c
	p.Probe, p.Transport = probe, transport
	p.Acks, p.Encoding, p.Policy = workload.AcksAuto, workload.EncodingBinary, workload.PolicyLossless
	p.Sharding, p.PubStreamsPerConn = workload.ShardingHashStream, 1
	p.BrokerSet, p.ClientSet = nil, nil
	if p.Load != workload.LoadOpen || probe.Echo() {
		p.Load, p.Rate, p.Arrival = workload.LoadAuto, 0, workload.ArrivalConstant
	}
	if !probe.Echo() {
		p.Inflight = 1
	}
	if probe.Hops() == 1 {
		p.SubConns = 0
	}
	if transport != workload.TransportQUIC { // what they set is QUIC's, and a connection is a stream
		p.TransportSet, p.Profile, p.PubConns, p.SubConns = nil, "", 0, 0
	}
	p, err := p.Resolve()
	if err != nil {
		return p, usageError(hint, "--against %s: %w", probe, err)
	}
	return p, nil
}

// contest is --against: pairs of a trial of the case and one of its probe, each in a fresh runner.
type contest struct {
	o      *options
	kase   workload.Case
	probe  workload.Case
	stdout io.Writer
	stderr io.Writer
	text   io.Writer // stdout, or stderr if the record is there

	order int // of the trial that ran last
	pairs []pairOf
	held  *trial.Outcome // the case's of the newest pair: it gets the summary if none follows
}

// pairOf is one pair; a trial that failed has no record.
type pairOf struct{ kase, probe *runrecord.Record }

func (p pairOf) caseOK() bool  { return p.kase != nil && p.kase.Valid }
func (p pairOf) probeOK() bool { return p.probe != nil && p.probe.Valid }
func (p pairOf) valid() bool   { return p.caseOK() && p.probeOK() }

func newContest(o *options, c workload.Case, stdout, stderr io.Writer) (*contest, error) {
	p, err := opponent(c, o.against, o.againstTransport)
	if err != nil {
		return nil, err
	}
	x := &contest{o: o, kase: c, probe: p, stdout: stdout, stderr: stderr, text: stdout}
	if o.jsonToStdout() {
		x.text = &prefixWriter{w: stderr}
	}
	return x, nil
}

// caseFirst says for every pair whether its case runs first. Pairs 1 and 2, 3 and 4 … are blocks in which each is first
// once, by coin which; pair 0 is thrown away.
func caseFirst(pairs int, seed uint64) []bool {
	coin := rand.New(rand.NewPCG(seed, 0x70726f6265)) // "probe": another order than the payloads'
	first := []bool{coin.IntN(2) == 0}
	for len(first) <= pairs {
		heads := coin.IntN(2) == 0
		first = append(first, heads, !heads)
	}
	return first[:pairs+1]
}

// run runs the pairs and says what they came to. A pair with an invalid trial is dropped and counted.
func (x *contest) run(ctx context.Context) int {
	fmt.Fprintf(x.text, "%-11s %s\n%-11s %s\n", "case", x.kase.Key(), "against", x.probe.Key())
	fmt.Fprintf(x.text, "%-11s %d, each trial in a fresh runner, in balanced random order; pair 0 is thrown away\n", "pairs", x.o.pairs)
	code := exitValid
	for i, first := range caseFirst(x.o.pairs, x.o.sizes.Seed) {
		kase, probe, err := x.pair(ctx, i, first)
		if isUsage(err) && i == 0 {
			if !hasToldWhy(err) {
				fail(x.stderr, err)
			}
			return exitUsage
		}
		if i > 0 {
			if err := x.keep(kase, probe, ctx.Err() == nil); err != nil {
				return failWith(x.stderr, exitInvalid, err)
			}
		}
		if ctx.Err() != nil || isUsage(err) {
			break // nor will the next one run
		}
	}
	summary := summarize(x.kase, x.probe, x.pairs)
	if n := len(x.pairs); n < x.o.pairs {
		fmt.Fprintf(x.text, "%-11s after %d of %d pairs\n", "ended early", n, x.o.pairs)
	}
	printPaired(x.text, x.kase, x.probe, summary)
	if summary.Pairs < x.o.pairs {
		code = exitInvalid
	}
	if err := x.last(summary); err != nil {
		return failWith(x.stderr, exitInvalid, err)
	}
	return code
}

// pair runs both trials. The error is that of one that could not be run, the other is then not tried.
func (x *contest) pair(ctx context.Context, i int, first bool) (kase, probe *trial.Outcome, err error) {
	trials := []struct {
		label string
		args  []string
		out   **trial.Outcome
	}{
		{"case", without(x.o.flags, x.o.args, slices.Concat(sequenceFlags, againstFlags)...), &kase},
		{x.probe.Probe.String(), append(x.probe.Flags(), only(x.o.flags, x.o.args, probeFlags...)...), &probe},
	}
	if !first {
		slices.Reverse(trials)
	}
	for _, t := range trials {
		if ctx.Err() != nil {
			return kase, probe, ctx.Err()
		}
		r := runner{args: t.args, extras: len(x.o.extraDirs("")) > 0, stderr: x.stderr}
		out, err := r.run(ctx)
		label := fmt.Sprintf("pair %d %s", i, t.label)
		if err != nil {
			fmt.Fprintf(x.text, "%-17s FAILED: %v\n", label, err)
			if isUsage(err) {
				return kase, probe, err
			}
			continue
		}
		*t.out = out
		x.order++
		order, pair := x.order, i
		out.Record.Order, out.Record.Pair, out.Record.Trial = &order, &pair, &pair
		out.Record.Command = x.o.args // the whole contest; rerun is this trial
		printTrialAs(x.text, fmt.Sprintf("%-17s", label), out.Record)
	}
	return kase, probe, nil
}

// keep records a pair. The case's record waits for the next one: the last has the summary. A pair that was interrupted
// is recorded, and no part of the contest.
func (x *contest) keep(kase, probe *trial.Outcome, whole bool) error {
	var p pairOf
	if kase != nil {
		p.kase = kase.Record
	}
	if probe != nil {
		p.probe = probe.Record
	}
	if whole {
		x.pairs = append(x.pairs, p)
	}
	if kase != nil {
		p.kase.Probe = &runrecord.Probe{Against: x.probe.Probe.String(), Transport: x.probe.Transport.String(), Hops: x.probe.Probe.Hops(), Ratio: headline(x.kase, x.probe).ratio(p)}
		if err := x.flush(); err != nil {
			return err
		}
		x.held = kase
	}
	if probe != nil {
		return x.write(probe, false)
	}
	return nil
}

func (x *contest) flush() error {
	held := x.held
	if held == nil {
		return nil
	}
	x.held = nil
	return x.write(held, false)
}

// last writes the newest case with the summary.
func (x *contest) last(s *runrecord.Paired) error {
	if x.held == nil {
		return nil
	}
	x.held.Record.Probe.Paired = s
	return x.write(x.held, true)
}

// write puts a record into the session, and beside it; where --json says goes the last one alone.
func (x *contest) write(out *trial.Outcome, last bool) error {
	o := *x.o
	if !last {
		o.jsonOut = ""
	}
	return o.write(out, x.stdout)
}
