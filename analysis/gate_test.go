package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// writePairs makes a session of 8 pairs of one latency case and the one discarded. Head is worse by the share; change may
// do anything else to a record, or remove it.
func writePairs(t *testing.T, root string, worse float64, change func(r *runrecord.Record) bool) *runrecord.Session {
	t.Helper()
	s := &runrecord.Session{SessionID: runrecord.NewSessionID(), Kind: runrecord.SessionKindAB, StartedAt: time.Now()}
	if err := runrecord.WriteSession(filepath.Join(root, "pairs"), s); err != nil {
		t.Fatal(err)
	}
	x := gate.Experiment{Kind: gate.KindAB, Arms: []gate.Arm{{Name: "base"}, {Name: "head", Set: []string{"env.A=1"}}}, Spec: verdict.Spec{Looks: []int{8}, SentinelOptional: true}}
	if err := x.Write(s.Dir); err != nil {
		t.Fatal(err)
	}
	c, err := workload.Case{Payload: 256}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for pair := range 9 {
		for i, arm := range []string{"base", "head"} {
			f := 1 + float64(pair*(i+1)%3)*0.001
			if i == 1 {
				f *= 1 + worse
			}
			p50, p99 := int64(200e3*f), int64(900e3*f)
			r := &runrecord.Record{
				Schema: runrecord.Schema, RunID: fmt.Sprintf("%d-%s", pair, arm), SessionID: &s.SessionID, Arm: &arm, Pair: &pair, Kind: "case", Valid: true,
				Case: runrecord.Case{Key: c.Key(), Case: c}, Build: runrecord.Build{Optimized: true, Go: "go1.26"}, Host: runrecord.Host{Fingerprint: "h"},
			}
			r.Latency.Kind = c.LatencyKind()
			r.Latency.EndToEnd = &runrecord.Distribution{N: 5000, P50Ns: &p50, P99Ns: &p99}
			if change != nil && !change(r) {
				continue
			}
			if err := runrecord.Append(s.RecordsPath(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// Every exit code of analysis gate, and what cannot be judged: never 0.
func TestGateExitCodes(t *testing.T) {
	headOnly := func(do func(r *runrecord.Record)) func(r *runrecord.Record) bool {
		return func(r *runrecord.Record) bool {
			if *r.Arm == "head" {
				do(r)
			}
			return true
		}
	}
	for _, tt := range []struct {
		why    string
		worse  float64
		change func(r *runrecord.Record) bool
		args   []string
		code   int
		want   string
	}{
		{"the same", 0, nil, nil, 0, "PASS"},
		{"half as fast", 1, nil, nil, 1, "FAIL: a regression"},
		{"half as fast, for git bisect", 1, nil, []string{"--bisect-exit"}, 1, "FAIL"},
		{"twice as fast", -0.5, nil, nil, 0, "PASS"},
		{"between the margins", 0.05, nil, []string{"--gate", "wide.yml"}, 3, "INCONCLUSIVE"},
		{"and for git bisect", 0.05, nil, []string{"--gate", "wide.yml", "--bisect-exit"}, 125, "INCONCLUSIVE"},
		{"loses messages", 0, headOnly(func(r *runrecord.Record) { r.Valid, r.Reasons = false, []string{"shortfall: 3"} }), nil, 1, "invalid only in head"},
		{"no records", 0, func(*runrecord.Record) bool { return false }, nil, 2, "no records"},
		{"one arm", 0, func(r *runrecord.Record) bool { return *r.Arm == "base" }, nil, 2, "only in base"},
		{"too few pairs", 0, func(r *runrecord.Record) bool { return *r.Pair < 5 }, nil, 2, "no look is complete"},
		{"no common metric", 0, headOnly(func(r *runrecord.Record) { r.Latency.EndToEnd = nil }), nil, 2, "p50_ns"},
		{"a renamed cell", 0, headOnly(func(r *runrecord.Record) { r.Case.Key += " new=1" }), nil, 2, "different cells"},
		{"two hosts", 0, headOnly(func(r *runrecord.Record) { r.Host.Fingerprint = "i" }), nil, 2, "different hosts"},
		{"a -race build", 0, headOnly(func(r *runrecord.Record) { r.Build.Race = true }), nil, 2, "-race"},
		{"a build by a profile", 0, headOnly(func(r *runrecord.Record) { r.Build.PGO = true }), nil, 0, "guided the compiler"},
		{"a record of another session", 0, headOnly(func(r *runrecord.Record) { r.SessionID = ptr("other") }), nil, 2, "another session"},
		{"a gate that cannot fail", 0, nil, []string{"--gate", "short.yml"}, 2, "this gate cannot fail"},
		{"no such gate", 0, nil, []string{"--gate", "none.yml"}, 2, "none.yml"},
		{"no such session", 0, nil, []string{"nope"}, 2, "no such session"},
		{"two sessions", 0, nil, []string{"a", "b"}, 2, "want one"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for name, text := range map[string]string{
				"wide.yml":  "grids: [fast]\nlooks: [8]\nfail_margin: 0.0499\npass_margin: 0.0501\nsentinel_optional: true\n",
				"short.yml": "grids: [fast]\nlooks: [3]\nsentinel_optional: true\n",
			} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			writePairs(t, "results", tt.worse, tt.change)
			var stdout, stderr bytes.Buffer
			code := run(append([]string{"gate"}, tt.args...), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stdout.String()+stderr.String(), tt.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, tt.code, tt.want, stdout.String(), stderr.String())
			}
		})
	}
}

// A file of records that is empty, or holds nothing that is one, is nothing measured: never a pass.
func TestGateOfEmptyFiles(t *testing.T) {
	for why, text := range map[string]string{"empty": "", "blank lines": "\n\n", "torn": `{"schema":"felix.ru`, "newer": `{"schema":"felix.run/2"}` + "\n"} {
		dir := t.TempDir()
		s := writePairs(t, dir, 0, nil)
		if err := os.WriteFile(s.RecordsPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if code := run([]string{"gate", s.Dir}, &stdout, &stderr); code != 2 || !strings.Contains(stdout.String(), "no records: nothing was measured") {
			t.Errorf("%s: exit code %d, want 2:\n%s%s", why, code, stdout.String(), stderr.String())
		}
	}
}

func TestGateNeedsPairs(t *testing.T) {
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := run([]string{"gate"}, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), "no session of pairs in results") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	s := writePairs(t, "results", 0, nil)
	if err := os.Remove(filepath.Join(s.Dir, gate.ExperimentFile)); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"gate", s.Dir}, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), "no A/B session") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// The sentinels are read from their own file: with them, and a machine that was slower beside head, nothing is certain.
func TestGateReadsSentinels(t *testing.T) {
	t.Chdir(t.TempDir())
	s := writePairs(t, "results", 1, nil)
	records, err := readWhole(s.RecordsPath(), t.Errorf)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Kind, r.RunID = verdict.SentinelKind, r.RunID+"-s"
		rounds := 1000 + float64(*r.Pair)
		if *r.Arm == "head" {
			rounds /= 2
		}
		r.Rates.DeliveredMsgsPerSec, r.Rates.DeliveredBytesPerSec = &rounds, &rounds
		if err := runrecord.Append(filepath.Join(s.Dir, gate.SentinelsFile), r); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"gate"}, &stdout, &stderr); code != 3 || !strings.Contains(stdout.String(), "sentinel   cpu: head/base 0.500") {
		t.Errorf("exit code %d:\n%s%s", code, stdout.String(), stderr.String())
	}
}

// A line that is torn is told and not judged; the formats say what the text does.
func TestGateFormats(t *testing.T) {
	t.Chdir(t.TempDir())
	s := writePairs(t, "results", 1, nil)
	f, err := os.OpenFile(s.RecordsPath(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"schema":"felix.ru`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for _, format := range []string{"text", "md", "json", "junit", "github"} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"gate", "--format", format}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "skipped: ") {
			t.Errorf("%s: exit code %d: %s", format, code, stderr.String())
		}
		outputs[format] = stdout.String()
	}
	var v verdict.Verdict
	if err := json.Unmarshal([]byte(outputs["json"]), &v); err != nil || v.Outcome != verdict.Fail || len(v.Metrics) != 2 {
		t.Errorf("json: %+v, %v", v, err)
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(outputs["junit"]), &suite); err != nil || suite.Failures != 3 || suite.Tests != 3 || suite.Cases[1].Name != "p50_ns" || suite.Cases[1].Failure == nil {
		t.Errorf("junit: %+v, %v\n%s", suite, err, outputs["junit"])
	}
	lines := strings.Split(strings.TrimSpace(outputs["github"]), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "::error title=felix gate%3A FAIL%3A a regression at look 1 of 1%2C 8 pairs::") || strings.Contains(lines[0], "% ") {
		t.Errorf("github: %q", lines)
	}
	if !strings.Contains(outputs["md"], "| cell | metric |") || !strings.HasPrefix(outputs["md"], "### FAIL") {
		t.Errorf("md:\n%s", outputs["md"])
	}
}
