package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"felix/analysis/internal/compare"
	"felix/analysis/internal/export"
	"felix/analysis/internal/load"
	"felix/internal/cells"
)

// exports are the files that export was asked for; "" is none.
type exports struct {
	bench, hgrm, hlog, tracker string
}

func runExport(args []string, stdout io.Writer, say func(string, ...any)) error {
	var src source
	var to exports
	f := pflag.NewFlagSet("export", pflag.ContinueOnError)
	f.StringVar(&to.bench, "bench", "", "file in the Go benchmark format, a line a trial, for benchstat; - is stdout")
	f.StringVar(&to.hgrm, "hgrm", "", "directory for one .hgrm a cell: the percentiles of all its messages, in us")
	f.StringVar(&to.hlog, "hlog", "", "file for a HdrHistogram log, a line a trial, tagged with its cell; - is stdout")
	f.StringVar(&to.tracker, "tracker", "", "directory for bigger-is-better.json and smaller-is-better.json, for github-action-benchmark")
	src.flags(f)
	const about = "analysis export writes what was measured in formats of other tools. Only valid trials go out; a table says what\n" +
		"stands against them."
	if done, err := parse(f, args, about, stdout); done || err != nil {
		return err
	}
	const hint = "analysis export --bench FILE, --hgrm DIR, --hlog FILE, --tracker DIR, any of them"
	switch {
	case to == exports{}:
		return &usageError{errors.New("nothing to write: none of --bench, --hgrm, --hlog, --tracker"), hint}
	case to.bench == to.hlog && to.bench != "":
		return &usageError{errors.New("--bench and --hlog are one file"), hint}
	}
	return to.write(src, stdout, say)
}

// write reads the records once and writes all that was asked for.
func (to *exports) write(src source, stdout io.Writer, say load.Say) error {
	bench, err := openOutput(to.bench, stdout)
	if err != nil {
		return err
	}
	defer bench.discard()
	hlog, err := openOutput(to.hlog, stdout)
	if err != nil {
		return err
	}
	defer hlog.discard()
	if bench != nil && hlog != nil {
		bench.beside, hlog.beside = true, true
	}
	set, err := readSet(src, to.hgrm != "", to.hlog != "", say)
	if err != nil {
		return err
	}
	written := 0
	if bench != nil {
		n, err := set.WriteBench(bench)
		if err != nil {
			return err
		}
		written += n
		say("%s: %s", bench.path, number(n, "trial"))
	}
	if hlog != nil {
		n, damaged, err := set.WriteHLog(hlog)
		if err != nil {
			return err
		}
		for _, d := range damaged {
			say("left out of %s: %s", hlog.path, d)
		}
		written += n
		say("%s: %s", hlog.path, number(n, "histogram"))
	}
	if to.hgrm != "" {
		n, err := writeHGRMs(to.hgrm, set, say)
		if err != nil {
			return err
		}
		written += n
	}
	if to.tracker != "" {
		n, err := writeTrackers(to.tracker, set, say)
		if err != nil {
			return err
		}
		written += n
	}
	if written == 0 {
		return errors.New("nothing could be exported: there is no valid trial with a figure")
	}
	return errors.Join(bench.keep(), hlog.keep())
}

// readSet reads what is exported.
func readSet(src source, merged, each bool, say load.Say) (*export.Set, error) {
	g := cells.NewGrouper()
	g.KeepHistograms = merged
	set := &export.Set{Runs: map[string]export.Run{}}
	sessions, err := src.read(func(r *load.Record) error {
		g.Add(r.Record)
		set.Runs[r.RunID] = export.RunOf(r.Record, each && r.Valid)
		return nil
	}, say)
	if err != nil {
		return nil, err
	}
	set.Cells = compare.Fold(g.Cells())
	inGridOrder(set.Cells, sessions)
	sayFigures(set.Cells, say)
	set.Names = gridNames(sessions)
	return set, nil
}

// writeHGRMs writes a file a cell, and returns how many.
func writeHGRMs(dir string, set *export.Set, say load.Say) (written int, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	for i, name := range set.FileNames() {
		o, err := openOutput(filepath.Join(dir, name+".hgrm"), nil)
		if err != nil {
			return written, err
		}
		err = set.WriteHGRM(o, i)
		var disk *fs.PathError
		if err != nil {
			o.discard()
			if errors.As(err, &disk) {
				return written, err
			}
			say("left out: %s: %v", name, err)
			continue
		}
		if err := o.keep(); err != nil {
			return written, err
		}
		written++
	}
	say("%s: %s", dir, number(written, ".hgrm file"))
	return written, nil
}

// writeTrackers writes a file a direction, and returns how many figures they hold. A tracker takes an empty list for a
// failure: a direction without figures has no file, and one that an earlier export left is removed.
func writeTrackers(dir string, set *export.Set, say load.Say) (written int, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	bigger, smaller := set.Tracker()
	for _, list := range []struct {
		name    string
		entries []export.TrackerEntry
	}{{"bigger-is-better.json", bigger}, {"smaller-is-better.json", smaller}} {
		path := filepath.Join(dir, list.name)
		if len(list.entries) == 0 {
			say("%s: not written: no figure of that direction", path)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return written, err
			}
			continue
		}
		b, err := json.MarshalIndent(list.entries, "", " ")
		if err != nil {
			return written, err
		}
		o, err := openOutput(path, nil)
		if err != nil {
			return written, err
		}
		if _, err := o.Write(append(b, '\n')); err != nil {
			o.discard()
			return written, err
		}
		if err := o.keep(); err != nil {
			return written, err
		}
		written += len(list.entries)
		say("%s: %s", path, number(len(list.entries), "figure"))
	}
	return written, nil
}

// number writes a count with its noun.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
