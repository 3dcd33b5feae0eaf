package cells

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// Grouper takes records one by one. It must not be used by two goroutines at once.
type Grouper struct {
	// KeepHistograms keeps the EndToEnd histogram of every valid record, compressed, 1 to 3 KiB each, for
	// Cell.EndToEnd. Set it before the first Add.
	KeepHistograms bool

	groups     map[string]*group
	order      []*group
	seen       map[string]struct{} // run ids
	duplicates int
	words      map[string]string // one copy of texts that many trials share
	configs    map[uint64]map[string]string
}

// group is a cell in the making.
type group struct {
	cell  Cell
	sizes sizes
	mixed bool // trials of different sizes
	hdr   map[int]keptHistogram
}

// sizes are what a case's key leaves out and yet changes what a trial is. The send window, which configures the
// broker, is not among them: it makes another cell.
type sizes struct {
	total, duration, warmup, deliveries int64 // -1: not asked for
}

// NewGrouper returns an empty one.
func NewGrouper() *Grouper {
	return &Grouper{
		groups: map[string]*group{}, seen: map[string]struct{}{},
		words: map[string]string{}, configs: map[uint64]map[string]string{},
	}
}

// Group returns the cells of a few records.
func Group(records []*runrecord.Record) []Cell {
	g := NewGrouper()
	for _, r := range records {
		g.Add(r)
	}
	return g.Cells()
}

// Add takes what it needs of the record. A run that was added before is counted in Duplicates and otherwise ignored,
// so that files that overlap do not make n larger than it was. It returns the ID of the record's cell, "" if it was
// ignored.
func (g *Grouper) Add(r *runrecord.Record) (id string) {
	if r.RunID != "" {
		if _, again := g.seen[r.RunID]; again {
			g.duplicates++
			return ""
		}
		g.seen[r.RunID] = struct{}{}
	}
	config, digest := g.config(&r.Config)
	key := groupKey(r, digest)
	s := sizesOf(&r.Case)
	at := g.groups[key]
	if at == nil {
		at = &group{cell: Cell{
			ID: cellID(key), Key: r.Case.Key, Kind: r.Kind, Arm: word(r.Arm), Case: r.Case, Build: r.Build, Host: r.Host.Fingerprint,
			Env: maps.Clone(r.Env), Lossless: r.Lossless, Perturbed: slices.Clone(r.Perturbed), Config: config,
			Reasons: map[string]int{}, Throughput: r.Case.Throughput(),
		}, sizes: s}
		g.groups[key] = at
		g.order = append(g.order, at)
	}
	at.mixed = at.mixed || s != at.sizes
	t := g.trial(r)
	if !t.Valid && t.Outcome != Interrupted {
		for _, reason := range reasons(r) {
			at.cell.Reasons[g.word(reason)]++
		}
	}
	if g.KeepHistograms && t.Valid {
		if kept, ok := keep(r.Latency.EndToEnd); ok {
			if at.hdr == nil {
				at.hdr = map[int]keptHistogram{}
			}
			at.hdr[len(at.cell.Trials)] = kept
		}
	}
	at.cell.Trials = append(at.cell.Trials, t)
	return at.cell.ID
}

// cellID names a cell by all that sets its trials apart from others, in 12 hexadecimal digits.
func cellID(groupKey string) string {
	sum := sha256.Sum256([]byte(groupKey))
	return hex.EncodeToString(sum[:6])
}

// Duplicates returns how many records were left out because their run had been added before.
func (g *Grouper) Duplicates() int { return g.duplicates }

// Cells returns the cells in the order in which they first came, summarised. More records may be added afterwards.
func (g *Grouper) Cells() []Cell {
	cells := make([]Cell, 0, len(g.order))
	for _, at := range g.order {
		c := at.cell
		c.Trials = slices.Clone(c.Trials)
		c.Reasons = maps.Clone(c.Reasons)
		c.summarise(at.mixed)
		c.histograms = &histograms{kept: g.KeepHistograms, of: at.hdr}
		cells = append(cells, c)
	}
	return cells
}

// groupKey is everything that sets trials apart.
func groupKey(r *runrecord.Record, config uint64) string {
	var b strings.Builder
	add := func(texts ...string) {
		for _, text := range texts {
			b.WriteString(text)
			b.WriteByte(0)
		}
	}
	build := &r.Build
	add(r.Kind, word(r.Arm), r.Case.Key, strconv.FormatInt(r.Case.SendWindow, 10), r.Host.Fingerprint, string(r.Lossless),
		word(build.Commit), word(build.TreeDigest), word(build.BinarySHA256), word(build.QuicGo), build.Go,
		strconv.FormatBool(build.Dirty != nil && *build.Dirty), strconv.FormatBool(build.Race),
		strconv.FormatBool(build.Optimized), strconv.FormatBool(build.Coverage), strconv.FormatUint(config, 16))
	if r.BenchBuild != nil { // another one than measures elsewhere
		add("bench", word(r.Bench), word(r.BenchBuild.BinarySHA256), word(r.BenchBuild.TreeDigest))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		add(k, r.Env[k])
	}
	add("perturbed")
	add(slices.Sorted(slices.Values(r.Perturbed))...)
	return b.String()
}

// config returns the effective settings and a digest of them; equal ones are kept once.
func (g *Grouper) config(c *runrecord.Config) (map[string]string, uint64) {
	sets := []struct {
		prefix   string
		settings map[string]runrecord.Setting
	}{{"broker.", c.Broker}, {"client.", c.Client}, {"transport.", c.Transport}}
	// The sum of the settings' hashes needs no order of the keys: half of what a record cost here was sorting them.
	digest := uint64(0)
	for _, set := range sets {
		for k, s := range set.settings {
			h := fnv.New64a()
			h.Write([]byte(set.prefix + k + "="))
			h.Write([]byte(valueText(s.Value)))
			digest += h.Sum64()
		}
	}
	if known, ok := g.configs[digest]; ok {
		return known, digest
	}
	all := map[string]string{}
	for _, set := range sets {
		for k, s := range set.settings {
			all[set.prefix+k] = valueText(s.Value)
		}
	}
	g.configs[digest] = all
	return all, digest
}

// valueText prints a setting the same whether it comes from a program or was read from JSON.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

func sizesOf(c *runrecord.Case) sizes {
	return sizes{number(c.Total), number(c.DurationNs), number(c.Warmup), c.MaxDeliveries}
}

func (g *Grouper) trial(r *runrecord.Record) Trial {
	t := Trial{
		RunID: r.RunID, Session: g.word(word(r.SessionID)), Trial: -1, Outcome: outcome(r), SizeGrade: workload.Grade(g.word(r.SizeGrade)),
		DeliveredBytesPerSec: figure(r.Rates.DeliveredBytesPerSec), DeliveredMsgsPerSec: figure(r.Rates.DeliveredMsgsPerSec),
		P50Ns: math.NaN(), P99Ns: math.NaN(), CPUSecondsPerGB: cpuPerGB(r), DroppedShare: droppedShare(&r.Counts),
	}
	t.Valid = t.Outcome == Valid
	if r.Trial != nil {
		t.Trial = *r.Trial
	}
	if r.Host.Noise != nil {
		t.Noise = g.word(r.Host.Noise.Grade)
	}
	if d := r.Latency.EndToEnd; d != nil {
		t.P50Ns, t.P99Ns = nanoseconds(d.P50Ns), nanoseconds(d.P99Ns)
	}
	return t
}

// droppedShare is NaN where it was not counted, or nothing was expected.
func droppedShare(c *runrecord.Counts) (share [4]float64) {
	for i, n := range []*int64{c.Dropped.Ingress, c.Dropped.Subscriber, c.Dropped.Writer, c.Dropped.Client} {
		share[i] = math.NaN()
		if n != nil && c.Expected > 0 {
			share[i] = float64(*n) / float64(c.Expected)
		}
	}
	return share
}

func outcome(r *runrecord.Record) Outcome {
	switch {
	case r.Interrupted:
		return Interrupted
	case r.Error != nil:
		return Failed
	case !r.Valid:
		return Invalid
	}
	return Valid
}

// reasons are why a record is not valid, each without its figures, so that the same reason is the same word.
func reasons(r *runrecord.Record) []string {
	out := []string{}
	for _, reason := range r.Reasons {
		out = append(out, kindOfReason(reason))
	}
	if len(out) == 0 && r.Error != nil {
		out = append(out, kindOfReason(*r.Error))
	}
	if len(out) == 0 {
		out = append(out, "no reason given")
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// kindOfReason cuts a reason before its figures: what stands before the first colon, or else its first line.
func kindOfReason(reason string) string {
	reason, _, _ = strings.Cut(reason, "\n")
	if kind, _, ok := strings.Cut(reason, ":"); ok && kind != "" {
		return kind
	}
	return reason
}

// cpuPerGB is the CPU time of all processes per 10^9 delivered bytes; NaN unless all are known, and at payload 0,
// where there are no bytes but the stamp's.
func cpuPerGB(r *runrecord.Record) float64 {
	bytes := float64(r.Counts.Delivered) * float64(r.Case.Payload)
	if len(r.Processes) == 0 || !(bytes > 0) {
		return math.NaN()
	}
	var ns int64
	for _, p := range r.Processes {
		if p.UserNs == nil || p.SystemNs == nil {
			return math.NaN()
		}
		ns += *p.UserNs + *p.SystemNs
	}
	return float64(ns) / bytes // ns per byte are seconds per 10^9 bytes
}

// word returns the one copy of a text, so that a trial does not hold on to its record's.
func (g *Grouper) word(text string) string {
	if known, ok := g.words[text]; ok {
		return known
	}
	g.words[text] = text
	return text
}

func word(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func number(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func figure(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func nanoseconds(n *int64) float64 {
	if n == nil {
		return math.NaN()
	}
	return float64(*n)
}
