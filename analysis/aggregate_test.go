package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"felix/internal/runrecord"
)

// aggregated runs aggregate on all sample sessions and returns one table's rows, by column.
func aggregated(t *testing.T, root, table, format string) []map[string]string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"aggregate", "--session", "all", "--results", root, "--" + table, "-", "--format", format}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var rows []map[string]string
	if format == "json" {
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if want := strconv.Quote("felix." + table + "/1"); string(doc["schema"]) != want {
			t.Errorf("schema %s, want %s", doc["schema"], want)
		}
		var objects []map[string]any
		d := json.NewDecoder(bytes.NewReader(doc[table]))
		d.UseNumber()
		if err := d.Decode(&objects); err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			row := map[string]string{}
			for k, v := range o {
				if row[k] = ""; v != nil {
					row[k] = fmt.Sprint(v)
				}
			}
			rows = append(rows, row)
		}
		return rows
	}
	r := csv.NewReader(&stdout)
	head, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, name := range head {
			if _, twice := row[name]; twice {
				t.Fatalf("two columns %s", name)
			}
			row[name] = fields[i]
		}
		rows = append(rows, row)
	}
}

// Both formats say the same, and both tables fit together: every run has its cell, and a cell's counts and merged
// histogram are those of its runs.
func TestAggregateFitsTogether(t *testing.T) {
	root := filepath.Join(t.TempDir(), "results")
	writeSamples(t, root)
	runs, cells := aggregated(t, root, "runs", "csv"), aggregated(t, root, "cells", "csv")
	for table, want := range map[string][]map[string]string{"runs": runs, "cells": cells} {
		got := aggregated(t, root, table, "json")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: JSON and CSV differ:\n%v\n%v", table, got, want)
		}
	}
	byCell := map[string][]map[string]string{}
	for _, r := range runs {
		byCell[r["cell_id"]] = append(byCell[r["cell_id"]], r)
	}
	if len(byCell) != len(cells) {
		t.Errorf("runs of %d cells, want %d", len(byCell), len(cells))
	}
	histograms := recorded(t, root)
	for _, c := range cells {
		var valid int
		var samples int64
		sum := hdr.New(1, 3_600_000_000_000, 3)
		for _, r := range byCell[c["cell_id"]] {
			for _, same := range []string{"key", "tree_digest", "binary_sha256", "dirty", "host", "lossless", "perturbed", "kind", "arm"} {
				if r[same] != c[same] {
					t.Errorf("run %s is in cell %s, but its %s is %q and not %q", r["run_id"], c["cell_id"], same, r[same], c[same])
				}
			}
			if r["valid"] != "true" {
				continue
			}
			valid++
			h := histograms[r["run_id"]]
			samples += h.TotalCount()
			sum.Merge(h)
		}
		if got := c["n"]; got != fmt.Sprint(valid) {
			t.Errorf("cell %s: n = %s, want %d", c["key"], got, valid)
		}
		merged, err := hdr.Decode([]byte(c["merged_end_to_end_hdr"]))
		if err != nil {
			t.Fatalf("cell %s: %v", c["key"], err)
		}
		if !merged.Equals(sum) || c["merged_end_to_end_n"] != fmt.Sprint(samples) {
			t.Errorf("cell %s: merged histogram of %d samples is not the sum of its runs', %d", c["key"], merged.TotalCount(), samples)
		}
		// 1,200 samples a run are too few for a p99.9 but not those of nine.
		if known := c["merged_end_to_end_p999_ns"] != ""; known != (samples >= 10_000) {
			t.Errorf("cell %s: p99.9 = %q of %d samples", c["key"], c["merged_end_to_end_p999_ns"], samples)
		}
	}
}

// recorded returns the EndToEnd histograms of all records, by run id.
func recorded(t *testing.T, root string) map[string]*hdr.Histogram {
	t.Helper()
	sessions, _, err := runrecord.Sessions(root)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*hdr.Histogram{}
	for _, s := range sessions {
		for _, r := range records(t, s.RecordsPath()) {
			if r.Latency.EndToEnd == nil {
				continue
			}
			h, err := hdr.Decode([]byte(*r.Latency.EndToEnd.HDR))
			if err != nil {
				t.Fatal(err)
			}
			all[r.RunID] = h
		}
	}
	return all
}

// analysis reads files; the system under test would be dead weight, and a way to measure by accident.
func TestLinksNoQUIC(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "felix/analysis").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	seen := map[string]bool{}
	for _, d := range deps {
		seen[d] = true
		for _, never := range []string{"github.com/quic-go/", "felix/broker", "felix/client", "felix/internal/transport", "felix/internal/trial"} {
			if strings.HasPrefix(d, never) {
				t.Errorf("analysis links %s", d)
			}
		}
	}
	for _, must := range []string{"felix/internal/cells", "felix/internal/runrecord"} {
		if !seen[must] {
			t.Errorf("go list -deps does not name %s: this test guards nothing", must)
		}
	}
}
