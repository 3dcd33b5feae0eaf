package verdict_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/verdict"
)

var threeArms = []string{"before", "fix", "reverted"}

// rounds is a session of arms that are worse than usual by d each, with a noise of sd per pair.
func rounds(t *testing.T, n int, sd float64, rng *rand.Rand, d map[string]float64, arms ...string) []verdict.ArmCell {
	t.Helper()
	records := session(n, arms, throughputCase, latencyCase)
	for _, r := range records {
		if r.Kind != verdict.SentinelKind {
			r.Build.BinarySHA256 = ptr("one binary")
			set(r, d[*r.Arm]+rng.NormFloat64()*sd/math.Sqrt2, d[*r.Arm]+rng.NormFloat64()*sd/math.Sqrt2)
		}
	}
	cells, err := verdict.Rounds(records, arms)
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// TestArmsFixReverted is how a fix is proven: with it all is better, and without it all is as before.
func TestArmsFixReverted(t *testing.T) {
	cells := rounds(t, 20, 0.03, rand.New(rand.NewPCG(1, 1)), map[string]float64{"fix": -0.3}, threeArms...)
	v := verdict.JudgeArms(verdict.Spec{Looks: []int{20}}, threeArms, cells, 0)
	if v.Outcome != verdict.Pass || v.ExitCode() != 0 || v.Tests != 3*4*2 {
		t.Fatalf("%v of %d tests, %q, want pass of 24", v.Outcome, v.Tests, v.Reasons)
	}
	want := map[string]verdict.Finding{"before fix": verdict.Better, "before reverted": verdict.Alike, "fix reverted": verdict.Worse}
	for _, c := range v.Comparisons {
		if len(c.Metrics) != 4 {
			t.Fatalf("%s against %s: %d metrics, want 4; %q", c.B, c.A, len(c.Metrics), c.Verdict.Reasons)
		}
		for _, m := range c.Metrics {
			if m.Finding != want[c.A+" "+c.B] {
				t.Errorf("%s against %s: %s is %v, want %v", c.B, c.A, m.Result.String(), m.Finding, want[c.A+" "+c.B])
			}
		}
	}
	mentions(t, v.Reasons, "fix against before", "better")
	mentions(t, v.Reasons, "reverted against fix", "worse")

	// Named the other way round, the first arm is the one to beat.
	v = verdict.JudgeArms(verdict.Spec{Looks: []int{20}}, []string{"fix", "reverted", "before"}, cells, 0)
	if v.Outcome != verdict.Fail || v.ExitCode() != 1 {
		t.Errorf("against fix: %v, want fail", v.Outcome)
	}
}

func TestArmsOutcomes(t *testing.T) {
	none := map[string]float64{}
	quiet := func(n int) []verdict.ArmCell {
		return rounds(t, n, 0.02, rand.New(rand.NewPCG(2, 2)), none, threeArms...)
	}
	change := func(cells []verdict.ArmCell, f func(r *runrecord.Record)) []verdict.ArmCell {
		for _, c := range cells {
			for _, round := range c.Rounds[1:] {
				for _, r := range round.Trials {
					f(r)
				}
			}
		}
		return cells
	}
	for _, tt := range []struct {
		name  string
		spec  verdict.Spec
		arms  []string
		cells []verdict.ArmCell
		want  verdict.Outcome
		words []string
	}{
		{"alike", verdict.Spec{}, threeArms, quiet(30), verdict.Pass, nil},
		{"no cells", verdict.Spec{}, threeArms, nil, verdict.CannotJudge, []string{"nothing was measured"}},
		{"one arm", verdict.Spec{}, threeArms[:1], quiet(30), verdict.CannotJudge, []string{"want two or more"}},
		{"an arm twice", verdict.Spec{}, []string{"fix", "fix"}, quiet(30), verdict.CannotJudge, []string{"different names"}},
		{"an arm that never ran", verdict.Spec{}, []string{"before", "fix", "gone"}, quiet(30), verdict.CannotJudge, []string{"gone against before", "only in base"}},
		{"too few rounds", verdict.Spec{}, threeArms, quiet(11), verdict.CannotJudge, []string{"11 rounds of the 12"}},
		{"a family too large", verdict.Spec{Looks: []int{8}}, threeArms, quiet(30), verdict.CannotJudge, []string{"this gate cannot fail: needs 9 pairs"}},
		{"noise", verdict.Spec{}, threeArms, rounds(t, 30, 0.4, rand.New(rand.NewPCG(3, 3)), none, threeArms...), verdict.Inconclusive, []string{"undecided", "minimum detectable effect"}},
		{"ends early", verdict.Spec{}, threeArms, rounds(t, 14, 0.3, rand.New(rand.NewPCG(3, 3)), none, threeArms...), verdict.Inconclusive, []string{"the rounds end after look 1 of 3"}},
		{"hosts", verdict.Spec{}, threeArms, change(quiet(30), func(r *runrecord.Record) { r.Host.Fingerprint = *r.Arm }), verdict.CannotJudge, []string{"different hosts"}},
		{"losing messages in one arm", verdict.Spec{}, threeArms, change(quiet(30), func(r *runrecord.Record) { r.Valid = *r.Arm != "fix" }),
			verdict.CannotJudge, []string{"reverted against fix", "pairs dropped"}},
		{"losing messages in the last arm", verdict.Spec{}, threeArms, change(quiet(30), func(r *runrecord.Record) { r.Valid = *r.Arm != "reverted" }),
			verdict.Fail, []string{"reverted against before: invalid only in head"}},
		{"waivers", verdict.Spec{Waivers: []verdict.Waiver{{}}}, threeArms, quiet(30), verdict.CannotJudge, []string{"waiver"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict.GateArms(tt.spec, tt.arms, tt.cells)
			if v.Outcome != tt.want {
				t.Errorf("%v %q, want %v", v.Outcome, v.Reasons, tt.want)
			}
			if tt.words != nil {
				mentions(t, v.Reasons, tt.words...)
			}
			jsonOf(t, &v)
		})
	}
}

// TestArmsSimulated: among arms that are alike, a difference is found in no more than alpha of the comparisons.
func TestArmsSimulated(t *testing.T) {
	n := gates(false) / 5
	rng := rand.New(rand.NewPCG(4, 4))
	wrong := 0
	for range n {
		v := verdict.GateArms(verdict.Spec{}, threeArms, rounds(t, 30, 0.05, rng, map[string]float64{}, threeArms...))
		found := false
		for _, c := range v.Comparisons {
			for _, m := range c.Metrics {
				found = found || m.Finding == verdict.Worse || m.Finding == verdict.Better
			}
		}
		if found {
			wrong++
		}
	}
	if float64(wrong) > 0.01*float64(n) {
		t.Errorf("%d of %d comparisons of equal arms found a difference", wrong, n)
	}
}
