package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
	"felix/internal/workload"
)

// A session of three arms is judged again as matrix judged it, in every format: the fix is worse than before, and
// what it is without is as before. A trial that was superseded counts nowhere.
func TestGateOfArms(t *testing.T) {
	t.Chdir(t.TempDir())
	s := &runrecord.Session{SessionID: runrecord.NewSessionID(), Kind: runrecord.SessionKindAB, StartedAt: time.Now()}
	if err := runrecord.WriteSession(filepath.Join("results", "arms"), s); err != nil {
		t.Fatal(err)
	}
	names := []string{"before", "fix", "reverted"}
	x := gate.Experiment{Kind: gate.KindAB, Spec: verdict.Spec{Looks: []int{10}, SentinelOptional: true}, Superseded: []string{"torn"}}
	for _, name := range names {
		x.Arms = append(x.Arms, gate.Arm{Name: name})
	}
	if err := x.Write(s.Dir); err != nil {
		t.Fatal(err)
	}
	c, err := workload.Case{Payload: 256}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, arm string, pair int, worse float64) {
		p50, p99 := int64(200e3*worse), int64(900e3*worse)
		r := &runrecord.Record{
			Schema: runrecord.Schema, RunID: id, SessionID: &s.SessionID, Arm: &arm, Pair: &pair, Kind: "case", Valid: true,
			Case: runrecord.Case{Key: c.Key(), Case: c}, Build: runrecord.Build{Optimized: true, Go: "go1.26"}, Host: runrecord.Host{Fingerprint: "h"},
		}
		r.Latency.Kind = c.LatencyKind()
		r.Latency.EndToEnd = &runrecord.Distribution{N: 5000, P50Ns: &p50, P99Ns: &p99}
		if err := runrecord.Append(s.RecordsPath(), r); err != nil {
			t.Fatal(err)
		}
	}
	add("torn", "fix", 3, 9)
	for pair := range 11 {
		for i, arm := range names {
			worse := 1 + 0.001*float64((pair+i)%3)
			if arm == "fix" {
				worse *= 1.5
			}
			add(fmt.Sprint(pair, arm), arm, pair, worse)
		}
	}
	outputs := map[string]string{}
	for _, format := range []string{"text", "md", "json", "junit", "github"} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"gate", "--format", format}, &stdout, &stderr); code != 1 {
			t.Errorf("%s: exit code %d, want 1: %s%s", format, code, stdout.String(), stderr.String())
		}
		outputs[format] = stdout.String()
	}
	for _, want := range []string{"FAIL: an arm is worse than before at look 1 of 1, 10 rounds of before, fix, reverted", "fix / before", "reverted / before", "alike", "better"} {
		if !strings.Contains(outputs["text"], want) || !strings.Contains(outputs["md"], want) {
			t.Errorf("no %q in\n%s\n%s", want, outputs["text"], outputs["md"])
		}
	}
	var v verdict.ArmsVerdict
	if err := json.Unmarshal([]byte(outputs["json"]), &v); err != nil || v.Outcome != verdict.Fail || len(v.Comparisons) != 3 {
		t.Errorf("json: %v\n%s", err, outputs["json"])
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(outputs["junit"]), &suite); err != nil || suite.Tests != 1+3*2 || suite.Failures != 3 || suite.Cases[1].Class != "fix against before: "+c.Key() {
		t.Errorf("junit: %+v, %v", suite, err)
	}
	if !strings.HasPrefix(outputs["github"], "::error title=felix gate%3A FAIL%3A an arm is worse than before") {
		t.Errorf("github: %s", outputs["github"])
	}
}
