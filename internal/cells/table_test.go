package cells_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"felix/internal/cells"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

var update = flag.Bool("update", false, "write the golden tables anew; look at them before they are committed")

// presets of publishers, as a grid has them.
var presets = []struct {
	name string
	c    workload.Case
}{
	{"P1_hash", workload.Case{Publishers: 1}},
	{"P4_hash", workload.Case{Publishers: 4, Streams: 4, PubConns: 2, PubStreamsPerConn: 2}},
	{"P8_hash_1stream", workload.Case{Publishers: 8, PubConns: 4, PubStreamsPerConn: 2}},
	{"P8_rr", workload.Case{Publishers: 8, PubConns: 4, PubStreamsPerConn: 2, Sharding: workload.ShardingRR}},
}

// trials repeats a case with small differences, the same every time.
func trials(n int, of func(workload.Case, float64, ...func(*runrecord.Record)) *runrecord.Record, c workload.Case, figure float64, edits ...func(*runrecord.Record)) []*runrecord.Record {
	var rs []*runrecord.Record
	for i := range n {
		rs = append(rs, of(c, figure*(1+0.01*float64((i*3)%5)), edits...))
	}
	return rs
}

// grid is a matrix of both kinds of cells, and the names that a grid gives them.
func gridRecords() (rs []*runrecord.Record, names map[string]string) {
	names = map[string]string{}
	for _, batch := range []int{1, 64} {
		for _, payload := range []int{0, 256, 4096} {
			for _, p := range presets {
				c := p.c
				c.Payload, c.Batch = payload, batch
				resolved, _ := c.Resolve()
				names[resolved.Key()] = fmt.Sprintf("payload=%d batch=%d preset=%s", payload, batch, p.name)
				if batch == 1 {
					rs = append(rs, trials(5, latency, c, 180+float64(payload)/100+10*float64(c.Publishers))...)
				} else {
					rs = append(rs, trials(5, record, c, 30+float64(payload)/8*(1+0.1*float64(c.Publishers)))...)
				}
			}
		}
	}
	return rs, names
}

// degenerate is one cell for each thing that can be wrong, told apart by its payload.
func degenerate() []*runrecord.Record {
	at := func(payload int) workload.Case { return workload.Case{Payload: payload, Batch: 64} }
	noRates := func(r *runrecord.Record) { r.Rates, r.Latency = runrecord.Rates{}, runrecord.Latency{} }
	rs := trials(6, record, at(64), 500)
	rs = append(rs, record(at(100), 483.2))                                // one trial
	rs = append(rs, trials(5, record, at(101), 0)...)                      // a rate of 0
	rs = append(rs, trials(5, record, at(102), 480, invalid("lost 5"))...) // all invalid
	rs = append(rs, trials(5, record, at(103), 480, noRates)...)           // no figure at all
	rs = append(rs, trials(4, record, at(104), 480)...)                    // a figure that one lacks
	rs = append(rs, record(at(104), 480, noRates))                         //
	rs = append(rs, trials(5, record, at(0), 32)...)                       // payload 0: messages
	rs = append(rs, trials(4, record, at(105), 480)...)                    // a slow mode
	rs = append(rs, record(at(105), 87))                                   //
	rs = append(rs, trials(3, record, at(106), 480)...)                    // everything at once
	rs = append(rs, record(at(106), 100, noise("noisy"), invalid("undersized: 3 MB"), func(r *runrecord.Record) { r.Host.Noise.Grade = "noisy" }))
	rs = append(rs, record(at(106), 100, noise("noisy")))
	rs = append(rs, record(at(106), 480, func(r *runrecord.Record) { r.Valid, r.Error = false, to("timeout: no answer in 30 s") }))
	rs = append(rs, record(at(106), 480, func(r *runrecord.Record) { r.Valid, r.Interrupted = false, true }))
	rs = append(rs, record(at(106), 480, func(r *runrecord.Record) { r.SizeGrade = "capped" }))
	rs = append(rs, trials(5, record, at(107), 12_345)...) // five figures of MB/s
	rs = append(rs, trials(5, record, at(108), 0.00123)...)
	return rs
}

// latencies are in four units, with a probe of too few samples and a queueing delay.
func latencies() []*runrecord.Record {
	var rs []*runrecord.Record
	for i, us := range []float64{2.5, 182, 45_000, 2_500_000} {
		rs = append(rs, trials(5, latency, workload.Case{Payload: 64 << i}, us)...)
	}
	few := func(r *runrecord.Record) { r.Latency.EndToEnd.P99Ns = nil }
	rs = append(rs, trials(5, latency, workload.Case{Payload: 1024}, 200, few)...)
	rs = append(rs, trials(5, latency, workload.Case{Payload: 256, Rate: 5000}, 150)...)
	rs = append(rs, trials(5, latency, workload.Case{Payload: 256, Acks: workload.AcksNone, Load: workload.LoadClosed}, 900)...)
	return rs
}

// builds are one case measured in several ways that its key does not know of.
func builds() []*runrecord.Record {
	var rs []*runrecord.Record
	for _, edit := range []func(*runrecord.Record){
		func(*runrecord.Record) {},
		func(r *runrecord.Record) {
			r.Build.Dirty, r.Build.TreeDigest, r.Build.BinarySHA256 = to(true), to("77aa00112233"), to("0123456789abcdef")
		},
		func(r *runrecord.Record) { r.Build = runrecord.Build{Go: "go1.26.8", Optimized: true} },
		func(r *runrecord.Record) { r.Env = map[string]string{"QUIC_GO_DISABLE_GSO": "true"} },
		func(r *runrecord.Record) { r.Perturbed = []string{"pprof cpu", "qlog"} },
		func(r *runrecord.Record) {
			r.Config.Broker = map[string]runrecord.Setting{"log_capacity": {Value: 7.0}}
		},
	} {
		rs = append(rs, trials(5, record, flood, 480, edit)...)
	}
	return rs
}

// wide has more factors and longer levels than a line can hold.
func wide() []*runrecord.Record {
	var rs []*runrecord.Record
	for i := range 4 {
		c := workload.Case{Payload: 4096, Batch: 1 << i, Fanout: 1 + i%3, Publishers: 8 - i, Load: workload.LoadFlood, Acks: workload.AcksNone,
			Streams: 1 + i/2, BrokerSet: map[string]string{"event_batch_max_bytes": fmt.Sprint(65536 * (1 + i%2)), "log_capacity": fmt.Sprint(1 + i/3)},
			TransportSet: map[string]string{"stream_recv_window": fmt.Sprint(16777216 / (1 + (i+1)%2))}}
		rs = append(rs, record(c, 123_456.7, noise("noisy"), func(r *runrecord.Record) { r.SizeGrade = "undersized" }), record(c, 12.3),
			record(c, 480, invalid("x")), record(c, 480, func(r *runrecord.Record) { r.Valid, r.Error = false, to("killed") }),
			record(c, 480, func(r *runrecord.Record) { r.Rates = runrecord.Rates{} }))
	}
	rs[0].SizeGrade = "capped"
	return rs
}

func TestTableGolden(t *testing.T) {
	grid, names := gridRecords()
	names["a key that no record has"] = "payload=65536 batch=64 preset=P1_hash"
	for _, tt := range []struct {
		name    string
		records []*runrecord.Record
		names   map[string]string
	}{
		{"grid", grid, nil},
		{"named", grid, names},
		{"degenerate", degenerate(), nil},
		{"latency", latencies(), nil},
		{"builds", builds(), nil},
		{"wide", wide(), nil},
		{"single", trials(3, record, flood, 480, func(r *runrecord.Record) { r.Build.Dirty = to(true) }), nil},
		{"empty", nil, nil},
	} {
		for ext, format := range map[string]cells.Format{"txt": cells.Text, "md": cells.Markdown} {
			var got bytes.Buffer
			if err := (cells.Table{Cells: cells.Group(tt.records), Format: format, Names: tt.names}).Write(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+"."+ext, got.Bytes())
			if format != cells.Text {
				continue
			}
			for _, line := range strings.Split(got.String(), "\n") {
				if n := utf8.RuneCountInString(line); n > cells.Width {
					t.Errorf("%s: a line of %d: %s", tt.name, n, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s: spaces at the end of %q", tt.name, line)
				}
			}
			if bytes.Contains(got.Bytes(), []byte("NaN")) || bytes.Contains(got.Bytes(), []byte("Inf")) {
				t.Errorf("%s: a number that is none", tt.name)
			}
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; -update writes it anew.\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// full fails every write, as a full disk does.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestTableWriteError(t *testing.T) {
	for _, records := range [][]*runrecord.Record{nil, floods(480)} {
		if err := cells.WriteTable(full{}, cells.Group(records), cells.Text); !errors.Is(err, errFull) {
			t.Errorf("%d records: %v, want the error of the writer", len(records), err)
		}
	}
}
