package verdict

import "fmt"

// Gate replays every look that the pairs suffice for, in order, and returns the first verdict that is not Continue. If
// the pairs end after a complete look and before the last, as a budget ends them, the verdict is that look's, and
// inconclusive. With no look complete, nothing can be judged.
func Gate(spec Spec, cells []Cell) Verdict {
	spec, v, err := begin(spec)
	if err != nil {
		return v
	}
	looks := 0
	pairs := completePairs(cells)
	for looks < len(spec.Looks) && spec.Looks[looks] <= pairs {
		looks++
	}
	for look := range looks {
		// The last complete look is shown, whatever it comes to.
		if v = judgeAt(spec, cells, look, look < looks-1); v.Outcome != Continue {
			return v
		}
	}
	if looks == 0 {
		if _, decided := v.admit(&spec, cells, spec.Looks[0]); decided {
			return v
		}
		return v.cannot(fmt.Sprintf("no look is complete: %d pairs of the %d that the first has", pairs, spec.Looks[0]))
	}
	if early, yes := Early(spec, cells); yes { // by the pairs after the last complete look
		return early
	}
	v.Outcome = Inconclusive
	v.Reasons = append(v.Reasons, fmt.Sprintf("the pairs end after look %d of %d", v.Look, v.Looks))
	v.settle(&spec)
	return v
}

// Early reports whether the pairs so far, between looks, have decided the gate already: trials that cannot be compared,
// five trials invalid in head and none in base, or so many pairs dropped that the next look cannot be judged; a spec that
// cannot be is decided from the start. While it is false, what else Judge may refuse is left to the next look.
func Early(spec Spec, cells []Cell) (Verdict, bool) {
	spec, v, err := begin(spec)
	if err != nil {
		return v, true
	}
	var es []examined
	pairs := 0
	for i := range cells {
		// A cell whose first pair is under way has nothing to say yet.
		if e := spec.examine(&cells[i], -1); len(e.pairs) > 0 {
			es = append(es, e)
			pairs = max(pairs, len(e.pairs))
		}
	}
	v.setDrops(es)
	if v.compare(&spec, es) {
		return v, true
	}
	if reason, yes := headInvalid(es); yes {
		v.Outcome, v.Reasons = Fail, []string{reason}
		return v, true
	}
	next := spec.Looks[len(spec.Looks)-1]
	for _, n := range spec.Looks {
		if n >= pairs {
			next = n
			break
		}
	}
	for i := range es {
		d := &es[i].drops
		onlyHeadInvalid := d.Base.none() && d.Head.Failed+d.Head.Interrupted+d.Head.Missing == 0
		if spec.tooMany(d.Dropped, max(next, d.Pairs)) && (!onlyHeadInvalid || d.Pairs >= next) {
			return v.cannot(spec.tooManyDropped(es, next)...), true
		}
	}
	return v, false
}

// completePairs is how many pairs every cell has that both arms ran.
func completePairs(cells []Cell) int {
	least := -1
	for i := range cells {
		if base, head := cells[i].has(); base && head {
			if n := len(cells[i].complete()); least < 0 || n < least {
				least = n
			}
		}
	}
	return max(0, least)
}
