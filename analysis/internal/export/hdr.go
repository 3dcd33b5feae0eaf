package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/cells"
	"felix/internal/workload"
)

// hgrmUnit is how many ns a value of a .hgrm is of: the format has three decimals, which are then ns.
const hgrmUnit = 1000

// ErrNoHistogram means that no trial of a cell recorded one.
var ErrNoHistogram = errors.New("no histogram was recorded")

// FileNames are the names of the cells' files, without their endings.
func (s *Set) FileNames() []string {
	out := s.names()
	for i, name := range out {
		out[i] = single(name, ",")
	}
	for i := range out {
		name := []byte(out[i])
		for j, ch := range name {
			switch {
			case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9', ch == '=', ch == '-', ch == '.', ch == '+', ch == '_':
			case ch == ',' || ch == '/':
				name[j] = '_'
			default:
				name[j] = '-'
			}
		}
		const most = 180
		if len(name) > most {
			name = append(name[:most-13], "-"+s.Cells[i].ID...)
		}
		out[i] = string(name)
	}
	return out
}

// WriteHGRM writes the distribution of all messages of the cell's trials together as HdrHistogram prints percentiles,
// in microseconds. It fails with ErrNoHistogram, and where one is damaged.
func (s *Set) WriteHGRM(w io.Writer, i int) error {
	c := &s.Cells[i]
	d, err := c.EndToEnd()
	if err != nil {
		return err
	}
	if d.N == 0 || d.HDR == nil {
		return ErrNoHistogram
	}
	h, err := hdr.Decode([]byte(*d.HDR))
	if err != nil {
		return fmt.Errorf("merged histogram: %w", err)
	}
	b := bufio.NewWriter(w)
	if _, err := h.PercentilesPrint(b, 5, hgrmUnit); err != nil {
		return err
	}
	fmt.Fprintf(b, "# values in us; %s of %d messages in %d valid trials\n# cell %s\n%s\n", quantity(c), d.N, c.N, s.names()[i], sourceText(c))
	return b.Flush()
}

// quantity names what the times are.
func quantity(c *cells.Cell) string {
	if c.Case.LatencyKind() == workload.KindQueueingDelay {
		return "queueing delay (NOT per-message latency)"
	}
	return "end-to-end latency"
}

// WriteHLog writes a HdrHistogram log (version 1.3): a line a trial, in the order of their starts, tagged with the
// trial's cell. Values are ns, the maximum on the line is ms, as the format has it. It returns how many lines it wrote
// and the trials whose histogram cannot be read.
func (s *Set) WriteHLog(w io.Writer) (lines int, damaged []string, err error) {
	type entry struct {
		Run
		tag, id string
	}
	var all []entry
	names := s.names()
	for i := range s.Cells {
		c := &s.Cells[i]
		for j := range c.Trials {
			if t := &c.Trials[j]; used(t) {
				if run := s.Runs[t.RunID]; run.HDR != "" {
					all = append(all, entry{run, single(names[i], "/"), t.RunID})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(max(-1, min(1, a.StartUnixNs-b.StartUnixNs))) })
	b := bufio.NewWriter(w)
	log := hdr.NewHistogramLogWriter(b)
	head := func(start int64) error {
		return errors.Join(
			log.OutputComment("[Logged with felix: end-to-end times in ns, one line a trial, tagged with its cell]"),
			log.OutputLogFormatVersion(),
			log.OutputStartTime(start/1e6),
			log.OutputLegend())
	}
	for _, e := range all {
		h, err := hdr.Decode([]byte(e.HDR))
		if err != nil {
			damaged = append(damaged, fmt.Sprintf("run %s: %v", e.id, err))
			continue
		}
		if lines == 0 {
			if err := head(e.StartUnixNs); err != nil {
				return 0, damaged, err
			}
		}
		// The library takes the time stamps out of the histogram, in whole ms since 1970.
		h.SetTag(e.tag)
		h.SetStartTimeMs(e.StartUnixNs / 1e6)
		h.SetEndTimeMs((e.StartUnixNs + e.LengthNs) / 1e6)
		if err := log.OutputIntervalHistogram(h); err != nil {
			return lines, damaged, err
		}
		lines++
	}
	if lines == 0 {
		if err := head(0); err != nil {
			return 0, damaged, err
		}
	}
	return lines, damaged, b.Flush()
}
