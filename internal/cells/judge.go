package cells

import (
	"math"

	"felix/internal/stat"
	"felix/internal/workload"
)

// summarise fills everything from N on out of the trials.
func (c *Cell) summarise(mixedSizes bool) {
	supersede(c.Trials)
	for i := range c.Trials {
		t := &c.Trials[i]
		switch {
		case t.Superseded:
			c.Superseded++
		case t.Valid:
			c.N++
			if t.noisy() {
				c.Noisy++
			}
		case t.Outcome == Invalid:
			c.Invalid++
		case t.Outcome == Failed:
			c.Failed++
		case t.Outcome == Interrupted:
			c.Interrupted++
		}
	}
	mainUnit, mainOf, higher := "ns", func(t *Trial) float64 { return t.P50Ns }, false
	if c.Throughput {
		mainUnit, mainOf, higher = "B/s", func(t *Trial) float64 { return t.DeliveredBytesPerSec }, true
		if c.Case.Payload == 0 { // the stamp alone: bytes would be the bench's own
			mainUnit, mainOf = "msg/s", func(t *Trial) float64 { return t.DeliveredMsgsPerSec }
		}
	}
	c.Main = c.figure(mainUnit, higher, mainOf)
	c.P50 = c.figure("ns", false, func(t *Trial) float64 { return t.P50Ns })
	c.P99 = c.figure("ns", false, func(t *Trial) float64 { return t.P99Ns })
	c.Rate = c.figure("msg/s", true, func(t *Trial) float64 { return t.DeliveredMsgsPerSec })
	c.CPUPerGB = c.figure("s/GB", false, func(t *Trial) float64 { return t.CPUSecondsPerGB })
	c.slowModes(mainOf, higher)
	c.judge(mixedSizes)
}

// supersede sets a noisy valid trial aside if the same trial of the same session was repeated and came out valid and
// quiet. What decides is the machine's noise, never the figure, so that nothing is selected by its result; the
// repeats are all kept, and the cell says how many were set aside.
func supersede(trials []Trial) {
	type place struct {
		session string
		trial   int
	}
	quiet := map[place]bool{}
	for i := range trials {
		trials[i].Superseded = false
		if t := &trials[i]; t.Valid && t.Trial >= 0 && t.Session != "" && !t.noisy() {
			quiet[place{t.Session, t.Trial}] = true
		}
	}
	for i := range trials {
		t := &trials[i]
		t.Superseded = t.Valid && t.noisy() && quiet[place{t.Session, t.Trial}]
	}
}

// values returns one figure of the used trials that have it.
func (c *Cell) values(of func(*Trial) float64) []float64 {
	var xs []float64
	for i := range c.Trials {
		if t := &c.Trials[i]; t.used() {
			if x := of(t); !math.IsNaN(x) && !math.IsInf(x, 0) {
				xs = append(xs, x)
			}
		}
	}
	return xs
}

func (c *Cell) figure(unit string, higherIsBetter bool, of func(*Trial) float64) Figure {
	xs := c.values(of)
	median, iv, _ := stat.MedianInterval(xs, Level)
	worst := 100.0
	if higherIsBetter {
		worst = 0
	}
	return Figure{
		Unit: unit, N: len(xs), Median: median, Low: iv.Low, High: iv.High, Coverage: iv.Coverage,
		Worst: stat.Quantile(xs, worst), Spread: stat.Spread(xs),
	}
}

// slowModes counts trials in a slow mode, and marks them.
func (c *Cell) slowModes(of func(*Trial) float64, higherIsBetter bool) {
	speed := func(t *Trial) float64 {
		if x := of(t); higherIsBetter {
			return x
		} else if x > 0 {
			return 1 / x
		}
		return math.NaN()
	}
	xs := c.values(speed)
	c.SlowModes = stat.SlowModes(xs)
	limit := stat.SlowLimit(xs)
	for i := range c.Trials {
		t := &c.Trials[i]
		t.Slow = t.used() && speed(t) < limit
	}
}

// judge applies the rule of publication.
func (c *Cell) judge(mixedSizes bool) {
	var undersized, capped, unknownNoise bool
	for i := range c.Trials {
		t := &c.Trials[i]
		if !t.used() {
			continue
		}
		undersized = undersized || t.SizeGrade == workload.GradeUndersized || t.SizeGrade == workload.GradeBufferAbsorbed
		capped = capped || t.SizeGrade == workload.GradeCapped
		unknownNoise = unknownNoise || t.Noise == ""
	}
	b := &c.Build
	c.Marks = marks(
		markIf{MarkFew, c.N < MinTrials},
		markIf{MarkInvalid, c.Invalid > 0},
		markIf{MarkFailed, c.Failed > 0},
		markIf{MarkNoisy, c.Noisy > 0},
		markIf{MarkSpread, c.Main.N >= 2 && !(c.Main.Spread < MaxSpread)},
		markIf{MarkMissing, c.Main.N < c.N},
		markIf{MarkUndersized, undersized},
		markIf{MarkPerturbed, len(c.Perturbed) > 0},
		markIf{MarkBuild, b.Race || b.Coverage || !b.Optimized},
	)
	c.Caveats = marks(
		markIf{CaveatCapped, capped},
		markIf{CaveatDirty, b.Dirty != nil && *b.Dirty},
		markIf{CaveatNoBuild, b.TreeDigest == nil},
		markIf{CaveatNoise, unknownNoise},
		markIf{CaveatInterrupted, c.Interrupted > 0},
		markIf{CaveatSizes, mixedSizes},
	)
	c.Publishable = len(c.Marks) == 0
}

type markIf struct {
	mark Mark
	yes  bool
}

func marks(list ...markIf) []Mark {
	var out []Mark
	for _, m := range list {
		if m.yes {
			out = append(out, m.mark)
		}
	}
	return out
}
