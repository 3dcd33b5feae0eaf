package export

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"felix/internal/cells"
)

// benchUnits declares which way is better, so that benchstat need not guess. It reads times in ns and prints seconds.
var benchUnits = []struct {
	unit   string
	higher bool
}{
	{"B/s", true}, {"msgs/s", true}, {"cpu-sec/GB", false},
	{"p50-latency-ns", false}, {"p99-latency-ns", false}, {"p50-queueing-ns", false}, {"p99-queueing-ns", false},
}

// WriteBench writes the Go benchmark format (golang.org/design/14313-benchmark-format), one line a trial, so that
// benchstat sees the samples and not their summary. Host and toolchain are configuration, by which benchstat parts its
// tables: other hosts are never in one. Commit and session stand in comments, because it would part by them too.
// Iterations are the deliveries of the trial. It returns how many lines it wrote.
func (s *Set) WriteBench(w io.Writer) (lines int, err error) {
	b := bufio.NewWriter(w)
	units := map[string]bool{}
	for i := range s.Cells {
		for _, m := range metricsOf(&s.Cells[i]) {
			units[m.unit] = true
		}
	}
	for _, u := range benchUnits {
		if units[u.unit] {
			better := "lower"
			if u.higher {
				better = "higher"
			}
			fmt.Fprintf(b, "Unit %s better=%s\n", u.unit, better)
		}
	}
	names := s.names()
	var host, tools, source string
	for i := range s.Cells {
		c := &s.Cells[i]
		if v := "host: " + orUnknown(&c.Host); v != host {
			host = v
			fmt.Fprintln(b, v)
		}
		if v := "go: " + orUnknown(&c.Build.Go) + "\nquic-go: " + orUnknown(c.Build.QuicGo); v != tools {
			tools = v
			fmt.Fprintln(b, v)
		}
		if v := sourceText(c); v != source {
			source = v
			fmt.Fprintln(b, v)
		}
		for j := range c.Trials {
			if t := &c.Trials[j]; used(t) && s.benchLine(b, c, t, names[i]) {
				lines++
			}
		}
	}
	return lines, b.Flush()
}

func sourceText(c *cells.Cell) string {
	dirty := ""
	if c.Build.Dirty != nil && *c.Build.Dirty {
		dirty = "-DIRTY"
	}
	return fmt.Sprintf("# commit %s%s tree %s", orUnknown(c.Build.Commit), dirty, orUnknown(c.Build.TreeDigest))
}

// benchLine writes one trial; false if it has no figure.
func (s *Set) benchLine(b *bufio.Writer, c *cells.Cell, t *cells.Trial, name string) bool {
	text := ""
	for _, m := range metricsOf(c) {
		if v := m.of(t); known(v) {
			text += " " + strconv.FormatFloat(v, 'g', -1, 64) + " " + m.unit
		}
	}
	if text == "" {
		return false
	}
	// A number behind the last "-" would be read as GOMAXPROCS, and hidden; there is none behind "/".
	fmt.Fprintf(b, "BenchmarkFelix/%s %d%s\n", guarded(single(name, "/")), max(1, s.Runs[t.RunID].Delivered), text)
	return true
}

// guarded keeps a name that ends in "-NUMBER" from being read as one of so many processors.
func guarded(name string) string {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	if i > 0 && i < len(name) && name[i-1] == '-' {
		return name + "_"
	}
	return name
}

func orUnknown(v *string) string {
	if v == nil || *v == "" {
		return "unknown"
	}
	return *v
}
