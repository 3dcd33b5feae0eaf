package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/gate"
	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// verdictCode is the exit code of a verdict: 1 a regression, 2 cannot judge, 3 inconclusive. The verdict itself is on
// stdout.
type verdictCode int

func (c verdictCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// bisectSkip tells git bisect run that a commit cannot be tested.
const bisectSkip = 125

type verdictFormat string

func (f *verdictFormat) String() string { return string(*f) }

func (f *verdictFormat) Set(s string) error {
	switch s {
	case "text", "md", "json", "junit", "github":
		*f = verdictFormat(s)
		return nil
	}
	return fmt.Errorf("%q: want one of text, md, json, junit, github", s)
}

func (f *verdictFormat) Type() string { return "text|md|json|junit|github" }

const gateHint = "analysis gate [SESSION]: the session of a matrix ab"

func runGate(args []string, stdout io.Writer, say func(string, ...any)) error {
	format := verdictFormat("text")
	var results, file string
	var bisect bool
	f := pflag.NewFlagSet("gate", pflag.ContinueOnError)
	f.Var(&format, "format", "text; md for a step's summary, json, junit for test reports, github for annotations")
	f.StringVar(&file, "gate", "", "YAML file of the gate (default: what the session was run with)")
	f.StringVar(&results, "results", "results", "directory of the sessions")
	f.BoolVar(&bisect, "bisect-exit", false, "exit code 125, which git bisect run skips, in place of 2 and 3")
	const about = "analysis gate [SESSION] judges the records of a matrix ab again, by default of the newest. It replays every look that the\n" +
		"pairs suffice for.\n" +
		"Exit codes: 0 pass; 1 a regression; 2 cannot judge; 3 inconclusive, unless the gate's file says otherwise."
	if done, err := parseWords(f, args, about, stdout); done || err != nil {
		return err
	}
	if f.NArg() > 1 {
		return &usageError{fmt.Errorf("%d sessions: want one", f.NArg()), gateHint}
	}
	v, err := judge(f.Arg(0), results, file, say)
	if err != nil {
		if bisect {
			say("%v", err)
			return verdictCode(bisectSkip)
		}
		return err
	}
	if err := writeVerdict(stdout, v, format); err != nil {
		return err
	}
	code := v.ExitCode()
	if bisect && code > 1 {
		code = bisectSkip
	}
	if code != 0 {
		return verdictCode(code)
	}
	return nil
}

func judge(word, results, file string, say func(string, ...any)) (gate.Result, error) {
	s, err := pairedSession(word, results)
	if err != nil {
		return nil, &usageError{err, gateHint}
	}
	x, err := gate.ReadExperiment(s.Dir)
	if err != nil {
		return nil, &usageError{err, gateHint}
	}
	spec := x.Spec
	if file != "" {
		g, err := gate.Load(file, time.Now())
		if err != nil {
			return nil, &usageError{err, "presets/gate.yml is an example"}
		}
		spec = g.Spec
	} else if len(spec.Waivers) > 0 {
		spec.Now = time.Now() // a waiver expires, whenever the session was run
	}
	say("session %s in %s", s.SessionID, s.Dir)
	for _, a := range x.Arms {
		say("%s: %s", a.Name, strings.Join(append([]string{a.From}, a.Set...), " "))
	}
	records, err := readWhole(s.RecordsPath(), say)
	if err != nil {
		return nil, err
	}
	if len(records) > 0 { // without trials, nothing was measured
		sentinels, err := readWhole(filepath.Join(s.Dir, gate.SentinelsFile), say)
		if err != nil {
			return nil, err
		}
		records = append(records, sentinels...)
	}
	for _, r := range records {
		if r.SessionID == nil || *r.SessionID != s.SessionID {
			return x.Told(verdict.Broken(spec, fmt.Errorf("record %s is of another session", r.RunID))), nil
		}
	}
	return gate.Judge(x, spec, records), nil
}

// pairedSession finds the session, or without a word the newest of kind ab.
func pairedSession(word, results string) (*runrecord.Session, error) {
	if word != "" {
		s, _, err := runrecord.FindSession(results, word)
		return s, err
	}
	all, _, err := runrecord.Sessions(results)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Kind == runrecord.SessionKindAB {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no session of pairs in %s", results)
}

// readWhole reads all records. No file is no records, which a verdict tells.
func readWhole(path string, say func(string, ...any)) (records []*runrecord.Record, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = runrecord.Read(f, path, func(r *runrecord.Record) error {
		records = append(records, r)
		return nil
	}, func(e *runrecord.SyntaxError) { say("skipped: %v", e) })
	return records, err
}

func writeVerdict(w io.Writer, v gate.Result, format verdictFormat) error {
	switch format {
	case "md":
		return v.WriteMarkdown(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "junit":
		return writeJUnit(w, v)
	case "github":
		return writeAnnotations(w, v)
	}
	return v.WriteText(w)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit makes a test of the verdict and of each gated metric. An inconclusive one is skipped, unless the gate calls
// it a failure; what cannot be judged is an error. Of several arms, a metric in which the second is worse than the first
// is a failure of those two.
func writeJUnit(w io.Writer, v gate.Result) error {
	s := junitSuite{Name: "felix gate"}
	policy := verdict.Neutral
	add := func(class, name string, o verdict.Outcome, text string) {
		c := junitCase{Class: class, Name: name}
		t := &junitText{Message: text}
		switch code := policy.ExitCode(o); {
		case o == verdict.CannotJudge:
			c.Error = t
			s.Errors++
		case code == 1:
			c.Failure = t
			s.Failures++
		case code != 0:
			c.Skipped = t
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
		s.Tests++
	}
	metric := func(class string, m *verdict.MetricResult) {
		o := m.Outcome
		if o == verdict.CannotJudge { // the whole was not judged, and says why
			o = verdict.Inconclusive
		}
		add(class, string(m.Metric), o, m.String())
	}
	outcome, reasons := v.Why()
	switch v := v.(type) {
	case gate.Two:
		policy = v.Inconclusive
		add("verdict", v.Headline(), outcome, strings.Join(reasons, "; "))
		for i := range v.Metrics {
			metric(v.Metrics[i].Cell, &v.Metrics[i])
		}
	case gate.Arms:
		policy = v.Inconclusive
		add("verdict", v.Headline(), outcome, strings.Join(reasons, "; "))
		for i := range v.Comparisons {
			c := &v.Comparisons[i]
			for k := range c.Metrics {
				metric(fmt.Sprintf("%s against %s: %s", c.B, c.A, c.Metrics[k].Result.Cell), &c.Metrics[k].Result)
			}
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(&s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// writeAnnotations writes workflow commands: one a reason, at most ten, which is what a step shows.
func writeAnnotations(w io.Writer, v gate.Result) error {
	outcome, lines := v.Why()
	kind := "error"
	switch {
	case outcome == verdict.Pass:
		kind = "notice"
	case outcome == verdict.Inconclusive && v.ExitCode() != 1:
		kind = "warning"
	}
	const most = 10
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	if len(lines) == 0 {
		lines = []string{v.Headline()}
	}
	for i, reason := range lines {
		if i == most-1 && len(lines) > most {
			reason = fmt.Sprintf("and %d more reasons", len(lines)-i)
		}
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", kind, property.Replace("felix gate: "+v.Headline()), text.Replace(reason)); err != nil {
			return err
		}
		if i == most-1 {
			break
		}
	}
	return nil
}
