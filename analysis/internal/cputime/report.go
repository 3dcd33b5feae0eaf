package cputime

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// Report is what the processes of one run, or of several, spent their CPU time on.
type Report struct {
	Processes []*Process // in the order in which they were added
	Runs      int        // whose profiles are in it
	// RunBytes is the payload published in the measure phases of all runs; 0 = not known, or not asked for.
	RunBytes int64
}

// Process is one column: the processes of that name, of all runs.
type Process struct {
	Name    string
	Samples int64
	CPU     time.Duration
	Spent   map[Group]*Spent // every group has one
}

// Spent is one cell.
type Spent struct {
	Samples int64
	CPU     time.Duration
}

func newProcess(name string) *Process {
	p := &Process{Name: name, Spent: map[Group]*Spent{}}
	for _, g := range Groups {
		p.Spent[g] = &Spent{}
	}
	return p
}

func (p *Process) add(g Group, samples int64, cpu time.Duration) {
	p.Samples += samples
	p.CPU += cpu
	p.Spent[g].Samples += samples
	p.Spent[g].CPU += cpu
}

// Add reads a CPU profile of a process of that name. What is no CPU profile is an error.
func (r *Report) Add(process string, in io.Reader) error {
	prof, err := profile.Parse(in)
	if err != nil {
		return err
	}
	samples, cpu := -1, -1
	for i, t := range prof.SampleType {
		switch {
		case t.Type == "samples" && t.Unit == "count":
			samples = i
		case t.Type == "cpu" && t.Unit == "nanoseconds":
			cpu = i
		}
	}
	if samples < 0 || cpu < 0 {
		return errors.New("a profile, but none of CPU time")
	}
	i := slices.IndexFunc(r.Processes, func(p *Process) bool { return p.Name == process })
	if i < 0 {
		i = len(r.Processes)
		r.Processes = append(r.Processes, newProcess(process))
	}
	for _, s := range prof.Sample {
		r.Processes[i].add(GroupOf(s.Location), s.Value[samples], time.Duration(s.Value[cpu]))
	}
	return nil
}

// all is the last column: the sum of the others.
func (r *Report) all() *Process {
	sum := newProcess("all")
	for _, p := range r.Processes {
		for g, s := range p.Spent {
			sum.add(g, s.Samples, s.CPU)
		}
	}
	return sum
}

// columns are the processes, and their sum where there are several.
func (r *Report) columns() []*Process {
	if len(r.Processes) < 2 {
		return r.Processes
	}
	return append(slices.Clone(r.Processes), r.all())
}

// perGB is CPU seconds for each 10^9 bytes published.
func (r *Report) perGB(cpu time.Duration) float64 { return cpu.Seconds() / (float64(r.RunBytes) / 1e9) }

// share is the part of a whole, 0 of nothing.
func share(part, whole time.Duration) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// cell is a figure with its unit and its share.
func (r *Report) cell(p *Process, cpu time.Duration) string {
	if r.RunBytes > 0 {
		return fmt.Sprintf("%.3f s/GB  %5.1f %%", r.perGB(cpu), 100*share(cpu, p.CPU))
	}
	return fmt.Sprintf("%.2f s  %5.1f %%", cpu.Seconds(), 100*share(cpu, p.CPU))
}

// about says what the table is made of.
func (r *Report) about() string {
	all := r.all()
	runs := "profiles of 1 run"
	if r.Runs != 1 {
		runs = fmt.Sprintf("profiles of %d runs", r.Runs)
	}
	text := fmt.Sprintf("CPU time by what it was spent on, %s: %.2f s in n=%d samples", runs, all.CPU.Seconds(), all.Samples)
	if r.RunBytes > 0 {
		text += fmt.Sprintf("; %.3f GB published, by which it is divided", float64(r.RunBytes)/1e9)
	}
	return text
}

// rows is the table: a line a group, then the sums.
func (r *Report) rows() [][]string {
	columns := r.columns()
	head := []string{"group"}
	for _, p := range columns {
		head = append(head, p.Name)
	}
	rows := [][]string{head}
	for _, g := range Groups {
		row := []string{string(g)}
		for _, p := range columns {
			row = append(row, r.cell(p, p.Spent[g].CPU))
		}
		rows = append(rows, row)
	}
	total, samples := []string{"total"}, []string{"samples"}
	for _, p := range columns {
		total = append(total, r.cell(p, p.CPU))
		samples = append(samples, fmt.Sprintf("n=%d", p.Samples))
	}
	return append(rows, total, samples)
}
