package runrecord_test

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

// detail is what a summary leaves out.
var detail = []string{"Subscribers", "Intervals", "Conns", "Checkpoints", "Wakeups", "Stages"}

// withoutDetail returns the record as a summary should have it.
func withoutDetail(t testing.TB, r *runrecord.Record) *runrecord.Record {
	t.Helper()
	c := *r
	for _, name := range detail {
		f := reflect.ValueOf(&c).Elem().FieldByName(name)
		if !f.IsValid() {
			t.Fatalf("Record has no field %s any more", name)
		}
		f.SetZero()
	}
	return &c
}

// fill sets everything that v holds to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if text, ok := listTexts[v.Type()]; ok {
			if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
				panic(err)
			}
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(reflect.ValueOf("k"), value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64, reflect.Uint16:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}

// listTexts are levels of the factors that are lists and have a text.
var listTexts = map[reflect.Type]string{
	reflect.TypeFor[workload.PayloadMix](): "100:50%,200:50%",
	reflect.TypeFor[workload.Tenants]():    "a:1,b:2",
	reflect.TypeFor[workload.Stalls]():     "0:1s:1s",
	reflect.TypeFor[workload.Slows]():      "*:1MB",
}

// A summary that forgot a member would turn it into a zero, which no reader could tell from a measured one.
func TestSummaryHasEverythingButTheDetail(t *testing.T) {
	var full runrecord.Record
	fill(reflect.ValueOf(&full).Elem())
	full.Schema = runrecord.Schema
	line, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := runrecord.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[runrecord.Record]().NumField() {
		f := reflect.TypeFor[runrecord.Record]().Field(i)
		if reflect.ValueOf(*want).Field(i).IsZero() {
			t.Fatalf("%s is zero: the test does not fill a %s", f.Name, f.Type)
		}
	}
	got, err := runrecord.ParseSummary(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(withoutDetail(t, want), got); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
}

// read is what one reader made of a text.
type read struct {
	ids []string
	bad []string
	err error
}

func summaries(r io.Reader) (got read) {
	got.err = runrecord.ReadSummaries(r, "records.jsonl",
		func(line int, r *runrecord.Record) error {
			got.ids = append(got.ids, fmt.Sprintf("%d:%s", line, r.RunID))
			return nil
		},
		func(e *runrecord.SyntaxError) { got.bad = append(got.bad, e.Error()) })
	return got
}

func TestReadSummaries(t *testing.T) {
	defer goleak.VerifyNone(t)
	a := encoded(t, "a")
	for _, tt := range []struct {
		name, text string
		ids        string
		bad        []string // line and a word of each
	}{
		{"nothing", "", "[]", nil},
		{"only empty lines", "\n\r\n  \n", "[]", nil},
		{"byte order mark, CRLF", "\xef\xbb\xbf" + a + "\r\n\r\n" + a + "\r\n", "[1:a 3:a]", nil},
		{"a byte order mark further down is no space", a + "\n\xef\xbb\xbf" + a, "[1:a]", []string{":2: skipped: invalid character"}},
		{"last line without its end", a + "\n" + a, "[1:a 2:a]", nil},
		{"torn in the middle", a + "\n" + a[:strings.Index(a, `"counts"`)] + "\n" + a + "\n", "[1:a 3:a]", []string{":2: skipped: unexpected end"}},
		{"torn at the end", a + "\n" + a[:40], "[1:a]", []string{":2: skipped: unexpected end"}},
		{"two in one line", a + a + "\n" + a, "[2:a]", []string{":1: skipped: invalid character '{' after"}},
		{"zeros of a crash", a + "\n\x00\x00\x00\n" + a, "[1:a 3:a]", []string{`:2: skipped: invalid character '\x00'`}},
		{"newer schema", `{"schema":"felix.run/2","case":[],"run_id":7}` + "\n" + a, "[2:a]", []string{`:1: skipped: schema "felix.run/2"`}},
		{"newer schema, told last", `{"case":{"load":"burst"},"schema":"felix.run/2"}`, "[]", []string{`:1: skipped: schema "felix.run/2"`}},
		{"a level that nobody knows", `{"schema":"felix.run/1","case":{"load":"storm"}}`, "[]", []string{`:1: skipped: "storm": want one of`}},
		{"schema of a wrong type", `{"schema":1}`, "[]", []string{":1: skipped: json: cannot unmarshal number"}},
		{"not an object", "[]\n" + a, "[2:a]", []string{":1: skipped: json: cannot unmarshal array"}},
		{"too long", a + "\n\"" + strings.Repeat("x", 9<<20) + "\"\n" + a + "\n", "[1:a 3:a]", []string{":2: skipped: longer than 8 MiB"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := summaries(strings.NewReader(tt.text))
			if got.err != nil {
				t.Fatal(got.err)
			}
			if fmt.Sprint(got.ids) != tt.ids {
				t.Errorf("read %v, want %s", got.ids, tt.ids)
			}
			if len(got.bad) != len(tt.bad) {
				t.Fatalf("complained %q, want %q", got.bad, tt.bad)
			}
			for i, want := range tt.bad {
				if !strings.Contains(got.bad[i], "records.jsonl"+want) {
					t.Errorf("complained %q, want %q", got.bad[i], want)
				}
			}
			// The plain reader is the reference: same records, same complaints.
			plain := read{}
			err := runrecord.Read(strings.NewReader(tt.text), "records.jsonl",
				func(r *runrecord.Record) error { plain.ids = append(plain.ids, r.RunID); return nil },
				func(e *runrecord.SyntaxError) { plain.bad = append(plain.bad, e.Error()) })
			if err != nil || len(plain.ids) != len(got.ids) || fmt.Sprint(plain.bad) != fmt.Sprint(got.bad) {
				t.Errorf("Read differs: %v %q %v", plain.ids, plain.bad, err)
			}
		})
	}
}

// Many chunks on several workers come back in the file's order, bad lines at their place.
func TestReadSummariesKeepsTheOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	var b strings.Builder
	var want []string
	filler := strings.Repeat("f", 2000)
	for i := 1; i <= 3000; i++ {
		if i%700 == 0 {
			b.WriteString("torn\n")
			want = append(want, fmt.Sprintf("bad %d", i))
			continue
		}
		fmt.Fprintf(&b, `{"schema":"felix.run/1","run_id":"%d","rerun":"%s"}`+"\n", i, filler)
		want = append(want, fmt.Sprint(i))
	}
	var got []string
	err := runrecord.ReadSummaries(strings.NewReader(b.String()), "x",
		func(line int, r *runrecord.Record) error {
			if fmt.Sprint(line) != r.RunID {
				t.Errorf("line %d holds record %s", line, r.RunID)
			}
			got = append(got, r.RunID)
			return nil
		}, func(e *runrecord.SyntaxError) { got = append(got, fmt.Sprintf("bad %d", e.Line)) })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestReadSummariesErrors(t *testing.T) {
	defer goleak.VerifyNone(t)
	line := encoded(t, "a") + "\n"
	many := strings.Repeat(line, 5000)

	stop := errors.New("enough")
	n := 0
	err := runrecord.ReadSummaries(strings.NewReader(many), "x", func(int, *runrecord.Record) error { n++; return stop }, nil)
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("ReadSummaries = %v after %d records, want %v after 1", err, n, stop)
	}

	broken := errors.New("input/output error")
	got := summaries(io.MultiReader(strings.NewReader(many), iotest.ErrReader(broken)))
	if !errors.Is(got.err, broken) || !strings.Contains(got.err.Error(), "read records.jsonl") || len(got.ids) != 5000 {
		t.Errorf("ReadSummaries = %v after %d records, want %v after 5000", got.err, len(got.ids), broken)
	}
}

func encoded(t testing.TB, id string) string {
	t.Helper()
	b, err := record(id).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// What Parse takes, a summary takes too, with the same content.
func FuzzParseSummary(f *testing.F) {
	f.Add([]byte(encoded(f, "seed")))
	f.Add([]byte(`{"SCHEMA":"felix.run/1","Conns":[{}],"conns":null,"config":{"broker":{"k":{"value":[1]}}}}`))
	f.Add([]byte(`{"schema":"felix.run/1","intervals":5}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		full, err := runrecord.Parse(line)
		short, shortErr := runrecord.ParseSummary(line)
		if err != nil {
			if bytes.HasPrefix([]byte(err.Error()), []byte("schema")) && (shortErr == nil || shortErr.Error() != err.Error()) {
				t.Fatalf("Parse: %v; ParseSummary: %v", err, shortErr)
			}
			return
		}
		if shortErr != nil {
			t.Fatalf("Parse takes it, ParseSummary does not: %v", shortErr)
		}
		if d := cmp.Diff(withoutDetail(t, full), short); d != "" {
			t.Fatalf("summary (-want +got):\n%s", d)
		}
	})
}

func BenchmarkReadSummaries(b *testing.B) {
	text := benchText(b)
	for b.Loop() {
		if err := runrecord.ReadSummaries(bytes.NewReader(text), "x", func(int, *runrecord.Record) error { return nil }, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(text)))
}

func BenchmarkRead(b *testing.B) {
	text := benchText(b)
	for b.Loop() {
		if err := runrecord.Read(bytes.NewReader(text), "x", func(*runrecord.Record) error { return nil }, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(text)))
}

// benchText is 8 MiB of records that are as full as real ones.
func benchText(b *testing.B) []byte {
	var full runrecord.Record
	fill(reflect.ValueOf(&full).Elem())
	full.Schema = runrecord.Schema
	full.Config.Broker = map[string]runrecord.Setting{}
	for i := range 30 {
		full.Config.Broker[fmt.Sprintf("a_setting_of_the_broker_%d", i)] = runrecord.Setting{Value: 1, From: "default"}
	}
	full.Conns = append(full.Conns, full.Conns...)
	hdr := strings.Repeat("A", 1000)
	full.Latency.EndToEnd.HDR, full.Latency.Network.HDR = &hdr, &hdr
	line, err := full.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes a record", len(line))
	return bytes.Repeat(line, (8<<20)/len(line))
}
