package verdict

// Verdict is what a gate came to at one look, and why.
type Verdict struct {
	Outcome Outcome  `json:"outcome"`
	Reasons []string `json:"reasons"` // sentences: why it is that outcome
	Notes   []string `json:"notes"`   // sentences that change nothing and should be read

	Metrics   []MetricResult   `json:"metrics"` // gated, by cell and metric
	Shown     []MetricResult   `json:"shown"`   // not gated: no p-values, and no outcome
	Modes     []ModeResult     `json:"modes"`
	Sentinels []SentinelResult `json:"sentinels"`
	Dropped   []CellDrops      `json:"dropped"` // by cell, also of cells that lost none

	Look         int     `json:"look"`  // from 1; 0: before the first
	Looks        int     `json:"looks"` // in all
	Pairs        int     `json:"pairs"` // that the look is at, the discarded one not counted; 0: before the first
	Tests        int     `json:"tests"` // m, the family that Holm corrects for
	Level        float64 `json:"level"` // alpha/L
	Alpha        float64 `json:"alpha"`
	FailMargin   float64 `json:"fail_margin"`
	PassMargin   float64 `json:"pass_margin"`
	Inconclusive Policy  `json:"on_inconclusive"`
}

// ExitCode is the outcome's, but for an inconclusive one, where the policy decides.
func (v *Verdict) ExitCode() int { return v.Inconclusive.ExitCode(v.Outcome) }

// MetricResult is one metric of one cell. What too few pairs cannot tell is NaN.
type MetricResult struct {
	Cell   string `json:"cell"`
	Metric Metric `json:"metric"`
	Unit   string `json:"unit"`
	N      int    `json:"n"` // pairs with a value on both sides

	BaseMedian Number `json:"base_median"` // of the same pairs
	HeadMedian Number `json:"head_median"`
	Ratio      Number `json:"ratio"` // head/base: the Hodges-Lehmann estimate of d, taken back
	Low        Number `json:"low"`   // its interval, exact Wilcoxon, as head/base
	High       Number `json:"high"`
	Coverage   Number `json:"coverage"` // of that interval: less than 0.95 where n is too small for it
	Worse      Number `json:"worse"`    // 0.10: worse by 10 %, whichever way the metric is better; below 0: better
	SD         Number `json:"sd"`       // of d
	// MDE is the minimum detectable effect: a worsening that this look fails in 80 of 100 gates, 0.10 for 10 %.
	MDE Number `json:"mde"`

	FailMargin float64 `json:"fail_margin"` // of this metric: with its noise floor, or its waiver
	PassMargin float64 `json:"pass_margin"`
	PWorse     Number  `json:"p_worse"`     // of "worse than the fail margin", adjusted by Holm over all tests
	PWorseRaw  Number  `json:"p_worse_raw"` // and before
	PLess      Number  `json:"p_less"`      // of "less than the pass margin worse", uncorrected
	Waived     bool    `json:"waived"`      // judged against the ceiling of a waiver
	Unneeded   bool    `json:"unneeded"`    // it passes without that waiver
	Outcome    Outcome `json:"outcome"`     // pass, fail, inconclusive; continue before the last look
}

// ModeResult compares how many trials of each arm were in a slow mode: below 1/1.5 of the 90th percentile of both arms'
// rates.
type ModeResult struct {
	Cell       string  `json:"cell"`
	N          int     `json:"n"`    // trials of each arm
	Base       int     `json:"base"` // slow ones
	Head       int     `json:"head"`
	P          Number  `json:"p"` // of Fisher's exact test, one-sided: head has more
	Judged     bool    `json:"judged"`
	Regression bool    `json:"regression"` // p at most alpha/L
	Limit      Number  `json:"limit"`      // the rate below which a trial is slow: Unit
	Unit       string  `json:"unit"`
	Shares     [2]Rate `json:"shares"` // of base and head, with their exact intervals
}

// Rate is a share with its exact 95 % interval.
type Rate struct {
	Share Number `json:"share"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
}

// SentinelResult says whether what no commit changes moved between the arms.
type SentinelResult struct {
	Name    string `json:"name"`
	N       int    `json:"n"`     // pairs of all cells
	Ratio   Number `json:"ratio"` // head/base of a rate, as for metrics
	Low     Number `json:"low"`
	High    Number `json:"high"`
	SD      Number `json:"sd"`
	PSlower Number `json:"p_slower"` // of "slower by more than the fail margin" beside head
	PFaster Number `json:"p_faster"` // and of faster
	Moved   bool   `json:"moved"`    // either is at most alpha/L
}

// CellDrops says which pairs of a cell count.
type CellDrops struct {
	Cell    string   `json:"cell"`
	Pairs   int      `json:"pairs"`   // looked at
	Dropped int      `json:"dropped"` // of them
	Base    ArmDrops `json:"base"`    // trials that dropped a pair, by arm
	Head    ArmDrops `json:"head"`
}

// ArmDrops counts trials of one arm that are no measurement.
type ArmDrops struct {
	Invalid     int            `json:"invalid"`     // ran to their end, and may not be believed
	Failed      int            `json:"failed"`      // left no result: crashed, killed, timed out
	Interrupted int            `json:"interrupted"` // ended by hand
	Missing     int            `json:"missing"`     // never ran, or left no record
	Reasons     map[string]int `json:"reasons"`     // each without its figures -> trials
}
