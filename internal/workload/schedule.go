package workload

import (
	"math"
	"math/rand/v2"
)

// StreamsOf lists the logical streams that a publisher writes to, in the order it visits them: publisher p
// writes to stream p mod S; with fewer publishers than streams, round robin over the streams s with
// s mod P = p.
func (c Case) StreamsOf(publisher int) []int {
	if c.Publishers >= c.Streams {
		return []int{publisher % c.Streams}
	}
	var streams []int
	for s := publisher; s < c.Streams; s += c.Publishers {
		streams = append(streams, s)
	}
	return streams
}

// Share splits total messages over the publishers: the first total mod P get one more.
func (c Case) Share(total, publisher int) int {
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
	perPublisher := c.Rate / float64(c.Publishers) / float64(c.Batch) // slots per second
	s := &Schedule{start: start, interval: 1e9 / perPublisher}
	if c.Arrival == ArrivalPoisson {
		s.poisson = rand.New(rand.NewPCG(seed, uint64(publisher)))
		s.at = s.gap()
		return s
	}
	s.at = s.interval * float64(publisher) / float64(c.Publishers)
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
