package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLedgerAgainstModel sends random sequences with loss, duplicates and reordering through the
// ledger and through a plain set.
func TestLedgerAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		seqs := arrivals(r, 400)
		var l seqLedger
		seen := map[uint64]bool{}
		var head, late, duplicates uint64
		for _, seq := range seqs {
			want := outcomeNext
			switch {
			case seen[seq]:
				want = outcomeDuplicate
				duplicates++
			case seq < head:
				want = outcomeLate
				late++
			case seq > head:
				want = outcomeSkipped
			}
			seen[seq] = true
			head = max(head, seq+1)
			if got := l.record(seq); got != want {
				t.Fatalf("seed %d: record(%d) = %d, want %d", seed, seq, got, want)
			}
		}
		var gaps []SeqRange
		for seq := range head {
			if !seen[seq] {
				gaps = append(gaps, SeqRange{First: seq, Last: seq})
			}
		}
		if !slices.Equal(l.gaps, normalize(gaps)) {
			t.Errorf("seed %d: gaps = %v, want %v", seed, l.gaps, normalize(gaps))
		}
		if l.delivered != uint64(len(seen)) || l.late != late || l.duplicates != duplicates || l.missing() != uint64(len(gaps)) {
			t.Errorf("seed %d: delivered %d late %d duplicates %d missing %d, want %d %d %d %d",
				seed, l.delivered, l.late, l.duplicates, l.missing(), len(seen), late, duplicates, len(gaps))
		}
	}
}

// arrivals returns the numbers 0 to n-1 with losses, duplicates, and moves over any distance.
func arrivals(r *rand.Rand, n int) []uint64 {
	var seqs []uint64
	loss, dup, move := r.Float64()*0.4, r.Float64()*0.3, r.Float64()*0.4
	for i := range n {
		if r.Float64() < loss {
			continue
		}
		seqs = append(seqs, uint64(i))
		if r.Float64() < dup {
			seqs = append(seqs, uint64(r.IntN(i+1)))
		}
	}
	for i := range seqs {
		if r.Float64() < move {
			j := r.IntN(len(seqs))
			seqs[i], seqs[j] = seqs[j], seqs[i]
		}
	}
	return seqs
}

// With room for few gaps, what cannot be told apart is said to be ambiguous; what is counted as
// delivered or duplicate is still right.
func TestLedgerWithTooManyGaps(t *testing.T) {
	ambiguousRuns := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := seqLedger{limit: 1 + r.IntN(8)}
		seen := map[uint64]bool{}
		var counted, ambiguous uint64
		for _, seq := range arrivals(r, 400) {
			switch o := l.record(seq); o {
			case outcomeDuplicate:
				if !seen[seq] {
					t.Fatalf("seed %d: %d is called a duplicate and is new", seed, seq)
				}
			case outcomeAmbiguous:
				ambiguous++
			default:
				if seen[seq] {
					t.Fatalf("seed %d: %d is counted twice", seed, seq)
				}
				counted++
			}
			seen[seq] = true
			if len(l.gaps) > l.limit {
				t.Fatalf("seed %d: %d gaps, limit %d", seed, len(l.gaps), l.limit)
			}
		}
		if l.delivered != counted || l.ambiguous != ambiguous {
			t.Errorf("seed %d: delivered %d ambiguous %d, want %d %d", seed, l.delivered, l.ambiguous, counted, ambiguous)
		}
		if got := rangesLen(l.gaps) + l.untracked; got != l.missing() {
			t.Errorf("seed %d: gaps and untracked hold %d, missing are %d", seed, got, l.missing())
		}
		if ambiguous > 0 {
			ambiguousRuns++
		}
	}
	if ambiguousRuns == 0 {
		t.Error("no run had too many gaps: the test tests nothing")
	}
}

func TestSubtract(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	random := func() ([]SeqRange, map[uint64]bool) {
		var ranges []SeqRange
		set := map[uint64]bool{}
		for range r.IntN(6) {
			first := uint64(r.IntN(50))
			g := SeqRange{First: first, Last: first + uint64(r.IntN(8))}
			ranges = append(ranges, g)
			for s := g.First; s <= g.Last; s++ {
				set[s] = true
			}
		}
		return normalize(ranges), set
	}
	for range 2000 {
		a, inA := random()
		b, inB := random()
		got := map[uint64]bool{}
		diff := subtract(a, b)
		for _, g := range diff {
			for s := g.First; s <= g.Last; s++ {
				got[s] = true
			}
		}
		for s := range uint64(70) {
			if want := inA[s] && !inB[s]; got[s] != want {
				t.Fatalf("%v minus %v = %v: wrong about %d", a, b, diff, s)
			}
		}
		if rangesLen(diff) != uint64(len(got)) {
			t.Fatalf("%v minus %v = %v overlaps", a, b, diff)
		}
	}
}
