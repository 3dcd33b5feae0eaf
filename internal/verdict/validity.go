package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// invalidOnlyInHead is how many trials have to be invalid in head, and none in base, for that to be the verdict.
const invalidOnlyInHead = 5

// examined is a cell with the pairs that count at a look.
type examined struct {
	cell  *Cell
	gated []Metric
	pairs []*Pair // looked at: the first ones, without those discarded
	kept  []*Pair // of them, both trials valid
	drops CellDrops
}

// complete returns the cell's pairs by index without the discarded ones, and without the last one while it is under way.
func (c *Cell) complete() []*Pair {
	var out []*Pair
	for i := range c.Pairs {
		if p := &c.Pairs[i]; !p.Discarded {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *Pair) int { return cmp.Compare(a.Index, b.Index) })
	if n := len(out); n > 0 && (out[n-1].Base == nil || out[n-1].Head == nil) {
		out = out[:n-1]
	}
	return out
}

// has reports which arms ran the cell at all.
func (c *Cell) has() (base, head bool) {
	for i := range c.Pairs {
		base = base || c.Pairs[i].Base != nil
		head = head || c.Pairs[i].Head != nil
	}
	return base, head
}

// common returns the cells that both arms have. What one arm lacks is an error, unless it is allow-listed by name: then
// it is a note.
func (s *Spec) common(cells []Cell) (both []*Cell, notes []string, err error) {
	var only []string
	names := map[string]bool{}
	for i := range cells {
		c := &cells[i]
		if names[c.Name] {
			return nil, nil, fmt.Errorf("cell %q is there twice", c.Name)
		}
		names[c.Name] = true
		base, head := c.has()
		switch {
		case base && head:
			both = append(both, c)
			continue
		case !base && !head:
			only = append(only, fmt.Sprintf("%q in neither arm", c.Name))
		case base:
			only = append(only, fmt.Sprintf("%q only in base", c.Name))
		default:
			only = append(only, fmt.Sprintf("%q only in head", c.Name))
		}
		if slices.Contains(s.AllowMissing, c.Name) {
			notes = append(notes, "not judged: cell "+only[len(only)-1]+", as allow_missing says")
			only = only[:len(only)-1]
		}
	}
	switch {
	case len(only) > 0:
		return nil, notes, fmt.Errorf("the arms have different cells: %s: missing or renamed; name it in allow_missing to leave it out", strings.Join(only, ", "))
	case len(both) == 0:
		return nil, notes, errors.New("no cells: nothing was measured")
	}
	return both, notes, nil
}

// examine sorts the first n pairs of a cell, all with n < 0, by whether they count.
func (s *Spec) examine(c *Cell, n int) examined {
	e := examined{cell: c, pairs: c.complete(), gated: Gated(s.Metrics, &c.Case)}
	if n >= 0 && n < len(e.pairs) {
		e.pairs = e.pairs[:n]
	}
	e.drops = CellDrops{Cell: c.Name, Pairs: len(e.pairs)}
	for _, p := range e.pairs {
		base, head := e.drops.Base.take(p.Base), e.drops.Head.take(p.Head)
		if base && head {
			e.kept = append(e.kept, p)
		} else {
			e.drops.Dropped++
		}
	}
	return e
}

// take counts a trial that is no measurement, and reports whether it is one.
func (a *ArmDrops) take(r *runrecord.Record) bool {
	switch {
	case r == nil:
		a.Missing++
		return false
	case r.Interrupted:
		a.Interrupted++
		return false
	case r.Error != nil:
		a.Failed++
	case !r.Valid:
		a.Invalid++
	default:
		return true
	}
	if a.Reasons == nil {
		a.Reasons = map[string]int{}
	}
	for _, reason := range reasons(r) {
		a.Reasons[reason]++
	}
	return false
}

// reasons are why a trial is no measurement, each without its figures, so that the same reason is the same word.
func reasons(r *runrecord.Record) []string {
	var out []string
	for _, reason := range r.Reasons {
		out = append(out, kindOfReason(reason))
	}
	if len(out) == 0 && r.Error != nil {
		out = append(out, kindOfReason(*r.Error))
	}
	if len(out) == 0 {
		out = append(out, "no reason given")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func kindOfReason(reason string) string {
	reason, _, _ = strings.Cut(reason, "\n")
	if kind, _, ok := strings.Cut(reason, ":"); ok && kind != "" {
		return kind
	}
	return reason
}

// String lists the reasons, the most frequent first: "unaccounted x5, shortfall x2".
func (a *ArmDrops) String() string {
	keys := slices.SortedFunc(maps.Keys(a.Reasons), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.Reasons[y], a.Reasons[x]), cmp.Compare(x, y))
	})
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s x%d", k, a.Reasons[k]))
	}
	if a.Interrupted > 0 {
		out = append(out, fmt.Sprintf("interrupted x%d", a.Interrupted))
	}
	if a.Missing > 0 {
		out = append(out, fmt.Sprintf("no record x%d", a.Missing))
	}
	return strings.Join(out, ", ")
}

// headInvalid reports whether losing, or whatever else makes a trial invalid, is head's alone: in one cell, or over all
// of them. A trial without a result is not invalid but broken, and nobody's property yet.
func headInvalid(es []examined) (reason string, yes bool) {
	var base, head ArmDrops
	head.Reasons = map[string]int{}
	for i := range es {
		d := &es[i].drops
		if d.Head.Invalid >= invalidOnlyInHead && d.Base.Invalid == 0 {
			return fmt.Sprintf("invalid only in head: %s: %d of %d trials of head, none of base: %s",
				d.Cell, d.Head.Invalid, d.Pairs, d.Head.String()), true
		}
		base.Invalid += d.Base.Invalid
		head.Invalid += d.Head.Invalid
		for k, n := range d.Head.Reasons {
			head.Reasons[k] += n
		}
	}
	if head.Invalid >= invalidOnlyInHead && base.Invalid == 0 {
		return fmt.Sprintf("invalid only in head: %d trials of head over %d cells, none of base: %s", head.Invalid, len(es), head.String()), true
	}
	return "", false
}

// tooManyDropped reports the cells of which more than the allowed share of planned pairs is dropped.
func (s *Spec) tooManyDropped(es []examined, planned int) []string {
	var out []string
	for i := range es {
		if d := &es[i].drops; s.tooMany(d.Dropped, planned) {
			sides := ""
			for _, side := range []struct {
				arm   string
				drops *ArmDrops
			}{{Base, &d.Base}, {Head, &d.Head}} {
				if text := side.drops.String(); text != "" {
					sides += fmt.Sprintf("; %s: %s", side.arm, text)
				}
			}
			out = append(out, fmt.Sprintf("%s: %d of %d pairs dropped, more than %s%s", d.Cell, d.Dropped, d.Pairs, percent(s.MaxDropped), sides))
		}
	}
	return out
}

// tooMany reports whether k of n is above the share that may be dropped; a rounding error is not.
func (s *Spec) tooMany(k, n int) bool { return float64(k) > s.MaxDropped*float64(n)+1e-9 }

// trials calls f with every valid trial of the examined pairs, also of pairs whose other trial is not.
func trials(es []examined, f func(e *examined, arm string, r *runrecord.Record)) {
	for i := range es {
		for _, p := range es[i].pairs {
			for _, side := range []struct {
				arm string
				r   *runrecord.Record
			}{{Base, p.Base}, {Head, p.Head}} {
				if r := side.r; r != nil && r.Valid && r.Error == nil && !r.Interrupted {
					f(&es[i], side.arm, r)
				}
			}
		}
	}
}

// ineligible says what makes trials incomparable, whatever their figures.
func (s *Spec) ineligible(es []examined) []string {
	hosts, perturbed := map[string]int{}, map[string]int{}
	builds, toolchains := map[string]map[string]bool{}, map[string]map[string]bool{Base: {}, Head: {}}
	bad := map[string]int{}
	kinds := map[string]bool{}
	trials(es, func(e *examined, arm string, r *runrecord.Record) {
		if f := r.Host.Fingerprint; f != "" {
			hosts[f]++
		}
		for _, x := range r.Perturbed {
			perturbed[x]++
		}
		b := &r.Build
		for _, flag := range []struct {
			name string
			on   bool
		}{{"-race", b.Race}, {"coverage", b.Coverage}, {"-N (not optimised)", !b.Optimized}} {
			if flag.on {
				bad[arm+" is built with "+flag.name]++
			}
		}
		if id := buildID(b); id != "" {
			if builds[arm] == nil {
				builds[arm] = map[string]bool{}
			}
			builds[arm][id] = true
		}
		toolchains[arm][b.Go] = true
		if c := &r.Case; !slices.Equal(Gated(s.Metrics, c), e.gated) {
			kinds[fmt.Sprintf("%s: %s is of another kind of case (%s), with other metrics", e.cell.Name, arm, c.Key)] = true
		}
	})
	var out []string
	if len(hosts) > 1 {
		out = append(out, "the trials are of different hosts: "+counted(hosts)+": a comparison between hosts is never judged")
	}
	if len(perturbed) > 0 {
		out = append(out, "trials with instruments that change what is measured: "+counted(perturbed))
	}
	for _, text := range slices.Sorted(maps.Keys(bad)) {
		out = append(out, fmt.Sprintf("%s (%d trials): such a build is not measured", text, bad[text]))
	}
	for _, arm := range []string{Base, Head} {
		if n := len(builds[arm]); n > 1 {
			out = append(out, fmt.Sprintf("%s is of %d different builds: %s", arm, n, strings.Join(slices.Sorted(maps.Keys(builds[arm])), ", ")))
		}
	}
	if len(toolchains[Base]) > 0 && len(toolchains[Head]) > 0 && !maps.Equal(toolchains[Base], toolchains[Head]) {
		out = append(out, fmt.Sprintf("base is built by %s and head by %s: build both with one toolchain",
			strings.Join(slices.Sorted(maps.Keys(toolchains[Base])), ", "), strings.Join(slices.Sorted(maps.Keys(toolchains[Head])), ", ")))
	}
	return append(out, slices.Sorted(maps.Keys(kinds))...)
}

// benchDiffers says whether the arms were measured by different benches, and notes says what is not known or to be told
// of the trials.
func benchDiffers(es []examined) (reason string, notes []string) {
	digests := map[string]map[string]bool{Base: {}, Head: {}}
	pgo := map[string]map[bool]bool{Base: {}, Head: {}}
	unknownBench, unknownHost, noisy, undersized, all := 0, 0, 0, 0, 0
	trials(es, func(_ *examined, arm string, r *runrecord.Record) {
		all++
		pgo[arm][r.Build.PGO] = true
		if d := r.Build.BenchDigest; d != nil {
			digests[arm][*d] = true
		} else {
			unknownBench++
		}
		if r.Host.Fingerprint == "" {
			unknownHost++
		}
		if n := r.Host.Noise; n != nil && (n.Grade == "noisy" || n.Grade == "contaminated") {
			noisy++
		}
		if g := workload.Grade(r.SizeGrade); g == workload.GradeUndersized || g == workload.GradeBufferAbsorbed {
			undersized++
		}
	})
	note := func(n int, text string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d trials %s", n, all, text))
		}
	}
	note(unknownHost, "do not know their host")
	note(unknownBench, "do not know which bench measured them")
	note(noisy, "were on a machine that did something else")
	note(undersized, "are undersized by permission: how fast buffers fill, not a rate")
	if len(pgo[Base]) > 0 && len(pgo[Head]) > 0 && !maps.Equal(pgo[Base], pgo[Head]) {
		notes = append(notes, "a CPU profile guided the compiler (default.pgo) in one arm only: a difference can be the compiler's")
	}
	if len(digests[Base]) > 0 && len(digests[Head]) > 0 && !maps.Equal(digests[Base], digests[Head]) {
		reason = "the bench itself differs between the arms (bench_digest): let one bench drive both: matrix ab --bench head"
	}
	return reason, notes
}

// buildID is what tells builds apart: the binary, or else the tree.
func buildID(b *runrecord.Build) string {
	switch {
	case b.BinarySHA256 != nil:
		return "binary " + *b.BinarySHA256
	case b.TreeDigest != nil:
		return "tree " + *b.TreeDigest
	}
	return ""
}

func counted(counts map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s (%d trials)", k, counts[k]))
	}
	return strings.Join(out, ", ")
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
