package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"felix/internal/workload"
)

// slot is one trial of one cell: what a plan is made of, and what a record fills.
type slot struct {
	cell  int // index in the grid
	trial int // from 1
}

// block is one trial of every cell (of those that still need it), in the order in which they run.
type block []slot

// order returns the cells of one block. Each block has an order of its own, drawn from the session's seed and its
// number alone, so that a resumed session, or one with more trials, continues the very same plan. A drift of the machine
// thus falls on all cells alike: on average within a block, and by parts among the blocks.
func order(how string, seed uint64, trial, cells int) []int {
	if how == orderListed {
		list := make([]int, cells)
		for i := range list {
			list[i] = i
		}
		return list
	}
	return rand.New(rand.NewPCG(seed, uint64(trial))).Perm(cells)
}

// plan is what is left to run.
type plan struct {
	grid     *workload.Grid
	model    *workload.Model
	trials   int
	cooldown time.Duration
	blocks   []block
	done     int // slots that are recorded already
	dropped  int // blocks that the budget dropped
}

// newPlan lists the slots that isDone does not know yet.
func newPlan(g *workload.Grid, m *workload.Model, trials int, how string, seed uint64, cooldown time.Duration, isDone func(slot) bool) *plan {
	p := &plan{grid: g, model: m, trials: trials, cooldown: cooldown}
	for t := 1; t <= trials; t++ {
		var b block
		for _, c := range order(how, seed, t, len(g.Cells)) {
			if s := (slot{c, t}); isDone(s) {
				p.done++
			} else {
				b = append(b, s)
			}
		}
		if len(b) > 0 {
			p.blocks = append(p.blocks, b)
		}
	}
	return p
}

// cost estimates slots, with the pause before each.
func (p *plan) cost(slots []slot) time.Duration {
	var d time.Duration
	for _, s := range slots {
		d += p.cooldown + p.model.Trial(&p.grid.Cells[s.cell])
	}
	return d
}

func (p *plan) duration() time.Duration {
	var d time.Duration
	for _, b := range p.blocks {
		d += p.cost(b)
	}
	return d
}

func (p *plan) slots() int {
	n := 0
	for _, b := range p.blocks {
		n += len(b)
	}
	return n
}

// fit drops blocks from the end until the rest fits the budget: every cell loses the same trials, and none is lost,
// because the first block always stays.
func (p *plan) fit(budget time.Duration) {
	for budget > 0 && len(p.blocks) > 1 && p.duration() > budget {
		p.blocks = p.blocks[:len(p.blocks)-1]
		p.dropped++
	}
}

// write prints the plan: every cell, and how long all of it should take.
func (p *plan) write(w io.Writer, o *runOptions, how string, seed uint64) {
	g := p.grid
	fmt.Fprintf(w, "grid       %s (%s)\n", g.Name, shortDigest(g.Digest))
	if g.Why != "" {
		fmt.Fprintf(w, "why        %s\n", strings.Join(strings.Fields(g.Why), " "))
	}
	fmt.Fprintf(w, "cells      %d\n", len(g.Cells))
	width := 0
	for i := range g.Cells {
		width = max(width, len(g.Cells[i].Name))
	}
	for i := range g.Cells {
		c := &g.Cells[i]
		fmt.Fprintf(w, "  %3d  %-*s  %6s a trial\n", i+1, width, c.Name, about(p.model.Trial(c)))
	}
	fmt.Fprintf(w, "trials     %d of every cell, in blocks: trial 1 of all cells, then trial 2 …\n", p.trials)
	if how == orderRandom {
		fmt.Fprintf(w, "order      random within each block, seed %d\n", seed)
	} else {
		fmt.Fprintf(w, "order      as listed: a drift of the machine falls on the same cells each time\n")
	}
	if p.done > 0 {
		fmt.Fprintf(w, "recorded   %d of %d trials already\n", p.done, p.trials*len(g.Cells))
	}
	fmt.Fprintf(w, "duration   about %s for %d trials\n", about(p.duration()), p.slots())
	p.writeBudget(w, o.budget)
}

func (p *plan) writeBudget(w io.Writer, budget time.Duration) {
	if budget == 0 {
		return
	}
	if p.dropped > 0 {
		fmt.Fprintf(w, "budget     %v: the last %d of %d trials of every cell are dropped; no cell is\n", budget, p.dropped, p.trials)
	}
	if d := p.duration(); d > budget {
		fmt.Fprintf(w, "budget     %v: one trial of every cell takes about %s; no cell is dropped, so it will be exceeded\n", budget, about(d))
	}
}

func shortDigest(d string) string { return d[:min(len(d), 12)] }

// about prints a duration as precisely as it is known.
func about(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
