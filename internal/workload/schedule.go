package workload

import (
	"math"
	"math/rand/v2"
)

// StreamsOf lists the logical streams that a publisher writes to, in the order it visits them: publisher p
// writes to stream p mod S; with fewer publishers than streams, round robin over the streams s with
// s mod P = p.
//
// A tenant's publishers write to its own streams alone.
func (c Case) StreamsOf(publisher int) []int {
	first := publisher / c.Publishers * c.Streams // of its tenant
	publisher %= c.Publishers
	if c.Publishers >= c.Streams {
		return []int{first + publisher%c.Streams}
	}
	var streams []int
	for s := publisher; s < c.Streams; s += c.Publishers {
		streams = append(streams, first+s)
	}
	return streams
}

// Share splits total messages over the publishers: the first total mod P get one more. Between tenants they are split
// by the rates, so that all end at the same time; what rounding leaves over is the last one's.
func (c Case) Share(total, publisher int) int {
	if n := len(c.Tenants); n > 0 {
		before, upTo := 0.0, 0.0
		tenant := publisher / c.Publishers
		for i, t := range c.Tenants[:tenant+1] {
			if upTo += t.Rate; i < tenant {
				before += t.Rate
			}
		}
		last := total
		if tenant < n-1 {
			last = int(float64(total) * (upTo / c.Rate))
		}
		total = last - int(float64(total)*(before/c.Rate))
		publisher %= c.Publishers
	}
	share := total / c.Publishers
	if publisher < total%c.Publishers {
		share++
	}
	return share
}

// Schedule yields when the slots of one open-loop publisher are due. A slot is one batch: all its messages
// share the slot's intended time. Times are absolute, so a late slot never delays the ones after it.
type Schedule struct {
	start    int64
	interval float64 // mean ns between slots
	poisson  *rand.Rand
	k        int64
	at       float64 // ns after start of the next slot
}

// NewSchedule returns the schedule of one publisher of the case that starts at start (ns). Constant publishers
// are staggered evenly over one interval, so that P publishers do not fire as one; Poisson publishers draw
// from the seed and their index.
func (c Case) NewSchedule(publisher int, start int64, seed uint64) *Schedule {
	perPublisher := c.rateOf(publisher) / float64(c.Batch) // slots per second
	s := &Schedule{start: start, interval: 1e9 / perPublisher}
	if c.Arrival == ArrivalPoisson {
		s.poisson = rand.New(rand.NewPCG(seed, uint64(publisher)))
		s.at = s.gap()
		return s
	}
	s.at = s.interval * float64(publisher%c.Publishers) / float64(c.Publishers)
	return s
}

func (s *Schedule) gap() float64 {
	// Inverse transform of an exponential: 1-U is in (0, 1], so the logarithm is finite.
	return -math.Log(1-s.poisson.Float64()) * s.interval
}

// Next returns the intended time of the next slot, in ns.
func (s *Schedule) Next() int64 {
	at := s.start + int64(s.at)
	s.k++
	if s.poisson != nil {
		s.at += s.gap()
		return at
	}
	s.at += s.interval
	return at
}
