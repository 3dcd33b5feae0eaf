package chart

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/stat"
	"felix/internal/workload"
)

// FromCells puts a session's cells into the form of the pictures. Names are the grid's names of its cells by case key,
// as in cells.Table; a cell without one is named by its key. Distributions and the percentiles of all messages together
// need a grouper that kept histograms; without, they are left out. The error tells of histograms that cannot be read;
// those cells are returned without.
func FromCells(session string, list []cells.Cell, names map[string]string) ([]Cell, error) {
	var errs []error
	out := make([]Cell, 0, len(list))
	extras := distinguish(list)
	ceilings := cells.Ceilings(list)
	for i := range list {
		c, err := fromCell(session, &list[i], names, extras[i])
		if err != nil {
			errs = append(errs, err)
		}
		c.addCeiling(ceilings[list[i].ID].Text)
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}

// SourceOf says where a build's figures come from.
func SourceOf(session string, b *runrecord.Build, host string) Source {
	s := Source{Session: session, Host: host, Dirty: b.Dirty != nil && *b.Dirty}
	if b.Commit != nil {
		s.Commit = *b.Commit
	}
	return s
}

// ShapeOf says how a case makes its load.
func ShapeOf(c *workload.Case) Shape {
	s := Shape{Queueing: c.LatencyKind() == workload.KindQueueingDelay}
	if c.Probe.Echo() {
		s.Load = fmt.Sprintf("round trips of an echo, %d in flight", c.Inflight)
		return s
	}
	switch c.Load {
	case workload.LoadOpen:
		s.Load = fmt.Sprintf("open loop, %s msg/s, %s arrivals", metric(c.Rate), c.Arrival)
	case workload.LoadClosed:
		s.Load = fmt.Sprintf("closed loop, acks %s, %d in flight", strings.ReplaceAll(c.Acks.String(), "_", " "), c.Inflight)
	case workload.LoadFlood:
		s.Load = "flood"
	case workload.LoadBurst:
		s.Load = "a burst of " + counted(int64(c.Burst)) + " messages"
	default:
		s.Load = c.Load.String()
	}
	return s
}

// probeFactor tells a ceiling from what is held against it.
const probeFactor = "probe"

// addCeiling puts how the cell stands to its relay before the marks of its row.
func (c *Cell) addCeiling(text string) {
	switch text {
	case "", "-", "n/a":
		return
	case "ceiling", "one hop":
	default:
		text += " of relay"
	}
	if c.Marks != "" {
		text += ", " + c.Marks
	}
	c.Marks = text
}

// distinguish gives cells of one case what else tells them apart: arm, build, configuration.
func distinguish(list []cells.Cell) [][]Factor {
	out := make([][]Factor, len(list))
	builds := map[string]bool{}
	configs := map[string][]int{}
	for i := range list {
		c := &list[i]
		builds[buildOf(c)] = true
		var f []Factor
		add := func(name, level string) { f = append(f, Factor{name, level}) }
		if c.Kind != "" && c.Kind != "case" && c.Case.Probe == workload.ProbeNone {
			add("probe", c.Kind)
		}
		if c.Arm != "" {
			add("arm", c.Arm)
		}
		if c.Lossless != "" && c.Lossless != runrecord.LosslessYes {
			add("lossless", string(c.Lossless))
		}
		if len(c.Perturbed) > 0 {
			add("perturbed", strings.Join(c.Perturbed, ","))
		}
		out[i] = f
	}
	for i := range list {
		if c := &list[i]; len(builds) > 1 {
			out[i] = append(out[i], Factor{"build", cmp.Or(buildOf(c), "unknown")})
		}
		key := fmt.Sprint(list[i].Key, list[i].Host, out[i])
		configs[key] = append(configs[key], i)
	}
	for _, same := range configs {
		for n, i := range same {
			if len(same) > 1 { // settings or environment differ: the table says how, a picture only that
				out[i] = append(out[i], Factor{"settings", strconv.Itoa(n + 1)})
			}
		}
	}
	return out
}

func buildOf(c *cells.Cell) string {
	for _, id := range []*string{c.Build.BinarySHA256, c.Build.TreeDigest, c.Build.Commit} {
		if id != nil {
			return short(*id, 8)
		}
	}
	return ""
}

func fromCell(session string, c *cells.Cell, names map[string]string, extra []Factor) (Cell, error) {
	out := Cell{
		Source: SourceOf(session, &c.Build, c.Host), Shape: ShapeOf(&c.Case.Case), Payload: c.Case.Payload, Throughput: c.Throughput,
		P50: valueOf(c, c.P50), P99: valueOf(c, c.P99), MsgsPerSec: valueOf(c, c.Rate), BytesPerSec: valueOf(c, c.Main),
	}
	if c.Case.Load == workload.LoadOpen {
		out.Offered, out.Subscribers = c.Case.Rate, c.Case.Fanout
	}
	out.Overload = c.Case.Overload
	for i := range out.Dropped {
		out.Dropped[i] = droppedOf(c, i)
	}
	if !c.Throughput || c.Case.Payload == 0 { // Main is something else
		out.BytesPerSec = valueOf(c, cells.Figure{Median: math.NaN(), Low: math.NaN(), High: math.NaN(), N: c.N})
	}
	out.Factors = append(factorsOf(cmp.Or(names[c.Key], c.Key), c.Case.Payload), extra...)
	if c.Case.Probe != workload.ProbeNone && out.level(probeFactor) == "" {
		out.Factors = append(out.Factors, Factor{probeFactor, c.Case.Probe.String()})
	}
	for _, m := range c.Marks {
		out.Marks += string(m) + ", "
	}
	for _, m := range c.Caveats {
		out.Marks += string(m) + ", "
	}
	out.Marks = strings.TrimSuffix(out.Marks, ", ")
	if c.SlowModes.K > 0 {
		out.Slow = slowText(c.SlowModes)
	}
	for i := range c.Trials {
		out.Trials = append(out.Trials, dotOf(c, &c.Trials[i]))
	}
	d, err := c.EndToEnd()
	if errors.Is(err, cells.ErrNoHistograms) {
		err = nil
	}
	out.P90, out.P999 = pooled(c, d.P90Ns), pooled(c, d.P999Ns)
	if err == nil && d.N > 0 {
		out.Curve, err = CurveOf(out.name(), c.N, &d)
	}
	return out, err
}

func (c Cell) name() string { return (&sorter{}).text(c, true) }

// factorsOf reads a cell's name, "payload=256 batch=64", and sees to it that payload is among them.
func factorsOf(name string, payload int) []Factor {
	var out []Factor
	for _, field := range strings.Fields(name) {
		k, v, ok := strings.Cut(field, "=")
		if !ok {
			k, v = "cell", field
		}
		out = append(out, Factor{k, v})
	}
	if !slices.ContainsFunc(out, func(f Factor) bool { return f.Name == payloadFactor }) {
		out = append([]Factor{{payloadFactor, strconv.Itoa(payload)}}, out...)
	}
	return out
}

func valueOf(c *cells.Cell, f cells.Figure) Value {
	return Value{
		Median: f.Median, Low: f.Low, High: f.High, N: max(f.N, c.N), Invalid: c.Invalid + c.Failed, Doubtful: !c.Publishable,
	}
}

// pooled is a percentile of all messages; it has no interval.
func pooled(c *cells.Cell, ns *int64) Value {
	v := Value{Median: math.NaN(), Low: math.NaN(), High: math.NaN(), N: c.N, Invalid: c.Invalid + c.Failed, Doubtful: !c.Publishable}
	if ns != nil {
		v.Median = float64(*ns)
	}
	return v
}

// droppedOf is the median share, in %, that one place dropped in the valid trials.
func droppedOf(c *cells.Cell, place int) Value {
	var shares []float64
	for i := range c.Trials {
		if t := &c.Trials[i]; t.Valid && !t.Superseded && !math.IsNaN(t.DroppedShare[place]) {
			shares = append(shares, 100*t.DroppedShare[place])
		}
	}
	v := Value{Median: math.NaN(), Low: math.NaN(), High: math.NaN(), N: c.N, Invalid: c.Invalid + c.Failed, Doubtful: !c.Publishable}
	if len(shares) > 0 {
		slices.Sort(shares)
		v.Median, v.Low, v.High = stat.Median(shares), shares[0], shares[len(shares)-1]
	}
	return v
}

func slowText(s stat.Share) string {
	return fmt.Sprintf("slow %d/%d [%.0f %%, %.0f %%]", s.K, s.N, 100*s.Low, 100*s.High)
}

func dotOf(c *cells.Cell, t *cells.Trial) Dot {
	d := Dot{Value: t.P50Ns}
	if c.Throughput {
		d.Value = t.DeliveredBytesPerSec
		if c.Case.Payload == 0 {
			d.Value = t.DeliveredMsgsPerSec
		}
	}
	switch {
	case t.Outcome == cells.Failed || t.Outcome == cells.Interrupted:
		d.Kind = DotFailed
	case !t.Valid:
		d.Kind = DotInvalid
	case t.Superseded:
		d.Kind = DotSuperseded
	case t.Slow:
		d.Kind = DotSlow
	case t.Noise == "noisy" || t.Noise == "contaminated":
		d.Kind = DotNoisy
	}
	return d
}

// Slowest chooses the runs that are worth a time line: of each cell the slowest valid trial (noisy ones that were
// repeated aside), cells with a slow mode first, at most the given number. It returns their run ids, and how many cells
// were passed over for that limit.
func Slowest(list []cells.Cell, most int) (runIDs []string, left int) {
	for _, slow := range []bool{true, false} {
		for i := range list {
			c := &list[i]
			id := slowest(c)
			if (c.SlowModes.K > 0) != slow || id == "" {
				continue
			}
			if len(runIDs) == most {
				left++
				continue
			}
			runIDs = append(runIDs, id)
		}
	}
	return runIDs, left
}

func slowest(c *cells.Cell) (runID string) {
	worst := math.Inf(-1)
	for i := range c.Trials {
		t := &c.Trials[i]
		cost := dotOf(c, t).Value // of a latency: as it is
		if c.Throughput {
			cost = -cost
		}
		if t.Valid && !t.Superseded && cost > worst {
			runID, worst = t.RunID, cost
		}
	}
	return runID
}

// curveStep is how far apart the points of a curve are, in nines: finer cannot be seen.
const curveStep = 0.01

// CurveOf reads a merged histogram. A distribution without one, or without samples, is nil.
func CurveOf(name string, trials int, d *runrecord.Distribution) (*Curve, error) {
	if d == nil || d.HDR == nil || d.N <= 0 {
		return nil, nil
	}
	if _, err := base64.StdEncoding.DecodeString(*d.HDR); err != nil {
		return nil, fmt.Errorf("histogram of %s: %w", name, err)
	}
	h, err := hdr.Decode([]byte(*d.HDR))
	if err != nil {
		return nil, fmt.Errorf("histogram of %s: %w", name, err)
	}
	c := &Curve{Name: name, Trials: trials, N: h.TotalCount(), MaxNs: math.NaN()}
	if d.MaxNs != nil {
		c.MaxNs = float64(*d.MaxNs)
	}
	var below int64
	last := math.Inf(-1)
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		below += bar.Count
		q := float64(below) / float64(c.N)
		if at := nines(q); at-last >= curveStep || below == c.N {
			c.Steps = append(c.Steps, Step{Quantile: q, Ns: float64(bar.To)})
			last = at
		}
	}
	return c, nil
}
