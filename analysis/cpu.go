package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"felix/analysis/internal/cputime"
	"felix/internal/runrecord"
)

// cpuSuffix ends the names of the CPU profiles beside a record; what is before it names the process.
const cpuSuffix = ".cpu.pprof"

const cpuHint = "analysis cpu FILE|DIR…, as in: analysis cpu results/SESSION/runs/RUN_ID; latencydemo --pprof cpu --session DIR takes profiles"

func runCPU(args []string, stdout io.Writer, say func(string, ...any)) error {
	format := reportFormat("text")
	var perGB bool
	f := pflag.NewFlagSet("cpu", pflag.ContinueOnError)
	f.Var(&format, "format", "of the report")
	f.BoolVar(&perGB, "per-gb", false, "divide by the 10^9 bytes of payload published in the measure phase; their records must lie in the session")
	const about = "analysis cpu FILE|DIR… says what the CPU time in profiles was spent on, a column a process. A directory stands for every\n" +
		"*.cpu.pprof in it. Several runs are summed by process: the same work in each, or the shares mean nothing.\n" +
		"A sample counts once, where its innermost frames belong: to allocation and GC if the runtime is at that; else to\n" +
		"memory copies if it copies or clears; else to scheduling if the runtime parks, wakes or chooses goroutines, runs timers or\n" +
		"polls; else to the package of the innermost frame outside the runtime, past the helpers of the standard library."
	if done, err := parseWords(f, args, about, stdout); done || err != nil {
		return err
	}
	if f.NArg() == 0 {
		return &usageError{errors.New("want profiles, or the directory of a run"), cpuHint}
	}
	files, err := cpuFiles(f.Args())
	if err != nil {
		return err
	}
	report, dirs := &cputime.Report{}, []string{}
	for _, path := range files {
		if err := addProfile(report, path); err != nil {
			return &usageError{fmt.Errorf("%s: %w", path, err), cpuHint}
		}
		if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	report.Runs = len(dirs)
	say("read %s of %s", number(len(files), "profile"), number(len(dirs), "run"))
	if perGB {
		for _, dir := range dirs {
			n, err := runBytes(dir)
			if err != nil {
				return &usageError{fmt.Errorf("--per-gb: %w", err), "it needs runs/RUN_ID of a session with their records; leave it out for plain seconds"}
			}
			report.RunBytes += n
		}
	}
	write := map[reportFormat]func(io.Writer) error{
		"text": report.WriteText, "md": report.WriteMarkdown, "csv": report.WriteCSV, "json": report.WriteJSON,
	}[format]
	return write(stdout)
}

// cpuFiles finds the profiles that the words mean, each once.
func cpuFiles(words []string) ([]string, error) {
	var files []string
	for _, word := range words {
		st, err := os.Stat(word)
		if err != nil {
			return nil, &usageError{err, cpuHint}
		}
		found := []string{word}
		if st.IsDir() {
			entries, err := os.ReadDir(word)
			if err != nil {
				return nil, err
			}
			found = nil
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), cpuSuffix) {
					found = append(found, filepath.Join(word, e.Name()))
				}
			}
			if len(found) == 0 {
				return nil, &usageError{fmt.Errorf("%s: no CPU profile in it (*%s)", word, cpuSuffix), cpuHint}
			}
		}
		for _, path := range found {
			if path, err = filepath.Abs(path); err != nil {
				return nil, err
			}
			if !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	return files, nil
}

func addProfile(report *cputime.Report, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return report.Add(strings.TrimSuffix(filepath.Base(path), cpuSuffix), f)
}

// runBytes is what the run of that directory published, by the record that it lies beside.
func runBytes(dir string) (n int64, err error) {
	id := filepath.Base(dir)
	path := filepath.Join(dir, "..", "..", runrecord.RecordsFile)
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = runrecord.Read(f, path, func(r *runrecord.Record) error {
		if r.RunID == id {
			n = r.Rates.RunBytes
		}
		return nil
	}, nil)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s has no record of run %s that published anything", path, id)
	}
	return n, err
}
