package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Stage is one stretch of a message's way. The stages of a run follow each other without a gap.
type Stage struct {
	Name     string
	From, To Point
}

// Stages returns the stages of a run, from intended (sent, unless the load is an open loop, where
// the two differ) to received. What a broker that is not ours does cannot be told from the network.
func Stages(openLoop, ownBroker bool) []Stage {
	var stages []Stage
	if openLoop {
		stages = append(stages, Stage{"publish delay", PointIntended, PointSent})
	}
	stages = append(stages,
		Stage{"client queue", PointSent, PointClientWrite},
		Stage{"client write", PointClientWrite, PointClientWritten})
	if ownBroker {
		stages = append(stages,
			Stage{"network in", PointClientWritten, PointBrokerRead},
			Stage{"broker ingress", PointBrokerRead, PointFanout},
			Stage{"broker queue", PointFanout, PointBrokerWrite},
			Stage{"broker write", PointBrokerWrite, PointBrokerWritten},
			Stage{"network out", PointBrokerWritten, PointArrived})
	} else {
		stages = append(stages, Stage{"network and broker", PointClientWritten, PointArrived})
	}
	return append(stages, Stage{"hand-over", PointArrived, PointReceived})
}

// Journey is the way of one traced message to one subscription. Times are on the machine's
// monotonic clock.
type Journey struct {
	Publisher, Stream uint16
	Seq               uint64
	Subscription      uint64 // the broker's id
	Due               int64  // intended, as the subscriber read it

	at    [numPoints]int64
	known uint16 // a bit for each point
}

// At returns when the message was at a point, and whether that is known.
func (j *Journey) At(p Point) (int64, bool) { return j.at[p], j.known&(1<<p) != 0 }

// EndToEnd is received - intended.
func (j *Journey) EndToEnd() int64 { return j.at[PointReceived] - j.Due }

// Takes returns how long a stage took, and false if one of its ends is not known. Processes agree
// on the time but for the error of their clocks: what that makes negative is 0.
func (j *Journey) Takes(s Stage) (ns int64, ok bool) {
	from, known := j.At(s.From)
	to, alsoKnown := j.At(s.To)
	return max(0, to-from), known && alsoKnown
}

func (j *Journey) set(p Point, at int64) {
	if j.known&(1<<p) == 0 { // the first one, should there be another
		j.at[p], j.known = at, j.known|1<<p
	}
}

// clip ends a write not later than the other side had its bytes: the writer learns of its end when
// it is woken, which can be after the frame has arrived.
func (j *Journey) clip(written Point, arrivals ...Point) {
	for _, p := range arrivals {
		if at, known := j.At(p); known {
			j.at[written] = min(j.at[written], at)
			return
		}
	}
}

// JoinTraces puts the events of all processes of a run together: a journey for each delivery of a
// traced message, in order of publisher, stream, number and subscription. Every is that of the
// Tracers; the one returned is what was left to trace after their halvings. Lost is what had no
// room. Results that are nil are passed over.
func JoinTraces(every uint64, results ...*TraceResult) (journeys []Journey, left, lost uint64) {
	results = slices.DeleteFunc(slices.Clone(results), func(r *TraceResult) bool { return r == nil })
	halvings := uint32(0)
	for _, r := range results {
		halvings = max(halvings, r.Halvings)
		lost += r.Lost
	}
	type key struct{ id, sub uint64 }
	messages := map[uint64]*Journey{}
	deliveries := map[key]*Journey{}
	for _, r := range results {
		r.unpack(func(e traceEvent) {
			switch {
			case !kept(e.id, halvings) || e.point > pointDue:
			case e.point <= PointFanout:
				j := messages[e.id]
				if j == nil {
					j = &Journey{}
					messages[e.id] = j
				}
				j.set(e.point, e.at)
			default:
				k := key{e.id, e.sub}
				j := deliveries[k]
				if j == nil {
					j = &Journey{
						Publisher: uint16(e.id >> 48), Stream: uint16(e.id >> 32), Seq: e.id & math.MaxUint32 * every,
						Subscription: e.sub,
					}
					deliveries[k] = j
				}
				if e.point == pointDue {
					j.Due = e.at
				} else {
					j.set(e.point, e.at)
				}
			}
		})
	}
	for k, j := range deliveries {
		if _, received := j.At(PointReceived); !received {
			continue // dropped on the way, or later than the run
		}
		if m := messages[k.id]; m != nil {
			for p := PointIntended; p <= PointFanout; p++ {
				if at, known := m.At(p); known {
					j.set(p, at)
				}
			}
		}
		j.clip(PointClientWritten, PointBrokerRead, PointArrived)
		j.clip(PointBrokerWritten, PointArrived)
		journeys = append(journeys, *j)
	}
	slices.SortFunc(journeys, func(a, b Journey) int {
		return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Subscription, b.Subscription))
	})
	return journeys, every << halvings, lost
}

// StageTimes are the times of one stage over all journeys that have it.
type StageTimes struct {
	Name   string
	N      int64
	MeanNs *float64 // nil without a sample
	P50Ns  *int64   // percentiles by the same rule as Summary's
	P99Ns  *int64
}

// Traced is what the journeys of a run say together.
type Traced struct {
	Stages   []StageTimes
	Messages int // of which at least one delivery was traced to its end
	N        int // such deliveries
	Whole    int // those of them that have every stage
	// MeanEndToEndNs and MeanSumNs are over the whole ones: EndToEnd, and what their stages sum to.
	MeanEndToEndNs, MeanSumNs float64
	P50Ns                     *int64 // of EndToEnd of all N

	low, high int64 // where the median of all messages lies, for all that so many traced ones tell
}

// SumStages times the stages over the journeys.
func SumStages(stages []Stage, journeys []Journey) Traced {
	t := Traced{N: len(journeys)}
	times := make([][]int64, len(stages))
	endToEnd := make([]int64, 0, len(journeys))
	for i := range journeys {
		j := &journeys[i]
		if i == 0 || j.Publisher != journeys[i-1].Publisher || j.Stream != journeys[i-1].Stream || j.Seq != journeys[i-1].Seq {
			t.Messages++
		}
		endToEnd = append(endToEnd, j.EndToEnd())
		whole, sum := true, int64(0)
		for s, stage := range stages {
			ns, ok := j.Takes(stage)
			if !ok {
				whole = false
				continue
			}
			times[s] = append(times[s], ns)
			sum += ns
		}
		if whole {
			t.Whole++
			t.MeanEndToEndNs += float64(j.EndToEnd())
			t.MeanSumNs += float64(sum)
		}
	}
	if t.Whole > 0 {
		t.MeanEndToEndNs /= float64(t.Whole)
		t.MeanSumNs /= float64(t.Whole)
	}
	for s, stage := range stages {
		t.Stages = append(t.Stages, stageTimes(stage.Name, times[s]))
	}
	slices.Sort(endToEnd)
	t.P50Ns = perMilleOf(endToEnd, 500)
	t.low, t.high = medianRange(endToEnd, t.Messages)
	return t
}

func stageTimes(name string, ns []int64) StageTimes {
	s := StageTimes{Name: name, N: int64(len(ns))}
	if len(ns) == 0 {
		return s
	}
	slices.Sort(ns)
	mean := 0.0
	for _, n := range ns {
		mean += float64(n)
	}
	mean /= float64(len(ns))
	s.MeanNs, s.P50Ns, s.P99Ns = &mean, perMilleOf(ns, 500), perMilleOf(ns, 990)
	return s
}

// perMilleOf is Histogram.perMille over sorted values.
func perMilleOf(sorted []int64, p int64) *int64 {
	rank, ok := percentileRank(int64(len(sorted)), p)
	if !ok {
		return nil
	}
	v := sorted[rank-1]
	return &v
}

// medianRange is the 99 % interval of the median by order statistics, in the normal approximation.
// Deliveries of one message are no independent samples: the messages are.
func medianRange(sorted []int64, messages int) (low, high int64) {
	if messages == 0 {
		return 0, math.MaxInt64
	}
	half := 2.576 / 2 / math.Sqrt(float64(messages)) // in quantiles
	n := float64(len(sorted))
	at := func(q float64) int { return min(max(int(q*n), 0), len(sorted)-1) }
	low, high = sorted[at(0.5-half)], sorted[at(0.5+half)]
	if half >= 0.5 {
		low, high = 0, math.MaxInt64
	}
	return low, high
}

// reconciled is how far sums and medians may lie apart.
const reconciled = 0.05

// Missing names the stages that no journey has although there are journeys: whoever should have
// told of them did not.
func (t *Traced) Missing() []string {
	var names []string
	for _, s := range t.Stages {
		if t.N > 0 && s.N == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// Doubts says in words where the traced messages do not stand for all: if the mean of what their
// stages sum to is more than 5 % off the mean of their EndToEnd, and if their median is more than
// 5 % off that of all messages and so few traced ones do not explain it (99 % interval).
func (t *Traced) Doubts(all *Histogram) []string {
	var out []string
	if t.Whole > 0 && math.Abs(t.MeanSumNs-t.MeanEndToEndNs) > reconciled*t.MeanEndToEndNs {
		out = append(out, fmt.Sprintf("stages: %d traced deliveries took %v in the mean, their stages sum to %v: clocks or traces disagree",
			t.Whole, time.Duration(t.MeanEndToEndNs), time.Duration(t.MeanSumNs)))
	}
	median := all.perMille(500)
	if t.P50Ns == nil || median == nil {
		return out
	}
	off := math.Abs(float64(*t.P50Ns-*median)) > reconciled*float64(*median)
	if off && (*median < t.low || *median > t.high) {
		out = append(out, fmt.Sprintf("stages: the median of %d traced deliveries is %v, that of all is %v: the stages are not those of the typical message",
			t.N, time.Duration(*t.P50Ns), time.Duration(*median)))
	}
	return out
}
