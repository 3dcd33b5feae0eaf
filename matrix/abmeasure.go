package main

import (
	"fmt"
	"slices"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// measure runs pairs until a look decides, the last one is over, the budget is, or it is told to stop.
func (x *experiment) measure() error {
	cells := len(x.arms[0].grid.Cells)
	for pair := 0; pair <= x.pairs; pair++ {
		var missing []int
		for _, cell := range order(orderRandom, x.o.seed, pair, cells) {
			if !x.has(cell, pair) {
				missing = append(missing, cell)
			}
		}
		if cost := x.round(); pair > 0 && len(missing) > 0 && x.o.budget > 0 && time.Since(x.began)+cost > x.o.budget {
			text := fmt.Sprintf("budget %v: %s are used, and one more pair of every cell takes about %s", x.o.budget, about(time.Since(x.began)), about(cost))
			x.say(text)
			x.session.Notes = append(x.session.Notes, text)
			return nil
		}
		for _, cell := range missing {
			if err := x.pair(cell, pair); err != nil {
				return err
			}
			if x.stop.soft.Err() != nil {
				x.session.Notes = append(x.session.Notes, "interrupted")
				return nil
			}
		}
		if pair == 0 {
			if err := x.measurable(); err != nil {
				return err
			}
			continue
		}
		if x.o.aa {
			continue
		}
		if x.decide(pair); x.result != nil {
			return nil
		}
		if look := slices.Index(x.spec.Looks, pair); look >= 0 {
			x.say(fmt.Sprintf("look %d of %d, %d pairs: not decided yet", look+1, len(x.spec.Looks), pair))
		}
	}
	return nil
}

// decide looks at the pairs so far, and sets the result if they decide.
func (x *experiment) decide(pair int) {
	records := x.description.Counted(x.records)
	look := slices.Index(x.spec.Looks, pair)
	if x.many() {
		x.decideArms(records, look)
		return
	}
	all, err := verdict.Pairs(records, x.armFactors()...)
	if err != nil {
		x.result = x.description.Told(verdict.Broken(x.spec, err))
		return
	}
	if look >= 0 {
		if v := verdict.Judge(x.spec, all, look); v.Outcome != verdict.Continue {
			x.result = x.description.Told(v)
		}
	} else if v, decided := verdict.Early(x.spec, all); decided {
		x.result = x.description.Told(v)
	}
}

// decideArms is decide for several arms. Between looks only what no later pair can mend decides.
func (x *experiment) decideArms(records []*runrecord.Record, look int) {
	names := x.armNames()
	all, err := verdict.Rounds(records, names, x.armFactors()...)
	if err != nil {
		x.result = x.replay()
		return
	}
	if look >= 0 {
		if v := verdict.JudgeArms(x.spec, names, all, look); v.Outcome != verdict.Continue {
			x.result = gate.Arms{ArmsVerdict: &v}
		}
		return
	}
	for i := range names {
		for _, other := range names[:i] {
			var two []verdict.Cell
			for c := range all {
				two = append(two, all[c].Between(other, names[i]))
			}
			if v, decided := verdict.Early(x.spec, two); decided && v.Outcome == verdict.CannotJudge {
				var reasons []string
				for _, reason := range v.Reasons {
					reasons = append(reasons, fmt.Sprintf("%s against %s: %s", names[i], other, reason))
				}
				broken := verdict.BrokenArms(x.spec, names, reasons...)
				x.result = gate.Arms{ArmsVerdict: &broken}
				return
			}
		}
	}
}

// measurable refuses, after the discarded pair, a gate over a metric that no trial has: all its pairs would tell no more.
func (x *experiment) measurable() error {
	const hint = "more messages in a trial (a percentile has 10 samples beyond it), other metrics in the gate's file, or allow_missing there"
	for i := range x.arms[0].grid.Cells {
		c := &x.arms[0].grid.Cells[i]
		key := runrecord.Case{Key: c.Case.Key(), Case: c.Case}
		for _, m := range verdict.Gated(x.spec.Metrics, &key) {
			if slices.Contains(x.spec.AllowMissing, string(m)) {
				continue
			}
			valid, has := 0, false
			for _, r := range x.description.Counted(x.records) {
				if r.Kind != verdict.SentinelKind && r.Valid && verdict.CellName(r, x.armFactors()...) == verdict.CellName(&runrecord.Record{Case: key}, x.armFactors()...) {
					_, ok := m.Value(r)
					valid, has = valid+1, has || ok
				}
			}
			if valid > 0 && !has {
				return usagef(hint, "%s: no trial has a %s", c.Name, m)
			}
		}
	}
	return nil
}

// replay judges all there is, look by look.
func (x *experiment) replay() gate.Result { return gate.Judge(x.description, x.spec, x.records) }
