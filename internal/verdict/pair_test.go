package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// session is the records of pairs of two arms over some cases, the discarded pair included, with their sentinels.
func session(pairs int, arms []string, cases ...runrecord.Case) []*runrecord.Record {
	var out []*runrecord.Record
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for pair := range pairs + 1 {
		for _, c := range cases {
			for _, arm := range arms {
				r := trial(c, arm, 0.001*float64(pair))
				s := &runrecord.Record{Kind: verdict.SentinelKind, Case: c, Arm: &arm}
				s.Rates.DeliveredMsgsPerSec, s.Rates.DeliveredBytesPerSec = ptr(1000.0), ptr(1e9)
				for _, r := range []*runrecord.Record{r, s} {
					at = at.Add(time.Second)
					r.StartedAt, r.Pair, r.Order, r.RunID = at, ptr(pair), ptr(len(out)), fmt.Sprint("run-", len(out))
					out = append(out, r)
				}
			}
		}
	}
	return out
}

var twoArms = []string{verdict.Base, verdict.Head}

func TestPairs(t *testing.T) {
	records := session(12, twoArms, throughputCase, latencyCase)
	cells, err := verdict.Pairs(records)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 || cells[0].Name != throughputCase.Key || cells[1].Name != latencyCase.Key || !cells[0].Throughput || cells[1].Throughput {
		t.Fatalf("cells %+v", cells)
	}
	for _, c := range cells {
		if len(c.Pairs) != 13 {
			t.Fatalf("%s: %d pairs, want 13", c.Name, len(c.Pairs))
		}
		for i, p := range c.Pairs {
			if p.Index != i || p.Discarded != (i == 0) || p.Order != "base head" || p.Base == nil || *p.Base.Arm != verdict.Base || *p.Head.Arm != verdict.Head ||
				len(p.Sentinels) != 2 || p.Sentinels[0] != (verdict.Sentinel{Name: "cpu", Base: 1000, Head: 1000}) {
				t.Fatalf("%s: pair %d: %+v", c.Name, i, p)
			}
		}
	}
	want := verdict.Gate(verdict.Spec{}, cells)
	outcome(t, want, verdict.Pass)

	// The order of the records is irrelevant, and so is reading some of them twice.
	rng := rand.New(rand.NewPCG(1, 1))
	again := append(slices.Clone(records), records[:20]...)
	rng.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	cells, err = verdict.Pairs(again)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(cells, func(a, b verdict.Cell) int { return strings.Compare(b.Name, a.Name) })
	if got := verdict.Gate(verdict.Spec{}, cells); jsonOf(t, &got) != jsonOf(t, &want) {
		t.Errorf("shuffled %s, want %s", jsonOf(t, &got), jsonOf(t, &want))
	}
}

func TestPairsInterruptedAndRepeated(t *testing.T) {
	records := session(2, twoArms, throughputCase)
	old := *records[4]
	old.RunID, old.Interrupted, old.Valid = "interrupted", true, false
	for _, list := range [][]*runrecord.Record{append([]*runrecord.Record{&old}, records...), append(slices.Clone(records), &old)} {
		cells, err := verdict.Pairs(list)
		if err != nil || cells[0].Pairs[1].Base != records[4] {
			t.Errorf("pair 1: %v, %v, want the trial that was not interrupted", cells, err)
		}
	}
}

func TestPairsRefuses(t *testing.T) {
	change := func(f func(r *runrecord.Record)) []*runrecord.Record {
		records := session(1, twoArms, throughputCase)
		f(records[2])
		return records
	}
	for _, tt := range []struct {
		name    string
		records []*runrecord.Record
		want    string
	}{
		{"none", nil, "nothing was measured"},
		{"no arm", change(func(r *runrecord.Record) { r.Arm = nil }), "not of an A/B session"},
		{"no pair", change(func(r *runrecord.Record) { r.Pair = nil }), "not of an A/B session"},
		{"negative pair", change(func(r *runrecord.Record) { r.Pair = ptr(-1) }), "not of an A/B session"},
		{"another arm", change(func(r *runrecord.Record) { r.Arm = ptr("feature") }), `arm "feature": want base or head`},
		{"two sessions", change(func(r *runrecord.Record) { r.Arm = ptr(verdict.Base) }), "two trials of base"},
	} {
		if _, err := verdict.Pairs(tt.records); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestPairsOfSettings: arms that set factors themselves are one cell, and only then.
func TestPairsOfSettings(t *testing.T) {
	other := resolved(workload.Case{Payload: 4096, Batch: 64, BrokerSet: map[string]string{"event_batch_max_events": "1"}})
	var records []*runrecord.Record
	for i, r := range session(12, twoArms, throughputCase) {
		if *r.Arm == verdict.Head {
			r.Case = other
		}
		r.RunID = fmt.Sprint(i)
		records = append(records, r)
	}
	cells, err := verdict.Pairs(records, "broker.event_batch_max_events")
	if err != nil || len(cells) != 1 || cells[0].Name != throughputCase.Key {
		t.Fatalf("%d cells, %v, want one", len(cells), err)
	}
	outcome(t, verdict.Gate(verdict.Spec{}, cells), verdict.Pass)

	cells, err = verdict.Pairs(records)
	if err != nil || len(cells) != 2 {
		t.Fatalf("%d cells, %v, want two", len(cells), err)
	}
	v := verdict.Gate(verdict.Spec{}, cells)
	outcome(t, v, verdict.CannotJudge)
	mentions(t, v.Reasons, "different cells", "only in base", "only in head")
}

func TestCellNameOfProbes(t *testing.T) {
	r := trial(throughputCase, verdict.Base, 0)
	r.Kind = "relay"
	if got, want := verdict.CellName(r), "relay "+throughputCase.Key; got != want {
		t.Errorf("CellName = %q, want %q", got, want)
	}
}

func TestOrders(t *testing.T) {
	for _, arms := range [][]string{twoArms, {"a", "b", "c"}} {
		firsts := map[string]int{}
		for seed := range uint64(200) {
			orders := verdict.Orders(arms, 31, seed)
			if len(orders) != 31 {
				t.Fatalf("%d orders, want 31", len(orders))
			}
			for i, o := range orders {
				if sorted := slices.Sorted(slices.Values(o)); !slices.Equal(sorted, arms) {
					t.Fatalf("order %v is not of the arms %v", o, arms)
				}
				if i > 0 && i%2 == 0 {
					reverse := slices.Clone(orders[i-1])
					slices.Reverse(reverse)
					if !slices.Equal(o, reverse) {
						t.Fatalf("seed %d: round %d runs %v after %v: not balanced", seed, i, o, orders[i-1])
					}
				}
				firsts[o[0]]++
			}
			if again := verdict.Orders(arms, 31, seed); fmt.Sprint(again) != fmt.Sprint(orders) {
				t.Fatalf("seed %d: another order the second time", seed)
			}
		}
		for _, arm := range arms {
			// 200 x 16 coins of 1/k: the least of them is more than five standard deviations away.
			if share := float64(firsts[arm]) * float64(len(arms)) / (200 * 31); share < 0.9 || share > 1.1 {
				t.Errorf("%s runs first in %d of %d rounds", arm, firsts[arm], 200*31)
			}
		}
	}
	if got := verdict.Orders(twoArms, 0, 1); len(got) != 0 {
		t.Errorf("no rounds have orders %v", got)
	}
}
