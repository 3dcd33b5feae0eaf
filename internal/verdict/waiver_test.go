package verdict_test

import (
	"math"
	"testing"
	"time"

	"felix/internal/verdict"
)

func TestWaivers(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	good := verdict.Waiver{Metric: verdict.DeliveredBytesPerSec, Cell: throughputCase.Key, Ceiling: 0.3, Reason: "checksums", Expiry: now.AddDate(0, 1, 0)}
	cpu := good
	cpu.Metric = verdict.CPUSecondsPerGB
	with := func(change func(w *verdict.Waiver)) []verdict.Waiver {
		w := good
		change(&w)
		return []verdict.Waiver{w, cpu}
	}
	for _, tt := range []struct {
		name    string
		waivers []verdict.Waiver
		worse   float64
		want    verdict.Outcome
		words   []string
	}{
		{"accepted", []verdict.Waiver{good, cpu}, 1.2, verdict.Pass, nil},
		{"without", nil, 1.2, verdict.Fail, []string{"beyond 5 %"}},
		{"above the ceiling", []verdict.Waiver{good, cpu}, 1.5, verdict.Fail, []string{"delivered_bytes_per_sec", "beyond 30 %"}},
		{"only one metric", []verdict.Waiver{good}, 1.2, verdict.Fail, []string{"cpu_s_per_gb", "beyond 5 %"}},
		{"unused", []verdict.Waiver{good, cpu}, 1.0, verdict.CannotJudge, []string{"not used", "remove it"}},
		{"expired", with(func(w *verdict.Waiver) { w.Expiry = now }), 1.2, verdict.CannotJudge, []string{"expired on 2026-05-01", "checksums"}},
		{"of a cell that is not there", with(func(w *verdict.Waiver) { w.Cell = "gone" }), 1.0, verdict.CannotJudge, []string{"gone", "no such metric"}},
		{"no reason", with(func(w *verdict.Waiver) { w.Reason = "" }), 1.2, verdict.CannotJudge, []string{"want a reason"}},
		{"no expiry", with(func(w *verdict.Waiver) { w.Expiry = time.Time{} }), 1.2, verdict.CannotJudge, []string{"want an expiry"}},
		{"ceiling too low", with(func(w *verdict.Waiver) { w.Ceiling = 0.1 }), 1.2, verdict.CannotJudge, []string{"ceiling 0.1"}},
		{"no metric", with(func(w *verdict.Waiver) { w.Metric = "" }), 1.2, verdict.CannotJudge, []string{"want a cell and a metric"}},
		{"unknown metric", with(func(w *verdict.Waiver) { w.Metric = "speed" }), 1.2, verdict.CannotJudge, []string{"speed", "no declared direction"}},
		{"twice", []verdict.Waiver{good, good}, 1.2, verdict.CannotJudge, []string{"there are two"}},
	} {
		v := verdict.Gate(verdict.Spec{Waivers: tt.waivers, Now: now}, shifted(30, math.Log(tt.worse), throughputCase).cells)
		if v.Outcome != tt.want {
			t.Errorf("%s: %v %q, want %v", tt.name, v.Outcome, v.Reasons, tt.want)
		}
		if tt.words != nil {
			mentions(t, v.Reasons, tt.words...)
		}
	}
	v := verdict.Gate(verdict.Spec{Waivers: []verdict.Waiver{good}}, nil)
	mentions(t, v.Reasons, "the time is not known")
}
