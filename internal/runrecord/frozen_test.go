package runrecord_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix/internal/runrecord"
)

// frozen are real files of every version of the formats that there has been, as they were written at their time, and what
// has to be read of them for ever. A new version gets a file and a row; no file is ever changed.
var frozen = []struct {
	schema  string
	file    string
	records []string // run id, case, and figures that every reader relies on
}{
	{"felix.run/1", "felix.run-1.jsonl", []string{
		"01a229be-b77f-7737-b8d6-31e44870745e payload=256 batch=1 fanout=1 load=closed acks=per_message valid=true delivered=10000 n=10000 p50=true p99=true rate=true processes=2 broker.log_capacity=true",
		"01a229be-c1dd-73d2-b0fa-18e06dd947ff payload=4096 batch=64 fanout=1 load=flood acks=none valid=true delivered=126528 n=126528 p50=true p99=true rate=true processes=2 broker.log_capacity=true",
	}},
}

// frozenSessions are the same of session.json.
var frozenSessions = map[string]string{"felix.session/1": "felix.session-1.json"}

func frozenFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "frozen", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sum(r *runrecord.Record) string {
	e := r.Latency.EndToEnd
	if e == nil {
		e = &runrecord.Distribution{}
	}
	_, capacity := r.Config.Broker["log_capacity"]
	return fmt.Sprintf("%s %s valid=%v delivered=%d n=%d p50=%v p99=%v rate=%v processes=%d broker.log_capacity=%v", r.RunID, r.Case.Key, r.Valid,
		r.Counts.Delivered, e.N, e.P50Ns != nil, e.P99Ns != nil, r.Rates.DeliveredBytesPerSec != nil, len(r.Processes), capacity)
}

// Records of every version so far stay readable, whole and as summaries, and the present version is among them.
func TestOldRecordsStayReadable(t *testing.T) {
	present := false
	for _, f := range frozen {
		present = present || f.schema == runrecord.Schema
		text := frozenFile(t, f.file)
		if !bytes.Contains(text, []byte(`"schema":"`+f.schema+`"`)) {
			t.Errorf("%s holds no %s", f.file, f.schema)
		}
		var whole, summaries []string
		bad := func(e *runrecord.SyntaxError) { t.Error(e) }
		err := runrecord.Read(bytes.NewReader(text), f.file, func(r *runrecord.Record) error {
			whole = append(whole, sum(r))
			if _, err := r.Encode(); err != nil {
				t.Errorf("%s: encode it again: %v", r.RunID, err)
			}
			return nil
		}, bad)
		if err != nil {
			t.Error(err)
		}
		err = runrecord.ReadSummaries(bytes.NewReader(text), f.file, func(_ int, r *runrecord.Record) error {
			summaries = append(summaries, sum(r))
			return nil
		}, bad)
		if err != nil {
			t.Error(err)
		}
		if !slices.Equal(whole, f.records) || !slices.Equal(summaries, f.records) {
			t.Errorf("%s:\n%s\nas summaries\n%s\nwant\n%s", f.file, strings.Join(whole, "\n"), strings.Join(summaries, "\n"), strings.Join(f.records, "\n"))
		}
	}
	if !present {
		t.Errorf("no frozen file of %s, which is what is written now", runrecord.Schema)
	}
	if frozenSessions[runrecord.SessionSchema] == "" {
		t.Errorf("no frozen file of %s, which is what is written now", runrecord.SessionSchema)
	}
	for schema, file := range frozenSessions {
		s, err := runrecord.ParseSession(frozenFile(t, file))
		if err != nil || s.SessionID == "" || s.Host.Fingerprint == "" || s.Build.Commit == nil {
			t.Errorf("%s of %s: %+v, %v", file, schema, s, err)
		}
	}
}

// A record of a version that is yet to come is refused with its line number, and what stands around it is read.
func TestNewerRecordsAreRefusedByLine(t *testing.T) {
	old := strings.TrimSuffix(string(frozenFile(t, "felix.run-1.jsonl")), "\n")
	lines := strings.Split(old, "\n")
	newer := strings.Replace(lines[0], `"felix.run/1"`, `"felix.run/2"`, 1)
	text := lines[0] + "\n" + newer + "\n" + lines[1] + "\n"
	var read int
	var refused []string
	note := func(e *runrecord.SyntaxError) { refused = append(refused, e.Error()) }
	err := runrecord.Read(strings.NewReader(text), "records.jsonl", func(*runrecord.Record) error { read++; return nil }, note)
	if err == nil {
		err = runrecord.ReadSummaries(strings.NewReader(text), "records.jsonl", func(int, *runrecord.Record) error { read++; return nil }, note)
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = `records.jsonl:2: skipped: schema "felix.run/2": this build reads "felix.run/1"`
	if read != 4 || len(refused) != 2 || refused[0] != want || refused[1] != want {
		t.Errorf("%d records read, want 4; refused %q, want %q by both readers", read, refused, want)
	}
	session := bytes.Replace(frozenFile(t, "felix.session-1.json"), []byte("felix.session/1"), []byte("felix.session/2"), 1)
	if _, err := runrecord.ParseSession(session); err == nil || !strings.Contains(err.Error(), `schema "felix.session/2": this build reads "felix.session/1"`) {
		t.Errorf("a newer session.json: %v", err)
	}
}
