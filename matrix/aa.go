package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"felix/internal/gate"
	"felix/internal/verdict"
)

// tellAA judges equal arms: every failure is a false one.
func (x *experiment) tellAA() (int, error) {
	cells, err := verdict.Pairs(x.description.Counted(x.records), x.armFactors()...)
	var r verdict.AAResult
	if err != nil {
		r = verdict.AAResult{Outcome: verdict.CannotJudge, Reasons: []string{err.Error()}}
	} else {
		r = verdict.AA(x.spec, cells)
	}
	if err := x.keep("verdict.json", &r); err != nil {
		return 0, err
	}
	w := x.stdout
	code := x.spec.Inconclusive.ExitCode(r.Outcome)
	fmt.Fprintf(w, "A/A: %s (exit code %d)\n", strings.ToUpper(r.Outcome.String()), code)
	for _, reason := range r.Reasons {
		fmt.Fprintf(w, "  - %s\n", reason)
	}
	if r.Judged > 0 {
		fmt.Fprintf(w, "false fails  %d of %d gates, 95 %% interval [%.1f %%, %.1f %%] (Clopper-Pearson)\n", r.FalseFails, r.Judged, 100*float64(r.Rate.Low), 100*float64(r.Rate.High))
	}
	for _, f := range r.Floors {
		fmt.Fprintf(w, "noise        %s: %s sd of d %.2f %%, head/base %.3f [%.3f, %.3f] n=%d\n", f.Cell, f.Metric, 100*float64(f.SD), f.Ratio, f.Low, f.High, f.N)
	}
	if len(r.NoiseFloor) == 0 {
		return code, nil
	}
	var b strings.Builder
	b.WriteString("# The sd of log(head/base) of equal arms on this machine. In a gate's file it is the least margin of each metric.\nnoise_floor:\n")
	for _, key := range slices.Sorted(maps.Keys(r.NoiseFloor)) {
		fmt.Fprintf(&b, "  %s: %.5f\n", strconv.Quote(key), r.NoiseFloor[key])
	}
	if err := os.WriteFile(filepath.Join(x.dir, gate.NoiseFloorFile), []byte(b.String()), 0o644); err != nil {
		return 0, err
	}
	x.say("the noise floor as a gate's file takes it: " + filepath.Join(x.dir, gate.NoiseFloorFile))
	return code, nil
}
