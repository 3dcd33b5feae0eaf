// Package verdict decides whether a change made something worse: paired run records in, a verdict and its reasons out.
// It reads no files and no clock, starts nothing and prints nothing; what runs the pairs, and what shows the verdict,
// stand above it.
//
// The unit is the pair: one trial of each arm, back to back. Of a metric it keeps d = log(head/base), signed so that
// positive is worse, and asks at each look whether the centre of the d is beyond the fail margin, for certain, or within
// the pass margin, for certain.
package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Outcome is what a gate comes to. The zero value is CannotJudge, so that nothing measured is never a pass.
type Outcome uint8

// The outcomes.
const (
	CannotJudge  Outcome = iota // broken, missing or empty input, mismatch, infeasible
	Pass                        // no gated metric is worse by the pass margin
	Fail                        // a regression
	Inconclusive                // the last look, and neither is certain
	Continue                    // not certain yet, and more looks to come
)

var outcomes = []string{"cannot_judge", "pass", "fail", "inconclusive", "continue"}

// ExitCode is 0 for a pass, 1 for a regression, 2 where nothing can be judged, and 3 where nothing is certain.
func (o Outcome) ExitCode() int {
	switch o {
	case Pass:
		return 0
	case Fail:
		return 1
	case Inconclusive, Continue:
		return 3
	}
	return 2
}

func (o Outcome) String() string { return textOf(outcomes, int(o)) }

// MarshalText is String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// ParseOutcome reads an outcome.
func ParseOutcome(s string) (Outcome, error) {
	i, err := parse("outcome", outcomes, s)
	return Outcome(i), err
}

// UnmarshalText is ParseOutcome.
func (o *Outcome) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOutcome(string(text))
	return err
}

// Policy says what an inconclusive gate does to whoever waits for it.
type Policy uint8

// The policies.
const (
	Neutral          Policy = iota // exit 3: said, and left to the caller
	FailInconclusive               // exit 1
	PassInconclusive               // exit 0
)

var policies = []string{"neutral", "fail", "pass"}

func (p Policy) String() string { return textOf(policies, int(p)) }

// MarshalText is String.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParsePolicy reads a policy.
func ParsePolicy(s string) (Policy, error) {
	i, err := parse("on_inconclusive", policies, s)
	return Policy(i), err
}

// UnmarshalText is ParsePolicy.
func (p *Policy) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePolicy(string(text))
	return err
}

// ExitCode is the outcome's, but for an inconclusive one, where the policy decides.
func (p Policy) ExitCode(o Outcome) int {
	switch {
	case o == Inconclusive && p == FailInconclusive:
		return Fail.ExitCode()
	case o == Inconclusive && p == PassInconclusive:
		return Pass.ExitCode()
	}
	return o.ExitCode()
}

// Number is a figure that may not be known: NaN and the infinities are null in JSON.
type Number float64

// MarshalJSON writes null for what is not a finite number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = unknown
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

var unknown = Number(math.NaN())

func textOf(texts []string, i int) string {
	if i < len(texts) {
		return texts[i]
	}
	return fmt.Sprintf("%d?", i)
}

func parse(what string, texts []string, s string) (int, error) {
	for i, text := range texts {
		if s == text {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s %q: want %s", what, s, oneOf(texts))
}

// oneOf lists choices: "a, b or c".
func oneOf(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " or " + texts[len(texts)-1]
}
