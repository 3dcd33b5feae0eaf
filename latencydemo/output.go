package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"felix/internal/build"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/trial"
	"felix/internal/workload"
	"felix/presets"
)

func (o *options) jsonToStdout() bool { return o.jsonOut == "-" }

// checkOutputs finds before a run what would lose its record after it.
func (o *options) checkOutputs() error {
	for flag, dir := range map[string]string{"out": o.outDir, "session": o.session} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return usageError("give a directory that can be written", "--%s: %w", flag, err)
		}
	}
	if o.session != "" {
		if err := checkSession(o.session); err != nil {
			return err
		}
	}
	if o.jsonOut != "" && !o.jsonToStdout() {
		f, err := os.OpenFile(o.jsonOut, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return usageError("give a file that can be written, or - for stdout", "--json: %w", err)
		}
		return f.Close()
	}
	return nil
}

// write puts the record where the flags say: extras first, so that the record can name them.
func (o *options) write(out *trial.Outcome, stdout io.Writer) error {
	rec := out.Record
	if o.session != "" {
		if err := joinSession(o.session, rec, o.args); err != nil {
			return err
		}
	}
	for _, dir := range o.extraDirs(rec.RunID) {
		rec.Files = nil
		for _, name := range slices.Sorted(maps.Keys(out.Extras)) {
			f, err := runrecord.WriteBeside(dir, name, out.Extras[name])
			if err != nil {
				return err
			}
			rec.Files = append(rec.Files, f)
		}
	}
	if o.session != "" {
		if err := runrecord.Append(filepath.Join(o.session, runrecord.RecordsFile), rec); err != nil {
			return err
		}
	}
	switch {
	case o.jsonToStdout():
		line, err := rec.Encode()
		if err != nil {
			return err
		}
		if _, err := stdout.Write(line); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
	case o.jsonOut != "":
		return runrecord.Append(o.jsonOut, rec)
	}
	return nil
}

func (o *options) extraDirs(runID string) []string {
	var dirs []string
	switch {
	case o.outDir != "" && (o.repeat > 1 || o.pairs > 0):
		dirs = append(dirs, filepath.Join(o.outDir, runID)) // the files of every trial have the same names
	case o.outDir != "":
		dirs = append(dirs, o.outDir)
	}
	if o.session != "" {
		dirs = append(dirs, filepath.Join(o.session, runrecord.RunsDir, runID))
	}
	return dirs
}

// watch shows the phase of a run on a terminal, one line that is written over, and nothing elsewhere.
func watch(p *trial.Plan, stderr io.Writer) (stop func()) {
	f, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	var last time.Time
	p.Progress = func(g trial.Progress) {
		if time.Since(last) < 200*time.Millisecond {
			return
		}
		last = time.Now()
		fmt.Fprintf(f, "\r\x1b[K%s  %.1f s  published %d  delivered %d", g.Phase, g.Elapsed.Seconds(), g.Published, g.Delivered)
	}
	return func() { fmt.Fprint(f, "\r\x1b[K") }
}

func helpText() string {
	var b strings.Builder
	b.WriteString(`latencydemo runs one case once over real QUIC and prints what can be believed of it.

usage: latencydemo [flags]
       latencydemo probe raw|relay|echo|echo-relay [flags]

  latencydemo                                    latency: 256 B, acked, closed loop
  latencydemo --payload 4096 --batch 64          throughput, sized past the send window
  latencydemo --rate 20000 --duration 10s        latency at a rate, from the intended time
  latencydemo --repeat 10 --batch 64             the same ten times, and how far the trials can be believed
  latencydemo probe relay --payload 4096 --batch 64
                                                 the ceiling: the same load through a minimal relay
  latencydemo --payload 4096 --batch 64 --against relay --pairs 10
                                                 the case and its relay in turn, and the ratios
  latencydemo --json -                           the record, one JSON line, on stdout

exit codes: 0 valid; 1 ran, but invalid, failed or interrupted; 2 usage, settings or no broker

flags:
`)
	b.WriteString(newFlags(&options{}).FlagUsages())
	fmt.Fprintf(&b, "\nprofiles: %s\n", strings.Join(presets.ProfileNames(), ", "))
	return b.String()
}

func versionText(id build.Identity) string {
	show := func(s *string) string {
		if s == nil {
			return "unknown"
		}
		return *s
	}
	dirty := ""
	if id.Dirty != nil && *id.Dirty {
		dirty = " DIRTY"
	}
	compiler := id.Go
	if id.PGO {
		compiler += ", pgo"
	}
	return fmt.Sprintf("latencydemo  commit %s%s  tree %s  bench %s  binary %s  (%s; %s, quic-go %s)",
		show(id.Commit), dirty, show(id.TreeDigest), show(id.BenchDigest), show(id.BinarySHA256), id.Source, compiler, show(id.QuicGo))
}

// printPlan is what --dry-run shows: everything that would be run, and where each setting comes from.
func printPlan(w io.Writer, p *trial.Plan) {
	fmt.Fprintf(w, "case       %s\n", p.Case.Key())
	fmt.Fprintf(w, "kind       %s\n", p.Case.LatencyKind())
	fmt.Fprintf(w, "lossless   %s\n", p.Lossless)
	fmt.Fprintf(w, "sizes      %s\n", sizesText(p))
	sections := []string{"broker", "client", "transport"}
	if p.Case.Probe != workload.ProbeNone {
		sections = printProbePlan(w, p)
	}
	for _, section := range sections {
		doc := p.Settings.Sections[section]
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			fmt.Fprintf(w, "%-10s %s = %v  (%s)\n", section, key, doc[key].Value, doc[key].From)
		}
	}
	for _, key := range settings.Keys() {
		fmt.Fprintf(w, "variable   %s sets %s %s: %s\n", key.Env, key.Section, key.Name, key.Help)
	}
}

func sizesText(p *trial.Plan) string {
	total := "auto"
	if p.Sizes.Total > 0 {
		total = fmt.Sprint(p.Sizes.Total)
	}
	warmup := "auto"
	if p.Sizes.Warmup >= 0 {
		warmup = fmt.Sprint(p.Sizes.Warmup)
	}
	text := fmt.Sprintf("total %s, warm-up %s, idle timeout %v, seed %d", total, warmup, p.Sizes.IdleTimeout, p.Sizes.Seed)
	if p.Sizes.Duration > 0 {
		text += fmt.Sprintf(", duration %v", p.Sizes.Duration)
	}
	return text
}
