package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"felix/internal/runrecord"
	"felix/internal/verdict"
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
	Arms   []Arm  `json:"arms"` // base and head
	// ArmFactors are the factors that differ between the arms by intention, as a case's key has them.
	ArmFactors []string     `json:"arm_factors"`
	Canary     float64      `json:"canary"` // 0.2: head was slowed by 20 % by intention; 0 = not at all
	Gate       string       `json:"gate"`   // name of its file
	Spec       verdict.Spec `json:"spec"`
	Seed       uint64       `json:"seed"` // of the order in the pairs
}

// Arm is one side.
type Arm struct {
	Name   string          `json:"name"`
	From   string          `json:"from"` // what was typed, and what that was
	Set    []string        `json:"set"`  // factor=level, env.NAME=value
	Build  runrecord.Build `json:"build"`
	Binary string          `json:"binary"` // in the session's directory
}

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

// Judge replays the gate on records: every look that the pairs suffice for, in order.
func Judge(x *Experiment, spec verdict.Spec, records []*runrecord.Record) verdict.Verdict {
	cells, err := verdict.Pairs(records, x.ArmFactors...)
	if err != nil {
		return verdict.Broken(spec, err)
	}
	return verdict.Gate(spec, cells)
}
