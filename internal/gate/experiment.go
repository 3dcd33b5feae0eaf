package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// What lies beside the records of an A/B session. The sentinels' records have a file of their own, so that whoever reads
// a session's trials reads nothing else.
const (
	ExperimentFile = "ab.json"
	SentinelsFile  = "sentinels.jsonl"
)

// Schema is the version of ab.json that this code writes.
const Schema = "felix.ab/1"

// Experiment says what the arms of a session are, and what its gate was: enough to judge its records again.
type Experiment struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"` // ab | aa
	Arms   []Arm  `json:"arms"` // base and head, or three and more
	// ArmFactors are the factors that differ between the arms by intention, as a case's key has them.
	ArmFactors []string     `json:"arm_factors"`
	Canary     float64      `json:"canary"` // 0.2: head was slowed by 20 % by intention; 0 = not at all
	Bench      string       `json:"bench"`  // own | head; "" is own
	Gate       string       `json:"gate"`   // name of its file
	Spec       verdict.Spec `json:"spec"`
	Seed       uint64       `json:"seed"` // of the order in the pairs
	Plan       *Plan        `json:"plan"` // how to go on with it; null: an older matrix began it
	// Superseded are trials of pairs that a kill had torn and that were run again as a whole: they count no more.
	Superseded []string `json:"superseded"` // run ids
}

// Plan is what else decides how a session is run.
type Plan struct {
	Pairs      int    `json:"pairs"` // of each cell, the discarded one not counted
	CooldownNs int64  `json:"cooldown_ns"`
	SentinelNs int64  `json:"sentinel_ns"` // of each probe; 0 = none
	Why        string `json:"why"`         // of the gate
}

// Arm is one side.
type Arm struct {
	Name   string          `json:"name"`
	From   string          `json:"from"` // what was typed, and what that was
	Set    []string        `json:"set"`  // factor=level, env.NAME=value
	Build  runrecord.Build `json:"build"`
	Binary string          `json:"binary"` // the latencydemo, in the session's directory
	Grid   *workload.Grid  `json:"grid"`   // as the gate has it

	// Of an experiment whose bench is head's:
	Broker     string           `json:"broker,omitempty"`      // the brokerd, in the session's directory
	BenchBuild *runrecord.Build `json:"bench_build,omitempty"` // of the latencydemo; Build is then the broker's
	Without    []string         `json:"without,omitempty"`     // settings that the broker does not know and runs without
}

// Whose bench measures an arm: its own, or head's that of all.
const (
	BenchOwn  = "own"
	BenchHead = "head"
)

// The kinds.
const (
	KindAB = "ab"
	KindAA = "aa"
)

// Write puts the experiment into the session's directory.
func (x *Experiment) Write(dir string) error {
	x.Schema = Schema
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ExperimentFile), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", ExperimentFile, err)
	}
	return nil
}

// ReadExperiment reads what a session compares.
func ReadExperiment(dir string) (*Experiment, error) {
	name := filepath.Join(dir, ExperimentFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no A/B session: it has no %s", dir, ExperimentFile)
	}
	if err != nil {
		return nil, err
	}
	var x Experiment
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if x.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %q: this build reads %q", name, x.Schema, Schema)
	}
	return &x, nil
}

// Counted are the records without those that were superseded.
func (x *Experiment) Counted(records []*runrecord.Record) []*runrecord.Record {
	if len(x.Superseded) == 0 {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), func(r *runrecord.Record) bool { return slices.Contains(x.Superseded, r.RunID) })
}

// Judge replays the gate on records: every look that the pairs suffice for, in order.
func Judge(x *Experiment, spec verdict.Spec, records []*runrecord.Record) Result {
	records = x.Counted(records)
	if len(x.Arms) > 2 {
		var names []string
		for _, a := range x.Arms {
			names = append(names, a.Name)
		}
		cells, err := verdict.Rounds(records, names, x.ArmFactors...)
		if err != nil {
			v := verdict.BrokenArms(spec, names, err.Error())
			return Arms{&v}
		}
		v := verdict.GateArms(spec, names, cells)
		return Arms{&v}
	}
	cells, err := verdict.Pairs(records, x.ArmFactors...)
	if err != nil {
		return x.Told(verdict.Broken(spec, err))
	}
	return x.Told(verdict.Gate(spec, cells))
}

// Told is the verdict with what a reader has to know of how it was measured.
func (x *Experiment) Told(v verdict.Verdict) Two {
	if x.Bench == BenchHead {
		v.Notes = append(v.Notes, "one bench, head's, drove the broker of each arm")
	}
	for _, a := range x.Arms {
		for _, key := range a.Without {
			v.Notes = append(v.Notes, fmt.Sprintf("the broker of %s runs without %s, which it does not know", a.Name, key))
		}
	}
	return Two{&v}
}
