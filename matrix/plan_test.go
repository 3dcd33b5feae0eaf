package main

import (
	"slices"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/workload"
	"felix/presets"
)

func testGrid(t *testing.T, cells int) *workload.Grid {
	t.Helper()
	g := &workload.Grid{Name: "test", Trials: 3}
	for i := range cells {
		c, err := workload.Case{Payload: 64 + i}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		g.Cells = append(g.Cells, workload.Cell{Name: c.Key(), Case: c})
	}
	return g
}

func none(slot) bool { return false }

// A resumed plan is the rest of the same plan, in the same order, whatever is done already; more trials continue it.
func TestPlanIsTheSameAfterAResume(t *testing.T) {
	g, m := testGrid(t, 7), presets.Model()
	var whole, longer []slot
	for _, b := range newPlan(g, m, 5, orderRandom, 42, 0, none).blocks {
		whole = append(whole, b...)
	}
	for _, b := range newPlan(g, m, 6, orderRandom, 42, 0, none).blocks {
		longer = append(longer, b...)
	}
	if !slices.Equal(longer[:len(whole)], whole) {
		t.Error("a sixth trial changes the order of the first five")
	}
	for done := range whole {
		var rest []slot
		p := newPlan(g, m, 5, orderRandom, 42, 0, func(s slot) bool { return slices.Contains(whole[:done], s) })
		for _, b := range p.blocks {
			rest = append(rest, b...)
		}
		if !slices.Equal(rest, whole[done:]) || p.done != done {
			t.Fatalf("after %d trials the rest is %v, want %v", done, rest, whole[done:])
		}
	}
}

// Each block is a permutation of the cells, and blocks differ: else a cell would always follow the same one.
func TestOrderOfBlocks(t *testing.T) {
	const cells = 20
	seen := map[int]bool{}
	for trial := 1; trial <= 50; trial++ {
		at := order(orderRandom, 1, trial, cells)
		seen[at[0]] = true
		slices.Sort(at)
		if !slices.Equal(at, order(orderListed, 0, 0, cells)) {
			t.Fatalf("block %d is no permutation: %v", trial, at)
		}
	}
	if len(seen) < cells/2 {
		t.Errorf("only %d of %d cells are ever the first of a block", len(seen), cells)
	}
}

func TestBudgetDropsTrialsEvenly(t *testing.T) {
	g, m := testGrid(t, 4), presets.Model()
	full := newPlan(g, m, 5, orderRandom, 1, time.Second, none)
	one := full.duration() / 5
	for _, tt := range []struct {
		budget  time.Duration
		trials  int
		dropped int
	}{
		{0, 5, 0}, {5*one + time.Second, 5, 0}, {5*one - time.Second, 4, 1}, {2*one + one/2, 2, 3}, {one / 2, 1, 4}, {1, 1, 4},
	} {
		p := newPlan(g, m, 5, orderRandom, 1, time.Second, none)
		p.fit(tt.budget)
		if p.dropped != tt.dropped || p.slots() != 4*tt.trials {
			t.Errorf("budget %v: %d blocks dropped, %d slots left; want %d and %d", tt.budget, p.dropped, p.slots(), tt.dropped, 4*tt.trials)
		}
		for _, b := range p.blocks {
			if len(b) != 4 {
				t.Errorf("budget %v: a block has %d cells", tt.budget, len(b))
			}
		}
	}
}

func TestLedger(t *testing.T) {
	const id = "session"
	failure := "it broke"
	record := func(kind string) *runrecord.Record {
		s, trial := id, 1
		r := &runrecord.Record{SessionID: &s, Trial: &trial, Valid: kind == "valid" || kind == "noisy"}
		r.Host.Noise = &runrecord.Noise{Grade: "quiet"}
		switch kind {
		case "noisy":
			r.Host.Noise.Grade = "contaminated"
		case "failed":
			r.Error, r.Host.Noise = &failure, nil
		case "interrupted":
			r.Error, r.Interrupted = &failure, true
		}
		return r
	}
	for _, tt := range []struct {
		kinds []string
		done  bool
		next  int // attempt
		noisy bool
		want  totals
	}{
		{nil, false, 1, false, totals{}},
		{[]string{"valid"}, true, 2, false, totals{valid: 1}},
		{[]string{"invalid"}, true, 2, false, totals{invalid: 1}},
		{[]string{"failed"}, false, 2, false, totals{interrupted: 1}}, // killed before its next attempt
		{[]string{"failed", "failed"}, true, 3, false, totals{failed: 1}},
		{[]string{"failed", "valid"}, true, 3, false, totals{valid: 1}},
		{[]string{"interrupted"}, false, 1, false, totals{interrupted: 1}},
		{[]string{"interrupted", "failed", "interrupted", "valid"}, true, 3, false, totals{valid: 1}},
		{[]string{"noisy"}, true, 2, true, totals{valid: 1, noisy: 1}},
		{[]string{"noisy", "interrupted"}, true, 2, true, totals{valid: 1, noisy: 1}},
		{[]string{"noisy", "noisy"}, true, 3, true, totals{valid: 1, noisy: 1}},
		{[]string{"noisy", "noisy", "failed"}, true, 4, false, totals{valid: 1, noisy: 1}}, // two repeats are used up
		{[]string{"noisy", "valid"}, true, 3, false, totals{valid: 1}},
	} {
		g := testGrid(t, 1)
		l := newLedger(g, 1)
		for _, kind := range tt.kinds {
			r := record(kind)
			r.Case.Key = g.Cells[0].Case.Key()
			if err := l.add(id, r); err != nil {
				t.Fatal(err)
			}
		}
		s := slot{0, 1}
		if l.done(s) != tt.done || l.attempt(s) != tt.next || l.noisy(s, 2) != tt.noisy || l.totals() != tt.want {
			t.Errorf("%v: done %v, next attempt %d, noisy %v, %+v; want %v, %d, %v, %+v",
				tt.kinds, l.done(s), l.attempt(s), l.noisy(s, 2), l.totals(), tt.done, tt.next, tt.noisy, tt.want)
		}
	}
	l := newLedger(testGrid(t, 1), 1)
	other := record("valid")
	other.Case.Key = "payload=1"
	if err := l.add(id, other); err == nil {
		t.Error("a record of no cell is counted")
	}
	other.Case.Key = testGrid(t, 1).Cells[0].Case.Key()
	if err := l.add("another", other); err == nil || l.records != 0 {
		t.Error("a record of another session is counted")
	}
}

func TestEnvironmentDiff(t *testing.T) {
	a := map[string]string{"FELIX_A": "1", "GOGC": "50"}
	for _, tt := range []struct {
		now  map[string]string
		want string
	}{
		{map[string]string{"FELIX_A": "1", "GOGC": "50"}, ""},
		{map[string]string{"GOGC": "50"}, `FELIX_A was "1" and is not set`},
		{map[string]string{"FELIX_A": "1", "GOGC": "100"}, `GOGC is "100" and was "50"`},
		{map[string]string{"FELIX_A": "1", "GOGC": "50", "FELIX_B": "x"}, `FELIX_B is "x" and was not set`},
	} {
		if got := environmentDiff(a, tt.now); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.now, got, tt.want)
		}
	}
}
