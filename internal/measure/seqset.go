package measure

import (
	"cmp"
	"slices"
)

// maxGaps bounds the ranges that one ledger keeps: 4 MiB at most. A subscriber that loses every
// second of three million messages needs more; what is then not kept is still counted.
const maxGaps = 1 << 18

// maxResultRanges bounds the ranges that a result carries per publisher and stream.
const maxResultRanges = 1024

// SeqRange is a run of sequence numbers, both ends included.
type SeqRange struct {
	First uint64 `json:"first_seq"`
	Last  uint64 `json:"last_seq"`
}

// Len returns how many sequence numbers r holds.
func (r SeqRange) Len() uint64 { return r.Last - r.First + 1 }

// outcome is what the arrival of a sequence number meant.
type outcome uint8

const (
	outcomeNext      outcome = iota // the one that was due
	outcomeSkipped                  // later than due: those in between became a gap
	outcomeLate                     // it filled part of a gap: reordered
	outcomeDuplicate                // it had arrived before
	outcomeAmbiguous                // late or duplicate; the gap it may belong to was not kept
)

// seqLedger knows which sequence numbers of one publisher arrived. The usual case, the next one,
// costs one comparison and two increments; all else keeps the gaps as sorted ranges.
type seqLedger struct {
	head      uint64 // the next one due; everything below arrived or is missing
	delivered uint64 // arrived, each counted once
	gaps      []SeqRange
	limit     int // gaps kept at most; 0: maxGaps

	late, duplicates, ambiguous uint64

	untracked     uint64 // missing messages of gaps that were not kept
	untrackedFrom uint64 // the first of them; valid if untracked > 0
}

func (l *seqLedger) record(seq uint64) outcome {
	if seq == l.head {
		l.head++
		l.delivered++
		return outcomeNext
	}
	return l.recordSlow(seq)
}

func (l *seqLedger) recordSlow(seq uint64) outcome {
	if seq > l.head {
		l.addGap(SeqRange{First: l.head, Last: seq - 1})
		l.head = seq + 1
		l.delivered++
		return outcomeSkipped
	}
	i, ok := l.find(seq)
	switch {
	case ok:
		l.fill(i, seq)
		l.late++
		l.delivered++
		return outcomeLate
	case l.untracked > 0 && seq >= l.untrackedFrom:
		l.ambiguous++
		return outcomeAmbiguous
	default:
		l.duplicates++
		return outcomeDuplicate
	}
}

// missing returns how many below head have not arrived.
func (l *seqLedger) missing() uint64 { return l.head - l.delivered }

func (l *seqLedger) addGap(g SeqRange) {
	limit := l.limit
	if limit == 0 {
		limit = maxGaps
	}
	if len(l.gaps) < limit {
		l.gaps = append(l.gaps, g)
		return
	}
	if l.untracked == 0 {
		l.untrackedFrom = g.First
	}
	l.untracked += g.Len()
}

// find returns the gap that holds seq. Reordering is local, so the newest gap is looked at first.
func (l *seqLedger) find(seq uint64) (int, bool) {
	n := len(l.gaps)
	if n == 0 {
		return 0, false
	}
	if last := l.gaps[n-1]; seq >= last.First {
		return n - 1, seq <= last.Last
	}
	i, exact := slices.BinarySearchFunc(l.gaps, seq, func(g SeqRange, seq uint64) int {
		return cmp.Compare(g.First, seq)
	})
	if !exact {
		i--
	}
	return i, i >= 0 && seq <= l.gaps[i].Last
}

// fill takes seq out of gap i. A gap that splits while the ledger is full keeps its longer half.
func (l *seqLedger) fill(i int, seq uint64) {
	g := &l.gaps[i]
	switch {
	case g.First == g.Last:
		l.gaps = slices.Delete(l.gaps, i, i+1)
	case seq == g.First:
		g.First++
	case seq == g.Last:
		g.Last--
	default:
		left, right := SeqRange{First: g.First, Last: seq - 1}, SeqRange{First: seq + 1, Last: g.Last}
		limit := l.limit
		if limit == 0 {
			limit = maxGaps
		}
		if len(l.gaps) < limit {
			*g = left
			l.gaps = slices.Insert(l.gaps, i+1, right)
			return
		}
		keep, lose := left, right
		if right.Len() > left.Len() {
			keep, lose = right, left
		}
		*g = keep
		if l.untracked == 0 || lose.First < l.untrackedFrom {
			l.untrackedFrom = lose.First
		}
		l.untracked += lose.Len()
	}
}

// rangeList collects sequence ranges that come mostly in order (refused or failed batches), up to
// maxResultRanges; count goes on.
type rangeList struct {
	ranges []SeqRange
	count  uint64
	lost   uint64 // of count, those whose range was not kept
}

func (l *rangeList) add(r SeqRange) {
	l.count += r.Len()
	if n := len(l.ranges); n > 0 && l.ranges[n-1].Last+1 == r.First {
		l.ranges[n-1].Last = r.Last
		return
	}
	if len(l.ranges) == maxResultRanges {
		l.lost += r.Len()
		return
	}
	l.ranges = append(l.ranges, r)
}

// normalize returns ranges sorted, with overlapping and adjacent ones joined.
func normalize(ranges []SeqRange) []SeqRange {
	if len(ranges) == 0 {
		return nil
	}
	s := slices.Clone(ranges)
	slices.SortFunc(s, func(a, b SeqRange) int { return cmp.Compare(a.First, b.First) })
	out := s[:1]
	for _, r := range s[1:] {
		last := &out[len(out)-1]
		if r.First <= last.Last || r.First == last.Last+1 {
			last.Last = max(last.Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// subtract returns what of a is not in b. Both must be normalized.
func subtract(a, b []SeqRange) []SeqRange {
	var out []SeqRange
	for _, r := range a {
		for len(b) > 0 && b[0].Last < r.First {
			b = b[1:]
		}
		rest, gone := r, false
		for _, x := range b {
			if x.First > rest.Last {
				break
			}
			if x.First > rest.First {
				out = append(out, SeqRange{First: rest.First, Last: x.First - 1})
			}
			if x.Last >= rest.Last {
				gone = true
				break
			}
			rest.First = x.Last + 1
		}
		if !gone {
			out = append(out, rest)
		}
	}
	return out
}

func rangesLen(ranges []SeqRange) uint64 {
	var n uint64
	for _, r := range ranges {
		n += r.Len()
	}
	return n
}
