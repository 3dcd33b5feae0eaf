// Package cells gathers the trials of many run records into cells, one per case and build and whatever else sets
// trials apart, and says of each what may be believed: medians with intervals, never alone, and whether the figure
// may be published. It also prints the table that a matrix ends with.
//
// It keeps numbers, not records, so that 100,000 records pass in little memory; it reads no files.
package cells

import (
	"felix/internal/runrecord"
	"felix/internal/stat"
	"felix/internal/workload"
)

// The rule of publication: enough trials, all valid, none noisy, and close enough together.
const (
	MinTrials = 5
	MaxSpread = 1.5 // 90th over 10th percentile of the main figure; below, not at
	Level     = 0.95
)

// Cell is every trial of one case on one build, host and configuration. Whatever differs in any of the fields up to
// Config is another cell, so that nothing different is ever merged.
type Cell struct {
	ID        string // of these fields, the same wherever and whenever the records are read
	Key       string // workload.Case.Key
	Kind      string // case | raw | relay | echo
	Arm       string // of an A/B session; "" without
	Case      runrecord.Case
	Build     runrecord.Build
	Host      string            // fingerprint
	Env       map[string]string // variables that can change what is measured
	Lossless  runrecord.Lossless
	Perturbed []string          // instruments that were on
	Config    map[string]string // effective settings, as "broker.KEY"; shared between cells, not to be changed

	N           int            // valid trials: what the figures are made of
	Invalid     int            // ran to their end, and may not be believed
	Failed      int            // left no result: crashed, killed, timed out
	Interrupted int            // ended by hand; they say nothing about the system
	Noisy       int            // of the N: on a machine that did something else
	Superseded  int            // valid but noisy, and repeated in quiet: kept, counted here, in no figure
	Reasons     map[string]int // why trials were invalid or failed -> trials
	Trials      []Trial        // every one, in the order they came

	Throughput bool   // what Main is: a delivered rate, or a latency
	Main       Figure // throughput: delivered bytes/s, at payload 0 msg/s; latency: p50 of EndToEnd
	P50, P99   Figure // EndToEnd, in ns: queueing delay in a throughput cell
	Rate       Figure // delivered messages/s
	CPUPerGB   Figure // CPU seconds of all processes per 10^9 delivered bytes; none at payload 0

	SlowModes   stat.Share // of the N, by Main
	Publishable bool       // no Marks
	Marks       []Mark     // what stands against publishing
	Caveats     []Mark     // what has to be said with the figure

	histograms *histograms
}

// Figure is one measure over the valid trials that have it. With N = 0 every number is NaN.
type Figure struct {
	Unit      string // "B/s", "msg/s", "ns", "s/GB"
	N         int
	Median    float64
	Low, High float64 // interval of the median
	Coverage  float64 // of that interval: Level or more, less where N is too small for it (then it is the range)
	Worst     float64 // the slowest trial, or the costliest
	Spread    float64 // 90th over 10th percentile; NaN with N < 2 and for values that reach 0
}

// Trial is what is kept of one record. A figure that the record does not have is NaN.
type Trial struct {
	RunID, Session string
	Trial          int // place in the session; -1 unknown
	Outcome        Outcome
	Valid          bool   // Outcome == Valid
	Noise          string // quiet | noisy | contaminated; "" not known
	SizeGrade      workload.Grade
	Superseded     bool // noisy, and repeated in quiet: in no figure
	Slow           bool // in a slow mode, by the cell's main figure

	DeliveredBytesPerSec, DeliveredMsgsPerSec float64
	P50Ns, P99Ns                              float64 // EndToEnd
	CPUSecondsPerGB                           float64
	// DroppedShare is what was dropped of the deliveries expected, at: ingress, subscriber queue, writer, client.
	DroppedShare [4]float64
}

// Outcome is how a trial ended.
type Outcome string

// The outcomes.
const (
	Valid       Outcome = "valid"
	Invalid     Outcome = "invalid"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// Mark is a word about a cell's worth.
type Mark string

// Marks against publishing.
const (
	MarkFew        Mark = "n<5"
	MarkInvalid    Mark = "invalid"
	MarkFailed     Mark = "failed"
	MarkNoisy      Mark = "noisy"
	MarkSpread     Mark = "spread"     // 1.5 or more, or not to be told
	MarkMissing    Mark = "missing"    // a valid trial without the main figure
	MarkUndersized Mark = "undersized" // allowed to be: how fast buffers fill, not a rate
	MarkPerturbed  Mark = "perturbed"
	MarkBuild      Mark = "build" // race, coverage or no optimisation
)

// Caveats: they go with the figure.
const (
	CaveatCapped      Mark = "capped" // ended by the limit on deliveries
	CaveatDirty       Mark = "dirty"  // no commit stands for what was measured
	CaveatNoBuild     Mark = "build?" // what was measured is not known
	CaveatNoise       Mark = "noise?" // the noise of the machine is not known
	CaveatInterrupted Mark = "interrupted"
	CaveatSizes       Mark = "sizes" // trials of different sizes (--total, --duration, …) are together
)

// noisy reports whether the machine was seen doing something else.
func (t *Trial) noisy() bool { return t.Noise == "noisy" || t.Noise == "contaminated" }

// used reports whether the trial is part of the figures.
func (t *Trial) used() bool { return t.Valid && !t.Superseded }
