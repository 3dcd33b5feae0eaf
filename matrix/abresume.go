package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"felix/internal/gate"
	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// resumeAB takes an experiment from what its session says of itself. Nothing is written, and no record is read yet.
func resumeAB(o *abOptions, now time.Time) (*experiment, error) {
	const hint = "matrix sessions list shows the sessions; without --resume a new one begins"
	s, err := runrecord.ReadSession(o.resume)
	if err != nil {
		return nil, usagef(hint, "--resume: %w", err)
	}
	d, err := gate.ReadExperiment(o.resume)
	switch {
	case err != nil:
		return nil, usagef(hint, "--resume: %w", err)
	case d.Plan == nil || len(d.Arms) < 2:
		return nil, usagef("start a new one", "--resume %s: an older matrix began it and did not write down how to go on", o.resume)
	case o.aa != (d.Kind == gate.KindAA):
		return nil, usagef("matrix "+d.Kind+" --resume "+o.resume, "--resume %s: it is a session of matrix %s", o.resume, d.Kind)
	}
	o.sessionDir, o.seed, o.bench, o.slowBy = s.Dir, d.Seed, d.Bench, d.Canary
	o.cooldown, o.sentinel = time.Duration(d.Plan.CooldownNs), time.Duration(d.Plan.SentinelNs)
	x := &experiment{
		o: o, gate: &gate.Gate{Name: d.Gate, Why: d.Plan.Why, Spec: d.Spec}, spec: d.Spec, dir: s.Dir, pairs: d.Plan.Pairs,
		session: s, description: d, resumed: true, model: newModel(),
	}
	if len(x.spec.Waivers) > 0 {
		x.spec.Now = now
	}
	for i := range d.Arms {
		a, err := resumeArm(s.Dir, &d.Arms[i], d.Bench)
		if err != nil {
			return nil, err
		}
		x.arms = append(x.arms, a)
		if len(d.Arms) > 2 {
			o.arms = append(o.arms, a.name)
		}
	}
	var cases []runrecord.Case
	for _, c := range x.arms[0].grid.Cells {
		cases = append(cases, runrecord.Case{Key: c.Case.Key(), Case: c.Case})
	}
	if x.tests, err = x.spec.Tests(cases); err != nil {
		return nil, usagef("start a new one", "--resume: %w", err)
	}
	if n := len(x.arms); x.many() {
		x.tests *= n * (n - 1)
	}
	x.draw()
	if o.dryRun {
		return x, x.readBack(func(error) {})
	}
	return x, nil
}

// resumeArm makes an arm of its description.
func resumeArm(dir string, d *gate.Arm, bench string) (*arm, error) {
	if d.Grid == nil || len(d.Grid.Cells) == 0 {
		return nil, usagef("start a new one", "--resume %s: it does not say what %s runs", dir, d.Name)
	}
	a := &arm{name: d.Name, origin: origin{said: d.From}, own: d.Grid, grid: d.Grid, build: d.Build}
	for _, kv := range d.Set {
		if env, ok := strings.CutPrefix(kv, "env."); ok {
			a.env = append(a.env, env)
		} else {
			a.set = append(a.set, kv)
		}
	}
	var err error
	if a.binary, err = filepath.Abs(filepath.Join(dir, filepath.FromSlash(d.Binary))); err != nil {
		return nil, err
	}
	if bench != gate.BenchHead {
		return a, unchanged(a.binary, d.Build.BinarySHA256)
	}
	if d.BenchBuild == nil || d.Broker == "" {
		return nil, usagef("start a new one", "--resume %s: it does not say which broker %s has", dir, d.Name)
	}
	if a.grid, err = driven(a.own); err != nil {
		return nil, err
	}
	file, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(d.Broker)))
	if err != nil {
		return nil, err
	}
	a.broker = &ownBroker{binary: file, build: d.Build, bench: *d.BenchBuild, without: d.Without}
	return a, errors.Join(unchanged(a.binary, d.BenchBuild.BinarySHA256), unchanged(file, d.Build.BinarySHA256))
}

// unchanged refuses a binary that is not the one the session began with.
func unchanged(file string, sha256 *string) error {
	sum, err := fileSHA256(file)
	if err != nil {
		return usagef("start a new session", "the session's binary: %w", err)
	}
	if sha256 == nil || sum != *sha256 {
		return usagef("start a new session", "%s was changed since the session began", file)
	}
	return nil
}

// takeUp goes on with a session: it reads what is recorded, and refuses where the figures would not belong together.
func (x *experiment) takeUp() error {
	if fp := host.Facts().Fingerprint; fp != x.session.Host.Fingerprint {
		return usagef("start a new session here", "session %s was begun on another machine (%s, this is %s)", x.dir, x.session.Host.Fingerprint, fp)
	}
	if err := x.readBack(func(err error) { x.say(err.Error()) }); err != nil {
		return err
	}
	for _, a := range x.arms {
		for _, r := range x.records {
			if r.Kind == verdict.SentinelKind || *r.Arm != a.name {
				continue
			}
			if diff := environmentDiff(r.Env, measuredEnv(a.environ())); diff != "" && r.Error == nil {
				return usagef("set the environment as it was, or start a new session", "the environment differs from that of the session's records: %s", diff)
			}
		}
		if a.broker != nil {
			a.broker.cells = nil
		}
		if err := x.ready(x.stop.soft, a); err != nil {
			return err
		}
	}
	for cell := range x.arms[0].grid.Cells {
		if base := x.trialOf(x.arms[0], cell, 0); base != nil && x.has(cell, 0) {
			if err := x.slowHead(cell, base); err != nil {
				return err
			}
		}
	}
	x.writePlan(x.stderr)
	if x.supersede() {
		if err := x.description.Write(x.dir); err != nil {
			return err
		}
	}
	x.session.EndedAt = nil
	x.session.Notes = append(x.session.Notes, "resumed at "+time.Now().UTC().Format(time.RFC3339))
	return runrecord.WriteSession(x.dir, x.session)
}

// readBack reads the records of the session, and those of its sentinels.
func (x *experiment) readBack(bad func(error)) error {
	x.records, x.order = nil, 0
	for _, path := range []string{x.session.RecordsPath(), filepath.Join(x.dir, gate.SentinelsFile)} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the session: %w", err)
		}
		err = runrecord.Read(f, path, func(r *runrecord.Record) error {
			if r.SessionID == nil || *r.SessionID != x.session.SessionID || r.Arm == nil || r.Pair == nil || !slices.Contains(x.armNames(), *r.Arm) {
				return usagef("take it out, or start a new session", "%s: record %s is of another session", path, r.RunID)
			}
			x.records = append(x.records, r)
			if r.Order != nil {
				x.order = max(x.order, *r.Order)
			}
			return nil
		}, func(e *runrecord.SyntaxError) { bad(e) })
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// trialOf is the trial of an arm that counts, nil if there is none yet.
func (x *experiment) trialOf(a *arm, cell, pair int) *runrecord.Record {
	key := a.grid.Cells[cell].Case.Key()
	for _, r := range x.description.Counted(x.records) {
		if r.Kind != verdict.SentinelKind && !r.Interrupted && *r.Pair == pair && *r.Arm == a.name && r.Case.Key == key {
			return r
		}
	}
	return nil
}

// has reports whether every arm has its trial of a pair.
func (x *experiment) has(cell, pair int) bool {
	if !x.resumed {
		return false
	}
	return !slices.ContainsFunc(x.arms, func(a *arm) bool { return x.trialOf(a, cell, pair) == nil })
}

// complete counts the pairs that are recorded.
func (x *experiment) complete() int {
	n := 0
	for cell := range x.arms[0].grid.Cells {
		for pair := range x.pairs + 1 {
			if x.has(cell, pair) {
				n++
			}
		}
	}
	return n
}

// supersede takes torn pairs out: trials of a pair run back to back, so one that was left with half of them is run
// again as a whole, and the trials that it had stay in the records and count no more.
func (x *experiment) supersede() (changed bool) {
	for cell := range x.arms[0].grid.Cells {
		for pair := range x.pairs + 1 {
			if x.has(cell, pair) {
				continue
			}
			for _, a := range x.arms {
				if r := x.trialOf(a, cell, pair); r != nil {
					x.description.Superseded = append(x.description.Superseded, r.RunID)
					x.say(fmt.Sprintf("pair %d of %s was not finished and is run again: trial %s of %s counts no more", pair, a.grid.Cells[cell].Name, r.RunID, a.name))
					changed = true
				}
			}
		}
	}
	return changed
}
