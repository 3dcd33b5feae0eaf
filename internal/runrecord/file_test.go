package runrecord_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/internal/runrecord"
)

func record(id string) *runrecord.Record {
	return &runrecord.Record{Schema: runrecord.Schema, RunID: id, Kind: "case"}
}

func readAll(t *testing.T, text string) (ids []string, bad []string) {
	t.Helper()
	err := runrecord.Read(strings.NewReader(text), "records.jsonl",
		func(r *runrecord.Record) error { ids = append(ids, r.RunID); return nil },
		func(e *runrecord.SyntaxError) { bad = append(bad, e.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return ids, bad
}

// A writer that is killed leaves half a line. The next append must lose that line alone, not its own record too.
func TestAppendAfterTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	for _, id := range []string{"a", "b"} {
		if err := runrecord.Append(path, record(id)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-40], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := runrecord.Append(path, record("c")); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ids, bad := readAll(t, string(after))
	if fmt.Sprint(ids) != "[a c]" || len(bad) != 1 || !strings.Contains(bad[0], "records.jsonl:2:") {
		t.Errorf("read %v and complained %v, want [a c] and line 2", ids, bad)
	}
}

func TestReadSkipsWhatItDoesNotKnow(t *testing.T) {
	line := func(id string) string {
		b, err := record(id).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(string(b), "\n")
	}
	text := "\xef\xbb\xbf" + line("bom") + "\r\n" +
		"\n" +
		`{"schema":"felix.run/2","run_id":"newer"}` + "\n" +
		"not json\n" +
		`{"schema":"felix.run/1","run_id":5}` + "\n" +
		`{"schema":"felix.run/1","run_id":"x","case":{"key":"payload=-5","payload":-5}}` + "\n" +
		line("last, without a newline")
	ids, bad := readAll(t, text)
	if fmt.Sprint(ids) != "[bom last, without a newline]" {
		t.Errorf("read %v", ids)
	}
	if len(bad) != 4 || !strings.Contains(bad[3], `:6:`) || !strings.Contains(bad[3], "payload=-5") || !strings.Contains(bad[0], ":3:") || !strings.Contains(bad[1], ":4:") || !strings.Contains(bad[2], ":5:") {
		t.Errorf("complained %v, want lines 3 to 6", bad)
	}
}

func TestReadStopsOnTheCallersError(t *testing.T) {
	b, err := record("a").Encode()
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	err = runrecord.Read(bytes.NewReader(append(b, b...)), "x", func(*runrecord.Record) error { return stop }, nil)
	if !errors.Is(err, stop) {
		t.Errorf("Read = %v, want %v", err, stop)
	}
}

func FuzzRead(f *testing.F) {
	b, err := record("seed").Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}\n\r\n{\"schema\":\"felix.run/1\",\"intervals\":null}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := runrecord.Read(bytes.NewReader(b), "fuzz", func(r *runrecord.Record) error {
			line, err := r.Encode()
			if err != nil {
				t.Fatalf("what decodes does not encode: %v", err)
			}
			if _, err := runrecord.Parse(bytes.TrimSpace(line)); err != nil {
				t.Fatalf("what encodes does not decode: %v\n%s", err, line)
			}
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	})
}
