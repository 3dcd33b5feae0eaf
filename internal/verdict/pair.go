package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// The arms of a gate.
const (
	Base = "base"
	Head = "head"
)

// SentinelKind is the kind of a record that holds what the sentinels did beside one trial: its arm, pair and case are
// the trial's, delivered_msgs_per_sec is the rounds per second of the CPU probe and delivered_bytes_per_sec what the
// loopback probe carried. A rate that is null was not probed.
const SentinelKind = "sentinel"

// Pair is one trial of each arm, back to back.
type Pair struct {
	Index     int               `json:"index"`     // from 0
	Order     string            `json:"order"`     // "base head" or "head base"; "" not known
	Discarded bool              `json:"discarded"` // the first one: it warms the machine, and is in no figure
	Base      *runrecord.Record `json:"base"`      // nil: there is none
	Head      *runrecord.Record `json:"head"`
	Sentinels []Sentinel        `json:"sentinels"` // what ran beside it
}

// Sentinel is what a fixed probe, which no commit changes, did beside each arm of a pair: a rate, more is faster.
type Sentinel struct {
	Name string  `json:"name"` // "cpu", "loopback"
	Base float64 `json:"base"` // 0 or NaN: there is none
	Head float64 `json:"head"`
}

// Cell is every pair of one case.
type Cell struct {
	Name       string         `json:"name"`
	Case       runrecord.Case `json:"case"`       // of base, or of head where base has none
	Throughput bool           `json:"throughput"` // Case.Throughput
	Pairs      []Pair         `json:"pairs"`      // by index
}

// Round is one trial of each of several arms, back to back.
type Round struct {
	Index     int
	Order     []string // arms as they ran, as far as known
	Discarded bool
	Trials    map[string]*runrecord.Record  // by arm
	Sentinels map[string]map[string]float64 // by arm and name
}

// ArmCell is every round of one case.
type ArmCell struct {
	Name   string
	Case   runrecord.Case
	Rounds []Round // by index
}

// Pairs gathers the records of an A/B session into cells, in the order of their first records. Round 0 is discarded. A
// cell or a pair that only one arm has is kept, and Judge says so.
//
// ArmFactors name the factors that the arms themselves set (batch, broker.subscriber_queue_capacity, as a case's key has
// them): they are left out of a cell's name, so that what differs by intention is still one cell. Any other difference
// makes two cells.
//
// It is an error if there are no records, if one belongs to no pair or to another arm, and if a trial is there twice.
// The same record read twice counts once, and an interrupted trial gives way to the one that replaced it.
func Pairs(records []*runrecord.Record, armFactors ...string) ([]Cell, error) {
	armCells, err := Rounds(records, []string{Base, Head}, armFactors...)
	if err != nil {
		return nil, err
	}
	cells := make([]Cell, 0, len(armCells))
	for i := range armCells {
		cells = append(cells, armCells[i].Between(Base, Head))
	}
	return cells, nil
}

// Rounds is Pairs for any two or more arms.
func Rounds(records []*runrecord.Record, arms []string, armFactors ...string) ([]ArmCell, error) {
	if len(records) == 0 {
		return nil, errors.New("no records: nothing was measured")
	}
	type place struct {
		cell  string
		round int
	}
	var order []string
	rounds := map[place]*Round{}
	cells := map[string]*ArmCell{}
	seen := map[string]bool{}
	for _, r := range records {
		if r == nil || r.RunID != "" && seen[r.RunID] {
			continue
		}
		seen[r.RunID] = true
		if r.Arm == nil || r.Pair == nil || *r.Pair < 0 {
			return nil, fmt.Errorf("record %s: no arm or no pair: it is not of an A/B session", r.RunID)
		}
		if !slices.Contains(arms, *r.Arm) {
			return nil, fmt.Errorf("record %s: arm %q: want %s", r.RunID, *r.Arm, oneOf(arms))
		}
		name := CellName(r, armFactors...)
		c := cells[name]
		if c == nil {
			c = &ArmCell{Name: name}
			cells[name] = c
			order = append(order, name)
		}
		at := place{name, *r.Pair}
		round := rounds[at]
		if round == nil {
			round = &Round{Index: *r.Pair, Discarded: *r.Pair == 0, Trials: map[string]*runrecord.Record{}, Sentinels: map[string]map[string]float64{}}
			rounds[at] = round
		}
		if err := round.add(r); err != nil {
			return nil, fmt.Errorf("%s: pair %d: %w", name, *r.Pair, err)
		}
	}
	for at, round := range rounds {
		round.setOrder()
		cells[at.cell].Rounds = append(cells[at.cell].Rounds, *round)
	}
	out := make([]ArmCell, 0, len(order))
	for _, name := range order {
		c := cells[name]
		slices.SortFunc(c.Rounds, func(a, b Round) int { return cmp.Compare(a.Index, b.Index) })
		c.setCase(arms)
		out = append(out, *c)
	}
	return out, nil
}

// CellName names the cell of a record: its kind unless that is case, and its key without the factors that arms set.
func CellName(r *runrecord.Record, armFactors ...string) string {
	words := strings.Fields(r.Case.Key)
	words = slices.DeleteFunc(words, func(w string) bool {
		factor, _, _ := strings.Cut(w, "=")
		return slices.Contains(armFactors, factor)
	})
	if r.Kind != "" && r.Kind != "case" && r.Kind != SentinelKind && r.Case.Probe == workload.ProbeNone {
		words = slices.Insert(words, 0, r.Kind)
	}
	return strings.Join(words, " ")
}

func (round *Round) add(r *runrecord.Record) error {
	arm := *r.Arm
	if r.Kind == SentinelKind {
		rates := map[string]float64{}
		for name, v := range map[string]*float64{"cpu": r.Rates.DeliveredMsgsPerSec, "loopback": r.Rates.DeliveredBytesPerSec} {
			if x, ok := positive(v); ok && r.Error == nil {
				rates[name] = x
			}
		}
		round.Sentinels[arm] = rates // the last one, if the trial was repeated
		return nil
	}
	switch known := round.Trials[arm]; {
	case known == nil || known.Interrupted:
		round.Trials[arm] = r
	case r.Interrupted:
	default:
		return fmt.Errorf("two trials of %s (%s, %s): are these records of one session?", arm, known.RunID, r.RunID)
	}
	return nil
}

// setOrder lists the arms as they ran, by the records' order, or by when they started.
func (round *Round) setOrder() {
	for arm := range round.Trials {
		round.Order = append(round.Order, arm)
	}
	slices.SortFunc(round.Order, func(a, b string) int {
		ra, rb := round.Trials[a], round.Trials[b]
		byOrder := 0
		if ra.Order != nil && rb.Order != nil {
			byOrder = cmp.Compare(*ra.Order, *rb.Order)
		}
		return cmp.Or(byOrder, ra.StartedAt.Compare(rb.StartedAt), cmp.Compare(a, b))
	})
}

// setCase takes the case of the first arm's first trial.
func (c *ArmCell) setCase(arms []string) {
	for _, arm := range arms {
		for _, round := range c.Rounds {
			if r := round.Trials[arm]; r != nil {
				c.Case = r.Case
				return
			}
		}
	}
}

// Between returns the cell's pairs of two of its arms, as base and head.
func (c *ArmCell) Between(base, head string) Cell {
	out := Cell{Name: c.Name, Case: c.Case, Throughput: c.Case.Throughput()}
	for i := range c.Rounds {
		round := &c.Rounds[i]
		p := Pair{Index: round.Index, Discarded: round.Discarded, Base: round.Trials[base], Head: round.Trials[head]}
		if b, h := slices.Index(round.Order, base), slices.Index(round.Order, head); b >= 0 && h >= 0 {
			p.Order = Base + " " + Head
			if h < b {
				p.Order = Head + " " + Base
			}
		}
		for _, name := range []string{"cpu", "loopback"} {
			s := Sentinel{Name: name, Base: round.Sentinels[base][name], Head: round.Sentinels[head][name]}
			if s.Base > 0 || s.Head > 0 {
				p.Sentinels = append(p.Sentinels, s)
			}
		}
		out.Pairs = append(out.Pairs, p)
	}
	return out
}

// Orders returns in which order the arms run in each round, balanced: rounds go in blocks of two, one order by chance
// and then its reverse, so that neither drift nor a place in the round favours an arm. The first round, which is
// discarded, stands before the blocks. The same seed gives the same orders.
func Orders(arms []string, rounds int, seed uint64) [][]string {
	rng := rand.New(rand.NewPCG(seed, 0x0bde5))
	var out [][]string
	for len(out) < rounds {
		order := slices.Clone(arms)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if len(out) > 0 {
			reverse := slices.Clone(order)
			slices.Reverse(reverse)
			out = append(out, order, reverse)
		} else {
			out = append(out, order)
		}
	}
	return out[:max(0, rounds)]
}
