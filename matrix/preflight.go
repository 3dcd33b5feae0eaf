package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// knownCell is what the binary says of a cell before it runs: what its records will say, too.
type knownCell struct {
	lossless runrecord.Lossless
	config   runrecord.Config
	// effective is what is really run, without what was asked for: the case's factors, and every setting without where
	// it came from.
	effective string
}

// preflight asks the binary whether it would run each cell, by --dry-run: a setting that it does not know is found
// before the first trial and not after an hour. So is a factor that changes nothing of what is run.
func preflight(ctx context.Context, binary string, grid *workload.Grid) ([]knownCell, error) {
	cells := grid.Cells
	known := make([]knownCell, len(cells))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for i := range cells {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			var stdout, stderr strings.Builder
			cmd := exec.CommandContext(ctx, binary, append(trialFlags(&cells[i], 1), "--dry-run")...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				return refused(cells[i].Name, err, stderr.String())
			}
			known[i] = parseDryRun(stdout.String())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	effective := map[string]string{} // by case: one grid holds each once
	for i := range cells {
		effective[cells[i].Case.Key()] = known[i].effective
	}
	err := grid.Lint(func(c *workload.Cell) (string, error) { return effective[c.Case.Key()], nil })
	if err != nil {
		return nil, gridUsage(err)
	}
	return known, nil
}

// refused passes on what latencydemo said: one line and a hint.
func refused(cell string, err error, stderr string) error {
	text, hint := err.Error(), "matrix run --dry-run shows the cells"
	for line := range strings.Lines(stderr) {
		line = strings.TrimPrefix(strings.TrimSpace(line), binaryFile+": ")
		if h, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = h
		} else if line != "" {
			text = line
		}
	}
	return usagef(hint, "cell %q: latencydemo refuses it: %s", cell, text)
}

// settingLine is one setting in a dry run: "broker     log_capacity = 9  (flag --broker-set)".
var settingLine = regexp.MustCompile(`^(broker|client|transport) +(\S+) = (.*)  \((.*)\)$`)

// requested are the words of a case's key that say what was asked for: what came of them is among the settings.
var requested = regexp.MustCompile(` (profile|broker\.\w+|client\.\w+|transport\.\w+)=\S*`)

func parseDryRun(text string) knownCell {
	k := knownCell{config: runrecord.Config{
		Broker: map[string]runrecord.Setting{}, Client: map[string]runrecord.Setting{}, Transport: map[string]runrecord.Setting{},
	}}
	sections := map[string]map[string]runrecord.Setting{"broker": k.config.Broker, "client": k.config.Client, "transport": k.config.Transport}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := settingLine.FindStringSubmatch(line); m != nil {
			sections[m[1]][m[2]] = runrecord.Setting{Value: settingValue(m[3]), From: m[4]}
			k.effective += m[1] + " " + m[2] + " " + m[3] + "\n"
		} else if v, ok := strings.CutPrefix(line, "lossless "); ok {
			k.lossless = runrecord.Lossless(strings.TrimSpace(v))
		} else if v, ok := strings.CutPrefix(line, "case "); ok {
			k.effective += requested.ReplaceAllString(v, "") + "\n"
		}
	}
	return k
}

// settingValue is a printed value as a record has it, as far as telling equal from unequal goes: text stands for numbers
// and truth values, too, but an empty map or list is none.
func settingValue(text string) any {
	switch text {
	case "map[]":
		return map[string]any{}
	case "[]":
		return []any{}
	}
	return text
}

// describe returns what a record says of the cell, as far as it is known before it runs.
func (k knownCell) describe(c *workload.Cell, trial int) (runrecord.Case, runrecord.Lossless, runrecord.Config) {
	z := &c.Sizes
	rc := runrecord.Case{Key: c.Case.Key(), Case: c.Case, SendWindow: z.SendWindow, MaxDeliveries: z.MaxDeliveries, IdleTimeoutNs: int64(z.IdleTimeout), Warmup: z.Warmup, Seed: uint64(trial)}
	if z.Seed != nil {
		rc.Seed = *z.Seed
	}
	if z.Total > 0 {
		rc.Total = &z.Total
	}
	if z.Duration > 0 {
		ns := int64(z.Duration)
		rc.DurationNs = &ns
	}
	if rc.MaxDeliveries == 0 {
		rc.MaxDeliveries = workload.DefaultMaxDeliveries
	}
	if text, ok := k.config.Transport["conn_recv_window"].Value.(string); ok && rc.SendWindow == 0 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			rc.SendWindow = n
		}
	}
	return rc, k.lossless, k.config
}
