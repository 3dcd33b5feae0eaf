package broker

import (
	"math/rand/v2"
	"testing"
)

// TestBudget takes, waits and releases at random, against a model of who is held before whom.
func TestBudget(t *testing.T) {
	type holder struct {
		size   int64
		pass   uint64
		before bool // held since before the present first of the line was first
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := budget{max: int64(50 + rng.IntN(200))}
		var holders []*holder
		var line []*admission
		old := func() (n int64) { // what the first in the line waits for
			for _, h := range holders {
				if h.before {
					n += h.size
				}
			}
			return n
		}
		newFirst := func() {
			for _, h := range holders {
				h.before = true
			}
		}
		blocked := func() bool { return len(line) > 0 && !b.fits(old(), line[0].batch.way.held) }
		admitted := func() {
			for a, pass := b.next(); a != nil; a, pass = b.next() {
				size := a.batch.way.held
				if a == line[0] {
					line = line[1:]
					holders = append(holders, &holder{size: size, pass: pass})
					newFirst()
					continue
				}
				if !blocked() {
					t.Fatalf("seed %d: %d bytes went past %d, which only those that went past keep waiting", seed, size, line[0].batch.way.held)
				}
				for i := range line {
					if line[i] == a {
						line = append(line[:i:i], line[i+1:]...)
						break
					}
				}
				holders = append(holders, &holder{size: size, pass: pass})
			}
		}
		for step := range 500 {
			size := int64(1 + rng.IntN(60))
			if rng.IntN(15) == 0 {
				size = b.max/2 + int64(rng.IntN(200)) // also more than the whole budget
			}
			switch k := rng.IntN(10); {
			case k < 5:
				want := b.fits(b.held, size) && (len(line) == 0 || blocked())
				if got := b.open(size); got != want {
					t.Fatalf("seed %d, step %d: open(%d) is %v, want %v; %d of %d held, %d in line", seed, step, size, got, want, b.held, b.max, len(line))
				}
				if want {
					holders = append(holders, &holder{size: size, pass: b.take(size), before: len(line) == 0})
					break
				}
				a := &admission{batch: new(batch)}
				a.batch.way.held = size
				b.join(a)
				if line = append(line, a); len(line) == 1 {
					newFirst()
				}
			case k < 9 && len(holders) > 0:
				i := rng.IntN(len(holders))
				h := holders[i]
				holders = append(holders[:i:i], holders[i+1:]...)
				b.release(h.size, h.pass)
				admitted()
			case k == 9 && len(line) > 0: // gives up
				i := rng.IntN(len(line))
				b.leave(line[i])
				line = append(line[:i:i], line[i+1:]...)
				if i == 0 {
					newFirst()
				}
				admitted()
			}
			held := int64(0)
			for _, h := range holders {
				held += h.size
			}
			if held != b.held || held > b.max && len(holders) > 1 || b.line.n != len(line) {
				t.Fatalf("seed %d, step %d: %d held by %d, counted %d of %d; %d in line, counted %d", seed, step, held, len(holders), b.held, b.max, len(line), b.line.n)
			}
			if len(line) > 0 && b.fits(b.held, line[0].batch.way.held) {
				t.Fatalf("seed %d, step %d: %d held of %d, and %d waits", seed, step, b.held, b.max, line[0].batch.way.held)
			}
		}
		for len(holders) > 0 {
			b.release(holders[0].size, holders[0].pass)
			holders = holders[1:]
			admitted()
		}
		if b.held != 0 || len(line) != 0 {
			t.Errorf("seed %d: %d held, %d wait for ever", seed, b.held, len(line))
		}
	}
}
