package verdict_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// The two kinds of case: what a gate judges by default of one is the delivered rate and the CPU per GB, of the other the
// p50 and the p99.
var (
	throughputCase = resolved(workload.Case{Payload: 4096, Batch: 64})
	latencyCase    = resolved(workload.Case{Payload: 256, Batch: 1})
)

func resolved(c workload.Case) runrecord.Case {
	c, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return runrecord.Case{Key: c.Key(), Case: c}
}

func ptr[T any](v T) *T { return &v }

// trial is a valid record whose every metric is worse than usual by d, in logarithms: rates lower, times higher.
func trial(c runrecord.Case, arm string, d float64) *runrecord.Record {
	r := &runrecord.Record{Kind: "case", Case: c, Arm: &arm, Valid: true, SizeGrade: "sized"}
	r.Build = runrecord.Build{Optimized: true, Go: "go1.26.8", BinarySHA256: ptr("sha-" + arm), BenchDigest: ptr("bench")}
	r.Host.Fingerprint = "host"
	r.Counts.Delivered = 1 << 20
	r.Rates.DeliveredBytesPerSec = new(float64)
	r.Rates.DeliveredMsgsPerSec = new(float64)
	r.Latency.EndToEnd = &runrecord.Distribution{N: 1 << 20, P50Ns: new(int64), P90Ns: new(int64), P99Ns: new(int64), P999Ns: new(int64), MaxNs: new(int64)}
	r.Processes = []runrecord.Process{{UserNs: new(int64), SystemNs: ptr(int64(0))}}
	set(r, d, d)
	return r
}

// set gives the record's two gated metrics their values.
func set(r *runrecord.Record, d1, d2 float64) {
	*r.Rates.DeliveredBytesPerSec = 400e6 * math.Exp(-d1)
	*r.Rates.DeliveredMsgsPerSec = 100e3 * math.Exp(-d1)
	*r.Processes[0].UserNs = int64(2e9 * math.Exp(d2))
	e := r.Latency.EndToEnd
	*e.P50Ns, *e.P90Ns, *e.P99Ns = int64(200e3*math.Exp(d1)), int64(400e3*math.Exp(d1)), int64(900e3*math.Exp(d2))
	*e.P999Ns, *e.MaxNs = int64(5e6*math.Exp(d2)), int64(20e6*math.Exp(d2))
}

// gate is a session in memory, whose records can be given other values again and again.
type gate struct{ cells []verdict.Cell }

// newGate makes as many pairs, and the discarded one, of each case.
func newGate(pairs int, cases ...runrecord.Case) *gate {
	g := &gate{}
	for i, c := range cases {
		cell := verdict.Cell{Name: c.Key, Case: c, Throughput: c.Throughput()}
		if i > 0 && cases[0].Key == c.Key {
			cell.Name = fmt.Sprintf("%s #%d", c.Key, i)
		}
		for index := range pairs + 1 {
			cell.Pairs = append(cell.Pairs, verdict.Pair{
				Index: index, Discarded: index == 0, Base: trial(c, verdict.Base, 0), Head: trial(c, verdict.Head, 0),
				Sentinels: []verdict.Sentinel{{Name: "cpu", Base: 1000, Head: 1000}, {Name: "loopback", Base: 1e9, Head: 1e9}},
			})
		}
		g.cells = append(g.cells, cell)
	}
	return g
}

// world is what is true in a simulation, in logarithms: all of it worse when positive.
type world struct {
	sd       float64       // of d, per pair
	effect   [2][2]float64 // of head, by cell and metric
	drift    float64       // of everything, from the first trial to the last
	second   float64       // penalty of the second place in a pair
	slow     [2]float64    // chance of the slow mode in base and head, in the first cell's first metric
	slowBy   float64       // and how slow that is
	sentinel float64       // what the sentinel moves beside head
	invalid  [2]float64    // chance of an invalid trial
}

// fill gives all records values. The order of the arms is that of Orders.
func (g *gate) fill(w *world, rng *rand.Rand, seed uint64) {
	noise := func() float64 { return rng.NormFloat64() * w.sd / math.Sqrt2 }
	for k := range g.cells {
		c := &g.cells[k]
		orders := verdict.Orders([]string{verdict.Base, verdict.Head}, len(c.Pairs), seed+uint64(k))
		for i := range c.Pairs {
			p := &c.Pairs[i]
			p.Order = orders[i][0] + " " + orders[i][1]
			for place, arm := range orders[i] {
				at := w.drift*float64(2*i+place)/float64(2*len(c.Pairs)) + w.second*float64(place)
				r, side, d := p.Base, 0, [2]float64{at + noise(), at + noise()}
				if arm == verdict.Head {
					r, side = p.Head, 1
					d[0] += w.effect[k][0]
					d[1] += w.effect[k][1]
				}
				if k == 0 && w.slow[side] > 0 && rng.Float64() < w.slow[side] {
					d[0] += w.slowBy
				}
				set(r, d[0], d[1])
				r.Valid = !(rng.Float64() < w.invalid[side])
			}
			for s := range p.Sentinels {
				p.Sentinels[s].Base, p.Sentinels[s].Head = math.Exp(0.02*rng.NormFloat64()), math.Exp(0.02*rng.NormFloat64()-w.sentinel)
			}
		}
	}
}

// shifted is a gate of n pairs whose head is worse by d in everything, with a noise of 2 % that is the same every time.
func shifted(n int, d float64, cases ...runrecord.Case) *gate {
	g := newGate(n, cases...)
	w := world{sd: 0.02, effect: [2][2]float64{{d, d}, {d, d}}}
	g.fill(&w, rand.New(rand.NewPCG(1, 2)), 3)
	return g
}

// outcome is a check of what every verdict has to have.
func outcome(t *testing.T, v verdict.Verdict, want verdict.Outcome) {
	t.Helper()
	if v.Outcome != want {
		t.Errorf("outcome %v, want %v; reasons: %q", v.Outcome, want, v.Reasons)
	}
	if len(v.Reasons) == 0 && v.Outcome != verdict.Continue {
		t.Errorf("outcome %v without a reason", v.Outcome)
	}
}
